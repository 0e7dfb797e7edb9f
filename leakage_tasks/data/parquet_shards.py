"""Reader of parquet files of a hub data set, which loads few rows and only the wanted columns at a time.

``datasets`` also streams such files, but with a pyarrow scanner that reads up to 1 GiB more than the caller has used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from leakage_tasks.data.batches import BYTES, ROWS

_BUFFER = 1 << 20


def parquet_files(builder: Any, split: str) -> list[str]:
    """Return the paths and addresses of a split's files, one per shard; empty if they must be streamed.

    They must be streamed if they are not parquet files, or if the data set's card selects columns or rows.
    """
    from datasets.packaged_modules.parquet.parquet import ParquetConfig

    config = builder.config
    whole = isinstance(config, ParquetConfig) and config.columns is None and getattr(config, "filters", None) is None
    return [str(file) for file in config.data_files[split]] if whole else []


def tables_of(file: str, column: str | None) -> Iterator[Any]:
    """Yield tables of one column, or of all columns; a column that the file lacks is left out.

    A table has at most 256 rows, and fewer rows if they are large, for about 32 MiB.
    """
    from datasets.utils.file_utils import xopen

    with xopen(file, "rb") as stream, pq.ParquetFile(stream, buffer_size=_BUFFER) as parquet:
        columns = None if column is None else [column]
        for group in range(parquet.num_row_groups):
            metadata = parquet.metadata.row_group(group)
            rows = max(1, min(ROWS, BYTES * metadata.num_rows // max(1, metadata.total_byte_size)))
            for batch in parquet.iter_batches(rows, row_groups=[group], columns=columns):
                yield pa.Table.from_batches([batch])
