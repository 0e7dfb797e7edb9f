"""Counts of the copies of each canary in checked training data, and sentences about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from leakage_tasks.attacks.coarse import NATURAL
from leakage_tasks.core.nouns import counted
from leakage_tasks.tasks.preflight_file import State


@dataclass
class CanaryCounts:
    """Counts of the copies of one canary in the checked rows."""

    canary: str
    """The canary's id."""
    planted: int
    """Number of copies in the manifest; 0 for a control."""
    kind: str
    """Kind of the secret, as in the manifest."""
    whole: int = 0
    """Copies that the model reads completely."""
    cut: int = 0
    """Copies that the model reads in part: truncated, or divided between rows."""
    changed: int = 0
    """Copies that continue with other words than the canary, and secrets among other words."""
    in_loss: int = 0
    """Whole copies with all tokens of the secret in the loss."""
    in_part: int = 0
    """Whole copies with some tokens of the secret in the loss."""
    share: float = 0.0
    """Share of the secret's tokens that are in the loss, mean over whole copies."""
    sides: dict[str, int] = field(default_factory=dict)
    """In preference training, numbers of whole copies among ``chosen`` and ``rejected`` answers."""
    reached: bool | None = None
    """True if the loss of the secret has a gradient at a trained weight; None if unknown."""

    @property
    def state(self) -> State:
        """The role of its secret in training: in the loss, only in the context, or absent."""
        if (self.in_loss or self.in_part) and self.reached is not False:
            return "in the loss"
        return "in the context only" if self.whole else "absent"


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
