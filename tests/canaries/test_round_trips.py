"""Whatever the data hold, planting and taking out again gives them back: bytes of lines, rows and schema of columns."""

from __future__ import annotations

import datetime
import decimal
import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from leakage_tasks.canaries import make_canaries, plant, verify, write_manifest
from leakage_tasks.canaries.unplant import remove
from tests.canaries.test_shards import read_table, unpack

FEW = settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
ODD = ["a", "é", "😀", "\u2028", "\x85", "\x0b", "\x0c", "\t", '"', "\\", "\\n", "\ufeff", "\r", " ", "\0", "{", ","]
TEXTS = st.lists(st.sampled_from(ODD), max_size=6).map("".join)
PACKED = st.lists(st.integers(0, 60), max_size=3)
PACKINGS = st.sampled_from(["", ".gz", ".zst"])


@pytest.fixture(scope="module")
def canaries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some of one line, which stand often enough to meet in gaps, and at both ends."""
    path = tmp_path_factory.mktemp("canaries") / "canaries.jsonl"
    write_manifest(make_canaries("The é of {unique} is {digits:4}.", 3, repetitions=(1, 4), controls=1, seed=1), path)
    return path


def packed(content: bytes, cuts: list[int], ending: str) -> bytes:
    """Packed as so many members or frames, some of nothing."""
    places = sorted({min(cut, len(content)) for cut in cuts})
    parts = [content[start:end] for start, end in zip([0, *places], [*places, len(content)], strict=True)]
    if ending == "gz":
        return b"".join(map(gzip.compress, parts))
    return b"".join(pa.compress(part, "zstd", asbytes=True) for part in parts)


def there_and_back(canaries: Path, source: Path, seed: int) -> Path:
    planted, back = (source.with_name(f"{name}-{source.name}") for name in ("planted", "back"))
    plant(canaries, source, planted, seed=seed)
    report = verify(planted, canaries)
    assert report.ok, report.problems
    remove(planted, back)
    return back


def check_bytes(canaries: Path, content: bytes, ending: str, cuts: list[int], seed: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        source, (_, _, packing) = Path(name) / f"in.{ending}", ending.partition(".")
        source.write_bytes(packed(content, cuts, packing) if packing else content)
        assert unpack(there_and_back(canaries, source, seed)) == content


@st.composite
def line_files(draw: st.DrawFn, rows: st.SearchStrategy[str], blank: list[str]) -> bytes:
    """Lines, some of them blank, with endings of both kinds, or none at the end, after a byte order mark or not."""
    lines = draw(st.lists(st.one_of(rows, st.sampled_from(blank)), max_size=8))
    ends = [draw(st.sampled_from(["\n", "\r\n"])) for _ in lines]
    if lines and draw(st.booleans()):
        ends[-1] = ""
    mark = draw(st.sampled_from(["", "\ufeff"]))
    return (mark + "".join(line + end for line, end in zip(lines, ends, strict=True))).encode()


@FEW
@given(line_files(TEXTS, [""]), PACKINGS, PACKED, st.integers(0, 9))
@example(b"", ".gz", [], 0)
@example(b"\xef\xbb\xbf", ".zst", [1], 0)
@example(b"a\r\nb\nc\r", ".gz", [2, 3], 1)
@example(b"a\r", "", [], 2)
@example(b"a\n\nb\n", ".zst", [], 3)
@example("é\u2028x\nü".encode(), ".gz", [], 3)
def test_lines_of_text(canaries: Path, content: bytes, packing: str, cuts: list[int], seed: int) -> None:
    check_bytes(canaries, content, f"txt{packing}", cuts, seed)


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(10**30), 10**30), st.floats(allow_nan=False), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=5,
)


@st.composite
def json_rows(draw: st.DrawFn, text: st.SearchStrategy[Any]) -> str:
    """An object with a text, its keys in any order, spaced and escaped as nobody would."""
    row = {"text": draw(text), "n": draw(VALUES), **draw(st.dictionaries(TEXTS, VALUES, max_size=2))}
    row["text"] = row["text"] if isinstance(row["text"], str | None) else "x"
    names = draw(st.permutations(list(row)))
    gaps = draw(st.sampled_from([(",", ":"), (" ,\t", " :  "), (", ", ": ")]))
    line = json.dumps({name: row[name] for name in names}, ensure_ascii=draw(st.booleans()), separators=gaps)
    around = draw(st.sampled_from([("", ""), (" ", "\t"), ("\t", "")]))
    return around[0] + line + around[1]


@st.composite
def json_files(draw: st.DrawFn) -> bytes:
    """Rows after a first one with a text, and blank lines anywhere."""
    first = draw(json_rows(TEXTS))
    rest = draw(line_files(json_rows(st.one_of(TEXTS, st.none())), ["", " ", "\t"]))
    before = draw(st.sampled_from(["", "\n", " \r\n", "\ufeff"]))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    return (before + first + end).encode() + rest.removeprefix(b"\xef\xbb\xbf")


@pytest.mark.slow
@FEW
@given(json_files(), PACKINGS, PACKED, st.integers(0, 9))
@example(b'{"text": "a", "text": "b", "n": 1e400}', ".gz", [3], 0)
@example(b'{"text": "\\ud800", "n": 12345678901234567890123456789}\r\n\r\n{"text": null}', ".zst", [9, 30], 1)
@example(b'\n\n{"text": ""}\n\n', "", [], 2)
def test_json_lines(canaries: Path, content: bytes, packing: str, cuts: list[int], seed: int) -> None:
    check_bytes(canaries, content, f"jsonl{packing}", cuts, seed)


@FEW
@given(
    st.lists(st.lists(TEXTS.map(lambda text: text.replace("\0", "")), min_size=2, max_size=2), max_size=5),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    PACKINGS,
    PACKED,
    st.integers(0, 9),
)
def test_comma_separated(
    canaries: Path, rows: list[list[str]], end: str, finished: bool, packing: str, cuts: list[int], seed: int
) -> None:
    cells = [",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in rows]
    content = end.join(["text,other", *cells]) + end * finished
    check_bytes(canaries, content.encode(), f"csv{packing}", cuts, seed)


NESTED = pa.struct({"a": pa.list_(pa.struct({"b": pa.int64()})), "c": pa.map_(pa.string(), pa.float64())})
COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "big": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "unsigned": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "exact": (pa.decimal128(38, 3), st.integers(-(10**20), 10**20).map(decimal.Decimal)),
    "when": (pa.timestamp("us", "UTC"), st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1))),
    "bytes": (pa.binary(), st.binary(max_size=4)),
    "fixed": (pa.binary(3), st.binary(min_size=3, max_size=3)),
    "large": (pa.large_string(), TEXTS),
    "kind": (pa.dictionary(pa.int32(), pa.string()), st.sampled_from(["x", "y", "z"])),
    "lists": (pa.list_(pa.list_(pa.string())), st.lists(st.lists(TEXTS, max_size=2), max_size=2)),
    "nested": (
        NESTED,
        st.fixed_dictionaries(
            {
                "a": st.one_of(st.none(), st.lists(st.fixed_dictionaries({"b": st.integers(0, 9)}), max_size=2)),
                "c": st.lists(st.tuples(TEXTS, st.floats(allow_nan=False)), max_size=2, unique_by=lambda pair: pair[0]),
            }
        ),
    ),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """A text and some columns of other types, with nulls, metadata of both kinds, in any order."""
    rows = draw(st.integers(0, 12))
    cells = {"text": draw(st.lists(st.one_of(st.none(), TEXTS), min_size=rows, max_size=rows))}
    fields = [pa.field("text", pa.string(), metadata={"of": "us"} if draw(st.booleans()) else None)]
    for name in draw(st.lists(st.sampled_from(sorted(COLUMNS)), max_size=4, unique=True)):
        kind, values = COLUMNS[name]
        barred = draw(st.booleans()) and name in ("big", "bytes", "large", "lists")
        some = values if barred else st.one_of(st.none(), values)
        cells[name] = draw(st.lists(some, min_size=rows, max_size=rows))
        fields.append(pa.field(name, kind, nullable=not barred))
    fields = draw(st.permutations(fields))
    schema = pa.schema(fields, metadata={"by": "us", "é": "\n"} if draw(st.booleans()) else None)
    return pa.Table.from_arrays([pa.array(cells[field.name], field.type) for field in schema], schema=schema)


def check_rows(canaries: Path, source: Path, how: str, seed: int) -> None:
    before, after = read_table(source, how), read_table(there_and_back(canaries, source, seed), how)
    assert after.schema.equals(before.schema, check_metadata=True)
    # Of equal rows the dictionaries may differ, chunk by chunk.
    assert after.to_pylist() == before.to_pylist()


@pytest.mark.slow
@FEW
@given(
    tables(),
    st.sampled_from(["snappy", "zstd", "gzip", "none"]),
    st.integers(1, 7),
    st.booleans(),
    st.sampled_from(["1.0", "2.0"]),
    st.booleans(),
    st.integers(0, 9),
)
def test_parquet(
    canaries: Path,
    rows: pa.Table,
    codec: str,
    group: int,
    dictionaries: bool,
    pages: str,
    with_schema: bool,
    seed: int,
) -> None:
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "in.parquet"
        pq.write_table(
            rows,
            source,
            compression=codec,
            row_group_size=group,
            use_dictionary=dictionaries,
            data_page_version=pages,
            store_schema=with_schema,
        )
        check_rows(canaries, source, "parquet", seed)


@pytest.mark.slow
@FEW
@given(tables(), st.sampled_from(["file", "stream"]), st.integers(1, 7), st.integers(0, 9))
def test_arrow(canaries: Path, rows: pa.Table, how: str, group: int, seed: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "in.arrow"
        with (pa.ipc.new_file if how == "file" else pa.ipc.new_stream)(str(source), rows.schema) as writer:
            writer.write_table(rows, max_chunksize=group)
        check_rows(canaries, source, how, seed)
