"""The convolutional network against sums written out; WaveNet: what it sees, and its layers against the equations."""

from __future__ import annotations

import pytest
import torch

from tests.models.families import tiny


@torch.no_grad()
def test_one_layers_logits_are_the_sums_written_out():
    model = tiny("char_cnn", num_hidden_layers=1, kernel_size=3)
    convolution, ids = model.convolutions[0], [4, 9, 4, 0, 17]
    for place, row in enumerate(model(torch.tensor([ids])).logits[0]):
        hidden = convolution.bias.clone()
        for back in range(min(3, place + 1)):
            hidden += convolution.weight[:, :, 2 - back] @ model.embedding.weight[ids[place - back]]
        expected = model.head.weight @ hidden.clamp(min=0) + model.head.bias
        torch.testing.assert_close(row, expected, atol=1e-5, rtol=0)


@torch.no_grad()
def test_a_second_layer_reads_the_first_ones_outputs():
    model = tiny("char_cnn", kernel_size=3)
    ids = torch.tensor([[4, 9, 4, 0, 17]])
    first = model.embedding(ids).mT
    for convolution in model.convolutions:
        padded = torch.nn.functional.pad(first, (2, 0))
        places = [padded[..., place : place + 3].flatten(1) for place in range(5)]
        first = (torch.stack(places, dim=1) @ convolution.weight.flatten(1).T + convolution.bias).relu().mT
    torch.testing.assert_close(model(ids).logits, model.head(first.mT), atol=1e-5, rtol=0)


@torch.no_grad()
def test_the_state_is_what_each_layer_still_sees():
    state = tiny("char_cnn", kernel_size=4)(torch.tensor([[4, 9], [1, 2]]), use_cache=True).past_key_values
    assert [tuple(part.shape) for part in state] == [(2, 12, 3), (2, 16, 3)]
    assert torch.equal(state[0][:, :, 0], torch.zeros(2, 12))


@torch.no_grad()
@pytest.mark.parametrize(
    ("sizes", "field"),
    [
        ({"num_hidden_layers": 2, "kernel_size": 3, "dilation_base": 3}, 27),
        ({"num_hidden_layers": 3, "kernel_size": 4, "dilation_base": 2}, 46),
    ],
)
def test_a_prediction_rests_on_every_character_of_the_receptive_field_and_on_no_other(sizes, field):
    model = tiny("char_wavenet", **sizes).double()
    assert model.config.receptive_field == field
    ids = torch.randint(1, 25, (1, 60), generator=torch.Generator().manual_seed(0))
    changed = ids.repeat(60, 1)
    changed.fill_diagonal_(0)
    differs = ((model(changed).logits[:, -1] - model(ids).logits[:, -1]).abs() > 1e-12).any(dim=1)
    assert differs.tolist() == [place >= 60 - field for place in range(60)]


@torch.no_grad()
def test_forward_is_gates_residuals_and_skips():
    model = tiny("char_wavenet", num_hidden_layers=2, kernel_size=2, dilation_base=2)
    ids = [3, 9, 14, 2, 20, 7, 7, 1]

    def convolved(layer, rows, dilation):
        before = [rows[place - dilation] if place >= dilation else torch.zeros_like(rows[0]) for place in range(8)]
        old, new = layer.weight.unbind(dim=2)
        return [old @ past + new @ now + layer.bias for past, now in zip(before, rows, strict=True)]

    hidden = convolved(model.first, [model.embedding.weight[token] for token in ids], 1)
    skipped = [torch.zeros(16)] * 8
    for layer, dilation in zip(model.layers, (2, 4), strict=True):
        gated = [gates[:16].tanh() * gates[16:].sigmoid() for gates in convolved(layer.gated, hidden, dilation)]
        passed = [layer.out.weight[..., 0] @ row + layer.out.bias for row in gated]
        hidden, skipped = ([old + new for old, new in zip(rows, passed, strict=True)] for rows in (hidden, skipped))
    expected = [model.head(model.mix(row.relu()).relu()) for row in skipped]
    torch.testing.assert_close(model(torch.tensor([ids])).logits[0], torch.stack(expected), atol=1e-5, rtol=0)
