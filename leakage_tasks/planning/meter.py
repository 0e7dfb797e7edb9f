"""Counts of a model's forward passes, rows and tokens, from hooks on the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

READ = ("decoder_input_ids", "input_ids", "inputs_embeds")
"""Argument names for the input of a forward pass; the decoder's input comes first for an encoder-decoder model."""


@dataclass
class Count:
    """Numbers of a model's forward passes, their rows, and the tokens of these rows with padding."""

    passes: int = 0
    rows: int = 0
    tokens: int = 0


def modules_of(lm: Any) -> list[nn.Module]:
    """Return the modules of a harness model and its proposal generator whose passes count; empty for an API model."""
    modules: dict[int, nn.Module] = {}
    target = getattr(lm, "target", None)
    for holder in (lm, target, getattr(target, "generator", None)):
        model = getattr(holder, "model", None)
        if isinstance(model, nn.Module):
            module = _entry(model)
            modules[id(module)] = module
    return list(modules.values())


def _entry(model: Any) -> nn.Module:
    """Return the module that every forward pass of a model calls exactly once."""
    # The base model inside an adapter is also called directly, after a soft prompt.
    base: Any = model.get_base_model() if hasattr(model, "get_base_model") else model
    # A tagger's layers are called without the tagger for mixtures of words.
    lstms = getattr(base, "lstms", None)
    return lstms[0] if isinstance(lstms, nn.ModuleList) else base


@contextmanager
def metered(modules: Sequence[nn.Module], watch: Callable[[Count], None] | None = None) -> Iterator[Count]:
    """Count the forward passes of ``modules`` within the block; ``watch`` is called before each pass."""
    count = Count()

    def note(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        inputs = next((kwargs[name] for name in READ if kwargs.get(name) is not None), args[0] if args else None)
        count.passes += 1
        if isinstance(inputs, PackedSequence):
            count.rows += int(inputs.batch_sizes[0])
            count.tokens += len(inputs.data)
        elif isinstance(inputs, Tensor):
            count.rows += inputs.shape[0]
            count.tokens += inputs.shape[0] * inputs.shape[1]
        if watch is not None:
            watch(count)

    hooks = [module.register_forward_pre_hook(note, with_kwargs=True) for module in modules]
    try:
        yield count
    finally:
        for hook in hooks:
            hook.remove()
