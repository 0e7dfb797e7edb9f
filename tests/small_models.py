"""A small text learnt by heart, and a small encoder, for tests that need a trained model."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from transformers import BertTokenizer

    from leakage_tasks.training.fitting import TrainedLM
    from leakage_tasks.training.masked_lm import MaskedTraining


@pytest.fixture(scope="session")
def text() -> str:
    words = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "no", "dog"]
    stream = random.Random(0)
    return "".join(" ".join(stream.choices(words, k=6)) + ".\n" for _ in range(60))


@pytest.fixture(scope="session")
def trained(text) -> TrainedLM:
    from leakage_tasks.training.char_lstm import train_char_lm

    return train_char_lm(text, validation=text[:400], epochs=3, batch_size=8, length=16, device="cpu")


@pytest.fixture(scope="session")
def topics() -> list[tuple[str, str]]:
    """240 short texts of three labels, each told by its own words among words all share."""
    own = {"animals": ["cat", "dog", "horse"], "food": ["bread", "soup", "rice"], "tools": ["saw", "axe", "drill"]}
    shared = ["the", "old", "one", "is", "near", "a", "big", "door"]
    stream = random.Random(0)
    rows = []
    for number in range(240):
        label = list(own)[number % 3]
        words = [*stream.choices(shared, k=stream.randrange(2, 6)), stream.choice(own[label])]
        stream.shuffle(words)
        rows.append((" ".join(words), label))
    return rows


@pytest.fixture(scope="session")
def wordpiece(topics) -> BertTokenizer:
    """A cased WordPiece tokenizer of the topics' words."""
    from leakage_tasks.research.victims.wordpiece import train_wordpiece

    return train_wordpiece([text for text, _ in topics], vocabulary=120)


@pytest.fixture(scope="session")
def encoder(topics, wordpiece) -> MaskedTraining:
    """A BERT of one layer and 16 units, pre-trained on the topics."""
    from leakage_tasks.research.victims.masked_lm import pretrain_masked_lm
    from leakage_tasks.training.masked_lm import MaskedRecipe

    how = MaskedRecipe(epochs=4, learning_rate=1e-2, batch_size=16, max_length=16, device="cpu")
    return pretrain_masked_lm([text for text, _ in topics], wordpiece, how, layers=1, hidden=16)
