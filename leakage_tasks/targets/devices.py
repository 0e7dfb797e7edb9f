"""Copies from the host to a device that do not wait until the device has computed everything before."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor


def moved(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a tensor on a device; the conversion of a tensor that is there already would be an operation too."""
    return tensor if tensor.device == device else tensor.to(device, non_blocking=True)


def on_device(array: np.ndarray[Any, Any], device: torch.device) -> Tensor:
    """Return an array as a tensor on a device."""
    return moved(torch.from_numpy(np.ascontiguousarray(array)), device)


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
