"""Parquet files of a data set of the hub, a few rows and only the wanted columns at a time.

``datasets`` streams them too, but through a scanner of pyarrow that reads ahead of a slow reader by up to 1 GiB.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from leakage_tasks.data.batches import BYTES, ROWS

_BUFFER = 1 << 20


def parquet_files(builder: Any, split: str) -> list[str]:
    """Paths and addresses of the files of a split of a ``DatasetBuilder``, a shard each; none if they must be streamed.

    They must where they are of another kind, and where the data set's card selects of their columns or rows.
    """
    from datasets.packaged_modules.parquet.parquet import ParquetConfig

    config = builder.config
    whole = isinstance(config, ParquetConfig) and config.columns is None and getattr(config, "filters", None) is None
    return [str(file) for file in config.data_files[split]] if whole else []


def tables_of(file: str, column: str | None) -> Iterator[Any]:
    """Tables of at most 256 rows of one column, or of all; a column that the file lacks is not in them.

    Where rows are large they have fewer, so that they come to some 32 MiB.
    """
    from datasets.utils.file_utils import xopen

    with xopen(file, "rb") as stream, pq.ParquetFile(stream, buffer_size=_BUFFER) as parquet:
        columns = None if column is None else [column]
        for group in range(parquet.num_row_groups):
            known = parquet.metadata.row_group(group)
            rows = max(1, min(ROWS, BYTES * known.num_rows // max(1, known.total_byte_size)))
            for batch in parquet.iter_batches(rows, row_groups=[group], columns=columns):
                yield pa.Table.from_batches([batch])
