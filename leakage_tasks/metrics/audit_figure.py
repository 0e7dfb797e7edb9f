"""The record of an audit metric."""

from __future__ import annotations

from dataclasses import dataclass

from leakage_tasks.attacks.finding import Finding


def bits_of(finding: Finding) -> float:
    """Return the exposure of a finding, which must have an exposure."""
    assert finding.exposure is not None
    return finding.exposure


@dataclass(frozen=True)
class AuditFigure:
    """One audit metric, or the reason why it is refused (``refused``), in which case all numbers are None.

    ``low`` and ``high`` are the 95 % interval of ``value``; a ``lower_bound`` has no interval. ``basis`` describes the
    data, ``words`` the meaning and its limits (empty if an earlier metric explains it), ``chance`` the value without a
    leak, ``best`` the value of a perfect attack with this number of canaries.
    """

    name: str
    title: str
    words: str
    chance: float
    basis: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    best: float | None = None
    lower_bound: bool = False
    refused: str | None = None
