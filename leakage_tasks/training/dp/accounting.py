"""What a run of DP-SGD promises: ε for one row, and for several that hold one secret's copies."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

_MOST_NATS = 690.0
"""−log δ beyond which δ is no longer a floating-point number."""
_TURNS = 50


@dataclass(frozen=True)
class PrivacyGuarantee:
    """``steps`` steps of DP-SGD with Poisson batches of the share ``sample_rate`` of all rows.

    ``noise_multiplier`` is the noise's standard deviation over the clipping norm, ``delta`` the δ of the promise.
    """

    noise_multiplier: float
    sample_rate: float
    steps: int
    delta: float

    def epsilon(self, delta: float | None = None) -> float:
        """ε for one row at ``delta`` (default: the promise's), by Rényi accounting; infinite without noise."""
        if not self.noise_multiplier:
            return math.inf
        if not self.steps:
            return 0.0
        from opacus.accountants.analysis import rdp

        orders, spent = self._rdp
        with warnings.catch_warnings():
            # It warns where a larger order might give a smaller ε: what it gives is a bound all the same.
            warnings.simplefilter("ignore")
            epsilon, _ = rdp.get_privacy_spent(orders=orders, rdp=spent, delta=self.delta if delta is None else delta)
        return float(epsilon)

    def epsilon_of(self, copies: int) -> float:
        """ε at the promise's δ for ``copies`` rows together, such as those that hold one canary; may be infinite.

        Whatever is (ε, δ')-private for one row is (Rε, R e^((R−1)ε) δ')-private for R rows (group privacy: Dwork and
        Roth, "The Algorithmic Foundations of Differential Privacy", section 2.3). ε grows as δ' falls, so the δ' is
        taken that is as large as the promise's δ allows. A bound from above: what leaks may be far less.
        """
        if copies < 1:
            raise ValueError(f"copies is {copies}: a group has one row or more")
        if copies == 1:
            return self.epsilon()
        if not self.noise_multiplier or self._slack(copies, _MOST_NATS) < 0:
            return math.inf
        # The slack is convex in −log δ' and negative where δ' = δ: it comes to 0 once.
        low, high = -math.log(self.delta), _MOST_NATS
        for _ in range(_TURNS):
            middle = (low + high) / 2
            low, high = (low, middle) if self._slack(copies, middle) >= 0 else (middle, high)
        return copies * self.epsilon(math.exp(-high))

    def told(self, copies: int = 1) -> str:
        """One line for people: ε for a row, and for a canary whose ``copies`` are in as many rows."""
        for_all = "" if copies == 1 else f", {_shown(self.epsilon_of(copies))} for a canary of {copies} copies"
        return f"ε = {_shown(self.epsilon())} for one row{for_all} at δ = {self.delta:g}"

    def to_json(self, copies: Sequence[int] = ()) -> dict[str, Any]:
        """All of it as JSON values, ``copies`` being the numbers of rows to say ε for; null where ε is infinite."""
        spent = {str(number): _finite(self.epsilon_of(number)) for number in copies}
        return {**asdict(self), "epsilon": _finite(self.epsilon()), "epsilon_by_copies": spent}

    def _slack(self, copies: int, nats: float) -> float:
        """log δ − log(R e^((R−1)ε) δ') for δ' = e^(−``nats``): below 0 where the group's δ exceeds the promise's."""
        own = self.epsilon(math.exp(-nats))
        return math.log(self.delta) - (math.log(copies) + (copies - 1) * own - nats)

    @cached_property
    def _rdp(self) -> tuple[list[float], Any]:
        """Orders, and the Rényi divergence spent at each."""
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
    """JSON knows no infinity."""
    return epsilon if math.isfinite(epsilon) else None
