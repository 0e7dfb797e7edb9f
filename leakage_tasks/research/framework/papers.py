"""Descriptions of papers: the parts of a paper, its claims, and the study that tests each claim."""

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
    """A claim of a paper, declared once in the module that measures it.

    A test of the claim in a study's report has the claim's ``words``, or ``words`` and the name of the test. All tests
    must hold.
    """

    words: str
    """The claim in our words."""
    published: str = "no figure"
    """The figures that the paper gives for the claim."""
    takes: str = ""
    """The requirement of a verdict, if more runs of the study are not enough."""
    caveat: str = ""
    """A limitation of the verdict at ``small``, if there is one."""

    def test(self, name: str) -> str:
        """Return the words of the test called ``name``, for claims with several tests or tests that need details."""
        return f"{self.words}: {name}"

    def is_tested_by(self, words: str) -> bool:
        """Return True if a claim of a report with these words is a test of this claim."""
        return words == self.words or words.startswith(self.test(""))


@dataclass(frozen=True)
class TableCell:
    """The cell of a study's table that represents a part, and the published value."""

    row: Mapping[str, Any]
    """Cells that identify the row; part of a text is enough."""
    measured: str
    """The column."""
    published: float | str | None = None
    """The paper's value; None if the paper's text does not give it."""


@dataclass(frozen=True)
class PaperPart:
    """A table, a figure or a section of a paper."""

    where: str
    """The paper's name for it."""
    shows: str
    """A short description of its content."""
    study: str = ""
    """The study's name without the paper's name; empty if there is no study."""
    cell: TableCell | None = None
    """The cell that represents the part."""
    claims: Sequence[PaperClaim] = ()
    """The paper's conclusions from this part, in order."""
    without: str = ""
    """Without a study: the reason, and what a study would require.

    With a study: the data or packages that it requires.
    """
    trials: int | None = 3
    """The ``--trials`` option of a run at ``small``; None for the study's default."""


@dataclass(frozen=True)
class BeyondItem:
    """An addition to a paper and the gain from it."""

    what: str
    """The addition."""
    study: str
    """Name of the study without the paper's name. It is empty if there is no study; then ``unit`` states the
    requirements of a study."""
    unit: str
    """The unit of the gain and its better direction."""
    gain: Callable[[StoredResult], Measured | None] = lambda result: None
    """A function that computes the gain from a stored result; None if the result has no such gain."""
    trials: int | None = 3
    """The ``--trials`` option of a run at ``small``; None for the study's default."""
    tested: str = ""
    """The study's claim that must hold as well; empty: the interval alone decides."""
    alike: float | None = None
    """Largest gain that counts as equal, if equality is the goal. None: more is better."""


@dataclass(frozen=True)
class Paper:
    """A paper: its parts, its claims and the additions to it."""

    name: str
    """The first part of its studies' names."""
    title: str
    """Authors, year and title."""
    parts: Sequence[PaperPart]
    """The paper's tables, figures and sections with claims, in order."""
    beyond: Sequence[BeyondItem] = ()
    """Additions to the paper."""
    setup: str = ""
    """The main differences of our set-up from the paper's, in a few sentences."""


KNOWN_PAPERS: Registry[Paper] = Registry("paper", *(f"leakage_tasks.research.{room}" for room in ROOMS))


def register_paper(paper: Paper) -> Paper:
    """Register a paper by its name."""
    return KNOWN_PAPERS.register(paper.name, paper)


def drawing(where: str, shows: str) -> PaperPart:
    """Return a part without values and claims."""
    return PaperPart(where, shows, without=NOTHING)


NO_TEST = "no test"
"""The caveat of a claim whose verdict compares means without a test."""
NOTHING = "nothing to measure"
"""The reason why a part without values and claims has no study."""
