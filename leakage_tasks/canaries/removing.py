"""Taking planted canaries out of data again, by the record of the planting alone."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from leakage_tasks.canaries.places import gaps_of, planted_rows, stream_of
from leakage_tasks.canaries.sidecar import Sidecar, named, read_sidecar, sha256_of, sidecar_path
from leakage_tasks.core.atomic import check_place, replacing
from leakage_tasks.core.errors import PlantingError
from leakage_tasks.core.steady import unchanged
from leakage_tasks.data import Columns, Layout, check_output, format_of, overlap


def remove(planted: Path, output: Path, *, jobs: int = 1, dask: str | None = None) -> str:
    """Copy ``planted`` data to ``output`` without the canaries that its record says were planted; a line for people.

    The copy is what was planted into: byte for byte if it is made of lines (unpacked, of packed files), else with the
    same rows and schema. That is checked by the hash in the record.

    Raises LeakageError, leaving nothing behind, for data without a record or changed since, and where the copy is not
    what it should be.
    """
    planted, output = named(Path(planted)), named(Path(output))
    record = recorded(planted)
    if record.turn not in (None, "new"):
        raise PlantingError(
            f"{planted}: its copies stand in turns of others (--turn {record.turn}), and are not taken out of these: "
            f"go back to {record.input}"
        )
    if record.shards is not None:
        from leakage_tasks.canaries.plant_shards import remove_shards

        return remove_shards(planted, output, jobs, dask)
    check_output(planted, output)
    for place in (planted, sidecar_path(planted)):
        if overlap(output, place):
            raise PlantingError(f"{output}: would overwrite {place}: choose another output")
    check_place(output, PlantingError)
    with ExitStack() as files, unchanged(planted):
        if sha256_of(planted) != record.output_sha256:
            raise PlantingError(f"{planted}: changed since it was planted, so its copies cannot be told: plant anew")
        gaps = gaps_of(record.copies, record.input_rows, stream_of(record.seed, record.part))
        write_back(
            planted,
            files.enter_context(replacing(output, like=planted)),
            record,
            planted_rows(gaps, record.heights or {}),
        )
    return summary(output, record)


def summary(output: Path, record: Sidecar) -> str:
    """One line for people."""
    copies = sum(record.copies.values())
    return f"{output}: {copies} copies of {len(record.copies)} canaries removed, as {record.input} was"


def recorded(planted: Path) -> Sidecar:
    """The record beside planted data. Raises PlantingError where there is none."""
    if not planted.exists():
        raise PlantingError(f"{planted}: no such file or folder: check the path")
    record = read_sidecar(sidecar_path(planted))
    if record is None:
        raise PlantingError(
            f"{planted}: no record {sidecar_path(planted).name} beside it, which says what was planted: give the data "
            "that 'leakage plant' wrote"
        )
    return record


def write_back(planted: Path, output: Path, record: Sidecar, dropped: set[int]) -> None:
    """Write what was planted into to ``output``. Raises PlantingError where that is not what the record says."""
    kind = format_of(planted)
    wanted = Columns(record.text_column, None, record.split or Columns.split, record.source_column)
    layout = kind.survey(planted, wanted)
    if layout.rows != record.input_rows + len(dropped):
        raise _other(planted, f"{layout.rows:,} rows instead of {record.input_rows + len(dropped):,}")
    kind.write_back(planted, output, layout, wanted, dropped)
    expected = record.unpacked_sha256 or record.input_sha256
    if kind.exact and _unpacked_hash(output, kind.survey(output, wanted)) != expected:
        raise _other(planted, "what is left is not what was planted into")


def _unpacked_hash(path: Path, layout: Layout) -> str:
    return layout.unpacked_sha256 or sha256_of(path)


def _other(planted: Path, why: str) -> PlantingError:
    return PlantingError(f"{planted}: cannot be taken apart again ({why}): plant anew from the data there were before")
