"""Rounding noise of a model's costs: what it is, and which differences it explains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.log import log

FLOOR_BITS = 1e-3
"""Costs of one text may always differ by this, the precision that float32 is held to."""
FACTOR = 2.0
"""Factor by which the root mean square difference of a fast pass may exceed the noise of plain passes."""
FACTOR_ONE = 4.0
"""The same factor for one row or one text, of which the worst of several is judged."""
BIAS, SHARED = 3.0, 1.5
"""A pass is biased if its mean difference over rows exceeds the first number of standard errors and the second number
of times the noise: rows that share a prefix share some of their rounding."""
TWO_SIDED = 1.96
"""Standard deviations on either side of the mean that hold 95 % of a normal distribution."""


@dataclass(frozen=True)
class Noise:
    """Rounding noise of costs, in bits: the root mean square difference between plain passes over the same tokens.

    ``token_bits`` is the noise of one token's cost; ``text_bits`` that of a whole text if single tokens are not seen;
    ``path_bits`` that of a token from a secret on, if it was measured on fillings.
    """

    token_bits: float = 0.0
    text_bits: float = 0.0
    path_bits: float = 0.0

    def of(self, tokens: float | None) -> float:
        """Return the noise in bits of the summed cost of ``tokens`` tokens, whose roundings are independent.

        ``tokens`` is None if a model does not state the length of a text.
        """
        return max(self.text_bits, self.token_bits * math.sqrt(max(tokens or 0.0, 0.0)))

    def margin(self, tokens: float | None) -> float:
        """Return the half-width in bits of the 95 % interval of such a cost; 0 where it is below float32's floor."""
        width = TWO_SIDED * self.of(tokens)
        return width if width > FLOOR_BITS else 0.0

    def path_margin(self, tokens: float) -> float:
        """Return the same for the cost of ``tokens`` tokens after a prefix that is computed once for all fillings."""
        return replace(self, token_bits=self.path_bits or self.token_bits).margin(tokens)

    def allowed(self, tokens: float | None) -> float:
        """Return how far two computations of the cost of one text of ``tokens`` tokens may differ, in bits."""
        return max(FLOOR_BITS, FACTOR_ONE * self.of(tokens))

    def agrees(self, costs: FloatArray, plain: FloatArray, tokens: Sequence[int]) -> bool:
        """Return whether ``costs`` in bits ``[n]`` of texts of ``tokens`` tokens each are ``plain`` but for rounding.

        Each may differ by :data:`FACTOR_ONE` times its noise, and the mean must be 0 as far as :data:`BIAS` says.
        """
        difference = np.asarray(costs) - np.asarray(plain)
        small = np.abs(difference) <= FLOOR_BITS
        if not len(difference) or small.all():
            return True
        if not self.of(max(tokens)):
            return False
        scaled = difference / np.array([self.of(max(count, 1)) for count in tokens])
        each = small | (np.abs(scaled) <= FACTOR_ONE)
        return bool(each.all() and abs(scaled.mean()) <= max(BIAS / math.sqrt(len(scaled)), SHARED))


NO_NOISE = Noise()


def agree(target: Any, costs: FloatArray, plain: FloatArray, tokens: Sequence[int]) -> bool:
    """Return whether a target's ``costs`` in bits ``[n]`` of texts are ``plain`` ones but for rounding.

    The target's noise is measured only where costs differ by more than :data:`FLOOR_BITS`.
    """
    return NO_NOISE.agrees(costs, plain, tokens) or target.noise.agrees(costs, plain, tokens)


def recorded_noise(target: Any) -> Noise:
    """Return the noise that findings of a target state: of models in 16 bits, and of scorers that were seen to vary."""
    return getattr(target, "recorded_noise", NO_NOISE)


def warn_of_slower(model: Any, cannot: str, factor: float) -> None:
    """Warn that a model falls back to a slower way of reading, and state about how many times as long that takes."""
    log.warning(
        "%s: %s, so these passes take up to %.0f times as long, with the same figures: lower budget=… if the run takes "
        "too long",
        *(type(model).__name__, cannot, max(factor, 1)),
    )
