"""Copies between the host and a device for which the host does not wait until the device has computed everything."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.models.loading import has_double
from leakage_tasks.stats.bits import LN2


def moved(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a tensor on a device; the conversion of a tensor that is there already would be an operation too."""
    return tensor if tensor.device == device else tensor.to(device, non_blocking=True)


def on_device(array: np.ndarray[Any, Any], device: torch.device) -> Tensor:
    """Return an array as a tensor on a device."""
    return moved(torch.from_numpy(np.ascontiguousarray(array)), device)


def in_double(tensor: Tensor) -> Tensor:
    """Return a tensor in double precision: on its device, or on the CPU if the device has no double precision."""
    return (tensor if has_double(tensor.device) else tensor.cpu()).double()


def double_array(tensor: Tensor) -> FloatArray:
    """Return the values of a tensor in double precision."""
    values: FloatArray = tensor.cpu().double().numpy()
    return values


class HostCopy:
    """A tensor that is being copied to the host: a GPU copies it after everything that it was asked to compute before,
    and the host can do other work until then."""

    def __init__(self, tensor: Tensor) -> None:
        on_gpu = tensor.device.type == "cuda"
        self._copy = tensor.to("cpu", non_blocking=on_gpu)
        self._copied = torch.cuda.Event() if on_gpu else None
        if self._copied is not None:
            self._copied.record(torch.cuda.current_stream(tensor.device))

    def wait(self) -> None:
        """Wait until the values are copied."""
        if self._copied is not None:
            self._copied.synchronize()

    def array(self) -> np.ndarray[Any, Any]:
        """Return the values, once they are copied."""
        self.wait()
        return self._copy.numpy()


def in_bits(log_p: HostCopy) -> FloatArray:
    """Return costs in bits in double precision from natural logarithms of probabilities."""
    costs: FloatArray = log_p.array() / np.float64(-LN2)
    return costs


class PerDevice:
    """An array as a tensor, which is copied once to each device."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array
        self._copies: dict[torch.device, Tensor] = {}

    def on(self, device: torch.device) -> Tensor:
        """Return the tensor on a device."""
        if device not in self._copies:
            self._copies[device] = on_device(self._array, device)
        return self._copies[device]
