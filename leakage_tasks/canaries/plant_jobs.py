"""What one planting has to do, where it may write, and what it did.

That is a copy of the data, or one of the training and one of the validation data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from leakage_tasks.canaries.places import stream_of
from leakage_tasks.canaries.sidecar import VALIDATION_TAKES, Before, Part, Sidecar, named, sidecar_path
from leakage_tasks.core.atomic import check_place
from leakage_tasks.core.errors import OptionError, PlantingError
from leakage_tasks.data import Columns, Format, Layout, check_output, format_of, overlap
from leakage_tasks.data.chat import Turn
from leakage_tasks.data.shards import of_earlier_run


@dataclass(frozen=True)
class PlantJob:
    """A copy to make."""

    manifest: Path
    """Of the canaries to plant."""
    source: Path
    """What is copied."""
    output: Path
    """Where the copy goes."""
    seed: int
    """What the places of the copies follow from."""
    wanted: Columns
    """The columns and the split that were asked for."""
    part: Part | None = None
    """None where it gets every repetition."""
    turn: Turn = "new"
    """Where in chats the copies go."""

    @cached_property
    def kind(self) -> Format:
        """Of what kind the data are. Raises PlantingError if they are of none."""
        return format_of(self.source)

    @property
    def record_path(self) -> Path:
        """Where the copy's record goes."""
        return sidecar_path(self.output)

    @property
    def stream(self) -> str:
        """What the places of the copies are drawn with."""
        return stream_of(self.seed, self.part)

    def record(
        self,
        layout: Layout,
        hashes: tuple[str, str, str],
        copies: dict[str, int],
        characters: int,
        heights: dict[str, int],
    ) -> Sidecar:
        """The record of the copy: its format, the hashes of input, manifest and output, and what was inserted.

        ``characters`` is how long all its texts are, ``heights`` how many rows a copy takes, where it is not one.
        """
        return Sidecar(
            seed=self.seed,
            format=self.kind.name,
            input=self.source.name,
            input_sha256=hashes[0],
            input_rows=layout.rows,
            manifest=self.manifest.name,
            manifest_sha256=hashes[1],
            output=self.output.name,
            output_sha256=hashes[2],
            output_rows=layout.rows + (sum(copies.values()) if self.turn == "new" else 0),
            text_column=layout.text,
            label_column=layout.label,
            source_column=self.wanted.source,
            split=self.wanted.split if (self.source / "dataset_dict.json").is_file() else None,
            copies=copies,
            part=self.part,
            before=self._before(layout),
            characters=characters,
            role=layout.role if layout.chat or self._is_rendered(layout) else None,
            unpacked_sha256=layout.unpacked_sha256,
            heights=heights or None,
            turn=self.turn if layout.chat else None,
            prompt=layout.prompt if self.turn == "new" else None,
        )

    def _before(self, layout: Layout) -> Before:
        if layout.chat:
            return "chat turn" if self.turn == "new" else "text of a chat turn"
        if self._is_rendered(layout):
            return "template of a row"
        if layout.prompt is not None:
            return "prompt"
        return "line break" if self.kind.running else "start of a row"

    @staticmethod
    def _is_rendered(layout: Layout) -> bool:
        return layout.shape is not None and layout.shape.rendered


def jobs_of(
    manifest: Path,
    wanted: Columns,
    seed: int,
    training: tuple[Path, Path],
    validation: tuple[Path | None, Path | None],
    turn: Turn = "new",
) -> list[PlantJob]:
    """One for each copy to make. Raises OptionError for validation data without an output, or the reverse."""
    held, held_output = validation
    whole = PlantJob(manifest, named(Path(training[0])), named(Path(training[1])), seed, wanted, turn=turn)
    if held is None and held_output is None:
        return [whole]
    if held is None or held_output is None:
        raise OptionError("--validation and --validation-output go together: name the data and where its copy goes")
    other = PlantJob(manifest, named(Path(held)), named(Path(held_output)), seed, wanted, "validation", turn)
    return [replace(whole, part="training"), other]


def check_places(jobs: Sequence[PlantJob]) -> None:
    """Check the outputs of all copies, and the records beside them.

    Raises PlantingError for an output that is named unlike its input's format, cannot be written to, or would
    overwrite an input, the manifest or an earlier output.
    """
    taken = [*((job.source, "input") for job in jobs), (jobs[0].manifest, "manifest")]
    for job in jobs:
        check_output(job.source, job.output)
        for ours in (job.output, job.record_path):
            for theirs, what in taken:
                if overlap(ours, theirs):
                    raise PlantingError(f"{ours}: would overwrite the {what} {theirs}: choose another output")
        check_place(job.output, PlantingError)
        if job.record_path.is_dir():
            raise PlantingError(f"{job.record_path}: is a folder where the record should go: remove it")
        taken += [(job.output, "output"), (job.record_path, "output's record")]


@dataclass(frozen=True)
class PlantReport:
    """What was planted where, and what was left out on purpose."""

    output: Path
    """The copy."""
    sidecar: Path
    """Where the record of it is."""
    record: Sidecar
    """The record."""
    controls: int
    """How many canaries are controls."""
    natural: int
    """How many canaries are natural."""
    few: int = 0
    """How many have too few repetitions for a copy in a validation part."""
    labels_unused: bool = False
    """Whether canaries have labels, but no label column was named to write them to."""
    label: str | None = None
    """The class that canaries without one were given, in the manifest too."""
    labelled: int = 0
    """How many these are."""
    without_turn: int = 0
    """How many conversations had no turn to plant in, where the copies go into turns that are there."""
    validation: PlantReport | None = None
    """The report of the validation part, if there is one."""
    again: tuple[int, int] = (0, 0)
    """How many shards an earlier run had counted and planted."""
    public: bool = False
    """Whether a canary of the manifest is one that this package's README or demo made for all its readers."""
    remark: str | None = None
    """What the user should know about the share of copies in the data, if anything."""

    def summary(self) -> str:
        """One line for people."""
        record = self.record
        left_out = [f"{self.controls} control(s)"] * bool(self.controls)
        left_out += [f"{self.natural} natural one(s)"] * bool(self.natural)
        left_out += [f"{self.few} with fewer than {VALIDATION_TAKES} repetitions"] * bool(self.few)
        return (
            f"{self.output}: {sum(record.copies.values())} copies of {len(record.copies)} canaries "
            + (f"for {record.part} " if record.part else "")
            + f"among {record.input_rows:,} rows of {record.text_column!r}"
            + (f"; left out: {', '.join(left_out)}" if left_out else "")
            + self._about_turns()
            + self._about_prompt()
            + ("; labels not written, as no label column was named" if self.labels_unused else "")
            + self._about_label()
            + f"; record in {self.sidecar.name}"
            + of_earlier_run(self.again[0], len(record.shards or ()), "counted")
            + of_earlier_run(self.again[1], len(record.shards or ()))
        )

    def _about_turns(self) -> str:
        record = self.record
        if record.turn in (None, "new"):
            return ""
        where = "the last turn" if record.turn == "last" else "a turn"
        skipped = f" ({self.without_turn:,} conversations without one skipped)" if self.without_turn else ""
        return f"; each at the end of {where} of the {record.role} in a conversation{skipped}"

    def _about_prompt(self) -> str:
        prompt = self.record.prompt
        is_fixed = prompt is not None and self.record.before in ("prompt", "template of a row")
        return f"; each after the prompt {prompt!r}" if is_fixed else ""

    def _about_label(self) -> str:
        if self.label is None:
            return ""
        if not self.labelled:
            return "; all canaries had labels already"
        return f"; {self.labelled} canaries without a label got {self.label!r}, and so did {self.record.manifest}"
