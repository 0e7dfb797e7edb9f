"""What suffix extraction found out about one pair: a plain record everything downstream is computed from."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from leakage_tasks.attacks.finding import JSON_NAMES, LARGEST, Extra, json_fields
from leakage_tasks.core.inputs import parse_json
from leakage_tasks.core.old_names import accept_old_names

if TYPE_CHECKING:
    from leakage_tasks.targets.suffix.decoding_config import DecodingConfig

HEADLINE = "none"
"""The view whose guesses the run's own confidence chose, at full lengths; the harness' word for no filter."""


@dataclass(frozen=True)
class Choice:
    """What one confidence makes of the draws after one prefix.

    ``confidence`` is its value for the guess it picks, ``of_headline`` its value for the guess that the run's own
    confidence picks. ``place`` is that of the true suffix among the distinct draws by this confidence, from 1; None if
    it was never drawn. ``wrong`` is the share of the guess's tokens that are wrong, ``count`` how many draws it was,
    ``bits`` its −log2 P(guess | prefix), None of a model that only writes.
    """

    confidence: float
    of_headline: float
    place: int | None
    wrong: float
    count: int
    bits: float | None


@dataclass(frozen=True)
class SuffixView:
    """The first ``samples`` draws seen at one prefix length and one suffix length.

    ``distinct`` is how many different suffixes were drawn. ``own_bits`` is −log2 P(true suffix | prefix) under the
    model's own distribution, ``p_z_bits`` the same under the sampling scheme, None where the scheme cannot draw it
    (``reachable`` False) or the model does not tell (``reachable`` None). Where a model only writes, both are None and
    ``hits`` is how many of the draws were the true suffix. ``choices`` are by confidence. Those that begin with
    ``base_`` are the same of the model before fine-tuning, None where there is none to compare with.
    """

    prefix_length: int
    suffix_length: int
    samples: int
    distinct: int
    own_bits: float | None
    p_z_bits: float | None
    reachable: bool | None
    choices: dict[str, Choice]
    base_own_bits: float | None = None
    base_p_z_bits: float | None = None
    base_reachable: bool | None = None
    hits: int | None = None


@accept_old_names(settings="settings_hash")
@dataclass(frozen=True)
class SuffixFinding:
    """One attack on one pair.

    ``views`` holds :data:`HEADLINE` and one for each length or number swept, ``prefix_10``, ``suffix_25``,
    ``samples_5``. ``chosen_by`` is the confidence the headline goes by. ``guesses`` are token ids of the best ones,
    best first, empty unless they are to be shown. ``nodes`` counts the token positions computed for the draws,
    ``samples`` × length being those of as many separate draws; ``model_calls`` the sequences scored or drawn.
    ``access`` says what of the model the attack takes; ``only_writes`` that this was draws alone, without any cost.
    """

    pair: int
    scheme: str
    samples: int
    chosen_by: str
    views: dict[str, SuffixView]
    guesses: tuple[tuple[int, ...], ...] = ()
    nodes: int = 0
    model_calls: int = 0
    seconds: float = 0.0
    data: str = ""
    settings_hash: str = ""
    access: str = ""
    extra: Extra = field(default_factory=dict)
    only_writes: bool = False

    @property
    def control(self) -> bool:
        """Whether the model never saw the pair."""
        return self.pair < 0

    def to_json(self) -> str:
        """The finding as strict JSON, one line."""
        return json.dumps(json_fields(self), allow_nan=False)


class Answer(str):
    """A finding as JSON, with the surest ``guess`` beside it: JSON gets into logs, where tokens may not show."""

    guess: tuple[int, ...] | None

    def __new__(cls, text: str, guess: tuple[int, ...] | None = None) -> Answer:
        """As a string is made."""
        self = super().__new__(cls, text)
        self.guess = guess
        return self


def suffix_finding_from_json(text: str) -> SuffixFinding:
    """Inverse of :meth:`SuffixFinding.to_json`. Raises ValueError, KeyError or TypeError for what is no finding."""
    data = parse_json(text)
    data["views"] = {
        name: SuffixView(**{**view, "choices": {key: Choice(**choice) for key, choice in view["choices"].items()}})
        for name, view in data["views"].items()
    }
    data["guesses"] = tuple(tuple(guess) for guess in data["guesses"])
    finding = SuffixFinding(**data)
    views = finding.views.values()
    records: list[Any] = [finding, *views, *(choice for view in views for choice in view.choices.values())]
    for record in records:
        _check(record)
    if not all(type(token) is int for guess in finding.guesses for token in guess):
        raise ValueError("guesses are no token ids")
    return finding


def _check(record: Any) -> None:
    """Raise ValueError for a field of another type, or a number that is none."""
    kind: Any = type(record)
    for name, kinds in _plain_fields(kind).items():
        value = getattr(record, name)
        real = not isinstance(value, int | float) or abs(value) <= LARGEST
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds) or not real:
            raise ValueError(f"{JSON_NAMES.get(name, name)} is no {kinds[0].__name__}")


@cache
def _plain_fields(record: type) -> dict[str, tuple[type, ...]]:
    """The fields that hold one number or text, or may hold None, with the types they may have."""
    found = {name: get_args(kind) or (kind,) for name, kind in get_type_hints(record).items()}
    plain = {name: kinds for name, kinds in found.items() if set(kinds) <= {int, float, str, bool, NoneType}}
    # JSON knows one kind of number.
    return {name: (*kinds, int) if float in kinds else kinds for name, kinds in plain.items()}


@dataclass(frozen=True)
class SelectedView:
    """One view of one finding by one confidence: what a row of the results table is computed from.

    ``kind`` says which rows it has: ``headline``, ``confidence`` (the same draws by another confidence), ``length``
    (the same run at another prefix or suffix length) or ``draws`` (with fewer draws).
    """

    pair: int
    kind: str
    samples: int
    view: SuffixView
    choice: Choice
    finding: SuffixFinding


@dataclass(frozen=True)
class Selection:
    """What one column of results is read off: a view and a confidence; ``name`` is the harness' filter for it."""

    name: str
    kind: str
    view: str
    confidence: str

    def of(self, finding: SuffixFinding) -> SuffixFinding:
        """The finding with no more than the selection needs; the confidence is missing where the finding lacks it."""
        if self.view not in finding.views:
            return finding
        view = finding.views[self.view]
        wanted = dict.fromkeys([self._confidence(finding), finding.chosen_by])
        kept = {name: view.choices[name] for name in wanted if name in view.choices}
        views = {self.view: dataclasses.replace(view, choices=kept)}
        return dataclasses.replace(finding, views=views, guesses=finding.guesses if self.kind == "headline" else ())

    def select(self, finding: SuffixFinding) -> SelectedView | None:
        """The selection read; None for a pair that was left out and for a confidence that could not be fitted."""
        view, confidence = finding.views.get(self.view), self._confidence(finding)
        if view is None or confidence not in view.choices:
            return None
        return SelectedView(finding.pair, self.kind, finding.samples, view, view.choices[confidence], finding)

    def _confidence(self, finding: SuffixFinding) -> str:
        """The column's own, else the one that the run came to choose by, which the model may have decided."""
        return self.confidence if self.kind == "confidence" else finding.chosen_by


def left_out_view(finding: SuffixFinding, selection: Selection, scheme: DecodingConfig) -> SelectedView:
    """What a reading of a pair that was left out would look like, to tell which rows it has; its figures mean nothing.

    ``scheme`` is how suffixes were drawn.
    """
    choice = Choice(0.0, 0.0, None, 1.0, 1, 0.0)
    reachable = False if scheme.plain and not finding.only_writes else None
    hits = 0 if scheme.decoding == "sample" and finding.only_writes else None
    view = SuffixView(1, 1, finding.samples, 1, 0.0, None, reachable, {selection.confidence: choice}, hits=hits)
    return SelectedView(finding.pair, selection.kind, finding.samples, view, choice, finding)


def selections(chosen_by: str, confidences: Sequence[str], views: Sequence[str]) -> list[Selection]:
    """The headline, then the same by each of ``confidences``, then each of ``views`` by ``chosen_by``."""
    return [
        Selection(HEADLINE, "headline", HEADLINE, chosen_by),
        *(Selection(name, "confidence", HEADLINE, name) for name in confidences),
        *(Selection(name, "draws" if name.startswith("samples_") else "length", name, chosen_by) for name in views),
    ]
