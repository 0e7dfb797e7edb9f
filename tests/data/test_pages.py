"""What a parquet file says of itself, against pyarrow's own reading; and files on which that one ends the process."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.data import Columns, format_of
from leakage_tasks.data.batches import parquet_batches
from leakage_tasks.data.pages import Chunk, pages, row_groups
from leakage_tasks.data.parquet import compression_of

TURNS = [[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], [], None]
TABLE = pa.table({"text": ["one", None, "three"], "label": [0, 1, 2], "x.y": [0.5, 1.5, None], "messages": TURNS})


def written(table: pa.Table = TABLE, **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return out.getvalue()


def told(raw: bytes) -> list[list[Chunk]]:
    """The same by pyarrow."""
    metadata = pq.ParquetFile(io.BytesIO(raw)).metadata
    found = []
    for group in range(metadata.num_row_groups):
        columns = [metadata.row_group(group).column(place) for place in range(metadata.num_columns)]
        found.append([_chunk(each) for each in columns])
    return found


def _chunk(told: Any) -> Chunk:
    codec = {"UNCOMPRESSED": "none"}.get(told.compression, told.compression.lower())
    start = told.dictionary_page_offset if told.has_dictionary_page else told.data_page_offset
    return Chunk(told.path_in_schema, codec, told.num_values, start, told.total_compressed_size)


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "brotli", "lz4", "zstd"])
@pytest.mark.parametrize("rows", [1, 2, 100])
@pytest.mark.parametrize("dictionary", [True, False])
def test_row_groups_are_what_pyarrow_tells(compression: str, rows: int, dictionary: bool) -> None:
    raw = written(compression=compression, row_group_size=rows, use_dictionary=dictionary)
    assert row_groups(io.BytesIO(raw)) == told(raw)
    assert [chunk.codec for group in told(raw) for chunk in group].count(compression) == 5 * -(-3 // rows)


def test_pages_hold_each_value_once() -> None:
    table = pa.table({"text": [f"{number:010}" for number in range(20_000)]})
    raw = written(table, data_page_size=1 << 12, data_page_version="2.0", row_group_size=7_000)
    stream = io.BytesIO(raw)
    for group in row_groups(stream):
        found = [page for chunk in group for page in pages(stream, chunk)]
        assert len(found) > 3
        assert sum(page.values for page in found if not page.dictionary) == group[0].values


def test_a_file_keeps_its_compression(tmp_path: Path) -> None:
    for name in ("none", "gzip", "lz4"):
        path = tmp_path / f"{name}.parquet"
        path.write_bytes(written(compression=name))
        assert compression_of(path) == name
    path.write_bytes(written(TABLE.slice(0, 0)))
    assert compression_of(path) == "snappy"


def test_a_schema_that_fits_no_statistics_is_declined(tmp_path: Path) -> None:
    """Asked for such a column's metadata, pyarrow throws where nothing catches, and the process is gone."""
    raw = written(pa.table({"text": ["a", "b", None]}), store_schema=False)
    name = raw.rindex(b"\x25\x02\x18\x04text", 0, raw.rindex(b"\x04text"))
    path = tmp_path / "in.parquet"
    path.write_bytes(raw[: name + 1] + b"\x00" + raw[name + 2 :])
    with pytest.raises(PlantingError, match="damaged after row 0 .Definition level histogram size mismatch"):
        list(parquet_batches(path))


def test_a_column_whose_name_is_no_text_is_declined(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    path.write_bytes(written(pa.table({"text": ["a"]}), store_schema=False).replace(b"\x04text", b"\x04t\xc0xt"))
    with pytest.raises(PlantingError, match="in.parquet: not a parquet file .*utf-8"):
        list(parquet_batches(path))


@given(st.binary(max_size=60), st.integers(0, 300), st.integers(0, 60))
def test_damaged_footers_are_value_errors(noise: bytes, start: int, cut: int) -> None:
    raw = written(pa.table({"text": ["a"]}))
    length = int.from_bytes(raw[-8:-4], "little")
    footer = raw[-8 - length : -8]
    footer = footer[:start] + noise + footer[start + cut :]
    stream = io.BytesIO(raw[: -8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    try:
        found = row_groups(stream)
        for chunk in (chunk for group in found for chunk in group):
            list(pages(stream, chunk))
    except ValueError:
        return
    assert all(isinstance(chunk.path, str) for group in found for chunk in group)


@pytest.mark.parametrize("raw", [b"", b"PAR1", b"\xff" * 12, b"\x00" * 8, b"\x19\x1c" * 20 + b"\x28\x00\x00\x00PAR1"])
def test_what_has_no_footer_is_a_value_error(raw: bytes) -> None:
    with pytest.raises(ValueError, match="damaged|ends in"):
        row_groups(io.BytesIO(raw))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("data.parquet", r"damaged after row 0 \(a text is not UTF-8\): check the file"),
        ("folder", "cannot be loaded by 'datasets' .*Invalid UTF8.*: save it again"),
    ],
)
def test_text_that_is_not_utf_8_is_one_line(tmp_path: Path, name: str, said: str) -> None:
    # Arrow writes, and reads, whatever bytes there are.
    ends, letters = struct.pack("<3i", 0, 4, 6), b"good\xbf\xff"
    texts = pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(ends), pa.py_buffer(letters)])
    table, source = pa.table({"text": texts}), tmp_path / name
    if name == "folder":
        datasets.Dataset(table).save_to_disk(source)
    else:
        pq.write_table(table, source)
    kind, wanted = format_of(source), Columns()
    with pytest.raises(PlantingError, match=said):
        list(kind.texts(source, kind.survey(source, wanted), wanted))
