"""Counts of the torch operations that are dispatched, and of the points at which the host waits for the device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

WAITS = {"_local_scalar_dense", "item", "nonzero", "is_nonzero", "masked_select", "equal", "_unique2", "unique_dim"}
"""Operations whose result the host needs before it can continue."""
TO_HOST = {torch.Tensor.numpy, torch.Tensor.tolist, torch.Tensor.__array__}


class Tally:
    """Numbers of operations and of waits of the host, and of passes and rows."""

    def __init__(self, model: torch.nn.Module, on_cpu: bool) -> None:
        self.model, self.on_cpu = model, on_cpu
        self.operations: Counter[str] = Counter()
        self.inside = self.syncs = self.passes = self.rows = self.depth = 0

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count operations in the block."""
        with _Functions(self), _Operations(self):
            yield

    def entered(self, module: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Count a call of the model and its rows."""
        given = [named.get(name) for name in ("decoder_input_ids", "input_ids", "inputs_embeds")]
        rows = next((tensor for tensor in [*given, *arguments] if isinstance(tensor, torch.Tensor)), None)
        self.passes, self.depth = self.passes + 1, self.depth + 1
        self.rows += 0 if rows is None else len(rows)

    def left(self, *_: Any) -> None:
        """Note the end of a call of the model."""
        self.depth -= 1

    @contextmanager
    def hooks(self) -> Iterator[None]:
        """Count passes and operations in the block."""
        with ExitStack() as stack:
            handles = [
                self.model.register_forward_pre_hook(self.entered, with_kwargs=True),
                self.model.register_forward_hook(self.left, always_call=True),
            ]
            for handle in handles:
                stack.callback(handle.remove)
            stack.enter_context(self.counting())
            yield


class _Operations(TorchDispatchMode):
    def __init__(self, tally: Tally) -> None:
        super().__init__()
        self.tally = tally

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        name = function.overloadpacket.__name__
        self.tally.operations[name] += 1
        self.tally.inside += self.tally.depth > 0
        result = function(*arguments, **(named or {}))
        self.tally.syncs += name in WAITS or _boolean_index(name, arguments) or _to_host(name, arguments, result)
        return result


class _Functions(TorchFunctionMode):
    def __init__(self, tally: Tally) -> None:
        super().__init__()
        self.tally = tally

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        self.tally.syncs += self.tally.on_cpu and function in TO_HOST
        return function(*arguments, **(named or {}))


def _boolean_index(name: str, arguments: Sequence[Any]) -> bool:
    indices = arguments[1] if name in ("index", "index_put", "index_put_") else ()
    return any(isinstance(index, torch.Tensor) and index.dtype == torch.bool for index in indices)


def _to_host(name: str, arguments: Sequence[Any], result: Any) -> bool:
    if name not in ("_to_copy", "copy_", "to"):
        return False
    sources = [value for value in arguments if isinstance(value, torch.Tensor)]
    return isinstance(result, torch.Tensor) and result.device.type == "cpu" and sources[-1].device.type != "cpu"
