"""The LSTM with gradients by row: the computation and the gradients of torch's own, on its weights."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from leakage_tasks.models.recurrent import CharLSTMConfig, CharLSTMForCausalLM
from leakage_tasks.training.dp.row_lstm import RowBiLSTM, RowLSTM, use_row_lstm

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing")


@pytest.fixture(params=[1, 2, 3], ids=lambda layers: f"{layers} layers")
def lstm(request):
    with torch.random.fork_rng():
        torch.manual_seed(request.param)
        return nn.LSTM(5, 7, request.param, batch_first=True)


@pytest.fixture
def inputs():
    return torch.randn(4, 9, 5, generator=torch.Generator().manual_seed(0))


def gradients(module, inputs, weights):
    module.zero_grad()
    hidden, (h, c) = module(inputs)
    (hidden.square().sum() + h.sum() + 2 * c.sum()).backward()
    return [weight.grad.clone() for weight in weights]


def test_it_computes_what_the_lstm_does(lstm, inputs):
    hidden, (h, c) = lstm(inputs)
    own, (own_h, own_c) = RowLSTM(lstm)(inputs)
    assert torch.allclose(own, hidden, atol=1e-6)
    assert torch.allclose(own_h, h, atol=1e-6)
    assert torch.allclose(own_c, c, atol=1e-6)


def test_its_gradients_are_those_of_the_lstm_through_all_steps(lstm, inputs):
    weights = list(lstm.parameters())
    expected = gradients(lstm, inputs, weights)
    found = gradients(RowLSTM(lstm), inputs, weights)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(found, expected, strict=True))


def test_gradients_by_row_are_those_of_each_row_alone(lstm, inputs):
    opacus = pytest.importorskip("opacus")
    weights = list(lstm.parameters())
    alone = [gradients(lstm, inputs[row : row + 1], weights) for row in range(len(inputs))]
    wrapped = opacus.GradSampleModule(RowLSTM(lstm), loss_reduction="sum")
    gradients(wrapped, inputs, weights)
    for place, weight in enumerate(weights):
        expected = torch.stack([row[place] for row in alone])
        assert torch.allclose(weight.grad_sample, expected, atol=1e-5)


def test_gradients_by_row_are_those_of_opacus_s_own_lstm(lstm, inputs):
    opacus = pytest.importorskip("opacus")
    from opacus.validators import ModuleValidator

    theirs = ModuleValidator.fix(copy.deepcopy(lstm))
    gradients(opacus.GradSampleModule(theirs, loss_reduction="sum"), inputs, list(theirs.parameters()))
    weights = list(lstm.parameters())
    gradients(opacus.GradSampleModule(RowLSTM(lstm), loss_reduction="sum"), inputs, weights)
    expected = {name: weight.grad_sample for name, weight in theirs.named_parameters()}
    for name, weight in lstm.named_parameters():
        assert torch.allclose(weight.grad_sample, expected[name], atol=1e-5), name


def test_a_state_to_start_from_is_refused(lstm, inputs):
    _, state = lstm(inputs)
    with pytest.raises(ValueError, match="empty state"):
        RowLSTM(lstm)(inputs, state)


@pytest.fixture
def both_ways():
    with torch.random.fork_rng():
        torch.manual_seed(4)
        return nn.LSTM(5, 7, batch_first=True, bidirectional=True)


def packed(module, inputs, lengths):
    hidden, _ = module(pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False))
    return pad_packed_sequence(hidden, batch_first=True, total_length=inputs.shape[1])[0]


LENGTHS = torch.tensor([3, 8, 1, 8])
"""None as long as the inputs."""


def test_both_ways_it_computes_what_the_lstm_does(both_ways, inputs):
    assert torch.allclose(RowBiLSTM(both_ways)(inputs)[0], both_ways(inputs)[0], atol=1e-6)


def test_both_ways_each_row_is_read_from_its_own_ends(both_ways, inputs):
    found = packed(RowBiLSTM(both_ways), inputs, LENGTHS)
    assert torch.allclose(found, packed(both_ways, inputs, LENGTHS), atol=1e-6)
    assert not found[2, 1:].any()


def test_both_ways_gradients_by_row_are_those_of_each_row_alone(both_ways, inputs):
    opacus = pytest.importorskip("opacus")
    weights, alone = list(both_ways.parameters()), []
    for row, length in enumerate(LENGTHS):
        hidden, _ = both_ways(inputs[row : row + 1, :length])
        alone.append(torch.autograd.grad(hidden.square().sum(), weights))
    wrapped = opacus.GradSampleModule(RowBiLSTM(both_ways), loss_reduction="sum")
    packed(wrapped, inputs, LENGTHS).square().sum().backward()
    for weight, expected in zip(weights, zip(*alone, strict=True), strict=True):
        assert torch.allclose(weight.grad_sample, torch.stack(expected), atol=1e-5)


def test_a_model_has_its_own_lstm_back_even_after_a_failure():
    model = CharLSTMForCausalLM(CharLSTMConfig(vocab_size=11, hidden_size=6))
    own, names = model.lstm, list(model.state_dict())
    rows = RowLSTM(own)
    seen = []

    def fail():
        with use_row_lstm(model, rows):
            seen.append(model.lstm)
            raise RuntimeError("on the way")

    with pytest.raises(RuntimeError, match="on the way"):
        fail()
    assert seen == [rows]
    assert model.lstm is own
    assert list(model.state_dict()) == names
