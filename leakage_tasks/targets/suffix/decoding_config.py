"""Options for decoding suffixes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.option import declared, options_of

Decoding = Literal["sample", "greedy", "beam"]


@dataclass(frozen=True)
class DecodingConfig:
    """Options for decoding a suffix; Ethicist uses nucleus sampling with top-p 0.7 and temperature 0.8 (section 4.1).

    ``sample`` draws tokens as `transformers` does: logits are divided by ``temperature``, then the ``top_k`` most
    likely tokens are kept (0: all), then the fewest of these that hold ``top_p`` of the probability (1: all). Tokens as
    likely as the last kept token are also kept. ``greedy`` and ``beam`` (with ``beams`` beams) are deterministic and
    ignore these options. Raises OptionError.
    """

    decoding: Decoding = declared("sample", "decoding method of suffixes")
    temperature: float = declared(0.8, "divisor of the logits before a draw")
    top_p: float = declared(0.7, "share of the probability held by the most likely tokens that are kept; 1 keeps all")
    top_k: int = declared(0, "number of most likely tokens that are kept; 0 keeps all")
    beams: int = declared(10, "number of beams of a beam search")

    def __post_init__(self) -> None:
        if self.decoding not in get_args(Decoding):
            raise OptionError(f"decoding is {self.decoding!r}: use {', '.join(get_args(Decoding))}")
        if not (self.temperature > 0 and math.isfinite(self.temperature)):
            raise OptionError(f"temperature is {self.temperature}: give a number above 0, or decoding=greedy")
        if not 0 < self.top_p <= 1:
            raise OptionError(f"top_p is {self.top_p}: give a share above 0 and up to 1 (1: keep every token)")
        if self.top_k < 0:
            raise OptionError(f"top_k is {self.top_k}: give a number of tokens, or 0 to keep all tokens")
        if self.beams < 1:
            raise OptionError(f"beams is {self.beams}: give 1 or more")

    @property
    def plain(self) -> bool:
        """True if draws come from the model's unchanged distribution."""
        return self.decoding == "sample" and self.temperature == 1 and self.top_p == 1 and self.top_k == 0

    @property
    def width(self) -> int:
        """Number of beams of a search."""
        return self.beams if self.decoding == "beam" else 1

    def __str__(self) -> str:
        if self.decoding != "sample":
            return f"beam search, {self.beams} wide" if self.decoding == "beam" else "greedy"
        parts = [f"top-k {self.top_k}"] if self.top_k else []
        parts += [f"top-p {self.top_p:g}"] if self.top_p < 1 else []
        return ", ".join([*parts, f"temperature {self.temperature:g}"])


DECODING_OPTIONS = options_of(DecodingConfig)
