"""A second causal model by folder or hub name, for what compares the model at hand with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from leakage_tasks.core.errors import TargetError
from leakage_tasks.core.log import log
from leakage_tasks.models.loading import read_model, read_tokenizer
from leakage_tasks.targets.batches import in_half_precision
from leakage_tasks.targets.causal.target import CausalTarget
from leakage_tasks.targets.suffix.causal import SuffixSampler
from leakage_tasks.targets.suffix.scores import costs_after


def load_causal_target(
    name: str,
    option: str,
    device: torch.device | str = "cpu",
    batch_size: int | None = None,
    dtype: torch.dtype | None = None,
) -> CausalTarget:
    """The causal model and tokenizer ``name``, without remote code.

    ``option`` is what the user gave it by, for messages. Raises TargetError for one that cannot be loaded.
    """
    from transformers import AutoModelForCausalLM

    def failure(reason: str) -> TargetError:
        return TargetError(f"{option}: cannot be loaded ({reason}): give a causal model's folder or hub name")

    precision: Any = {"dtype": dtype} if dtype else {}
    model, missing = read_model(AutoModelForCausalLM, name, failure=failure, **precision)
    tokenizer = read_tokenizer(name, bare=True, failure=failure)
    if missing:
        raise TargetError(f"{option}: no trained causal language model ({missing[0]} is not in its weights): give one")
    model.to(device).eval()
    target, uncached = (
        CausalTarget(model, tokenizer, device=device, batch_size=batch_size, cached=cached) for cached in (True, False)
    )
    if _agree(target, uncached):
        return target
    log.warning("%s: its cache steps aside, since it does not continue a text as reading it anew does", option)
    return uncached


def _agree(target: CausalTarget, uncached: CausalTarget) -> bool:
    """Whether the model's cache continues a text as reading it anew does."""
    prefix, rest = list(range(1, 9)), [[9, 10, 11, 12], [12, 9]]
    try:
        found = [costs_after(SuffixSampler(each), prefix, rest) for each in (target, uncached)]
    except Exception:  # a cache that cannot be continued fails in many ways
        return False
    share = 0.02 if in_half_precision(target.model) else 0.0
    return all(np.allclose(one, other, atol=1e-3, rtol=share) for one, other in zip(*found, strict=True))
