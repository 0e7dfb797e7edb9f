"""Putting canaries into a dataset: exact repetitions, uniform seeded places, controls left out."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.classes import choose_class, class_counts
from leakage_tasks.canaries.formats import Columns, Layout, check_output, format_of
from leakage_tasks.canaries.manifest import manifest_hash, read_manifest, write_manifest
from leakage_tasks.canaries.sidecar import Sidecar, read_sidecar, sha256_of, sidecar_path, write_sidecar
from leakage_tasks.errors import OptionError, PlantingError
from leakage_tasks.files import replacing


@dataclass(frozen=True)
class PlantReport:
    """What was planted where, and what was left out on purpose.

    ``labels_unused``: canaries have labels, but no label column was named to write them to. ``label``: the class
    that ``labelled`` canaries without one were given, in the manifest too.
    """

    output: Path
    sidecar: Path
    record: Sidecar
    controls: int
    natural: int
    labels_unused: bool = False
    label: str | None = None
    labelled: int = 0

    def summary(self) -> str:
        """One line for people."""
        record = self.record
        left_out = [f"{self.controls} control(s)"] * bool(self.controls)
        left_out += [f"{self.natural} natural one(s)"] * bool(self.natural)
        return (
            f"{self.output}: {sum(record.copies.values())} copies of {len(record.copies)} canaries "
            f"among {record.input_rows:,} rows of {record.text_column!r}"
            + (f"; left out: {', '.join(left_out)}" if left_out else "")
            + ("; labels not written, as no label column was named" if self.labels_unused else "")
            + self._about_label()
            + f"; record in {self.sidecar.name}"
        )

    def _about_label(self) -> str:
        if self.label is None:
            return ""
        if not self.labelled:
            return "; all canaries had labels already"
        return f"; {self.labelled} canaries without a label got {self.label!r}, and so did {self.record.manifest}"


def plant(
    manifest: Path,
    source: Path,
    output: Path,
    *,
    seed: int = 0,
    text_column: str = "text",
    label_column: str | None = None,
    source_column: str | None = None,
    split: str = "train",
    label: str | None = None,
) -> PlantReport:
    """Copy ``source`` to ``output`` with every planted canary of ``manifest`` in it, ``repetitions`` times.

    Each copy is a row of its own (a line of a text file; an assistant turn after a short user turn where the
    column holds chat turns), in a gap drawn uniformly from those between rows, both ends included. Controls
    and natural canaries, which are in the data already, are left out. A record with hashes and counts goes
    to ``<output>.leakage.json``. Same input, manifest and seed: same output, byte for byte.

    ``label`` is for canaries and controls that have none: a class of the label column, or its ``rarest`` or
    ``most-popular`` one. The class of a canary is part of what an attack must know, so the manifest is rewritten
    with it, at the same time as the output. Supporting canaries need labels of their own.

    ``source_column`` gets the canaries' source sentences, which stand beside the text as in the other rows of a
    parallel corpus.

    Raises LeakageError, leaving nothing behind, if anything is unreadable, unwritable or does not fit.
    """
    wanted = Columns(text_column, label_column, split, source_column)
    job = _Job(Path(manifest), Path(source), Path(output), seed, wanted)
    canaries = read_manifest(job.manifest)
    kind = format_of(job.source)
    _check_places(job)
    chosen, canaries, labelled = _label(canaries, job, label)
    planted = _to_plant(canaries, job.manifest)
    _check_sources(planted, source_column)
    layout = kind.survey(job.source, job.wanted)
    rows = {canary.id: layout.row(canary) for canary in planted}
    points = [(gap, rows[name]) for gap, name in draw_gaps(planted, layout.rows, seed)]
    before = sha256_of(job.source)
    _check_not_planted_before(job.source, before, canaries)
    with ExitStack() as files:
        if labelled:
            _rewrite(job.manifest, canaries, files)
        record_beside = files.enter_context(replacing(sidecar_path(job.output)))
        beside = files.enter_context(replacing(job.output))
        kind.write(job.source, beside, layout, job.wanted, points)
        shutil.copymode(job.source, beside)
        copies = {canary.id: canary.repetitions for canary in planted}
        record = job.record(layout, kind.name, manifest_hash(canaries), (before, sha256_of(beside)), copies)
        write_sidecar(record, record_beside)
    controls = sum(not canary.planted for canary in canaries)
    natural = len(canaries) - len(planted) - controls
    unused = label_column is None and any(canary.label is not None for canary in planted)
    return PlantReport(job.output, sidecar_path(job.output), record, controls, natural, unused, chosen, labelled)


def _label(canaries: list[Canary], job: _Job, label: str | None) -> tuple[str | None, list[Canary], int]:
    """The class that is meant, the canaries with it where they had none, and how many these are."""
    if label is None:
        return None, canaries, 0
    column = job.wanted.label
    if column is None:
        raise OptionError(f"--label {label} needs --label-column: name the column of the classes")
    counts = class_counts(job.source, column, job.wanted.split, text_column=job.wanted.text)
    chosen = choose_class(counts, label)
    bare = [canary.label is None and canary.kind not in ("natural", "supporting") for canary in canaries]
    with_it = [replace(one, label=chosen) if needs else one for one, needs in zip(canaries, bare, strict=True)]
    return chosen, with_it, sum(bare)


def _rewrite(manifest: Path, canaries: Sequence[Canary], files: ExitStack) -> None:
    """Write the manifest anew; it takes its place when ``files`` closes, as the planted data does."""
    place = manifest.resolve()
    beside = files.enter_context(replacing(place))
    write_manifest(canaries, beside)
    shutil.copymode(place, beside)


@dataclass(frozen=True)
class _Job:
    manifest: Path
    source: Path
    output: Path
    seed: int
    wanted: Columns

    def record(
        self, layout: Layout, kind: str, manifest: str, hashes: tuple[str, str], copies: dict[str, int]
    ) -> Sidecar:
        return Sidecar(
            seed=self.seed,
            format=kind,
            input=self.source.name,
            input_sha256=hashes[0],
            input_rows=layout.rows,
            manifest=self.manifest.name,
            manifest_sha256=manifest,
            output=self.output.name,
            output_sha256=hashes[1],
            output_rows=layout.rows + sum(copies.values()),
            text_column=layout.text,
            label_column=self.wanted.label,
            source_column=self.wanted.source,
            split=self.wanted.split if (self.source / "dataset_dict.json").is_file() else None,
            copies=copies,
        )


def draw_gaps(canaries: Iterable[Canary], rows: int, seed: int) -> list[tuple[int, str]]:
    """A gap (0 … ``rows``) for every copy of every canary, with the canary's id, sorted by gap.

    Gaps are independent and uniform; copies in one gap stand in random order. Each canary has a random
    stream of its own.
    """
    drawn = []
    for canary in canaries:
        stream = random.Random(f"plant:{seed}:{canary.id}")
        drawn += [(stream.randrange(rows + 1), stream.random(), canary.id) for _ in range(canary.repetitions)]
    return [(gap, name) for gap, _, name in sorted(drawn)]


def _to_plant(canaries: Sequence[Canary], manifest: Path) -> list[Canary]:
    by_id = {canary.id: canary for canary in canaries}
    for canary in canaries:
        if canary.planted and canary.supports is not None and not by_id[canary.supports].planted:
            raise PlantingError(
                f"{manifest}: {canary.id} supports {canary.supports}, a control: make the manifest anew"
            )
    chosen = [canary for canary in canaries if canary.planted and canary.kind != "natural"]
    if not chosen:
        raise PlantingError(
            f"{manifest}: holds only controls or natural canaries, nothing to plant: make some to plant"
        )
    return chosen


def _check_sources(planted: Sequence[Canary], source_column: str | None) -> None:
    """Raise PlantingError for source sentences that no column is named for: a row without one trains no translation."""
    with_one = next((canary for canary in planted if canary.source is not None), None)
    if with_one is not None and source_column is None:
        raise PlantingError(f"{with_one.id} has a source sentence: name the column it goes to with --source-column")


def _check_places(job: _Job) -> None:
    output, record = job.output, sidecar_path(job.output)
    check_output(job.source, output)
    for ours in (output, record):
        for theirs, what in ((job.source, "input"), (job.manifest, "manifest")):
            if _same(ours, theirs) or _inside(ours, theirs) or _inside(theirs, output):
                raise PlantingError(f"{ours}: would overwrite the {what} {theirs}: choose another output")
    if not output.parent.is_dir():
        raise PlantingError(f"{output}: cannot be written (no folder {str(output.parent)!r}): make it first")
    if not os.access(output.parent, os.W_OK):
        raise PlantingError(f"{output}: cannot be written (no permission): choose another place")
    if record.is_dir():
        raise PlantingError(f"{record}: is a folder where the record should go: remove it")


def _same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve() or (one.exists() and other.exists() and one.samefile(other))


def _inside(path: Path, folder: Path) -> bool:
    return folder.is_dir() and folder.resolve() in path.resolve().parents


def _check_not_planted_before(source: Path, sha256: str, canaries: Sequence[Canary]) -> None:
    record = read_sidecar(sidecar_path(source))
    if record and record.output_sha256 == sha256 and record.manifest_sha256 == manifest_hash(canaries):
        raise PlantingError(f"{source}: holds the canaries of this manifest already: plant into {record.input} instead")
