"""Parquet files: large rows in bounded memory, the compression of a copy, and damaged files."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.core.errors import PlantingError
from leakage_tasks.data import Columns, format_of
from leakage_tasks.data.parquet import compression_of, parquet_batches

TURNS = [[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], [], None]
TABLE = pa.table({"text": ["one", None, "three"], "label": [0, 1, 2], "x.y": [0.5, 1.5, None], "messages": TURNS})


def written(table: pa.Table = TABLE, **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return out.getvalue()


def test_a_file_keeps_its_compression(tmp_path: Path) -> None:
    for name in ("none", "gzip", "lz4"):
        path = tmp_path / f"{name}.parquet"
        path.write_bytes(written(compression=name))
        assert compression_of(path) == name
    path.write_bytes(written(TABLE.slice(0, 0)))
    assert compression_of(path) == "snappy"


def test_a_schema_that_fits_no_statistics_is_declined(tmp_path: Path) -> None:
    """The reader raises an error for such a column, whereas a request for its metadata ends the process."""
    raw = written(pa.table({"text": ["a", "b", None]}), store_schema=False)
    name = raw.rindex(b"\x25\x02\x18\x04text", 0, raw.rindex(b"\x04text"))
    path = tmp_path / "in.parquet"
    path.write_bytes(raw[: name + 1] + b"\x00" + raw[name + 2 :])
    with pytest.raises(PlantingError, match="damaged after row 0 "):
        list(parquet_batches(path))


def test_a_column_whose_name_is_no_text_is_declined(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    path.write_bytes(written(pa.table({"text": ["a"]}), store_schema=False).replace(b"\x04text", b"\x04t\xc0xt"))
    with pytest.raises(PlantingError, match="in.parquet: not a parquet file .*utf-8"):
        list(parquet_batches(path))


@pytest.mark.parametrize("raw", [b"", b"PAR1", b"\xff" * 12, b"\x00" * 8, b"\x19\x1c" * 20 + b"\x28\x00\x00\x00PAR1"])
def test_a_file_without_a_footer_is_one_line(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "in.parquet"
    path.write_bytes(raw)
    with pytest.raises(PlantingError, match=r"in.parquet: not a parquet file .*: check the file$"):
        list(parquet_batches(path))


@pytest.mark.parametrize("column", [None, "text"])
def test_large_rows_are_read_a_few_at_a_time(tmp_path: Path, column: str | None) -> None:
    texts = [chr(65 + row) * 4_000_000 for row in range(24)]
    pq.write_table(pa.table({"text": texts}), tmp_path / "in.parquet", use_dictionary=False)
    batches = list(parquet_batches(tmp_path / "in.parquet", column))
    assert max(map(len, batches)) == 8
    assert [text for batch in batches for text in batch.column(0).to_pylist()] == texts


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


def test_a_text_column_of_type_null_has_its_own_remedy(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    for name in ("text", "messages"):
        path.write_bytes(written(pa.table({name: pa.nulls(2)})))
        with pytest.raises(PlantingError, match=f"column '{name}' has the type null, so no row has a value: choose "):
            format_of(path).survey(path, Columns())


def test_a_label_column_of_type_null_holds_no_label(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    path.write_bytes(written(pa.table({"text": ["a"], "label": pa.nulls(1)})))
    layout = format_of(path).survey(path, Columns(label="label"))
    canary = Canary("c", "pin {digits:2}", ("1", "2"), label="x")
    with pytest.raises(PlantingError, match=r"label 'x' is not in column 'label' \(it holds no label\)"):
        layout.row(canary)
