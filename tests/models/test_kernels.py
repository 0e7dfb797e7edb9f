"""Recurrent models in bfloat16, on processors with and without a kernel of oneDNN's for it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from leakage_tasks.models import kernels
from leakage_tasks.models.kernels import kernels_for
from leakage_tasks.models.recurrent import CharGRUConfig, CharGRUForCausalLM, CharLSTMConfig, CharLSTMForCausalLM

SIZES: dict[str, Any] = {"vocab_size": 20, "hidden_size": 16, "num_layers": 2}
IDS = torch.tensor([[3, 5, 7, 2], [1, 1, 4, 9]])


def models() -> list[Any]:
    torch.manual_seed(0)
    return [CharLSTMForCausalLM(CharLSTMConfig(**SIZES)), CharGRUForCausalLM(CharGRUConfig(**SIZES))]


@pytest.mark.parametrize("number", [0, 1])
def test_weights_in_bfloat16_read_what_float32_reads(number: int) -> None:
    model = models()[number].eval()
    mask = torch.tensor([[0, 1, 1, 1], [1, 1, 1, 1]])
    with torch.no_grad():
        full = model(input_ids=IDS, attention_mask=mask).logits
        half = model.bfloat16()(input_ids=IDS, attention_mask=mask)
    assert half.logits.dtype == half.past_key_values[0].dtype == torch.bfloat16
    assert (full - half.logits.float()).abs().max() < 0.05


@pytest.mark.parametrize("number", [0, 1])
def test_mixed_precision_has_gradients(number: int) -> None:
    model = models()[number].train()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model(input_ids=IDS).logits.float().sum().backward()
    assert all(weights.grad is not None and weights.grad.isfinite().all() for weights in model.parameters())


@pytest.mark.parametrize(
    ("has", "dtype", "left"),
    [(False, torch.bfloat16, False), (True, torch.bfloat16, True), (False, torch.float32, True)],
)
def test_onednn_is_left_out_only_where_it_lacks_bfloat16(
    monkeypatch: pytest.MonkeyPatch, has: bool, dtype: torch.dtype, left: bool
) -> None:
    monkeypatch.setattr(kernels, "_has_bf16", lambda: has)
    before = torch.backends.mkldnn.enabled
    with kernels_for(torch.zeros(1, dtype=dtype)):
        assert torch.backends.mkldnn.enabled is (left and before)
    assert torch.backends.mkldnn.enabled is before


def test_an_error_leaves_onednn_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_has_bf16", lambda: False)
    before = torch.backends.mkldnn.enabled
    with pytest.raises(KeyError), kernels_for(torch.zeros(1, dtype=torch.bfloat16)):
        raise KeyError
    assert torch.backends.mkldnn.enabled is before
