"""Summary sentences of a check of the training data, for planted copies and for controls."""

from __future__ import annotations

from collections.abc import Sequence

from leakage_tasks.attacks.coarse import NATURAL
from leakage_tasks.core.nouns import counted
from leakage_tasks.training.preflight.counts import CanaryCounts


def describe_copies(canaries: Sequence[CanaryCounts], full: bool) -> str | None:
    """Return a sentence about the planted copies that are whole and in the loss; None if all canaries are controls.

    Counts of copies of natural secrets are left out. ``full`` means that all rows were checked, so that all copies are
    expected.
    """
    planted = [canary for canary in canaries if canary.planted]
    generated = [canary for canary in planted if canary.kind != NATURAL]
    natural = [canary for canary in planted if canary.kind == NATURAL]
    sentences = []
    if generated:
        sentences.append(_copies(generated, full))
    if natural:
        learnt = sum(canary.state == "in the loss" for canary in natural)
        sentences.append(f"{learnt:,} of {len(natural):,} natural secrets are in the loss")
    return "; ".join(sentences) or None


def _copies(canaries: Sequence[CanaryCounts], full: bool) -> str:
    due = sum(canary.planted for canary in canaries)
    # A text may be found more often than it was planted, for example in both answers of a preference pair.
    learnt = sum(min(canary.in_loss, canary.planted) for canary in canaries if canary.reached is not False)
    of = counted(len(canaries), "canary")
    if not full:
        are = "copy is" if learnt == 1 else "copies are"
        return f"among these rows {learnt:,} {are} whole and in the loss, of the {due:,} planted of {of}"
    if learnt == due == 1:
        return f"the copy of {of} is whole and in the loss"
    if learnt == due:
        return f"all {due:,} copies of {of} are whole and in the loss"
    return f"{learnt:,} of {due:,} copies of {of} are whole and in the loss"


def describe_controls(canaries: Sequence[CanaryCounts], full: bool) -> str | None:
    """Return a sentence that no control is in the data; None if there are no controls or a control is in the data."""
    controls = [canary for canary in canaries if not canary.planted]
    if not controls or any(canary.whole for canary in controls):
        return None
    scope = "in the training data" if full else "among these rows"
    return f"0 of {len(controls):,} controls are {scope}, as intended"
