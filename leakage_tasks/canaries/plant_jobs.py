"""Planting jobs and their report.

A job makes one copy of the data; planting makes one copy, or two for training and validation data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from leakage_tasks.canaries.places import stream_of
from leakage_tasks.canaries.sidecar import VALIDATION_TAKES, Before, Part, Sidecar, named, read_sidecar, sidecar_path
from leakage_tasks.core.atomic import check_place
from leakage_tasks.core.errors import OptionError, PlantingError
from leakage_tasks.core.nouns import counted
from leakage_tasks.data import Columns, Format, Layout, check_output, file_kind, format_of, overlap
from leakage_tasks.data.chat import Turn
from leakage_tasks.data.conversations import holds_conversations
from leakage_tasks.data.shards import Shards, check_no_other_files, earlier_run_note
from leakage_tasks.data.tagged import TaggedFormat


@dataclass(frozen=True)
class PlantJob:
    """One planted copy to write."""

    manifest: Path
    """The manifest of the canaries to plant."""
    shards: Shards
    """The data to copy."""
    output: Path
    """The path of the copy."""
    seed: int
    """The seed of the copies' positions."""
    wanted: Columns
    """The requested columns and split."""
    part: Part | None = None
    """The part of the data that the copy belongs to; None if it gets all repetitions."""
    turn: Turn = "new"
    """The position of the canaries' copies in chats."""

    @cached_property
    def kind(self) -> Format:
        """The format of the data. Raises PlantingError for an unknown format."""
        return format_of(self.shards.path(self.shards.names[0]))

    @property
    def source(self) -> Path:
        """The file or folder with the data."""
        return self.shards.home

    @property
    def record_path(self) -> Path:
        """The path of the copy's record."""
        return sidecar_path(self.output)

    @property
    def stream(self) -> str:
        """The seed with which the copies' positions are drawn."""
        return stream_of(self.seed, self.part)

    def before(self, layout: Layout) -> Before | None:
        """Return the kind of text before a copy in training; None for a tagger, which reads each utterance alone."""
        if isinstance(self.kind, TaggedFormat):
            return None
        if layout.chat:
            return "chat turn" if self.turn == "new" else "text of a chat turn"
        if holds_conversations(layout):
            return "template of a row"
        if layout.prompt is not None:
            return "prompt"
        return "line break" if self.kind.running else "start of a row"


def jobs_of(training: PlantJob, validation: Path | None, validation_output: Path | None) -> list[PlantJob]:
    """Return ``training``, or a job for the training part and a job for the validation part.

    Raises OptionError for validation data without an output, or the reverse.
    """
    if validation is None and validation_output is None:
        return [training]
    if validation is None or validation_output is None:
        raise OptionError(
            "--validation and --validation-output go together: name the validation data and the path of its copy"
        )
    other = replace(
        training, shards=Shards(named(Path(validation))), output=named(Path(validation_output)), part="validation"
    )
    return [replace(training, part="training"), other]


def check_places(jobs: Sequence[PlantJob]) -> None:
    """Check the outputs and records of all jobs.

    Raises PlantingError for an unknown format, and for an output that does not have its input's format, cannot be
    written, holds other files, or would overwrite an input, the manifest or an earlier output.
    """
    taken = [*((job.source, "input") for job in jobs), (jobs[0].manifest, "manifest")]
    for job in jobs:
        if job.shards.alone and job.kind:
            check_output(job.source, job.output)
        for ours in (job.output, job.record_path):
            for theirs, what in taken:
                # The record may be in the folder of the shards that match a pattern.
                allowed = not job.shards.alone and (ours, theirs) == (job.record_path, job.source)
                if overlap(ours, theirs) and not allowed:
                    raise PlantingError(f"{ours}: would overwrite the {what} {theirs}: choose another output")
        if not job.shards.alone:
            _check_folder(job)
        check_place(job.output, PlantingError)
        if job.record_path.is_dir():
            raise PlantingError(f"{job.record_path}: is a folder, but the record needs this path: remove it")
        taken += [(job.output, "output"), (job.record_path, "output's record")]


def _check_folder(job: PlantJob) -> None:
    """Raise PlantingError for an output that cannot hold the shards of a folder, and for shards that are planted."""
    if job.output.is_file() or file_kind(job.output) is not None:
        raise PlantingError(
            f"{job.output}: must be a folder, because the input has several shards: give the name of a folder"
        )
    check_no_other_files(job.output, job.shards.names, PlantingError)
    earlier = read_sidecar(sidecar_path(job.source))
    if earlier is not None and earlier.shards is not None:
        raise PlantingError(f"{job.source}: is planted already: plant into {earlier.input} instead")


@dataclass(frozen=True)
class PlantReport:
    """A report of planted and omitted canaries."""

    output: Path
    """The path of the planted data."""
    sidecar: Path
    """The path of the planting record."""
    record: Sidecar
    """The planting record."""
    controls: int
    """The number of controls, which were not planted."""
    natural: int
    """The number of natural canaries, which were not planted."""
    few: int = 0
    """The number of canaries that have too few repetitions to get a copy in the validation part."""
    labels_unused: bool = False
    """True if canaries have labels, but no label column was named."""
    label: str | None = None
    """The class given to canaries without a class, also in the manifest; None if no class was given."""
    labelled: int = 0
    """The number of canaries that got this class."""
    without_turn: int = 0
    """The number of conversations without a suitable turn, if copies are planted into existing turns."""
    validation: PlantReport | None = None
    """The report of the validation part, if there is one."""
    again: tuple[int, int] = (0, 0)
    """The numbers of shards that an earlier run had already counted and planted."""
    public: bool = False
    """True if this package's README or demo publishes a canary of the manifest."""
    remark: str | None = None
    """A remark on the share of copies in the data, or None."""

    def summary(self) -> str:
        """Return a one-line summary."""
        record = self.record
        left_out = [counted(self.controls, "control")] * bool(self.controls)
        left_out += [counted(self.natural, "natural canary")] * bool(self.natural)
        left_out += [f"{self.few} with fewer than {VALIDATION_TAKES} repetitions"] * bool(self.few)
        copies, canaries = sum(record.copies.values()), len(record.copies)
        return (
            f"{self.output}: {counted(copies, 'copy')} of {counted(canaries, 'canary')} "
            + (f"for {record.part} " if record.part else "")
            + f"among {counted(record.input_rows, 'row')} of {record.text_column!r}"
            + (f"; left out: {', '.join(left_out)}" if left_out else "")
            + self._about_turns()
            + self._about_prompt()
            + ("; labels not written, as no label column was named" if self.labels_unused else "")
            + self._about_label()
            + f"; record in {self.sidecar.name}"
            + earlier_run_note(self.again[0], len(record.shards or ()), "counted")
            + earlier_run_note(self.again[1], len(record.shards or ()))
        )

    def _about_turns(self) -> str:
        record = self.record
        if record.turn in (None, "new"):
            return ""
        position = "the last turn" if record.turn == "last" else "a turn"
        skipped = f" ({counted(self.without_turn, 'conversation')} without one skipped)" if self.without_turn else ""
        return f"; each at the end of {position} of the {record.role} in a conversation{skipped}"

    def _about_prompt(self) -> str:
        prompt = self.record.prompt
        is_fixed = prompt is not None and self.record.before in ("prompt", "template of a row")
        return f"; each after the prompt {prompt!r}" if is_fixed else ""

    def _about_label(self) -> str:
        if self.label is None:
            return ""
        if not self.labelled:
            return "; all canaries had labels already"
        without = f"{counted(self.labelled, 'canary')} without a label"
        return f"; {without} got {self.label!r}, and so did {self.record.manifest}"
