"""What a task of ours says of itself in a results file, so that reports need not know the task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from leakage_tasks.errors import ResultsError


@dataclass(frozen=True)
class Row:
    """A metric as it declared itself: see :class:`leakage_tasks.metrics.Metric`.

    ``below``, ``alarm`` (its words) and ``fault`` are its alarm's.
    """

    name: str
    words: str = ""
    unit: str = ""
    chance: str | None = None
    better: str | None = None
    interval: tuple[str, str] | None = None
    title: str = ""
    headline: bool = False
    control: str | None = None
    count: str | None = None
    below: float | None = None
    alarm: str = ""
    fault: bool = False


@dataclass(frozen=True)
class Declared:
    """A task as it declared itself.

    ``measures`` is ``leakage`` or ``usefulness``; ``protocol`` what two runs must share to be comparable; ``tested``
    what the figures rest on; ``attacks`` the attacks that ran, each with the access it takes; ``version`` is this
    package's.
    """

    measures: str
    protocol: Mapping[str, Any] = field(default_factory=dict)
    tested: Mapping[str, Any] = field(default_factory=dict)
    attacks: tuple[tuple[str, str], ...] = ()
    rows: Mapping[str, Row] = field(default_factory=dict)
    version: str = ""


def declared_from_json(data: Any, where: str) -> Declared | None:
    """A declaration read; None for a task without one. Raises ResultsError, which begins with ``where``."""
    if data is None:
        return None
    try:
        return Declared(
            measures=_text(data["measures"]),
            protocol=dict(data["protocol"]),
            tested=dict(data["tested"]),
            attacks=tuple((_text(each["attack"]), _text(each["access"])) for each in data["attacks"]),
            rows={str(name): _row(str(name), row) for name, row in data["rows"].items()},
            version=_text(data.get("version", "")),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise ResultsError(f"{where}: not a task's declaration ({what}): give the file as lm_eval wrote it") from None


def _row(name: str, data: Mapping[str, Any]) -> Row:
    alarm, ends = data.get("alarm"), data.get("interval")
    return Row(
        name=name,
        words=_text(data.get("words", "")),
        unit=_text(data.get("unit", "")),
        chance=data.get("chance"),
        better=data.get("better"),
        interval=None if ends is None else (_text(ends[0]), _text(ends[1])),
        title=_text(data.get("title", "")),
        headline=bool(data.get("headline", False)),
        control=data.get("control"),
        count=data.get("count"),
        below=None if alarm is None else float(alarm["below"]),
        alarm="" if alarm is None else _text(alarm["words"]),
        fault=alarm is not None and bool(alarm.get("fault", False)),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, found {value!r:.40}")
    return value
