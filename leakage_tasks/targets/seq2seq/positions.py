"""Separate positions for the rows of a decoder that gives all rows equal positions."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

NAME = "embed_positions"
"""Name of the position embedding in transformers' encoder-decoder models; models with relative positions (T5) have
none."""


@contextlib.contextmanager
def at_positions(model: Any, positions: Tensor | None) -> Iterator[None]:
    """Make ``model`` use each row's own positions ``[n, k]`` for its tokens, one after the other, within the block."""
    if positions is None:
        yield
        return
    tables = [module for name, module in model.named_modules() if name.split(".")[-1] == NAME]
    with contextlib.ExitStack() as hooks:
        for table in tables:
            hooks.enter_context(table.register_forward_hook(partial(_own, positions), with_kwargs=True))
        yield


def _own(positions: Tensor, table: Any, arguments: tuple[Any, ...], named: dict[str, Any], output: Tensor) -> Tensor:
    """Return each row's position embeddings ``[n, k, d]`` instead of the common ones in ``output``."""
    bound = inspect.signature(table.forward).bind(*arguments, **named)
    first = positions[:, :1]
    for position in first.unique().tolist():
        bound.arguments["past_key_values_length"] = position
        bound.arguments.pop("position_ids", None)
        here = (first == position)[..., None].to(output.device)
        output = torch.where(here, table.forward(*bound.args, **bound.kwargs), output)
    return output
