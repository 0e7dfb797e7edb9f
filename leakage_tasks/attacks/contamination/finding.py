"""Results of the contamination test: of a shard in several orders, or of an item and its twin; numbers only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from leakage_tasks.core.inputs import parse_json
from leakage_tasks.core.records import Between, JsonRecord, WrongField, read_record

Count = Annotated[int, Between(0, 1 << 40)]
Bits = Annotated[float, Between(-1)]
"""−log2 of a probability, up to rounding."""


@dataclass(frozen=True)
class OrderFinding(JsonRecord):
    """Log-likelihoods in bits of a shard's items in ``canonical`` order and in other orders (``shuffled``).

    ``windows`` is the largest number of windows in which the model read an order; 0 if the model does not report it.
    """

    number: Count
    items: Count
    canonical: float
    shuffled: tuple[float, ...]
    windows: Count = 0
    scheme: str = "order"
    access: str = ""
    settings_hash: str = ""
    kind: Literal["order"] = "order"


@dataclass(frozen=True)
class TextCost:
    """Cost of a text: its ``bits``, and the numbers of its tokens, bytes and characters.

    ``half`` is the cost of tokens of its second half after the first half under the model's own distribution, ``drawn``
    under the sampling scheme, so that p_z is 2^-drawn; it is None if the scheme cannot write them. ``length`` is their
    number, 0 if they were not scored. ``near`` and ``near_high`` are −log2 of bounds on the probability that the scheme
    writes them with up to ``edits`` token edits, None for a bound of 0 and without ``edits``.
    """

    bits: float
    tokens: Count | None
    size: Count
    length: Count = 0
    half: float | None = None
    drawn: Bits | None = None
    edits: Count | None = None
    near: Bits | None = None
    near_high: Bits | None = None

    @property
    def rate(self) -> float:
        """Bits per token, or per byte if the number of tokens is unknown."""
        return self.bits / max(1, self.size if self.tokens is None else self.tokens)

    @property
    def p_z(self) -> float | None:
        """Probability that the scheme writes the tokens; None if they were not scored."""
        return _probability(self.drawn) if self.length else None

    @property
    def p_near(self) -> tuple[float, float] | None:
        """Bounds on the probability that the scheme nearly writes the tokens; None if they were not computed."""
        return None if self.edits is None else (_probability(self.near), _probability(self.near_high))


def _probability(bits: float | None) -> float:
    return 0.0 if bits is None else min(1.0, 2.0**-bits)


@dataclass(frozen=True)
class TwinFinding(JsonRecord):
    """Costs of an item and of its rewritten twin."""

    number: Count
    item: TextCost
    twin: TextCost
    scheme: str = "twins"
    access: str = ""
    settings_hash: str = ""
    kind: Literal["twins"] = "twins"


ContaminationFinding = OrderFinding | TwinFinding
KINDS: dict[str, type[OrderFinding] | type[TwinFinding]] = {"order": OrderFinding, "twins": TwinFinding}


def contamination_finding_from_json(text: str) -> ContaminationFinding:
    """Read a finding from the text of ``to_json``. Raises ValueError if the text is not a finding."""
    data = parse_json(text)
    kind = data.get("kind") if isinstance(data, dict) else None
    if kind not in KINDS:
        raise WrongField("kind", " or ".join(KINDS), kind)
    finding = read_record(KINDS[kind], data)
    if isinstance(finding, OrderFinding) and not finding.shuffled:
        raise ValueError("shuffled: holds no log-likelihood")
    return finding
