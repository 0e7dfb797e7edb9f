"""Result of suffix extraction for one pair: a plain record, from which all metrics are computed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from leakage_tasks.attacks.finding import Extra, json_fields, renamed
from leakage_tasks.core.former_names import accept_former_names
from leakage_tasks.core.inputs import parse_json
from leakage_tasks.core.records import read_record

if TYPE_CHECKING:
    from leakage_tasks.targets.suffix.decoding_config import DecodingConfig

HEADLINE = "none"
"""Name of the primary view: full lengths, with guesses chosen by the run's own confidence. In the harness, this name
means no filter."""


@dataclass(frozen=True)
class Choice:
    """The guess that one confidence picks among the draws after one prefix.

    ``confidence`` is its value for this guess, and ``of_headline`` its value for the guess that the run's own
    confidence picks. ``place`` is the place, from 1, of the true suffix among the distinct draws by this confidence;
    None if it was never drawn. ``wrong`` is the share of the guess's tokens that are wrong, ``count`` the number of
    draws of the guess, and ``bits`` its −log2 P(guess | prefix), None for a model that only generates text.
    """

    confidence: float
    of_headline: float
    place: int | None
    wrong: float
    count: int
    bits: float | None


@dataclass(frozen=True)
class Likeness:
    """Similarity of a generated text and a reference of ``length`` tokens.

    ``distance`` and ``characters`` are Levenshtein distances in tokens and in characters, and ``text_length`` is the
    number of characters of the reference. ``subsequence`` and ``run`` are the lengths in tokens of the longest common
    subsequence and of the longest common run. ``included`` is the largest n for which the generated text contains the
    first n tokens of the reference as a run, at any position. ``generated`` is the number of generated tokens and
    ``types`` the number of distinct tokens of the reference. ``secrets`` counts the secrets that begin in the generated
    text, by kind.
    """

    length: int
    generated: int
    distance: int
    characters: int
    text_length: int
    subsequence: int
    run: int
    included: int
    types: int
    secrets: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class SuffixView:
    """The result of the first ``samples`` draws, evaluated at one prefix length and one suffix length.

    ``distinct`` is the number of distinct suffixes among the draws. ``own_bits`` is −log2 P(true suffix | prefix) under
    the model's own distribution, and ``p_z_bits`` is this cost under the sampling scheme. ``p_z_bits`` is None if the
    scheme cannot draw the true suffix (``reachable`` False) or the model does not report it (``reachable`` None). For a
    model that only generates text, both costs are None and ``hits`` is the number of draws of the true suffix.
    ``choices`` are by confidence. Fields that begin with ``base_`` are for the model before fine-tuning, None without
    such a model.

    ``top1`` is the number of the true suffix' tokens that are the model's first choice after the true tokens before
    them, and ``top1_tail`` the number of such tokens at its end, without a gap; None for a model that does not report
    them. ``likeness`` compares the guess with the true suffix, ``exchanged`` with the suffix of another document; None
    if the run requests no comparison. ``blocks`` lists the runs of equal tokens of the guess and the true suffix
    (:func:`~leakage_tasks.attacks.suffix.likeness.equal_blocks`); None if the run does not request them.

    The probability of a draw with at most ``near_edits`` token edits is between the probabilities with
    costs ``near_bits`` and ``near_high_bits``, in bits; the cost of a probability of 0 is None. ``near_hits`` is the
    number of such draws, None for a search. ``near_edits`` is None if no such bounds were computed.
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
    top1: int | None = None
    top1_tail: int | None = None
    likeness: Likeness | None = None
    exchanged: Likeness | None = None
    blocks: tuple[tuple[int, int, int], ...] | None = None
    near_edits: int | None = None
    near_bits: float | None = None
    near_high_bits: float | None = None
    near_hits: int | None = None


@accept_former_names(settings="settings_hash")
@dataclass(frozen=True)
class SuffixFinding:
    """Result of one attack on one pair.

    ``views`` has :data:`HEADLINE` and one view for each other length or number of draws, such as ``prefix_10``,
    ``suffix_25`` or ``samples_5``. ``chosen_by`` is the confidence that chooses the primary view's guess. ``guesses``
    are the token ids of the best guesses, best first; empty unless they may be shown. ``nodes`` is the number of token
    positions computed for the draws; separate draws would take ``samples`` × length. ``model_calls`` is the number of
    sequences scored or drawn. ``access`` describes the access to the model. ``only_writes`` is true if the model
    returned only draws, without costs. ``document`` is the number of the pair's document in its data, and ``offset``
    the number of the document's tokens before the prefix; None for pairs that are not cut from text.
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
    document: int | None = None
    offset: int | None = None

    @property
    def control(self) -> bool:
        """True if the pair is a control, which the model never saw."""
        return self.pair < 0

    def to_json(self) -> str:
        """Return the finding as one line of strict JSON."""
        return json.dumps(json_fields(self), allow_nan=False)


class Answer(str):
    """A finding as JSON, with the best ``guess`` as an attribute: logs contain the JSON and must not show tokens."""

    guess: tuple[int, ...] | None

    def __new__(cls, text: str, guess: tuple[int, ...] | None = None) -> Answer:
        """Create the string from ``text`` and attach ``guess``."""
        self = super().__new__(cls, text)
        self.guess = guess
        return self


def suffix_finding_from_json(text: str) -> SuffixFinding:
    """Read a finding from the text of :meth:`SuffixFinding.to_json`. Raises ValueError if the text is not a finding."""
    return read_record(SuffixFinding, renamed(parse_json(text)))


@dataclass(frozen=True)
class SelectedView:
    """One view of one finding by one confidence, from which rows of the results table are computed.

    ``kind`` decides on the rows: ``headline`` (the primary view), ``confidence`` (its draws by another confidence),
    ``length`` (another prefix or suffix length) or ``draws`` (fewer draws).
    """

    pair: int
    kind: str
    samples: int
    view: SuffixView
    choice: Choice
    finding: SuffixFinding

    @property
    def document(self) -> int:
        """The number of the pair's document; a pair that is not cut from text is a document of its own."""
        return self.pair if self.finding.document is None else self.finding.document


@dataclass(frozen=True)
class Selection:
    """The view and the confidence of one column of results; ``name`` is the name of its filter in the harness."""

    name: str
    kind: str
    view: str
    confidence: str

    def of(self, finding: SuffixFinding) -> SuffixFinding:
        """Return the finding reduced to the parts that the selection needs; the confidence may be missing."""
        if self.view not in finding.views:
            return finding
        view = finding.views[self.view]
        wanted = dict.fromkeys([self._confidence(finding), finding.chosen_by])
        choices = {name: view.choices[name] for name in wanted if name in view.choices}
        # The primary column alone has the runs, which are as long as all else.
        blocks = view.blocks if self.kind == "headline" else None
        views = {self.view: dataclasses.replace(view, choices=choices, blocks=blocks)}
        return dataclasses.replace(finding, views=views, guesses=finding.guesses if self.kind == "headline" else ())

    def select(self, finding: SuffixFinding) -> SelectedView | None:
        """Return the selected view; None for a pair that was left out or a confidence that could not be fitted."""
        view, confidence = finding.views.get(self.view), self._confidence(finding)
        if view is None or confidence not in view.choices:
            return None
        return SelectedView(finding.pair, self.kind, finding.samples, view, view.choices[confidence], finding)

    def _confidence(self, finding: SuffixFinding) -> str:
        """Return the column's own confidence, else the run's, which may depend on the model."""
        return self.confidence if self.kind == "confidence" else finding.chosen_by


def left_out_view(finding: SuffixFinding, selection: Selection, scheme: DecodingConfig) -> SelectedView:
    """Return a placeholder for a pair that was left out, which determines its rows; its numbers mean nothing.

    ``scheme`` is the sampling scheme of the run.
    """
    choice = Choice(0.0, 0.0, None, 1.0, 1, 0.0)
    reachable = False if scheme.plain and not finding.only_writes else None
    hits = 0 if scheme.decoding == "sample" and finding.only_writes else None
    view = SuffixView(1, 1, finding.samples, 1, 0.0, None, reachable, {selection.confidence: choice}, hits=hits)
    return SelectedView(finding.pair, selection.kind, finding.samples, view, choice, finding)


def selections(chosen_by: str, confidences: Sequence[str], views: Sequence[str]) -> list[Selection]:
    """Return the selections: the primary view by ``chosen_by`` and by each of ``confidences``, then ``views``."""
    return [
        Selection(HEADLINE, "headline", HEADLINE, chosen_by),
        *(Selection(name, "confidence", HEADLINE, name) for name in confidences),
        *(Selection(name, "draws" if name.startswith("samples_") else "length", name, chosen_by) for name in views),
    ]
