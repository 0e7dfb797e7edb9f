"""Quantization: few values a tensor, the nearest ones, ties kept, and sizes that add up."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

from leakage_tasks.core.errors import LeakageError, OptionError
from leakage_tasks.models.char_tokenizer import char_tokenizer
from leakage_tasks.research.victims.quantize import quantize
from leakage_tasks.training.char_lstm import fresh_model

FLOATS = st.floats(-1e3, 1e3, width=32)


def layer(weights, dtype=torch.float32):
    """A module whose one parameter holds ``weights``."""
    module = nn.Module()
    module.weight = nn.Parameter(torch.tensor(weights, dtype=dtype))
    return module


def gpt2(**changed):
    sizes = {"n_layer": 1, "n_embd": 16, "n_head": 2, "vocab_size": 30, "n_positions": 16}
    return GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0, **changed))


@given(st.lists(FLOATS, min_size=1, max_size=40), st.integers(2, 9))
def test_each_weight_goes_to_the_nearest_of_evenly_spaced_values(weights, levels):
    """Oracle: the values written out by linspace, the nearest by brute force."""
    module = layer(weights)
    quantize(module, levels)
    values = torch.linspace(min(weights), max(weights), levels, dtype=torch.float64)
    distance = (torch.tensor(weights).double()[:, None] - values).abs().min(dim=1).values
    moved = (module.weight.double() - torch.tensor(weights).double()).abs()
    assert torch.allclose(moved, distance, atol=1e-4)
    assert module.weight.unique().numel() <= levels


def test_no_tensor_of_the_lab_s_lstm_keeps_more_than_256_values_or_moves_by_more_than_half_a_step():
    model = fresh_model(char_tokenizer("abc"), 0, 40, 2)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    done = quantize(model)
    for name, weight in model.named_parameters():
        half = float(before[name].max() - before[name].min()) / 255 / 2
        assert weight.unique().numel() <= 256, name
        assert float((weight.detach() - before[name]).abs().max()) <= half * (1 + 1e-4), name
    assert {each.kind for each in done.rounding} >= {"LSTM.weight_ih", "LSTM.bias_hh", "Linear.weight"}
    assert done.weights == model.num_parameters()


def test_the_report_s_errors_are_those_of_the_weights():
    model = gpt2()
    before = copy.deepcopy(model)
    done = {each.kind: each for each in quantize(model).rounding}["Conv1D.weight"]
    pairs = zip(before.named_parameters(), model.parameters(), strict=True)
    moved = [(old - new).detach().abs() for (name, old), new in pairs if ".c_" in name and name.endswith("weight")]
    every = torch.cat([each.flatten() for each in moved]).double()
    assert (done.tensors, done.weights) == (len(moved), len(every))
    assert done.worst == pytest.approx(float(every.max()), rel=1e-6)
    assert done.mean == pytest.approx(float(every.mean()), rel=1e-5)


def test_again_nothing_changes():
    model = gpt2()
    quantize(model, 16)
    once = copy.deepcopy(model.state_dict())
    quantize(model, 16)
    assert all(torch.equal(once[name], weight) for name, weight in model.state_dict().items())


def test_tied_weights_stay_tied_and_count_once():
    model = gpt2()
    done = quantize(model)
    assert model.lm_head.weight is model.transformer.wte.weight
    assert done.weights == model.num_parameters()


def test_buffers_stay_as_they_are():
    model = nn.BatchNorm1d(4)
    model.running_mean.copy_(torch.tensor([0.1, 0.2, 0.35, 0.7]))
    quantize(model, 2)
    assert torch.equal(model.running_mean, torch.tensor([0.1, 0.2, 0.35, 0.7]))
    assert int(model.num_batches_tracked) == 0


def test_weights_of_half_precision_keep_it_and_have_no_more_values():
    module = layer(torch.randn(5000).tolist(), torch.bfloat16)
    quantize(module, 8)
    assert module.weight.dtype == torch.bfloat16
    assert module.weight.unique().numel() == 8


def test_sizes():
    done = quantize(layer([[0.0, 1.0, 2.0, 3.0, 1.0]]), 4)
    assert (done.bits, done.stored_bytes, done.packed_bytes) == (2, 20, 2 + 8)
    assert quantize(layer(torch.zeros(100_000).tolist())).zlib_bytes < 1000
    noise = quantize(layer(torch.rand(100_000).tolist()))
    assert noise.zlib_bytes == pytest.approx(noise.packed_bytes, rel=0.02)


@pytest.mark.parametrize("levels", [1, 0, 65_537])
def test_levels_out_of_range_are_refused(levels):
    with pytest.raises(OptionError, match=f"levels is {levels}: use 2 to 65,536"):
        quantize(layer([0.0, 1.0]), levels)


def test_a_weight_that_is_not_finite_is_named_and_nothing_changed():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    with torch.no_grad():
        model[1].bias[0] = float("nan")
    before = model[0].weight.detach().clone()
    with pytest.raises(LeakageError, match=r"1\.bias has a weight that is not finite"):
        quantize(model, 2)
    assert torch.equal(model[0].weight, before)
