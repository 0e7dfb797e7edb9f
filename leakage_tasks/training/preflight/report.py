"""What a look at the training data came to: a record a canary, and what it says to people and to other programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from leakage_tasks.attacks.coarse import NATURAL
from leakage_tasks.core.atomic import replacing
from leakage_tasks.core.text_table import text_table
from leakage_tasks.core.version import __version__
from leakage_tasks.stats.intervals import clopper_pearson
from leakage_tasks.training.preflight.outcome import controls_in_words, copies_in_words

SCHEMA = 1
State = Literal["in the loss", "in the context only", "absent"]
HEAD = ("canary", "planted", "whole", "cut", "changed", "in the loss", "share", "state")


@dataclass
class CanaryCounts:
    """The copies of one canary among the rows that were looked at."""

    canary: str
    """Its id."""
    planted: int
    """Copies that the manifest says; 0 for a control."""
    kind: str
    """What kind of secret it is, as in the manifest."""
    whole: int = 0
    """Copies that the model reads whole."""
    cut: int = 0
    """Copies of which it reads a part: truncated, or divided between rows."""
    changed: int = 0
    """Copies that go on in other words than the canary's, or secrets with other words around."""
    in_loss: int = 0
    """Whole copies with every token of the secret in the loss."""
    in_part: int = 0
    """Whole copies with some of these tokens in the loss."""
    share: float = 0.0
    """Share of the secret's tokens that are in the loss, mean over whole copies."""
    sides: dict[str, int] = field(default_factory=dict)
    """In preference training, whole copies among the answers that are ``chosen`` and ``rejected``."""
    reached: bool | None = None
    """Whether the loss of its secret has a gradient at any weight that is trained; None where none is known of."""

    @property
    def state(self) -> State:
        """Whether its secret can be learnt from the loss, from what the model reads alone, or not at all."""
        if (self.in_loss or self.in_part) and self.reached is not False:
            return "in the loss"
        return "in the context only" if self.whole else "absent"


@dataclass(frozen=True)
class Preflight:
    """A look at a trainer's data before its first step."""

    canaries: tuple[CanaryCounts, ...]
    """In the manifest's order, controls too."""
    rows: int
    """Rows of the trainer's data that were looked at, as it batches them: packed ones count as one."""
    total: int | None
    """Rows there are; None for a stream."""
    manifest: str
    """Hash of the canaries, as results have it."""
    trained: float = 1.0
    """Share of the model's weights that training changes."""
    mixed: bool | None = None
    """Whether examples packed into one row read each other; None where none are."""
    as_asked: bool | None = None
    """Whether copies in chats or after prompts have before them what an audit puts there; None where none are."""

    @property
    def is_full(self) -> bool:
        """Whether every row was looked at."""
        return self.rows == self.total

    @property
    def reached(self) -> bool | None:
        """Whether the loss of any secret has a gradient at a weight that is trained; None where that was not asked."""
        asked = [each.reached for each in self.canaries if each.reached is not None]
        return any(asked) if asked else None

    @property
    def absent(self) -> list[str]:
        """Ids of planted canaries of which no whole copy was found."""
        return [each.canary for each in self.canaries if each.planted and each.state == "absent"]

    @property
    def edited(self) -> list[str]:
        """Those of :attr:`absent` of which there are copies that were changed; a natural one is not told."""
        gone = set(self.absent)
        return [each.canary for each in self.canaries if each.canary in gone and each.changed and each.kind != NATURAL]

    def absences(self) -> Iterator[str]:
        """What is wrong with planted canaries that are absent from all of the data, a line for each cause."""
        if not self.is_full:
            return
        if edited := self.edited:
            yield (
                f"{_some(edited)}: changed in the training data since it was planted: the secret, or words around it, "
                "are not the manifest's, so nothing of it could be measured: plant anew, and train on what that writes"
            )
        if lost := [each for each in self.absent if each not in edited]:
            yield (
                f"{_some(lost)}: no whole copy in the training data, so the model cannot learn the secret: check "
                "truncation (max_length), packing, the chat template, and that these are the data that were planted"
            )

    def problems(self) -> Iterator[str]:
        """What keeps the audit from meaning what it says, a line each."""
        yield from self.absences()
        context = [
            each.canary for each in self.canaries if each.planted and each.whole and not each.in_loss + each.in_part
        ]
        if context:
            yield (
                f"{_some(context)}: read, but no token of the secret is in the loss (a loss on answers alone, or the "
                "label mask): their exposure is that of text in the context"
            )
        controls = [each.canary for each in self.canaries if not each.planted and each.whole]
        if controls:
            yield f"{_some(controls)}: controls, which the model must never see, are in the training data"
        if frozen := [each.canary for each in self.canaries if each.planted and each.reached is False]:
            yield (
                f"{_some(frozen)}: the loss of the secret has no gradient at any weight that is trained, so nothing "
                "learns from it: check what is frozen"
            )

    def remarks(self) -> Iterator[str]:
        """What to know beside that, a line each."""
        if self.absent and not self.is_full:
            high = clopper_pearson(0, self.rows)[1]
            most = "" if self.total is None else f", so up to {high * self.total:,.0f} may be among all (95 %)"
            yield f"{_some(self.absent)}: no whole copy among these rows{most}"
        open_ = [each for each in self.canaries if each.planted and each.kind != NATURAL]
        if fewer := [each.canary for each in open_ if each.changed and (each.whole or not self.is_full)]:
            yield f"{_some(fewer)}: stand there in other words too: copies were changed, or the data hold their like"
        if often := [each.canary for each in open_ if each.whole > each.planted]:
            yield f"{_some(often)}: found more often than planted: rows come twice, or canaries have one text"
        if self.as_asked is False:
            yield (
                "copies are turns of a chat or follow a prompt, and what stands before them is not what the "
                "tokenizer's own chat template writes, or not the planted prompt, after which an audit asks about "
                "them: train with these, or give the audited model a tokenizer with the template of the training, and "
                "--system_instruction or context= the text that stands there"
            )
        if self.mixed:
            yield "examples packed into one row read each other, so a canary is learnt after whatever stands before it"

    def lines(self) -> Iterator[str]:
        """Yield a table of planted canaries and of controls in the data, the outcome, problems and remarks.

        Secrets are never in it.
        """
        listed = [each for each in self.canaries if each.planted or each.whole]
        if listed:
            yield from text_table([HEAD, *map(self._row, listed)], right=False).splitlines()
            yield ""
        of = "" if self.is_full else " of a stream" if self.total is None else f" of {self.total:,}"
        yield f"{self.rows:,} rows{of} looked at; training changes {self.trained:.2%} of the weights"
        outcomes = (copies_in_words(self.canaries, self.is_full), controls_in_words(self.canaries, self.is_full))
        yield from filter(None, outcomes)
        yield from self.problems()
        yield from self.remarks()

    def _row(self, each: CanaryCounts) -> tuple[str, ...]:
        sides = "".join(f", {count} {side}" for side, count in each.sides.items() if count)
        # How often a natural secret occurs would tell it from all others.
        natural = each.kind == NATURAL
        counts = (
            str(each.planted),
            str(each.whole),
            str(each.cut),
            str(each.changed),
            str(each.in_loss + each.in_part),
        )
        share = f"{each.share:.0%}" if each.whole else "-"
        return (each.canary, *(("-",) * 5 if natural else counts), share, each.state + sides * (not natural))

    def to_json(self) -> dict[str, Any]:
        """As it is written; of natural canaries the state alone."""
        canaries = [
            {"canary": each.canary, "kind": each.kind, "state": each.state}
            if each.kind == NATURAL
            else {**asdict(each), "state": each.state}
            for each in self.canaries
        ]
        rest = {"rows": self.rows, "total": self.total, "manifest": self.manifest, "trained": self.trained}
        probes = {"reached": self.reached, "mixed": self.mixed, "as_asked": self.as_asked}
        return {"schema": SCHEMA, "version": __version__, **rest, **probes, "canaries": canaries}

    def write(self, path: Path) -> None:
        """Write :meth:`to_json` to a file. Raises LeakageError where that cannot be."""
        with replacing(path) as beside:
            beside.write_text(json.dumps(self.to_json(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _some(names: list[str]) -> str:
    """Names for a message: the first few."""
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
