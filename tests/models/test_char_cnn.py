"""The convolutional network against sums written out."""

from __future__ import annotations

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
