"""Models from folders and hubs as targets: what cannot be scored is refused in one line, before anything is scored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch

from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.core.log import warn_once
from leakage_tasks.models.loading import read_config, read_model, read_tokenizer, unreadable
from leakage_tasks.targets.rounding import in_half_precision

Target = TypeVar("Target")


@dataclass
class ModelSource:
    """A model by folder, hub name or as an object, and how it is to be loaded.

    Weights come from safetensors, or from a file that ``torch.load`` takes with ``weights_only``. Raises OptionError
    for an argument that cannot be, and TargetError where there is no configuration to read.
    """

    pretrained: Any
    tokenizer: Any = None
    """A tokenizer, or its folder or hub name; None for the model's own."""
    revision: str | None = None
    """Which version of the model and of its own tokenizer; None for the main one."""
    trust_remote_code: bool = False
    dtype: str | torch.dtype = "auto"
    """What the model is to compute in; ``auto`` is the precision it was saved in."""
    device: torch.device | str = "cpu"
    batch_size: int | None = None
    """Texts of full length that are read at once; None lets the target choose."""
    max_batch_size: int | None = None
    """The most of them, whoever chooses; None for any number."""
    config: Any = field(init=False)
    """The model's configuration."""

    def __post_init__(self) -> None:
        dtype, most = self.dtype, self.max_batch_size
        spelt = getattr(torch, str(dtype), None)
        if dtype != "auto" and not isinstance(dtype, torch.dtype) and not isinstance(spelt, torch.dtype):
            raise OptionError(f"dtype={dtype!r}: expected auto, float32, bfloat16 or float16")
        if most is not None and not is_number(most):
            raise OptionError(f"max_batch_size={most!r}: expected a number from 1: correct it or leave it out")
        self.config = getattr(self.pretrained, "config", None)
        if self.is_named:
            self.config = read_config(self.pretrained, **self._passed)

    @property
    def is_named(self) -> bool:
        """Whether the model is given by a folder or hub name."""
        return isinstance(self.pretrained, str | Path)

    @property
    def name(self) -> str:
        """The model's name in messages."""
        return str(self.pretrained) if self.is_named else type(self.pretrained).__name__

    @property
    def tokenizer_name(self) -> str:
        """The name in messages of what says which tokenizer it is."""
        return str(self.tokenizer or self.name)

    @property
    def _passed(self) -> dict[str, Any]:
        return {"revision": self.revision or "main", "trust_remote_code": bool(self.trust_remote_code)}

    def read_tokenizer(self) -> Any:
        """The tokenizer given, or the one named, at its main revision, or else the model's own.

        Raises TargetError where it cannot be loaded, OptionError where neither it nor the model is named.
        """
        if self.tokenizer is not None:
            named = isinstance(self.tokenizer, str | Path)
            trust_remote_code = bool(self.trust_remote_code)
            return read_tokenizer(self.tokenizer, trust_remote_code=trust_remote_code) if named else self.tokenizer
        if not self.is_named:
            raise OptionError("a model in memory comes without its tokenizer: pass tokenizer= too")
        return read_tokenizer(self.pretrained, **self._passed)

    def read_model(self, kind: Any, lacking: str = "") -> tuple[Any, list[str]]:
        """A model of ``kind``, and the names of weights that are not in its files; a model in memory as it is.

        Raises TargetError for one that cannot be read; ``lacking`` is which models transformers has not of its type,
        and what to do then.
        """
        if not self.is_named:
            return self.pretrained, []

        def failure(reason: str) -> TargetError:
            if "Unrecognized configuration class" not in reason:
                return unreadable("model", self.name, reason)
            return TargetError(
                f"{self.name}: a {self.config.model_type} model, for which transformers has no {lacking}"
            )

        return read_model(kind, self.pretrained, config=self.config, dtype=self.dtype, failure=failure, **self._passed)

    def untrained(self, what: str, weight: str, remedy: str) -> TargetError:
        """The error for a model that lacks a weight, and so is no trained ``what``."""
        return TargetError(f"{self.name}: no trained {what} ({weight} is not in its weights): {remedy}")

    def check_vocabulary(self, model: Any, tokenizer: Any) -> None:
        """Raise TargetError for a tokenizer of more tokens than the model has."""
        known = int(model.get_input_embeddings().weight.shape[0])
        if len(tokenizer) > known:
            raise TargetError(
                f"{self.tokenizer_name}: the tokenizer has {len(tokenizer)} tokens, the model {known}: name the one it "
                "was trained with, tokenizer=…"
            )

    def target_of(self, model: Any, make: Callable[[int | None], Target]) -> Target:
        """What ``make`` makes of a number of texts that are read at once, with ``model`` on the device.

        Says once that a model in 16 bits or fewer cannot tell nearly equal losses apart.
        """
        if in_half_precision(model):
            warn_once(
                f"{self.name}: scores are computed in {model.dtype}, too coarse to tell nearly equal losses apart: "
                "pass dtype=float32 in --model_args for exact ranks"
            )
        model.to(self.device)
        target: Any = make(self.batch_size)
        exceeds = self.max_batch_size is not None and target.batch(target.max_length or 1) > self.max_batch_size
        return make(self.max_batch_size) if exceeds else target


def is_number(asked: Any) -> bool:
    """Whether what the user gave is a number from 1."""
    return isinstance(asked, int) and not isinstance(asked, bool) and asked >= 1


def check_max_length(asked: Any, room: int | None) -> None:
    """Raise OptionError for what is no number of tokens, or more than a model has ``room`` for."""
    if asked is not None and not (is_number(asked) and (room is None or asked <= room)):
        most = f"up to the model's {room}" if room else "from 1"
        raise OptionError(f"max_length={asked!r}: expected a number of tokens {most}: correct it or leave it out")
