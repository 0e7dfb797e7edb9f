"""A small GPT-2 that writes: its tokenizer, what it learns, and that a seed makes it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.nn.functional import cross_entropy

from leakage_tasks.core.errors import OptionError
from leakage_tasks.research.victims.public_lm import TrainedWriter, WriterRecipe, train_writer, writing_tokenizer
from leakage_tasks.research.victims.wordpiece import train_wordpiece
from leakage_tasks.targets.suffix.target import load_causal_target

TEXTS = [f"the {dark} gateway {ends} ." for dark in ("dark", "grey") for ends in ("opens", "shuts", "falls")]
RECIPE = WriterRecipe(epochs=60, layers=1, hidden=16, learning_rate=1e-2, batch_size=2, max_length=12)


def trained(recipe: WriterRecipe = RECIPE) -> TrainedWriter:
    return train_writer(TEXTS, writing_tokenizer(train_wordpiece(TEXTS, vocabulary=120)), recipe, device="cpu")


def test_tokens_are_the_encoders_and_spaces_come_back(tmp_path: Path) -> None:
    encoder = train_wordpiece(TEXTS, vocabulary=120)
    own = writing_tokenizer(encoder)
    assert [own(text)["input_ids"] for text in TEXTS] == [encoder(text)["input_ids"] for text in TEXTS]
    plain = [encoder(text, add_special_tokens=False)["input_ids"] for text in TEXTS]
    assert own.batch_decode(plain) == TEXTS
    assert encoder.batch_decode(plain) != TEXTS
    assert (own.bos_token, own.eos_token) == ("[CLS]", "[SEP]")


def test_it_learns_what_follows_and_is_read_back_by_the_attack(tmp_path: Path) -> None:
    done = trained()
    assert done.losses[-1] < 1 < done.losses[0]
    done.save(tmp_path / "writer")
    target = load_causal_target(str(tmp_path / "writer"), "writer")
    seen, never = target.log_perplexity(["the dark gateway opens .", "opens the the dark gateway"])
    assert seen < 10 < never
    assert target.begun([7]) == [done.tokenizer.bos_token_id, 7]


def test_losses_are_nats_a_token_of_every_token_but_the_first() -> None:
    """A rate of nearly nothing leaves the untrained model, whose losses are computed text by text."""
    done = trained(WriterRecipe(epochs=1, layers=1, hidden=16, learning_rate=1e-12))
    nats, count = 0.0, 0
    with torch.no_grad():
        for text in TEXTS:
            ids = torch.tensor([done.tokenizer(text)["input_ids"]])
            logits = done.model(input_ids=ids).logits[0, :-1]
            nats += float(cross_entropy(logits, ids[0, 1:], reduction="sum"))
            count += ids.shape[1] - 1
    assert done.losses[0] == pytest.approx(nats / count, rel=0.05)


def test_a_seed_makes_it_and_leaves_the_callers_random_state() -> None:
    few = WriterRecipe(epochs=2, layers=1, hidden=16)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one, same = trained(few), trained(few)
    other = trained(WriterRecipe(epochs=2, layers=1, hidden=16, seed=1))
    assert torch.equal(torch.get_rng_state(), before)
    assert one.losses == same.losses != other.losses


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"hidden": 15}, "hidden is 15 and heads 2: use a hidden size that is a multiple of heads"),
        ({"epochs": 0}, "epochs is 0: give 1 or more"),
        ({"max_length": 999}, "max_length is 999: the model reads 128 tokens at most"),
    ],
)
def test_what_cannot_be_is_refused(changed: dict[str, int], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        trained(WriterRecipe(**{"epochs": 1, "hidden": 16, **changed}))


def test_no_text_is_refused() -> None:
    tokenizer = writing_tokenizer(train_wordpiece(TEXTS, vocabulary=120))
    with pytest.raises(OptionError, match="there is no text to train on"):
        train_writer([], tokenizer, RECIPE)
