"""Training by a recipe: it learns by every optimizer, stops in time, keeps its epochs, and repeats itself."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from leakage_tasks.core.errors import OptionError
from leakage_tasks.models.char_tokenizer import char_tokenizer
from leakage_tasks.models.word_tokenizer import word_tokenizer
from leakage_tasks.research.victims.architectures import ARCHITECTURES
from leakage_tasks.research.victims.language_model import LanguageModelRecipe, train_lm
from leakage_tasks.training.char_lstm import train_char_lm
from leakage_tasks.training.optimizers import OPTIMIZERS
from leakage_tasks.training.text_batches import IGNORED, streams

SMALL: dict[str, Any] = {"units": 16, "epochs": 2, "batch_size": 8, "length": 16}


def train(text, validation=None, *, seed=0, on_epoch=None, tokenizer=None, **settings):
    given: dict[str, Any] = {"tokenizer": tokenizer, "on_epoch": on_epoch}
    recipe = LanguageModelRecipe(**{**SMALL, **settings})
    return train_lm(text, recipe, validation=validation, seed=seed, device="cpu", **given)


def same(one, other) -> bool:
    pairs = zip(one.model.state_dict().values(), other.model.state_dict().values(), strict=True)
    return all(torch.equal(*pair) for pair in pairs)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_optimizer_learns_at_its_usual_rate(text, optimizer):
    trained = train(text, text[:400], optimizer=optimizer, units=48)
    assert trained.losses[-1].training < trained.losses[0].training - 0.1
    assert trained.losses[-1].validation < math.log2(len(trained.tokenizer)) - 0.3


@pytest.mark.parametrize("architecture", ["gru-1x370", "lstm-1x320", "cnn-1x436", "wavenet-2x188", "transformer"])
def test_every_kind_of_network_learns(text, architecture):
    trained = train(text, text[:400], architecture=architecture, optimizer="adam", learning_rate=5e-3)
    assert trained.losses[-1].validation < math.log2(len(trained.tokenizer)) - 0.5


@pytest.mark.parametrize("settings", [{}, {"batches": "bagged"}, {"batches": "streams"}, {"dropout": 0.3}])
def test_the_same_seed_gives_the_same_model_and_leaves_the_random_state_alone(text, settings):
    before = torch.get_rng_state()
    one = train(text[:600], epochs=1, **settings)
    assert torch.equal(torch.get_rng_state(), before)
    two = train(text[:600], epochs=1, on_epoch=lambda *_: torch.rand(3), **settings)
    assert same(one, two)
    assert one.losses == two.losses
    assert not same(one, train(text[:600], epochs=1, seed=1, **settings))


def test_what_a_callback_draws_changes_no_later_epoch(text):
    quiet = train(text[:600], dropout=0.3)
    drawing = train(text[:600], dropout=0.3, on_epoch=lambda *_: torch.rand(3))
    assert same(quiet, drawing)


def test_batches_dropout_and_weight_decay_each_make_another_model(text):
    plain = train(text[:600], epochs=1)
    for setting in ({"batches": "bagged"}, {"batches": "streams"}, {"dropout": 0.3}, {"weight_decay": 0.1}):
        assert not same(plain, train(text[:600], epochs=1, **setting))


def test_streams_with_adam_are_the_demos_trainer_to_the_bit(text):
    # With 105 entries the embedding of Table 1's network is the demo's.
    letters = sorted(set(text))
    tokenizer = char_tokenizer([*letters, *(chr(0x4E00 + number) for number in range(103 - len(letters)))])
    given = {"batch_size": 4, "length": 8, "decay_from": 0.5, "learning_rate": 3e-3, "epochs": 2}
    demo = train_char_lm(text[:300], validation=text[:200], tokenizer=tokenizer, device="cpu", **given)
    ours = train(text[:300], text[:200], tokenizer=tokenizer, units=None, batches="streams", optimizer="adam", **given)
    assert same(demo, ours)
    assert demo.losses == ours.losses


# -- validation ---------------------------------------------------------------------------------------------


def test_networks_with_a_state_read_the_validation_text_as_streams(text):
    trained = train(text[:600], text[:300], architecture="cnn-1x436", epochs=1)
    inputs, targets = streams(torch.tensor(trained.tokenizer.encode(text[:300])), 8)
    with torch.no_grad():
        logits = trained.model(inputs).logits.flatten(0, 1)
    costs = torch.nn.functional.cross_entropy(logits, targets.flatten(), ignore_index=IGNORED)
    assert trained.losses[0].validation == pytest.approx(float(costs) / math.log(2), abs=1e-4)


def test_a_transformer_reads_it_in_overlapping_windows_no_longer_than_in_training(text):
    trained = train(text[:600], text[:300], architecture="transformer", epochs=1)
    total = 0.0
    ids = trained.tokenizer.encode(text[:300])
    for wanted in range(1, len(ids)):
        # The window of 16 that ends in the half in which this character lies.
        start = 0 if wanted <= 16 else 8 * ((wanted - 1) // 8 - 1)
        with torch.no_grad():
            logits = trained.model(torch.tensor([ids[start:wanted]])).logits[0, -1]
        total -= float(logits.log_softmax(-1)[ids[wanted]])
    assert trained.losses[0].validation == pytest.approx(total / (len(ids) - 1) / math.log(2), abs=1e-4)


# -- early stopping -----------------------------------------------------------------------------------------


def test_early_stopping_goes_back_to_the_epoch_of_least_validation_loss(text):
    kept: list[dict[str, torch.Tensor]] = []

    def keep(epoch, model, losses):
        kept.append({name: value.clone() for name, value in model.state_dict().items()})

    # A few words learnt by heart: the rest of the text costs more and more.
    trained = train(
        text[:90], text[1000:1400], units=64, epochs=60, learning_rate=1e-2, length=8, patience=3, on_epoch=keep
    )
    validation = [loss.validation for loss in trained.losses]
    assert trained.best == validation.index(min(validation)) + 1
    assert len(validation) == trained.best + 3 < 60
    assert all(torch.equal(kept[trained.best - 1][name], value) for name, value in trained.model.state_dict().items())


def test_without_patience_every_epoch_is_run_and_the_last_one_kept(text):
    trained = train(text[:90], text[1000:1200], epochs=5, learning_rate=1e-2)
    assert len(trained.losses) == 5
    assert trained.best is None


# -- settings -----------------------------------------------------------------------------------------------


def test_mixed_precision_learns_and_keeps_float32_weights(text):
    trained = train(text, text[:400], dtype="bfloat16", optimizer="adam", learning_rate=5e-3)
    assert {value.dtype for value in trained.model.state_dict().values()} == {torch.float32}
    assert trained.losses[-1].validation < math.log2(len(trained.tokenizer)) - 0.5


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("architecture", ["gru-1x370", "lstm-2x200", "cnn-2x188", "wavenet-2x188", "transformer"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_gpu_is_taken_and_learns_alike(text, architecture, dtype):
    recipe = LanguageModelRecipe(architecture, epochs=2, optimizer="adam", dtype=dtype)
    there, here = (train_lm(text, recipe, validation=text[:400], device=device) for device in (None, "cpu"))
    assert there.model.device.type == "cuda"
    assert there.losses[-1].validation == pytest.approx(here.losses[-1].validation, abs=0.1)


def test_the_start_token_reads_as_a_line_break_in_every_network(text):
    for name in ("lstm-2x200", "cnn-1x436", "transformer"):
        trained = train(text[:400], architecture=name, epochs=1)
        weight = trained.model.get_input_embeddings().weight
        assert torch.equal(weight[trained.tokenizer.bos_token_id], weight[trained.tokenizer.encode("\n")[0]])


def test_words_are_learnt_as_well(text):
    trained = train(text, text[:400], tokenizer=word_tokenizer(text), learning_rate=1e-2)
    assert trained.losses[-1].validation < math.log2(len(trained.tokenizer)) - 0.3


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"epochs": 0}, "epochs is 0"),
        ({"patience": 0}, "patience is 0"),
        ({"patience": 2}, "give a validation text"),
        ({"clip": 0.0}, "clip is 0.0"),
        ({"decay_from": 2.0}, "decay_from is 2.0"),
        ({"batches": "sorted"}, "batches is 'sorted': use one of shuffled, bagged, streams"),
        ({"dtype": "float16"}, "dtype is 'float16': use one of float32, bfloat16"),
        ({"batches": "streams", "architecture": "transformer"}, "transformer carries no state.*shuffled or bagged"),
        ({"architecture": "rnn"}, "architecture is 'rnn'"),
        ({"optimizer": "adamw"}, "optimizer is 'adamw'"),
    ],
)
def test_settings_that_cannot_be_are_refused(text, settings, words):
    with pytest.raises(OptionError, match=words):
        train(text[:100], **settings)


def test_a_recipe_names_networks_and_optimizers_that_are_there():
    assert LanguageModelRecipe().architecture in ARCHITECTURES
    assert LanguageModelRecipe().optimizer in OPTIMIZERS
