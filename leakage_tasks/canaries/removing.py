"""Taking planted canaries out of data again, by the record of the planting alone."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from leakage_tasks.canaries.places import gaps_of, planted_rows, stream_of
from leakage_tasks.canaries.plant_shards import remove_shards
from leakage_tasks.canaries.sidecar import named, sha256_of, sidecar_path
from leakage_tasks.canaries.taking_out import recorded, summary, write_back
from leakage_tasks.core.atomic import check_place, replacing
from leakage_tasks.core.errors import PlantingError
from leakage_tasks.core.steady import unchanged
from leakage_tasks.data import check_output, overlap


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
            f"{planted}: its copies stand in turns of others (--chat-position {record.turn}), and are not taken out of these: "
            f"go back to {record.input}"
        )
    if record.shards is not None:
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
