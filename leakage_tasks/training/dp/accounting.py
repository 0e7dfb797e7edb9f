"""Privacy accounting of DP-SGD: ε for one row, and for all rows with copies of one secret."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

_MOST_NATS = 690.0
"""Largest −log δ for which δ is a floating-point number."""
_TURNS = 50


@dataclass(frozen=True)
class PrivacyGuarantee:
    """The guarantee of ``steps`` steps of DP-SGD with Poisson sampling of the share ``sample_rate`` of all rows.

    ``noise_multiplier`` is the standard deviation of the noise divided by the clipping norm.
    """

    noise_multiplier: float
    sample_rate: float
    steps: int
    delta: float

    def epsilon(self, delta: float | None = None) -> float:
        """Return ε for one row at ``delta`` (default: :attr:`delta`), by Rényi accounting; infinite without noise."""
        if not self.noise_multiplier:
            return math.inf
        if not self.steps:
            return 0.0
        from opacus.accountants.analysis import rdp

        orders, spent = self._rdp
        with warnings.catch_warnings():
            # opacus warns if a larger order might give a smaller ε; the result is a valid bound anyway.
            warnings.simplefilter("ignore")
            epsilon, _ = rdp.get_privacy_spent(orders=orders, rdp=spent, delta=self.delta if delta is None else delta)
        return float(epsilon)

    def epsilon_of(self, copies: int) -> float:
        """Return ε at :attr:`delta` for a group of ``copies`` rows, such as all rows with one canary; may be infinite.

        An (ε, δ')-private mechanism for one row is (Rε, R e^((R−1)ε) δ')-private for R rows (group privacy: Dwork and
        Roth, "The Algorithmic Foundations of Differential Privacy", section 2.3). ε increases as δ' decreases, so this
        method uses the largest δ' that :attr:`delta` allows. The result is an upper bound; the real leakage may be far
        smaller.
        """
        if copies < 1:
            raise ValueError(f"copies is {copies}: a group has one row or more")
        if copies == 1:
            return self.epsilon()
        if not self.noise_multiplier or self._slack(copies, _MOST_NATS) < 0:
            return math.inf
        # The slack is convex in −log δ' and negative for δ' = δ, so it has a single zero.
        low, high = -math.log(self.delta), _MOST_NATS
        for _ in range(_TURNS):
            middle = (low + high) / 2
            low, high = (low, middle) if self._slack(copies, middle) >= 0 else (middle, high)
        return copies * self.epsilon(math.exp(-high))

    def describe(self, copies: int = 1) -> str:
        """Return a line for people: ε for a row, and for a canary with ``copies`` copies in separate rows."""
        for_all = "" if copies == 1 else f", {_shown(self.epsilon_of(copies))} for a canary of {copies} copies"
        return f"ε = {_shown(self.epsilon())} for one row{for_all} at δ = {self.delta:g}"

    def to_json(self, copies: Sequence[int] = ()) -> dict[str, Any]:
        """Return JSON values, with ε for groups of each number of rows in ``copies``; null for an infinite ε."""
        spent = {str(number): _finite(self.epsilon_of(number)) for number in copies}
        return {**asdict(self), "epsilon": _finite(self.epsilon()), "epsilon_by_copies": spent}

    def _slack(self, copies: int, nats: float) -> float:
        """Return log δ − log(R e^((R−1)ε) δ') for δ' = e^(−``nats``): below 0 if the group's δ exceeds δ."""
        epsilon = self.epsilon(math.exp(-nats))
        return math.log(self.delta) - (math.log(copies) + (copies - 1) * epsilon - nats)

    @cached_property
    def _rdp(self) -> tuple[list[float], Any]:
        """The Rényi orders, and the divergence at each order."""
        from opacus.accountants import RDPAccountant
        from opacus.accountants.analysis import rdp

        orders = RDPAccountant.DEFAULT_ALPHAS
        spent = rdp.compute_rdp(
            q=self.sample_rate, noise_multiplier=self.noise_multiplier, steps=self.steps, orders=orders
        )
        return orders, spent


def _shown(epsilon: float) -> str:
    return "∞" if math.isinf(epsilon) else f"{epsilon:.3g}"


def _finite(epsilon: float) -> float | None:
    """Return None for infinity, which JSON does not support."""
    return epsilon if math.isfinite(epsilon) else None
