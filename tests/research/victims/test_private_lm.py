"""The LSTM with DP-SGD: plain training without noise, rows of whole lines, ε as announced, an ordinary model after."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy

from leakage_tasks.core.errors import OptionError
from leakage_tasks.models.char_tokenizer import char_tokenizer
from leakage_tasks.research.victims.private_lm import line_rows, train_private_char_lm
from leakage_tasks.training.char_lstm import fresh_model, train_char_lm
from leakage_tasks.training.dp.private import DpConfig
from leakage_tasks.training.dp.row_lstm import RowLSTM, use_row_lstm
from leakage_tasks.training.fitting import copy_line_break_embedding
from leakage_tasks.training.text_batches import IGNORED

pytest.importorskip("opacus")

TINY = {"hidden_size": 12, "length": 32, "device": "cpu"}
NOISY = DpConfig(noise_multiplier=1.0, delta=1e-4)
SILENT = DpConfig(noise_multiplier=0.0, max_grad_norm=1e9, delta=1e-4)


@pytest.fixture
def tokenizer(text):
    return char_tokenizer(text)


def weights(trained):
    return trained.model.state_dict()


def alike(one, two, **tolerance):
    return all(torch.allclose(one[name], two[name], **tolerance) for name in {**one, **two})


def plain_loss(model, inputs, targets):
    """Mean over rows of the sum over their characters, over the length: written out, with the model as it is."""
    logits = model(inputs).logits
    total = cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="sum")
    return total / targets.numel()


@given(st.lists(st.text(alphabet="ab\n", max_size=12), max_size=8), st.integers(1, 9))
def test_rows_hold_every_character_once_and_short_lines_whole(parts, length):
    text = "".join(parts) + "b"
    tokenizer = char_tokenizer("ab\n")
    inputs, targets = line_rows(text, tokenizer, length)
    real = targets != IGNORED
    assert inputs.shape == targets.shape == (len(inputs), length)
    assert targets[real].tolist() == tokenizer.encode(text)
    assert inputs[real].tolist() == [tokenizer.bos_token_id, *tokenizer.encode(text)[:-1]]
    held = [tokenizer.decode(row[kept].tolist()) for row, kept in zip(targets, real, strict=True)]
    assert all(held)
    lines = [line for line in text.splitlines(keepends=True) if len(line) <= length]
    assert all(any(line in row for row in held) for line in lines)
    broken = [row for row in held[:-1] if not row.endswith("\n")]
    assert all(len(row) == length for row in broken)


@pytest.mark.parametrize("name", ["adam", "rmsprop", "sgd"])
def test_training_without_noise_on_all_rows_is_plain_training(text, tokenizer, name):
    """SGD's steps show the size of the gradient as well."""
    rate = 1.0 if name == "sgd" else 0.01
    settings = {"epochs": 3, "batch_size": 1000, "decay_from": 1.0, "optimizer": name, "learning_rate": rate}
    trained = train_private_char_lm(text[:300], SILENT, tokenizer=tokenizer, **settings, **TINY)
    inputs, targets = line_rows(text[:300], tokenizer, 32)
    model = fresh_model(tokenizer, 0, 12, 2)
    plain = {
        "adam": lambda: torch.optim.Adam(model.parameters(), lr=rate, eps=1e-8),
        "rmsprop": lambda: torch.optim.RMSprop(model.parameters(), lr=rate, alpha=0.9),
        "sgd": lambda: torch.optim.SGD(model.parameters(), lr=rate),
    }
    optimiser = plain[name]()
    for _ in range(3):
        optimiser.zero_grad()
        plain_loss(model, inputs, targets).backward()
        optimiser.step()
        copy_line_break_embedding(model, tokenizer)
    assert alike(weights(trained), model.state_dict(), atol=1e-4 if name != "sgd" else 1e-5)
    assert not alike(weights(trained), fresh_model(tokenizer, 0, 12, 2).state_dict(), atol=1e-3)


def test_epsilon_does_not_depend_on_the_optimizer_and_the_weights_do(text):
    one, two, three = (
        train_private_char_lm(text[:600], NOISY, epochs=1, batch_size=8, optimizer=name, **TINY)
        for name in ("adam", "rmsprop", "sgd")
    )
    assert one.guarantee == two.guarantee == three.guarantee
    assert not alike(weights(one), weights(two), atol=1e-3)
    assert not alike(weights(two), weights(three), atol=1e-3)


@pytest.mark.slow
def test_an_epsilon_that_means_nothing_takes_next_to_no_noise(text):
    trained = train_private_char_lm(text[:600], DpConfig(epsilon=2e8, delta=1e-4), epochs=1, batch_size=8, **TINY)
    assert 0 < trained.guarantee.noise_multiplier < 1e-2
    assert trained.guarantee.epsilon() == pytest.approx(2e8, rel=1e-6)
    clipped = train_private_char_lm(
        text[:600], DpConfig(noise_multiplier=0.0, delta=1e-4), epochs=1, batch_size=8, **TINY
    )
    assert alike(weights(trained), weights(clipped), atol=2e-2)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_model_and_leaves_the_random_state_alone(text):
    before = torch.get_rng_state()
    one = train_private_char_lm(text[:600], NOISY, epochs=2, batch_size=8, **TINY)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(5)
    two = train_private_char_lm(text[:600], NOISY, epochs=2, batch_size=8, **TINY)
    other = train_private_char_lm(text[:600], NOISY, epochs=2, batch_size=8, seed=1, **TINY)
    assert alike(weights(one), weights(two), atol=0, rtol=0)
    assert one.losses == two.losses
    assert not alike(weights(one), weights(other), atol=1e-3)


def test_the_model_is_an_ordinary_one_afterwards(text, tmp_path):
    from opacus.validators import ModuleValidator
    from transformers import AutoModelForCausalLM

    from leakage_tasks.models import register

    register()
    trained = train_private_char_lm(text[:600], NOISY, epochs=1, batch_size=8, **TINY)
    plain = train_char_lm(text[:600], epochs=1, batch_size=4, hidden_size=12, device="cpu")
    assert {name: weight.shape for name, weight in weights(trained).items()} == {
        name: weight.shape for name, weight in weights(plain).items()
    }
    assert not any(module._forward_hooks or module._backward_hooks for module in trained.model.modules())
    trained.model.save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    ids = torch.tensor([trained.tokenizer.encode(text[:60])])
    with torch.no_grad():
        logits = loaded(ids).logits
        with use_row_lstm(trained.model, RowLSTM(trained.model.lstm)):
            assert torch.allclose(trained.model(ids).logits, logits, atol=1e-5)
        theirs = ModuleValidator.fix(copy.deepcopy(trained.model).train()).eval()
        assert torch.allclose(theirs(ids).logits, logits, atol=1e-5)


def test_epsilon_is_the_accountant_s_after_each_epoch(text):
    from opacus.accountants import RDPAccountant

    trained = train_private_char_lm(text, NOISY, epochs=2, batch_size=10, **TINY)
    oracle = RDPAccountant()
    steps = round(trained.rows / 10)
    for loss in trained.losses:
        for _ in range(steps):
            oracle.step(noise_multiplier=1.0, sample_rate=10 / trained.rows)
        assert loss.epsilon == pytest.approx(oracle.get_epsilon(1e-4), rel=1e-6)
    assert trained.guarantee.epsilon() == trained.losses[-1].epsilon
    assert trained.guarantee.steps == 2 * steps


def test_clipped_training_learns(text):
    clipped = DpConfig(noise_multiplier=0.0, max_grad_norm=0.5, delta=1e-4)
    trained = train_private_char_lm(
        text, clipped, validation=text[:400], epochs=6, batch_size=10, learning_rate=2e-2, **TINY
    )
    first, last = trained.losses[0], trained.losses[-1]
    assert last.validation < first.validation - 0.5
    assert last.training < first.training - 0.5
    assert last.epsilon == math.inf


@pytest.mark.parametrize(
    "bad", [{"epochs": 0}, {"batch_size": 0}, {"layers": 0}, {"decay_from": -0.1}, {"optimizer": "adamw"}]
)
def test_settings_out_of_range_are_refused(bad):
    with pytest.raises(OptionError, match=next(iter(bad))):
        train_private_char_lm("some text", NOISY, **bad)


def test_an_empty_text_is_refused():
    with pytest.raises(OptionError, match="0 characters"):
        train_private_char_lm("", NOISY, tokenizer=char_tokenizer("ab"), device="cpu")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_same_training_without_noise(text):
    options = {"epochs": 2, "batch_size": 10, "hidden_size": 12, "length": 32}
    found = [train_private_char_lm(text[:600], SILENT, device=device, **options) for device in ("cpu", "cuda")]
    one, two = ({name: weight.cpu() for name, weight in weights(each).items()} for each in found)
    assert alike(one, two, atol=1e-3)
