"""A device that is not the CPU, for machines without one: it computes on the CPU and refuses tensors of both.

Inside :class:`SecondDevice`, ``model.to(DEVICE)`` and ``tensor.to(DEVICE)`` move tensors to it. As on a GPU, an
operation on tensors of two devices is an error, except for scalars and indices, so is a generator of the CPU, and NumPy
reads no tensor before it is copied to the CPU. So code that forgets to move a tensor fails here as it would on a GPU.
The device has no generators of its own. It registers a backend of torch, which cannot be undone: use it in a process of
its own (:func:`use_second_device`).
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Self

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

DEVICE = "second"
FROM_BOTH = ("copy_", "_to_copy", "_pad_packed_sequence", "lstm", "_has_compatible_shallow_copy_type")
"""Operations that take tensors of the CPU beside those of another device."""
SECOND_OF_CPU = ("index", "index_put", "index_put_", "_index_put_impl_", "_pack_padded_sequence")
"""Operations whose second argument may be on the CPU if the first is on the device."""
SCALARS = ("index_put", "index_put_", "_index_put_impl_", "masked_fill", "masked_fill_", "floor_divide", "rsub")
"""Operations besides those on each element that read a scalar of the CPU beside tensors of another device."""
READ = ("_local_scalar_dense", "equal", "is_nonzero")
"""Operations that return numbers of Python."""
WAITS = (*READ, "nonzero", "_unique2", "unique_dim", "masked_select")
"""Operations for which the host waits until the device has computed everything before."""


def _lstm_cell(inputs: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor, *biases: torch.Tensor | None) -> Any:
    gates = inputs + hidden + sum(bias for bias in biases if bias is not None)
    entered, kept, new, shown = gates.chunk(4, dim=1)
    cell = kept.sigmoid() * cell + entered.sigmoid() * new.tanh()
    return shown.sigmoid() * cell.tanh(), cell, gates


ONLY_ELSEWHERE = {"_thnn_fused_lstm_cell": _lstm_cell}
"""Operations that torch has for other devices than the CPU."""


class _Module(_DummyBackendModule):
    """What torch asks of a device's module."""

    def _lazy_init(self) -> None: ...

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]


_setup_privateuseone_for_python_backend(DEVICE, _Module())
# Otherwise ``Module.to`` gives a weight new values and keeps its ``inner`` ones.
torch.__future__.set_overwrite_module_params_on_conversion(True)


class OnSecond(torch.Tensor):
    """A tensor on the second device; ``inner`` holds its values on the CPU."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Self:
        made: Self = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=torch.device(DEVICE, 0),
        )
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _computed(function, args, kwargs or {})

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def __format__(self, specification: str) -> str:
        return format(self.cpu(), specification)

    def numpy(self, *, force: bool = False) -> NoReturn:
        raise TypeError(f"can't convert {DEVICE}:0 device type tensor to numpy: use Tensor.cpu() first")


class SecondDevice(TorchDispatchMode):
    """Within the block, :data:`DEVICE` can be used. ``waits`` counts the operations for which the host waits for it."""

    waits: Counter[str] = Counter()
    has_double = True

    def __enter__(self) -> Self:
        # ``torch.tensor(..., device=...)`` would copy its data to the device where no mode sees it.
        self._before = torch._C._only_lift_cpu_tensors()
        torch._C._set_only_lift_cpu_tensors(True)
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        torch._C._set_only_lift_cpu_tensors(self._before)
        super().__exit__(*error)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _computed(function, args, kwargs or {})


def use_second_device(*kinds: Any) -> None:
    """Use the device until the process ends; harness models of ``kinds``, such as ``HFLM``, move their models to it."""
    SecondDevice().__enter__()
    for kind in kinds:
        kind.__init__ = _moving(kind.__init__)


def _moving(begin: Any) -> Any:
    def on_second(self: Any, *arguments: Any, **settings: Any) -> None:
        begin(self, *arguments, **settings)
        self._model, self._device = self._model.to(DEVICE), torch.device(DEVICE, 0)

    return on_second


def _computed(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Compute an operation on the CPU; its result is on the second device if its device or its tensors are."""
    name, tensors = function.overloadpacket.__name__, [x for x in tree_leaves((args, kwargs)) if _is_tensor(x)]
    if name == "to":  # Inference mode passes this to a mode before it is made of a copy.
        with SecondDevice():
            return function.decompose(*args, **kwargs)
    wanted = kwargs.get("device")
    if not (any(isinstance(tensor, OnSecond) for tensor in tensors) or _is_second(wanted)):
        return function(*args, **kwargs)
    if name in ONLY_ELSEWHERE:
        return ONLY_ELSEWHERE[name](*args, **kwargs)
    if name == "histc":  # Mixtures of experts count integers with it, which a CPU cannot.
        args = (args[0].float(), *args[1:])
    _check(function, name, args, kwargs)
    _count(name, args, kwargs)
    second = _is_second(wanted) if wanted is not None else name != "copy_" or isinstance(args[0], OnSecond)
    kwargs |= {"device": torch.device("cpu")} if wanted is not None else {}
    kwargs |= {"pin_memory": False} if kwargs.get("pin_memory") else {}
    # A view in inference mode of a tensor from outside it is none of inference mode.
    outside = function.is_view and torch.is_inference_mode_enabled() and not args[0].is_inference()
    with torch.inference_mode(False) if outside else contextlib.nullcontext():
        result = function(*tree_map(_inner, args), **tree_map(_inner, kwargs))
        same = {id(_inner(tensor)): tensor for tensor in tensors}

        def outer(value: Any) -> Any:
            if not _is_tensor(value) or name in READ:
                return value
            if second and value.dtype == torch.float64 and not SecondDevice.has_double:
                raise TypeError("Cannot convert a tensor to float64 as this device doesn't support float64")
            return same[id(value)] if id(value) in same else OnSecond(value) if second else value

        if name == "_pack_padded_sequence":  # Its second result are numbers for the host.
            return outer(result[0]), result[1]
        return tree_map(outer, result)


def _check(function: Any, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Raise RuntimeError for tensors of two devices, and for a generator or lengths on the wrong one."""
    if name == "_pack_padded_sequence" and isinstance(args[1], OnSecond):
        raise RuntimeError(f"'lengths' argument should be a 1D CPU int64 tensor, but got one on {DEVICE}:0")
    into = args[0] if name.endswith("_") else None
    if name in SECOND_OF_CPU and isinstance(args[0], OnSecond):
        args = (args[0], *args[2:])
    given = tree_leaves((args, kwargs))
    if any(isinstance(value, torch.Generator) for value in given):
        raise RuntimeError(f"Expected a '{DEVICE}' device type for generator but found 'cpu'")
    scalars = torch.Tag.pointwise in function.tags or name in SCALARS
    tensors = [value for value in given if _is_tensor(value)]
    apart = {isinstance(x, OnSecond) for x in tensors if x.dim() or isinstance(x, OnSecond) or x is into or not scalars}
    if len(apart) > 1 and name not in FROM_BOTH:
        raise RuntimeError(f"Expected all tensors to be on the same device, {DEVICE}:0 or cpu, in {function}")


def _count(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Count an operation if the host waits in it until the device has done all before, as on a GPU."""
    wanted, waits = kwargs.get("device"), name in WAITS
    if name == "_to_copy" and wanted is not None and isinstance(args[0], OnSecond) != _is_second(wanted):
        # A copy to the device waits too unless told not to, since the memory of the host is pageable.
        waits = not (_is_second(wanted) and kwargs.get("non_blocking"))
    elif name == "copy_" and isinstance(args[0], OnSecond) != isinstance(args[1], OnSecond):
        waits = not (isinstance(args[0], OnSecond) and (args[2:] or [kwargs.get("non_blocking")])[0])
    elif name == "index":
        waits = any(_is_tensor(index) and index.dtype == torch.bool for index in args[1])
    if waits:
        SecondDevice.waits[name] += 1


def _is_second(device: Any) -> bool:
    return device is not None and torch.device(device).type == DEVICE


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _inner(value: Any) -> Any:
    return value.inner if isinstance(value, OnSecond) else value
