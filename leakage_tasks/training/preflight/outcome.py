"""The outcome of a look at the training data in one sentence each, for planted copies and for controls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from leakage_tasks.attacks.coarse import NATURAL

if TYPE_CHECKING:
    from leakage_tasks.training.preflight.report import CanaryCounts


def copies_in_words(canaries: Sequence[CanaryCounts], full: bool) -> str | None:
    """Return how many planted copies are whole and in the loss, or None if the canaries are all controls.

    Counts of natural secrets are left out. ``full`` says that all rows were looked at, so that each copy was due.
    """
    planted = [each for each in canaries if each.planted]
    open_ = [each for each in planted if each.kind != NATURAL]
    natural = [each for each in planted if each.kind == NATURAL]
    said = []
    if open_:
        said.append(_copies(open_, full))
    if natural:
        learnt = sum(each.state == "in the loss" for each in natural)
        said.append(f"{learnt:,} of {len(natural):,} natural secrets are in the loss")
    return "; ".join(said) or None


def _copies(canaries: Sequence[CanaryCounts], full: bool) -> str:
    due = sum(each.planted for each in canaries)
    # A text may be found more often than it was planted, as in both answers of a preference pair.
    learnt = sum(min(each.in_loss, each.planted) for each in canaries if each.reached is not False)
    of = f"{len(canaries):,} canaries" if len(canaries) > 1 else "1 canary"
    if not full:
        return f"among these rows {learnt:,} copies are whole and in the loss, of the {due:,} planted of {of}"
    if learnt == due:
        return f"all {due:,} copies of {of} are whole and in the loss"
    return f"{learnt:,} of {due:,} copies of {of} are whole and in the loss"


def controls_in_words(canaries: Sequence[CanaryCounts], full: bool) -> str | None:
    """Return that no control is in the data, which is right; None if there is none, or if one is in the data."""
    controls = [each for each in canaries if not each.planted]
    if not controls or any(each.whole for each in controls):
        return None
    where = "in the training data" if full else "among these rows"
    return f"0 of {len(controls):,} controls are {where}, as intended"
