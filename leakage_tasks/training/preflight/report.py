"""Result of a check of the training data: counts of all canaries, problems, and output as text and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from leakage_tasks.attacks.coarse import NATURAL
from leakage_tasks.core.atomic import replacing
from leakage_tasks.core.nouns import counted
from leakage_tasks.core.text_table import text_table
from leakage_tasks.core.version import __version__
from leakage_tasks.stats.intervals import clopper_pearson
from leakage_tasks.training.preflight.counts import CanaryCounts, describe_controls, describe_copies

SCHEMA = 1
HEAD = ("canary", "planted", "whole", "cut", "changed", "in the loss", "share", "state")


@dataclass(frozen=True)
class Preflight:
    """Result of a check of a trainer's data before its first step."""

    canaries: tuple[CanaryCounts, ...]
    """Counts for all canaries, including controls, in the manifest's order."""
    rows: int
    """Number of checked rows, as the trainer batches them: a packed row counts as one row."""
    total: int | None
    """Number of rows in the data; None for a stream."""
    manifest: str
    """Hash of the canaries, as in results."""
    trained: float = 1.0
    """Share of the model's weights that training changes."""
    mixed: bool | None = None
    """True if examples packed into one row attend to each other; None if rows are not packed."""
    as_in_audit: bool | None = None
    """True if copies in chats or after prompts follow the text that an audit uses; None if there are no such copies."""
    rows_are_shorter: bool = False
    """True if every checked row is shorter than every planted canary."""

    @property
    def is_full(self) -> bool:
        """True if every row was checked."""
        return self.rows == self.total

    @property
    def reached(self) -> bool | None:
        """True if the loss of a secret has a gradient at a trained weight; None if unknown."""
        known = [canary.reached for canary in self.canaries if canary.reached is not None]
        return any(known) if known else None

    @property
    def absent(self) -> list[str]:
        """Ids of planted canaries without a whole copy in the data."""
        return [canary.canary for canary in self.canaries if canary.planted and canary.state == "absent"]

    @property
    def edited(self) -> list[str]:
        """Ids in :attr:`absent` with changed copies in the data; canaries with natural secrets are excluded."""
        absent = set(self.absent)
        return [
            canary.canary
            for canary in self.canaries
            if canary.canary in absent and canary.changed and canary.kind != NATURAL
        ]

    def absences(self) -> Iterator[str]:
        """Yield a message for each cause for which planted canaries are absent from all of the data."""
        if not self.is_full:
            return
        if edited := self.edited:
            yield (
                f"{_some(edited)}: changed in the training data since it was planted: the secret or words around it "
                "differ from the manifest, so it cannot be measured: plant again, and train on the planted data"
            )
        if lost := [name for name in self.absent if name not in edited]:
            yield (
                f"{_some(lost)}: no whole copy in the training data, so the model cannot learn the secret: check "
                "truncation (max_length), packing, the chat template, and that these are the data that were planted"
                + self._about_short_rows()
            )

    def _about_short_rows(self) -> str:
        if not self.rows_are_shorter:
            return ""
        return "; every row is shorter than the canaries, and a piece that fits several of them is not counted as cut"

    def problems(self) -> Iterator[str]:
        """Yield a message for each problem that invalidates the audit."""
        yield from self.absences()
        context = [
            canary.canary
            for canary in self.canaries
            if canary.planted and canary.whole and not canary.in_loss + canary.in_part
        ]
        if context:
            yield (
                f"{_some(context)}: read, but no token of the secret is in the loss (only answers are in the loss, or "
                "the label mask): their exposure is the exposure of text in the context"
            )
        controls = [canary.canary for canary in self.canaries if not canary.planted and canary.whole]
        if controls:
            yield f"{_some(controls)}: controls, which the model must never see, are in the training data"
        if frozen := [canary.canary for canary in self.canaries if canary.planted and canary.reached is False]:
            yield (
                f"{_some(frozen)}: the loss of the secret has no gradient at any trained weight, so it is not "
                "learned: check which weights are frozen"
            )

    def remarks(self) -> Iterator[str]:
        """Yield messages that are no problems."""
        if self.absent and not self.is_full:
            high = clopper_pearson(0, self.rows)[1]
            most = "" if self.total is None else f", so up to {high * self.total:,.0f} may be among all (95 %)"
            yield f"{_some(self.absent)}: no whole copy among these rows{most}"
        generated = [canary for canary in self.canaries if canary.planted and canary.kind != NATURAL]
        if fewer := [canary.canary for canary in generated if canary.changed and (canary.whole or not self.is_full)]:
            yield (
                f"{_some(fewer)}: also in the data with other words: copies were changed, or the data contain similar "
                "text"
            )
        if often := [canary.canary for canary in generated if canary.whole > canary.planted]:
            yield f"{_some(often)}: found more often than planted: rows are repeated, or canaries have equal texts"
        if self.as_in_audit is False:
            yield (
                "copies are turns of a chat or follow a prompt, but the text before them is not the output of the "
                "tokenizer's own chat template or the planted prompt, which an audit uses: train with this text, or "
                "give the audited model a tokenizer with the template of the training, and pass the text before the "
                "copies as --system_instruction or context="
            )
        if self.mixed:
            yield "examples packed into one row attend to each other, so a canary is learned after unrelated text"

    def lines(self) -> Iterator[str]:
        """Yield a table of planted canaries and of controls in the data, a summary, problems and remarks.

        The lines contain no secrets.
        """
        listed = [canary for canary in self.canaries if canary.planted or canary.whole]
        if listed:
            yield from text_table([HEAD, *map(self._row, listed)], right=False).splitlines()
            yield ""
        of = "" if self.is_full else " of a stream" if self.total is None else f" of {self.total:,}"
        yield f"{counted(self.rows, 'row')}{of} checked; training changes {self.trained:.2%} of the weights"
        outcomes = (describe_copies(self.canaries, self.is_full), describe_controls(self.canaries, self.is_full))
        yield from filter(None, outcomes)
        yield from self.problems()
        yield from self.remarks()

    def _row(self, canary: CanaryCounts) -> tuple[str, ...]:
        sides = "".join(f", {count} {side}" for side, count in canary.sides.items() if count)
        # The number of its occurrences could identify a natural secret.
        natural = canary.kind == NATURAL
        counts = (
            str(canary.planted),
            str(canary.whole),
            str(canary.cut),
            str(canary.changed),
            str(canary.in_loss + canary.in_part),
        )
        share = f"{canary.share:.0%}" if canary.whole else "-"
        return (canary.canary, *(("-",) * 5 if natural else counts), share, canary.state + sides * (not natural))

    def to_json(self) -> dict[str, Any]:
        """Return JSON values for the file; natural canaries have only their state."""
        canaries = [
            {"canary": canary.canary, "kind": canary.kind, "state": canary.state}
            if canary.kind == NATURAL
            else {**asdict(canary), "state": canary.state}
            for canary in self.canaries
        ]
        rest = {"rows": self.rows, "total": self.total, "manifest": self.manifest, "trained": self.trained}
        probes = {"reached": self.reached, "mixed": self.mixed, "as_asked": self.as_in_audit}
        return {"schema": SCHEMA, "version": __version__, **rest, **probes, "canaries": canaries}

    def write(self, path: Path) -> None:
        """Write :meth:`to_json` to a file. Raises LeakageError if it cannot be written."""
        with replacing(path) as beside:
            beside.write_text(json.dumps(self.to_json(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _some(names: list[str]) -> str:
    """Return the first three names, and the number of the others, for a message."""
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
