"""A small text learnt by heart, for tests that need a trained model."""

from __future__ import annotations

import random

import pytest

from leakage_tasks.lab.trainer import TrainedLM, train_char_lm


@pytest.fixture(scope="session")
def text() -> str:
    words = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "no", "dog"]
    stream = random.Random(0)
    return "".join(" ".join(stream.choices(words, k=6)) + ".\n" for _ in range(60))


@pytest.fixture(scope="session")
def trained(text) -> TrainedLM:
    return train_char_lm(text, validation=text[:400], epochs=3, batch_size=8, length=16, device="cpu")
