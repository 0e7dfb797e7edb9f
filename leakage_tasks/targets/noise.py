"""Rounding noise of a model's costs, and the test that a difference of costs is within it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.log import log

FLOOR_BITS = 1e-3
"""Tolerated difference between two costs of one text, in bits: the precision expected of float32."""
FACTOR = 2.0
"""Factor by which the root mean square difference of a fast pass may exceed the noise of plain passes."""
FACTOR_ONE = 4.0
"""Factor for a single row or text: the largest of several differences is compared."""
BIAS, SHARED = 3.0, 1.5
"""A pass is biased if its mean difference over rows exceeds the first number of standard errors and the second number
of times the noise. Rows that share a prefix share part of their rounding, hence the second bound."""
TWO_SIDED = 1.96
"""Standard deviations on either side of the mean that hold 95 % of a normal distribution."""


@dataclass(frozen=True)
class Noise:
    """Rounding noise of costs, in bits: the root mean square difference between plain passes over the same tokens.

    ``token_bits`` is the noise of one token's cost; ``text_bits`` that of a whole text if a model gives no costs of
    single tokens; ``path_bits`` that of a token after the start of a secret, if it was measured on fillings.
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
        """Return the half-width in bits of the 95 % interval of such a cost; 0 if it is below float32's precision."""
        width = TWO_SIDED * self.of(tokens)
        return width if width > FLOOR_BITS else 0.0

    def path_margin(self, tokens: float) -> float:
        """Return the half-width for ``tokens`` tokens after a prefix that is computed once for all fillings."""
        return replace(self, token_bits=self.path_bits or self.token_bits).margin(tokens)

    def allowed(self, tokens: float | None) -> float:
        """Return the tolerated difference in bits between two costs of one text of ``tokens`` tokens."""
        return max(FLOOR_BITS, FACTOR_ONE * self.of(tokens))

    def agrees(self, costs: FloatArray, plain: FloatArray, tokens: Sequence[int]) -> bool:
        """Return whether ``costs`` and ``plain``, in bits ``[n]``, differ by rounding alone.

        ``tokens`` ``[n]`` are the numbers of tokens of the texts. The difference of each text may be
        :data:`FACTOR_ONE` times its noise, and the mean difference must be 0 within the bounds of :data:`BIAS`.
        """
        difference = np.asarray(costs) - np.asarray(plain)
        small = np.abs(difference) <= FLOOR_BITS
        if not len(difference) or small.all():
            return True
        if not self.of(max(tokens)):
            return False
        scaled = difference / np.array([self.of(max(count, 1)) for count in tokens])
        within = small | (np.abs(scaled) <= FACTOR_ONE)
        return bool(within.all() and abs(scaled.mean()) <= max(BIAS / math.sqrt(len(scaled)), SHARED))


NO_NOISE = Noise()


def agree(target: Any, costs: FloatArray, plain: FloatArray, tokens: Sequence[int]) -> bool:
    """Return whether costs of texts, in bits ``[n]``, differ from ``plain`` ones by rounding alone.

    The target's noise is measured only if costs differ by more than :data:`FLOOR_BITS`.
    """
    return NO_NOISE.agrees(costs, plain, tokens) or target.noise.agrees(costs, plain, tokens)


def recorded_noise(target: Any) -> Noise:
    """Return the noise to record in a target's findings: that of 16-bit models and of scorers seen to vary, else 0."""
    return getattr(target, "recorded_noise", NO_NOISE)


def warn_of_slower(model: Any, cannot: str, factor: float) -> None:
    """Warn that a model needs a slower batching strategy, and by about which factor it is slower."""
    log.warning(
        "%s: %s, so these passes take up to %.0f times as long; the results are unaffected. Lower budget=… if the run "
        "takes too long",
        *(type(model).__name__, cannot, max(factor, 1)),
    )
