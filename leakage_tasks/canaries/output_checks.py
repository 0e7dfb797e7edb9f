"""Where planted copies may go: nowhere that overwrites what is read, or one another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from leakage_tasks.canaries.sidecar import sidecar_path
from leakage_tasks.core.atomic import check_place
from leakage_tasks.core.errors import PlantingError
from leakage_tasks.data import check_output


def check_places(copies: Sequence[tuple[Path, Path]], manifest: Path) -> None:
    """Check the outputs of ``copies``, each an input and its output, and the records beside them.

    Raises PlantingError for an output that is named unlike its input's format, cannot be written to, or would
    overwrite an input, the manifest or an earlier output.
    """
    taken = [*((source, "input") for source, _ in copies), (manifest, "manifest")]
    for source, output in copies:
        check_output(source, output)
        record = sidecar_path(output)
        for ours in (output, record):
            for theirs, what in taken:
                if overlap(ours, theirs):
                    raise PlantingError(f"{ours}: would overwrite the {what} {theirs}: choose another output")
        check_place(output, PlantingError)
        if record.is_dir():
            raise PlantingError(f"{record}: is a folder where the record should go: remove it")
        taken += [(output, "output"), (record, "output's record")]


def overlap(one: Path, other: Path) -> bool:
    """Whether two places are one and the same, or one is a folder that holds the other."""
    return _same(one, other) or _inside(one, other) or _inside(other, one)


def _same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve() or (one.exists() and other.exists() and one.samefile(other))


def _inside(path: Path, folder: Path) -> bool:
    return folder.is_dir() and folder.resolve() in path.resolve().parents
