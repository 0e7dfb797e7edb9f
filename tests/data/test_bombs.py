"""Small files that hold gigabytes, and rows that never end: read in bounded memory, or declined in one line."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.data import Columns, format_of
from leakage_tasks.data.parquet import parquet_batches

ROOT = Path(__file__).resolve().parents[2]
MOST = 700
"""MiB that any of these may take; pyarrow, torch and transformers alone take up to 400."""


def write(path: Path, table: pa.Table, **options: object) -> Path:
    pq.write_table(table, path, compression="zstd", store_schema=False, **options)
    return path


def same_string(characters: int, rows: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array([0]).take(pa.array([0] * rows)).cast("int32"), ["Z" * characters])


@pytest.fixture(scope="module")
def strings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1.2 GB in 600 rows of two columns."""
    column = same_string(1_000_000, 600)
    return write(tmp_path_factory.mktemp("strings") / "in.parquet", pa.table({"text": column, "other": column}))


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from leakage_tasks.canaries import make_canaries, write_manifest

    path = tmp_path_factory.mktemp("manifest") / "canaries.jsonl"
    write_manifest(make_canaries("The pin of {unique} is {digits:4}.", 4, controls=4), path)
    return path


def peak(*words: str | Path, timeout: float = 300) -> tuple[int, str]:
    """MiB at most that ``leakage`` took, and what it printed."""
    code = (
        "import atexit, re, sys\nfrom pathlib import Path\nfrom leakage_tasks.cli import main\n"
        # ru_maxrss would start from the memory of the test process, which exec does not reset.
        "peak = lambda: re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1]\n"
        "atexit.register(lambda: print('peak', peak()))\nmain()"
    )
    command = [sys.executable, "-c", code, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=timeout)
    printed = done.stdout + done.stderr
    assert "Traceback" not in printed
    found = re.search(r"peak (\d+)", printed)
    assert found, printed
    return int(found[1]) // 1024, printed


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
class TestTheCommands:
    """Each reads a file of some hundred bytes that holds 1.2 GB, and takes little memory."""

    def test_plant_and_verify(self, strings: Path, manifest: Path, tmp_path: Path) -> None:
        assert strings.stat().st_size < 749
        planted = tmp_path / "out.parquet"
        assert peak("plant", manifest, strings, "-o", planted)[0] < MOST
        taken, printed = peak("verify", planted, manifest)
        assert taken < MOST
        assert "as planted; 4 copies in 604 rows" in printed

    def test_secrets_in_it(self, strings: Path, tmp_path: Path) -> None:
        taken, printed = peak("canaries", "--from-text", strings, "-o", tmp_path / "c.jsonl")
        assert taken < MOST
        assert "no secret of kind" in printed

    def test_sanitize(self, strings: Path, tmp_path: Path) -> None:
        taken, printed = peak("sanitize", strings, "-o", tmp_path / "out.parquet")
        assert taken < MOST
        assert "more than 100,000,000 characters" in printed
        assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_turns_of_a_dictionary_come_a_few_at_a_time(tmp_path: Path) -> None:
    content = same_string(1_000_000, 300)
    turns = pa.StructArray.from_arrays([pa.array(["user"] * 300), content], ["role", "content"])
    column = pa.ListArray.from_arrays(pa.array(range(0, 301, 10), pa.int32()), turns)
    path = write(tmp_path / "chat.parquet", pa.table({"messages": column}))
    batches = list(parquet_batches(path, "messages"))
    assert sum(map(len, batches)) == 30
    assert max(batch.nbytes for batch in batches) < 40 << 20
    layout = format_of(path).survey(path, Columns())
    assert len(next(format_of(path).texts(path, layout, Columns()))) == 10


def test_a_row_that_unpacks_to_gigabytes_is_declined(tmp_path: Path) -> None:
    turns = pa.StructArray.from_arrays([pa.array(["user"] * 2000), same_string(1_000_000, 2000)], ["role", "content"])
    path = write(tmp_path / "chat.parquet", pa.table({"messages": pa.ListArray.from_arrays([0, 2000], turns)}))
    with pytest.raises(PlantingError, match=r"row 1 takes 1,907 MiB, expected 256 at most: split the row$"):
        list(parquet_batches(path, "messages"))


def test_large_pages_of_ordinary_text_are_read(tmp_path: Path) -> None:
    import random

    text = random.Random(0).randbytes(35_000_000).hex()
    path = write(tmp_path / "page.parquet", pa.table({"text": [text, "b"]}), use_dictionary=False)
    assert [value for batch in parquet_batches(path, "text") for value in batch.column(0).to_pylist()] == [text, "b"]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary("int32", "string")])
def test_every_batch_has_the_schema_of_the_file(tmp_path: Path, kind: pa.DataType) -> None:
    schema = pa.schema([("text", kind), pa.field("n", pa.int8(), nullable=False), ("tags", pa.list_(pa.string()))])
    table = pa.table({"text": ["a", None, "b"] * 200, "n": [1] * 600, "tags": [["x"], [], None] * 200}).cast(schema)
    path = tmp_path / "in.parquet"
    pq.write_table(table, path, row_group_size=250)
    known = pq.read_schema(path)
    batches = list(parquet_batches(path))
    assert all(batch.schema == known for batch in batches)
    assert pa.Table.from_batches(batches).to_pylist() == table.to_pylist()


def test_damage_inside_a_page_is_one_line(tmp_path: Path) -> None:
    path = write(tmp_path / "in.parquet", pa.table({"text": [f"row {i}" for i in range(5000)]}))
    raw = bytearray(path.read_bytes())
    raw[60:2000] = bytes(1940)
    path.write_bytes(raw)
    with pytest.raises(PlantingError, match="check the file$"):
        list(parquet_batches(path, "text"))


@pytest.mark.parametrize("name", ["in.jsonl", "in.csv", "in.conll"])
def test_a_line_without_an_end_is_declined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("leakage_tasks.data.lines.LARGEST_ROW", 3 << 20)
    path = tmp_path / name
    path.write_text("text\n" + "a" * (5 << 20))
    with pytest.raises(PlantingError, match=r"has a line of \d MiB, expected less than 256: split the row$"):
        format_of(path).survey(path, Columns())


def test_a_field_without_a_closing_quote_is_declined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakage_tasks.data.commas.LARGEST_ROW", 1000)
    path = tmp_path / "in.csv"
    path.write_text('text\nfirst\n"second\n' + "third\n" * 1000)
    with pytest.raises(PlantingError, match=r"in.csv:3: a row of 256 MiB or more: close its quotes, or split it$"):
        format_of(path).survey(path, Columns())
