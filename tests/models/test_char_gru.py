"""The GRU against its equations."""

from __future__ import annotations

import torch

from tests.models.families import tiny


@torch.no_grad()
def test_forward_is_the_gru_of_the_equations():
    model = tiny("char_gru")
    weights = dict(model.gru.named_parameters())
    ids = torch.randint(25, (9,), generator=torch.Generator().manual_seed(1))
    h, rows = torch.zeros(2, 16), []
    for token in ids:
        x = model.embedding.weight[token]
        for layer in range(2):
            reset, update, new = (weights[f"weight_ih_l{layer}"] @ x + weights[f"bias_ih_l{layer}"]).chunk(3)
            back = (weights[f"weight_hh_l{layer}"] @ h[layer] + weights[f"bias_hh_l{layer}"]).chunk(3)
            keep = (update + back[1]).sigmoid()
            h[layer] = (1 - keep) * (new + (reset + back[0]).sigmoid() * back[2]).tanh() + keep * h[layer]
            x = h[layer].clone()
        rows.append(model.head.weight @ x + model.head.bias)
    torch.testing.assert_close(model(ids[None]).logits[0], torch.stack(rows), atol=1e-5, rtol=0)
