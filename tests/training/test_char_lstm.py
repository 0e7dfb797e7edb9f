"""The trainer of the character LSTM: its streams, windows and rates. Its models equal those of recipes to the bit."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.core.errors import OptionError
from leakage_tasks.training.char_lstm import train_char_lm
from leakage_tasks.training.text_batches import IGNORED, streams


@given(st.integers(2, 200), st.integers(1, 17))
def test_streams_lay_out_every_pair_once_and_in_order(count, batch_size):
    ids = torch.arange(1000, 1000 + count)
    inputs, targets = streams(ids, batch_size)
    assert inputs.shape == targets.shape == (batch_size, math.ceil((count - 1) / batch_size))
    real = targets != IGNORED
    assert targets[real].tolist() == ids[1:].tolist()
    assert inputs[real].tolist() == ids[:-1].tolist()
    assert bool(real[0].all())


def test_the_callback_sees_every_epoch_with_the_model_at_rest(text):
    seen = []

    def note(epoch, model, losses):
        seen.append((epoch, model.training, len(losses)))

    train_char_lm(text[:300], epochs=2, batch_size=4, length=8, device="cpu", on_epoch=note)
    assert seen == [(1, False, 1), (2, False, 2)]


def test_a_window_continues_where_the_last_one_ended(text):
    # Learning rate 0 makes the reported training loss that of one pass over the streams, whatever their cut.
    options = {"epochs": 1, "batch_size": 4, "learning_rate": 0.0, "device": "cpu"}
    whole = train_char_lm(text[:600], length=1000, **options).losses[0].training
    cut = train_char_lm(text[:600], length=7, **options).losses[0].training
    assert cut == pytest.approx(whole, abs=1e-4)


def test_the_learning_rate_is_constant_and_then_falls_to_nothing(text, monkeypatch):
    rates = []
    step = torch.optim.Adam.step

    def note(self, *arguments, **options):
        rates.append(self.param_groups[0]["lr"])
        return step(self, *arguments, **options)

    monkeypatch.setattr(torch.optim.Adam, "step", note)
    train_char_lm(text[:321], epochs=2, batch_size=4, length=16, decay_from=0.5, learning_rate=1.0, device="cpu")
    assert rates == pytest.approx([1.0] * 5 + [1.0, 0.8, 0.6, 0.4, 0.2])
    rates.clear()
    train_char_lm(text[:321], epochs=1, batch_size=4, length=16, learning_rate=1.0, device="cpu")
    assert rates == [1.0] * 5


@pytest.mark.parametrize("bad", [{"epochs": 0}, {"batch_size": 0}, {"length": -1}, {"decay_from": 1.5}])
def test_settings_out_of_range_are_refused(bad):
    with pytest.raises(OptionError, match=next(iter(bad))):
        train_char_lm("some text", **bad)


def test_a_text_too_short_is_refused():
    with pytest.raises(OptionError, match="1 characters"):
        train_char_lm("a", device="cpu")
