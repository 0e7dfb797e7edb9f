"""Result of one written text: counts, run lengths and positions in the corpus, from which all metrics are computed."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Annotated

from leakage_tasks.core.inputs import parse_json
from leakage_tasks.core.records import Between, JsonRecord, read_record

MOST = 1 << 28
"""Largest number that a finding may hold; a corpus of more documents, or a longer document, is refused."""
Count = Annotated[int, Between(0, MOST)]


@dataclass(frozen=True)
class Hits:
    """The matches of one text with one corpus.

    ``runs`` are its maximal runs: start in the text, length, document of the corpus and offset in it, each from 0.
    ``ngrams`` are its n-grams that occur in the corpus, as stretches of consecutive positions: document, offset, and
    number of n-grams. Equal n-grams have equal positions, so positions identify them.
    """

    runs: tuple[tuple[Count, Count, Count, Count], ...] = ()
    ngrams: tuple[tuple[Count, Count, Count], ...] = ()

    def extracted(self, length: int) -> bool:
        """Return True if the text has a run of at least ``length`` tokens."""
        return any(run[1] >= length for run in self.runs)


@dataclass(frozen=True)
class UntargetedFinding(JsonRecord):
    """Result of one text.

    ``kind``, ``prompt``, ``sample`` and ``unseen`` identify the text, see
    :class:`~leakage_tasks.attacks.untargeted.request.TextId`. ``tokens`` is the number of tokens written and ``ended``
    is true if the model ended the text. ``hits`` are its matches with the corpus, ``control_hits`` those with the
    controls, None without a search there. ``diverged`` is true if the model repeated a word and then wrote other text,
    None for other prompts. ``personal`` counts personal data by kind inside runs of ``run_length`` tokens, ``written``
    in the whole text. ``text`` is the text itself, only if it may be shown.
    """

    kind: str
    prompt: Count
    sample: Count
    unseen: bool
    scheme: str
    run_length: Count
    tokens: Count
    ended: bool
    hits: Hits | None
    control_hits: Hits | None
    diverged: bool | None = None
    personal: dict[str, Count] = field(default_factory=dict)
    written: dict[str, Count] = field(default_factory=dict)
    text: str | None = None
    data: str = ""
    settings_hash: str = ""
    access: str = ""

    def covered(self, length: int) -> float | None:
        """Return the share of the text's tokens inside runs of at least ``length`` tokens of the corpus."""
        if self.hits is None or not self.tokens:
            return None
        inside: set[int] = set()
        for start, size, *_ in self.hits.runs:
            if size >= length:
                inside.update(range(start, start + size))
        return len(inside) / self.tokens


def untargeted_finding_from_json(text: str) -> UntargetedFinding:
    """Read a finding from the text of ``to_json``. Raises ValueError if the text is not a finding."""
    data = parse_json(text)
    finding = read_record(UntargetedFinding, data)
    for name, hits in (("hits", finding.hits), ("control_hits", finding.control_hits)):
        if hits is not None and len(data[name]) < len(fields(Hits)):
            raise ValueError(f"{name} lacks runs or n-grams")
        if hits is not None and sum(count for _, _, count in hits.ngrams) > finding.tokens:
            raise ValueError("more n-grams than tokens")
    return finding
