"""Parquet files of a data set of the hub: the rows that 'datasets' gives, by a way that reads ahead of nobody."""

from __future__ import annotations

import zipfile
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leakage_tasks.canaries import plant, verify
from leakage_tasks.data.streamed import parquet_files, tables_of
from tests.canaries.conftest import manifest as manifest

CARD = """---
configs:
- config_name: default
  data_files: train-*.parquet
{more}
---
"""


def make(folder: Path, more: str = "") -> Path:
    """Two files of 700 rows, of which the second lacks a column."""
    folder.mkdir()
    (folder / "README.md").write_text(CARD.format(more=more))
    for part in range(2):
        columns = {"text": [f"text {part}-{row}" for row in range(700)], "n": list(range(700))}
        columns |= {"tag": ["a"] * 700} if part == 0 else {}
        pq.write_table(pa.table(columns), folder / f"train-{part}.parquet", row_group_size=300)
    return folder


def own_rows(folder: Path) -> list[dict[str, object]]:
    tables = [pq.read_table(path) for path in sorted(folder.glob("*.parquet"))]
    return [row for row in pa.concat_tables(tables).to_pylist() if row["text"].startswith("text ")]


@pytest.mark.parametrize("more", ["", "  columns: [n, text]", "  filters: [[n, '<', 10]]"])
def test_rows_are_those_that_datasets_streams(tmp_path: Path, manifest: Path, more: str) -> None:
    folder = make(tmp_path / "texts", more)
    plant(manifest, Path(f"hub:{folder}"), tmp_path / "out")
    expected = list(datasets.load_dataset(str(folder), split="train", streaming=True))
    assert own_rows(tmp_path / "out") == expected
    assert verify(Path(f"hub:{tmp_path / 'out'}"), manifest).rows == len(expected) + 22


@pytest.mark.parametrize(("more", "many"), [("", 2), ("  columns: [n, text]", 0)])
def test_files_are_read_where_the_card_selects_nothing_of_them(tmp_path: Path, more: str, many: int) -> None:
    builder = datasets.load_dataset_builder(str(make(tmp_path / "texts", more)))
    assert len(parquet_files(builder, "train")) == many


def test_other_files_are_streamed(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text('{"text": "a"}\n')
    assert parquet_files(datasets.load_dataset_builder(str(tmp_path)), "train") == []


def test_a_file_at_an_address(tmp_path: Path) -> None:
    path = make(tmp_path / "texts") / "train-0.parquet"
    with zipfile.ZipFile(tmp_path / "texts.zip", "w") as packed:
        packed.write(path, "train.parquet")
    tables = list(tables_of(f"zip://train.parquet::{tmp_path / 'texts.zip'}", "tag"))
    assert max(map(len, tables)) <= 256
    assert pa.concat_tables(tables).equals(pq.read_table(path, columns=["tag"]))


def test_large_rows_come_a_few_at_a_time(tmp_path: Path) -> None:
    texts = [chr(65 + row) * 4_000_000 for row in range(24)]
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet", use_dictionary=False)
    tables = list(tables_of(str(tmp_path / "a.parquet"), None))
    assert max(map(len, tables)) == 8
    assert pa.concat_tables(tables).column("text").to_pylist() == texts


def test_a_column_that_a_file_lacks_is_in_no_table(tmp_path: Path) -> None:
    tables = list(tables_of(str(make(tmp_path / "texts") / "train-1.parquet"), "tag"))
    assert [table.column_names for table in tables] == [[]] * len(tables)
    assert sum(map(len, tables)) == 700
