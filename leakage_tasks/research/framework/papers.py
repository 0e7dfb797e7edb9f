"""The papers: what they show and claim, part by part, and which study tests it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leakage_tasks.core.registry import Registry
from leakage_tasks.research.framework.registry import PAPERS as ROOMS
from leakage_tasks.research.framework.report import Measured

if TYPE_CHECKING:
    from leakage_tasks.research.framework.stored_results import StoredResult


@dataclass(frozen=True)
class PaperClaim:
    """A sentence of a paper, and the claims of a study that test it."""

    words: str
    """What the paper says, in ours."""
    tested: Sequence[str] = ()
    """Patterns of their words, ``*`` for anything; all must hold. None: the study makes no such claim."""
    published: str = "said, without a figure"
    """The figures that the paper gives for it."""
    takes: str = ""
    """What a verdict takes where more runs of the same study would not do."""
    caveat: str = ""
    """What a verdict at ``small`` rests on, where that has to be said."""


@dataclass(frozen=True)
class TableCell:
    """A cell of a study's table, and what is published for it: what a part's row shows of all of them."""

    row: Mapping[str, Any]
    """Cells that tell the row apart; of a text a part is enough."""
    measured: str
    """The column."""
    published: float | str | None = None
    """The paper's figure; None: its text has none."""


@dataclass(frozen=True)
class PaperPart:
    """A table, a figure or a section of a paper."""

    where: str
    """As the paper calls it."""
    shows: str
    """What it shows."""
    study: str = ""
    """The study's name without the paper's; empty: there is none."""
    cell: TableCell | None = None
    """The figure shown for it."""
    claims: Sequence[PaperClaim] = ()
    """What the paper concludes from it, in order."""
    without: str = ""
    """Why there is no study, and what it would take; of a part with a study, data or packages that it takes."""
    trials: int | None = 3
    """``--trials`` of a run at ``small``; None: the study's own number."""
    lacks: str = ""
    """A sentence on what the paper has and its study cannot have, and why."""


@dataclass(frozen=True)
class BeyondItem:
    """Something that the paper does not have, and what it gains."""

    what: str
    """What is added."""
    study: str
    """Its study, without the paper's name; empty: there is none, and ``unit`` says what it would take."""
    unit: str
    """What the gain is counted in, and which way it counts."""
    gain: Callable[[StoredResult], Measured | None] = lambda result: None
    """The gain in a stored result; None where that has none."""
    trials: int | None = 3
    """As of a part."""
    tested: str = ""
    """The words of the study's claim that must hold for it to be a gain, too; empty: the interval tells alone."""
    alike: float | None = None
    """Where the best is to be alike: how far from it still is. None: more is better."""


@dataclass(frozen=True)
class Paper:
    """A paper."""

    name: str
    """As its studies begin."""
    title: str
    """Authors, year and title."""
    parts: Sequence[PaperPart]
    """Its tables, figures and sections with claims, in order."""
    beyond: Sequence[BeyondItem] = ()
    """What is added to it here."""


KNOWN_PAPERS: Registry[Paper] = Registry("paper", *(f"leakage_tasks.research.{room}" for room in ROOMS))


def register_paper(paper: Paper) -> Paper:
    """Make a paper known by its name."""
    return KNOWN_PAPERS.register(paper.name, paper)


def drawing(where: str, shows: str) -> PaperPart:
    """A part that gives no figure and claims nothing."""
    return PaperPart(where, shows, without=NOTHING)


NO_TEST = "by the figures shown, without a test"
"""The caveat of a claim whose verdict rests on means alone."""
NOTHING = "nothing to measure"
"""Of a part without a figure or a claim."""
