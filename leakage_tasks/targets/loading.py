"""Models from folders and hubs as targets; a model that cannot be scored is refused with one line before the run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch

from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.core.log import warn_once
from leakage_tasks.models.loading import read_config, read_model, read_tokenizer, unreadable
from leakage_tasks.targets.embedded_tokens import EmbeddedTokens
from leakage_tasks.targets.rounding import in_half_precision

Target = TypeVar("Target")


@dataclass
class ModelSource:
    """A model as a folder, a hub name or an object, with the settings for loading it.

    Weights are read from safetensors, or from a file that ``torch.load`` accepts with ``weights_only``. Raises
    OptionError for an invalid argument, and TargetError if there is no readable configuration.
    """

    pretrained: Any
    tokenizer: Any = None
    """A tokenizer, or its folder or hub name; None for the model's own."""
    revision: str | None = None
    """Revision of the model and of its own tokenizer; None for the main one."""
    trust_remote_code: bool = False
    dtype: str | torch.dtype = "auto"
    """Precision of the computation; ``auto`` is the precision of the saved weights."""
    device: torch.device | str = "cpu"
    batch_size: int | None = None
    """Number of texts of full length in one batch; None lets the target choose."""
    max_batch_size: int | None = None
    """Upper limit of ``batch_size``, also if the target chooses it; None for no limit."""
    config: Any = field(init=False)
    """The model's configuration."""

    def __post_init__(self) -> None:
        dtype, most = self.dtype, self.max_batch_size
        spelt = getattr(torch, str(dtype), None)
        if dtype != "auto" and not isinstance(dtype, torch.dtype) and not isinstance(spelt, torch.dtype):
            raise OptionError(f"dtype={dtype!r}: expected auto, float32, bfloat16 or float16")
        if most is not None and not is_positive_integer(most):
            raise OptionError(f"max_batch_size={most!r}: expected a number from 1: correct it or leave it out")
        self.config = getattr(self.pretrained, "config", None)
        if self.is_named:
            self.config = read_config(self.pretrained, **self._passed)

    @property
    def is_named(self) -> bool:
        """True if the model is given by a folder or hub name."""
        return isinstance(self.pretrained, str | Path)

    @property
    def name(self) -> str:
        """The model's name in messages."""
        return str(self.pretrained) if self.is_named else type(self.pretrained).__name__

    @property
    def tokenizer_name(self) -> str:
        """The tokenizer's name in messages; the model's name if no tokenizer is given."""
        return str(self.tokenizer or self.name)

    @property
    def _passed(self) -> dict[str, Any]:
        return {"revision": self.revision or "main", "trust_remote_code": bool(self.trust_remote_code)}

    def read_tokenizer(self) -> Any:
        """Return the given tokenizer, else load the named one at its main revision, else load the model's own.

        Raises TargetError if it cannot be loaded, and OptionError if neither the tokenizer nor the model has a name.
        """
        if self.tokenizer is not None:
            named = isinstance(self.tokenizer, str | Path)
            trust_remote_code = bool(self.trust_remote_code)
            return read_tokenizer(self.tokenizer, trust_remote_code=trust_remote_code) if named else self.tokenizer
        if not self.is_named:
            raise OptionError("a model in memory comes without its tokenizer: pass tokenizer= too")
        return read_tokenizer(self.pretrained, **self._passed)

    def read_model(self, kind: Any, lacking: str = "") -> tuple[Any, list[str]]:
        """Return a model of class ``kind`` and the names of weights that its files lack; a model in memory as it is.

        ``lacking`` completes the error message if transformers has no such class for this type of model: the class and
        the remedy. Raises TargetError if the model cannot be read.
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
        """Return the error for a model that lacks the weight ``weight`` and so is no trained ``what``."""
        return TargetError(f"{self.name}: no trained {what} ({weight} is not in its weights): {remedy}")

    def check_vocabulary(self, model: Any, tokenizer: Any) -> None:
        """Raise TargetError if the tokenizer has more tokens than the model has embeddings."""
        known = EmbeddedTokens(model, tokenizer).number
        if known is not None and len(tokenizer) > known:
            raise TargetError(
                f"{self.tokenizer_name}: the tokenizer has {len(tokenizer)} tokens, but the model has {known} "
                "embeddings: pass the tokenizer that the model was trained with as tokenizer=…"
            )

    def target_of(self, make: Callable[..., Target], model: Any, *arguments: Any, **settings: Any) -> Target:
        """Move ``model`` to the device and return the target that ``make`` builds with it and the other arguments.

        Warns once if the model computes in 16 bits or fewer, since nearly equal losses then cannot be distinguished.
        """
        if in_half_precision(model):
            warn_once(
                f"{self.name}: scores are computed in {model.dtype}, too coarse to distinguish nearly equal losses: "
                "pass dtype=float32 in --model_args for exact ranks"
            )
        model.to(self.device)
        build = partial(make, model, *arguments, device=self.device, **settings)
        target: Any = build(batch_size=self.batch_size)
        exceeds = self.max_batch_size is not None and target.batch(target.max_length or 1) > self.max_batch_size
        return build(batch_size=self.max_batch_size) if exceeds else target


def is_positive_integer(value: Any) -> bool:
    """Return True if a value given by the user is a whole number from 1."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def check_max_length(max_length: Any, room: int | None) -> None:
    """Raise OptionError if ``max_length`` is no number of tokens, or more than the ``room`` of the model."""
    if max_length is not None and not (is_positive_integer(max_length) and (room is None or max_length <= room)):
        most = f"up to the model's {room}" if room else "from 1"
        raise OptionError(f"max_length={max_length!r}: expected a number of tokens {most}: correct it or leave it out")
