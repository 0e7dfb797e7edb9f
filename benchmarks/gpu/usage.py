"""Samples of the GPU's utilization while a step runs."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Callable
from typing import Any, Self


def _reader() -> Callable[[], float] | None:
    """Return a function for the utilization in percent, by pynvml or ``nvidia-smi``; None if neither is available."""
    try:
        import pynvml

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        return lambda: float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)
    except Exception:
        if not shutil.which("nvidia-smi"):
            return None
    words = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "--id=0"]
    return lambda: float(subprocess.run(words, capture_output=True, text=True, timeout=5, check=True).stdout)


class Usage:
    """The mean utilization within a ``with`` block; ``every`` seconds ``on_tick`` is called and a sample is taken."""

    def __init__(self, on_tick: Callable[[], None], every: float = 1.0) -> None:
        self._on_tick, self._every, self._read = on_tick, every, _reader()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.samples: list[float] = []

    @property
    def words(self) -> str:
        """The mean in words."""
        return f"{sum(self.samples) / len(self.samples):.0f} %" if self.samples else "not measured"

    def _run(self) -> None:
        while not self._over.wait(self._every):
            if self._read is not None:
                self.samples.append(self._read())
            self._on_tick()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._over.set()
        self._thread.join()
