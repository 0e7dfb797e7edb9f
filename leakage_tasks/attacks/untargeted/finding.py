"""Result of one written text: counts, run lengths and positions in the corpus, from which all metrics are computed."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any

from leakage_tasks.core.inputs import parse_json

MOST = 1 << 28
"""Largest number that a finding may hold; a corpus of more documents, or a longer document, is refused."""
Places = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Hits:
    """The matches of one text with one corpus.

    ``runs`` are its maximal runs: start in the text, length, document of the corpus and offset in it, each from 0.
    ``ngrams`` are its n-grams that occur in the corpus, as stretches of consecutive positions: document, offset, and
    number of n-grams. Equal n-grams have equal positions, so positions identify them.
    """

    runs: Places = ()
    ngrams: Places = ()

    def extracted(self, length: int) -> bool:
        """Return True if the text has a run of at least ``length`` tokens."""
        return any(run[1] >= length for run in self.runs)


@dataclass(frozen=True)
class UntargetedFinding:
    """Result of one text.

    ``kind``, ``prompt``, ``sample`` and ``unseen`` identify the text, see
    :class:`~leakage_tasks.attacks.untargeted.request.TextId`. ``tokens`` is the number of tokens written and ``ended``
    is true if the model ended the text. ``hits`` are its matches with the corpus, ``control_hits`` those with the
    controls, None without a search there. ``diverged`` is true if the model repeated a word and then wrote other text,
    None for other prompts. ``personal`` counts personal data by kind inside runs of ``run_length`` tokens, ``written``
    in the whole text. ``text`` is the text itself, only if it may be shown.
    """

    kind: str
    prompt: int
    sample: int
    unseen: bool
    scheme: str
    run_length: int
    tokens: int
    ended: bool
    hits: Hits | None
    control_hits: Hits | None
    diverged: bool | None = None
    personal: dict[str, int] = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)
    text: str | None = None
    data: str = ""
    settings_hash: str = ""
    access: str = ""

    def to_json(self) -> str:
        """Return the finding as one line of strict JSON."""
        return json.dumps(dataclasses.asdict(self), allow_nan=False)

    def covered(self, length: int) -> float | None:
        """Return the share of the text's tokens inside runs of at least ``length`` tokens of the corpus."""
        if self.hits is None or not self.tokens:
            return None
        inside: set[int] = set()
        for start, size, *_ in self.hits.runs:
            if size >= length:
                inside.update(range(start, start + size))
        return len(inside) / self.tokens


_TYPES = {"kind": str, "scheme": str, "unseen": bool, "ended": bool, "data": str, "settings_hash": str, "access": str}
_COUNTS = ("prompt", "sample", "run_length", "tokens")


def untargeted_finding_from_json(text: str) -> UntargetedFinding:
    """Read a finding from the text of :meth:`UntargetedFinding.to_json`.

    Raises ValueError, KeyError or TypeError if the text is not a finding.
    """
    data: dict[str, Any] = parse_json(text)
    for name in ("hits", "control_hits"):
        data[name] = None if data[name] is None else _hits(data[name])
    finding = UntargetedFinding(**data)
    for name, kind in _TYPES.items():
        if type(getattr(finding, name)) is not kind:
            raise ValueError(f"{name} is not of type {kind.__name__}")
    for name in _COUNTS:
        _count(getattr(finding, name), name)
    for name in ("personal", "written"):
        for number in getattr(finding, name).values():
            _count(number, name)
    for hits in (finding.hits, finding.control_hits):
        if hits is not None and sum(count for _, _, count in hits.ngrams) > finding.tokens:
            raise ValueError("more n-grams than tokens")
    if finding.diverged not in (True, False, None) or not isinstance(finding.text, str | None):
        raise ValueError("diverged or text is of a wrong type")
    return finding


def _hits(data: Any) -> Hits:
    if set(data) != {"runs", "ngrams"}:
        raise ValueError("hits are not runs and ngrams")
    return Hits(_places(data["runs"], 4), _places(data["ngrams"], 3))


def _places(rows: Any, width: int) -> Places:
    places = tuple(tuple(_count(number, "hits") for number in row) for row in rows)
    if any(len(row) != width for row in places):
        raise ValueError(f"hits are not rows of {width} numbers")
    return places


def _count(value: Any, name: str) -> int:
    if type(value) is not int or not 0 <= value <= MOST:
        raise ValueError(f"{name} is not a count")
    return value
