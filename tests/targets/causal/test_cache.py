"""What a state keeps in memory, counted by walking over all that it refers to."""

from __future__ import annotations

import gc
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PretrainedConfig

from leakage_tasks.targets import CausalTarget
from leakage_tasks.targets.causal.asked import Start, Step
from leakage_tasks.targets.causal.questions import extend_all, start_all
from tests.oracles import letters
from tests.targets.causal.test_passes import MODELS, V, model_of

PREFIXES = ("the pin of anna is ", "the pin of bert is ", "a")
ROWS = 50
NUMBERS = 64
"""Bytes of counters and the like, which are no rows."""


def bytes_behind(state: Any) -> int:
    """Bytes of all tensors that a state keeps from being freed."""
    seen, storages, left = set(), {}, [state]
    while left:
        node = left.pop()
        if id(node) in seen or isinstance(node, type | ModuleType | FunctionType | PretrainedConfig | torch.nn.Module):
            continue
        seen.add(id(node))
        if isinstance(node, torch.Tensor):
            storage = node.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
        left += gc.get_referents(node)
    return sum(storages.values())


def counted(state: Any) -> int:
    """Bytes that the state itself says it has, and those of the prefix that its rows share."""
    return int(state.nbytes) + sum(tensor.numel() * tensor.element_size() for tensor in state.prefix or [])


def begun(name: str) -> tuple[CausalTarget, list[Any]]:
    """A target and a state after each prefix, made together."""
    target = CausalTarget(model_of(name), letters())
    rows = [target._with_prefix_token(row) for row in target.encode(list(PREFIXES))]
    return target, [state for state, _, _ in start_all([Start(target, row, np.arange(V)) for row in rows])]


@pytest.mark.parametrize("name", MODELS)
def test_prefixes_read_together_do_not_keep_each_other(name: str) -> None:
    _, states = begun(name)
    for state in states:
        assert 0 < bytes_behind(state) <= counted(state) + NUMBERS


@pytest.mark.parametrize("name", MODELS)
def test_states_of_a_shared_pass_do_not_keep_each_other(name: str) -> None:
    target, states = begun(name)
    zeros, tokens = np.zeros(ROWS, dtype=np.int64), np.arange(5, 5 + ROWS) % V
    found = extend_all([Step(target, [state], zeros, zeros, tokens, np.arange(V)) for state in states])
    for state, _ in found:
        assert ROWS < bytes_behind(state) <= counted(state) + NUMBERS
