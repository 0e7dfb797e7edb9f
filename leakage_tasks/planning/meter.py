"""Counting what a model reads: passes, rows and tokens, by hooks on the model itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

READ = ("decoder_input_ids", "input_ids", "inputs_embeds")
"""What a pass reads, by the names models have for it; of an encoder-decoder model what its decoder reads."""


@dataclass
class Count:
    """Passes of a model, their rows, and the tokens of these, padding included."""

    passes: int = 0
    rows: int = 0
    tokens: int = 0


def modules_of(lm: Any) -> list[nn.Module]:
    """The modules whose passes count, of a harness model and of what proposes values to it; none of an API's."""
    found: dict[int, nn.Module] = {}
    target = getattr(lm, "target", None)
    for holder in (lm, target, getattr(target, "generator", None)):
        model = getattr(holder, "model", None)
        if isinstance(model, nn.Module):
            module = _entry(model)
            found[id(module)] = module
    return list(found.values())


def _entry(model: Any) -> nn.Module:
    """The module that every pass of a model goes through once, however it is called."""
    # What an adapter wraps is called by itself as well, after a soft prompt.
    base: Any = model.get_base_model() if hasattr(model, "get_base_model") else model
    # A tagger's layers are called without the tagger, on mixtures of words.
    lstms = getattr(base, "lstms", None)
    return lstms[0] if isinstance(lstms, nn.ModuleList) else base


@contextmanager
def metered(modules: Sequence[nn.Module], watch: Callable[[Count], None] | None = None) -> Iterator[Count]:
    """Count the passes of ``modules`` within the block; ``watch`` is called before each pass."""
    count = Count()

    def note(module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        read = next((named[name] for name in READ if named.get(name) is not None), given[0] if given else None)
        count.passes += 1
        if isinstance(read, PackedSequence):
            count.rows += int(read.batch_sizes[0])
            count.tokens += len(read.data)
        elif isinstance(read, Tensor):
            count.rows += read.shape[0]
            count.tokens += read.shape[0] * read.shape[1]
        if watch is not None:
            watch(count)

    hooks = [module.register_forward_pre_hook(note, with_kwargs=True) for module in modules]
    try:
        yield count
    finally:
        for hook in hooks:
            hook.remove()
