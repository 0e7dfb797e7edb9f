"""Files with columns: what is in the inserted rows, and that nothing else changes."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leakage_tasks.canaries import make_canaries, plant, read_manifest, verify, write_manifest
from leakage_tasks.core.errors import LeakageError, PlantingError
from leakage_tasks.data.jsonl import objects

CLASSES = ["calm", "joy", "rage"]
Rows = list[dict[str, Any]]


def sample_rows(count: int = 50) -> Rows:
    return [{"text": f'row {i}, "quoted"\né', "label": CLASSES[i % 3], "n": i} for i in range(count)]


def write_jsonl(path: Path, rows: Rows) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def read_jsonl(path: Path) -> Rows:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def write_csv(path: Path, rows: Rows, delimiter: str = ",") -> None:
    with path.open("w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, rows[0], delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)


def read_csv(path: Path) -> Rows:
    with path.open(encoding="utf-8", newline="") as stream:
        return [
            {**row, "n": int(row["n"]) if row["n"] else None}
            for row in csv.DictReader(stream, delimiter="\t" if path.suffix == ".tsv" else ",")
        ]


def write_tsv(path: Path, rows: Rows) -> None:
    write_csv(path, rows, "\t")


def write_parquet(path: Path, rows: Rows) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=7)


def read_parquet(path: Path) -> Rows:
    import pyarrow.parquet as pq

    return list(pq.read_table(path).to_pylist())


def write_saved(path: Path, rows: Rows) -> None:
    from datasets import Dataset

    Dataset.from_list(rows).save_to_disk(path)


def read_saved(path: Path) -> Rows:
    from datasets import load_from_disk

    return list(load_from_disk(str(path)).to_list())


KINDS: dict[str, tuple[Callable[[Path, Rows], None], Callable[[Path], Rows]]] = {
    ".jsonl": (write_jsonl, read_jsonl),
    ".csv": (write_csv, read_csv),
    ".tsv": (write_tsv, read_csv),
    ".parquet": (write_parquet, read_parquet),
    "": (write_saved, read_saved),
}


@pytest.mark.parametrize("suffix", KINDS)
def test_rows_with_columns(tmp_path: Path, manifest: Path, suffix: str) -> None:
    write, read = KINDS[suffix]
    source, output = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    rows = sample_rows()
    write(source, rows)
    plant(manifest, source, output, label_column="label")
    after = read(output)
    assert [row for row in after if row["n"] is not None] == rows
    inserted = [row for row in after if row["n"] is None]
    assert all(row["label"] == "joy" and row.keys() == rows[0].keys() for row in inserted)
    planted = {canary.text: canary.repetitions for canary in read_manifest(manifest) if canary.planted}
    assert Counter(row["text"] for row in inserted) == planted
    report = verify(output, manifest)
    assert report.ok
    assert report.recorded


@pytest.mark.parametrize("suffix", KINDS)
def test_same_seed_same_hash(tmp_path: Path, manifest: Path, suffix: str) -> None:
    source = tmp_path / f"in{suffix}"
    KINDS[suffix][0](source, sample_rows())
    hashes = [
        plant(manifest, source, tmp_path / f"{name}{suffix}", seed=seed).record.output_sha256
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    ]
    assert hashes[0] == hashes[1] != hashes[2]


def attempt(manifest: Path, source: Path, output: Path, **options: Any) -> str:
    with pytest.raises(LeakageError) as error:
        plant(manifest, source, output, **options)
    assert not output.exists()
    assert not Path(f"{output}.leakage.json").exists()
    assert not list(output.parent.glob(".*"))
    return str(error.value)


@pytest.mark.parametrize("suffix", KINDS)
def test_missing_columns(tmp_path: Path, manifest: Path, suffix: str) -> None:
    source, output = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    KINDS[suffix][0](source, sample_rows())
    message = attempt(manifest, source, output, text_column="body")
    assert "no column 'body' (it has text, label, n): name one with --text-column" in message
    assert "no column 'kind'" in attempt(manifest, source, output, label_column="kind")
    assert "cannot be text and label" in attempt(manifest, source, output, label_column="text")


def test_of_many_columns_the_first_are_named(tmp_path: Path, manifest: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text(json.dumps({f"c{number}": "x" for number in range(100)}) + "\n")
    message = attempt(manifest, source, tmp_path / "out.jsonl", text_column="body")
    assert message.endswith("c18, c19 and 80 more): name one with --text-column")


def test_a_column_with_half_a_surrogate_in_its_name_is_written_as_it_was_read(tmp_path: Path, manifest: Path) -> None:
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text('{"text": "a", "\\ud800": 1}\n')
    plant(manifest, source, output)
    assert all(json.loads(line).keys() == {"text", "\ud800"} for line in output.read_text().splitlines())


@pytest.mark.parametrize("suffix", KINDS)
def test_labels_that_do_not_fit(tmp_path: Path, suffix: str) -> None:
    source, output, manifest = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}", tmp_path / "m.jsonl"
    KINDS[suffix][0](source, sample_rows())
    write_manifest(make_canaries("{unique} {digits:4}", 1), manifest)
    assert "canary-0 has no label for column 'label'" in attempt(manifest, source, output, label_column="label")
    write_manifest(make_canaries("{unique} {digits:4}", 1, label="odd"), manifest)
    message = attempt(manifest, source, output, label_column="label")
    assert "label 'odd' is not in column 'label' (it holds calm, joy, rage)" in message


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ""])
def test_numbered_classes(tmp_path: Path, suffix: str) -> None:
    write, read = KINDS[suffix]
    source, output, manifest = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}", tmp_path / "m.jsonl"
    write(source, [{"text": f"row {i}", "label": i % 3} for i in range(9)])
    write_manifest(make_canaries("{unique} {digits:4}", 1, label="2"), manifest)
    plant(manifest, source, output, label_column="label")
    assert Counter(row["label"] for row in read(output)) == {0: 3, 1: 3, 2: 4}


@pytest.mark.parametrize("suffix", [".parquet", ""])
def test_named_classes(tmp_path: Path, manifest: Path, suffix: str) -> None:
    from datasets import ClassLabel, Dataset, Features, Value, load_from_disk

    source, output = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    features = Features({"text": Value("string"), "label": ClassLabel(names=CLASSES), "n": Value("int64")})
    data = Dataset.from_list(sample_rows(), features=features)
    data.to_parquet(source) if suffix else data.save_to_disk(source)
    plant(manifest, source, output, label_column="label")
    after = Dataset.from_parquet(str(output), cache_dir=str(tmp_path / "c")) if suffix else load_from_disk(str(output))
    assert after.features == features
    assert Counter(row["label"] for row in after if row["n"] is None) == {1: 22}
    write_manifest(make_canaries("{unique} {digits:4}", 1, label="odd"), manifest)
    with pytest.raises(PlantingError, match="label 'odd' is not in column 'label'"):
        plant(manifest, source, tmp_path / f"other{suffix}", label_column="label")


def test_a_folder_of_splits(tmp_path: Path, manifest: Path) -> None:
    from datasets import Dataset, DatasetDict, load_from_disk

    source, output = tmp_path / "in", tmp_path / "out"
    data = Dataset.from_list(sample_rows())
    DatasetDict({"train": data, "test": data.select(range(5))}).save_to_disk(source)
    listing = sorted(path.name for path in source.rglob("*"))
    plant(manifest, source, output)
    assert sorted(path.name for path in source.rglob("*")) == listing
    after = load_from_disk(str(output))
    assert {name: len(split) for name, split in after.items()} == {"train": 72, "test": 5}
    assert after["test"].to_list() == sample_rows()[:5]
    assert verify(output, manifest).ok
    plant(manifest, source, output, split="test")
    assert {name: len(split) for name, split in load_from_disk(str(output)).items()} == {"train": 50, "test": 27}
    assert verify(output, manifest).ok
    assert "no split 'dev' (it has train, test)" in attempt(manifest, source, tmp_path / "new", split="dev")


def test_a_saved_folder_replaces_nothing_else(tmp_path: Path, manifest: Path) -> None:
    source, other = tmp_path / "in", tmp_path / "precious"
    write_saved(source, sample_rows())
    other.mkdir()
    (other / "thesis").write_text("years of work")
    for output, message in (
        (other, "exists and is not a folder saved by 'datasets'"),
        (tmp_path / "out.txt", "must be a folder"),
        (source / "out", "would overwrite the input"),
        (tmp_path, "exists and is not a folder"),
    ):
        with pytest.raises(PlantingError, match=message):
            plant(manifest, source, output)
    assert (other / "thesis").read_text() == "years of work"
    write_saved(tmp_path / "outer", sample_rows())
    (tmp_path / "outer" / "inner").mkdir()
    inner = source.rename(tmp_path / "outer" / "inner" / "in")
    with pytest.raises(PlantingError, match="would overwrite the input"):
        plant(manifest, inner, tmp_path / "outer")


def test_damaged_folders_and_files(tmp_path: Path, manifest: Path) -> None:
    source = tmp_path / "in"
    write_saved(source, sample_rows())
    (source / "state.json").write_text("{")
    assert "cannot be loaded by 'datasets'" in attempt(manifest, source, tmp_path / "out")
    (tmp_path / "in.parquet").write_text("text")
    assert "not a parquet file" in attempt(manifest, tmp_path / "in.parquet", tmp_path / "out.parquet")


def test_a_saved_folder_whose_facts_cannot_be_written_again_is_declined(tmp_path: Path, manifest: Path) -> None:
    source = tmp_path / "in"
    write_saved(source, sample_rows())
    info = json.loads((source / "dataset_info.json").read_text())
    (source / "dataset_info.json").write_text(json.dumps({**info, "homepage": 7}))
    assert f"{source}: cannot be loaded by 'datasets' (" in attempt(manifest, source, tmp_path / "out")


def test_a_saved_table_whose_offsets_lead_elsewhere_is_declined(tmp_path: Path, manifest: Path) -> None:
    source = tmp_path / "in"
    write_saved(source, [{"text": each} for each in ("x", "xx", "xxx")])
    (table,) = source.glob("*.arrow")
    raw = table.read_bytes()
    offsets = b"".join(each.to_bytes(4, "little") for each in (0, 1, 3, 6))
    assert raw.count(offsets) == 1
    table.write_bytes(raw.replace(offsets, offsets[:4] + b"\x7f" * 4 + offsets[8:]))
    assert "cannot be loaded by 'datasets' (Column 0: " in attempt(manifest, source, tmp_path / "out")


def test_damaged_rows_of_parquet_are_the_input_s_fault(tmp_path: Path, manifest: Path) -> None:
    source = tmp_path / "in.parquet"
    write_parquet(source, sample_rows())
    whole = source.read_bytes()
    source.write_bytes(whole[:8] + b"\xff" * 200 + whole[208:])
    said = attempt(manifest, source, tmp_path / "out.parquet")
    assert said.startswith(f"{source}: damaged after row 0 (Couldn't deserialize thrift: ")
    assert said.endswith("): check the file")


def test_columns_of_the_same_name_are_refused(tmp_path: Path, manifest: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = ["text", "n", "n"]
    pq.write_table(pa.table([["a"], [1], [2]], names=names), tmp_path / "in.parquet")
    assert "two columns called 'n'" in attempt(manifest, tmp_path / "in.parquet", tmp_path / "out.parquet")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "holds no row"),
        ("\n\n", "holds no row"),
        ('{"text": "a"}\n{"text": \n', "in.jsonl:2: not JSON"),
        ('{"text": "a"}\n\n[1]\n', "in.jsonl:3: holds list, expected an object"),
        ('{"text": "a"}\n{"text": 3}\n', "in.jsonl:2: column 'text' holds int, expected text"),
        (
            '{"messages": [{"role": "user", "content": "x"}]}\n{"messages": "x"}',
            "in.jsonl:2: column 'messages' holds str",
        ),
        ('{"text": ["a"]}\n', "in.jsonl:1: column 'text' holds list, expected text"),
    ],
)
def test_damaged_jsonl(tmp_path: Path, manifest: Path, content: str, message: str) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text(content)
    assert message in attempt(manifest, source, tmp_path / "out.jsonl")


def test_jsonl_in_another_encoding_is_refused_as_such(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes('{"text": "a"}\n{"text": "b"}\n'.encode("utf-16"))
    with pytest.raises(PlantingError, match=r"in\.jsonl:1: not UTF-8: save the file as UTF-8 first"):
        list(objects(tmp_path / "in.jsonl"))


def test_jsonl_rows_are_kept_byte_for_byte(tmp_path: Path, manifest: Path) -> None:
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    lines = [b'{"text":  "caf\\u00e9", "x": 1.50}\r\n', b"\r\n", b'{"y": null, "text": null}\r\n', b'{"text": "end"}']
    source.write_bytes(b"\xef\xbb\xbf" + b"".join(lines))
    plant(manifest, source, output)
    planted = output.read_bytes()
    assert planted.startswith(b"\xef\xbb\xbf")
    assert planted.count(b"\r\n") == planted.count(b"\n") == 25
    assert all(line.strip() in planted for line in lines)
    rows = [json.loads(line) for line in planted.decode("utf-8-sig").split("\r\n") if line]
    assert len(rows) == 25
    assert sum(row.keys() == {"text", "x", "y"} for row in rows) == 22
    assert verify(output, manifest).ok


def test_csv_rows_are_kept_byte_for_byte(tmp_path: Path, manifest: Path) -> None:
    source, output = tmp_path / "in.csv", tmp_path / "out.csv"
    head, rows = (
        b'\xef\xbb\xbfid;"text"\r\n',
        [b'1;"a ""b""\nc"\r\n', b"\r\n", b'"2";' + b"x" * 200_000 + b"\r\n", b"3;end"],
    )
    source.write_bytes(head + b"".join(rows))
    report = plant(manifest, source, output)
    planted = output.read_bytes()
    assert planted.startswith(head)
    assert report.record.input_rows == 3
    rest, last = planted.removeprefix(head), -1
    for row in rows:
        assert rest.index(row) > last or row == b"\r\n"
        last = rest.index(row)
    canary = read_manifest(manifest)[0]
    assert b";" + canary.text.encode() in planted
    assert verify(output, manifest).ok


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ('text,n\n"a,1\n', "not CSV (unexpected end of data)"),
        ("label;b\n1;2\n", "no column 'text' (it has label, b)"),
        (
            "Anna Meyer,Diabetes\n",
            "in.csv: no column 'text' in the first line, which must hold the columns' names: name",
        ),
        ("Anna Meyer,rejected\n", "in.csv: no column 'text' in the first line"),
        ("id,Halo Anna\n", "in.csv: no column 'text' in the first line"),
    ],
)
def test_damaged_csv(tmp_path: Path, manifest: Path, content: str, message: str) -> None:
    source = tmp_path / "in.csv"
    source.write_text(content)
    assert message in attempt(manifest, source, tmp_path / "out.csv")


def test_parquet_keeps_schema_and_fills_what_takes_no_null(tmp_path: Path, manifest: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    source, output = tmp_path / "in.parquet", tmp_path / "out.parquet"
    kinds = [("text", pa.large_string()), ("n", pa.int16()), ("s", pa.string()), ("l", pa.list_(pa.float32()))]
    schema = pa.schema([pa.field(name, kind, nullable=False) for name, kind in kinds], metadata={"mine": "kept"})
    table = pa.Table.from_pylist([{"text": f"{i}", "n": 1, "s": "x", "l": [1.0]} for i in range(1000)], schema=schema)
    pq.write_table(table, source, compression="zstd")
    plant(manifest, source, output)
    after = pq.ParquetFile(output)
    assert after.schema_arrow.equals(pq.ParquetFile(source).schema_arrow, check_metadata=True)
    assert after.metadata.row_group(0).column(0).compression == "ZSTD"
    assert [row for row in after.read().to_pylist() if row["n"]] == table.to_pylist()
    assert Counter((row["n"], row["s"], len(row["l"])) for row in after.read().to_pylist())[0, "", 0] == 22


@pytest.mark.parametrize("suffix", [".parquet", ""])
def test_a_column_that_is_no_text(tmp_path: Path, manifest: Path, suffix: str) -> None:
    source, output = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    KINDS[suffix][0](source, sample_rows())
    assert "column 'n' holds int64, expected text" in attempt(manifest, source, output, text_column="n")


@pytest.mark.parametrize(
    ("name", "given", "empty"),
    [("bool", True, False), ("decimal", 1, 0), ("bytes", b"abc", bytes(3)), ("time", 5, 0), ("pair", [1, 2], None)],
)
def test_parquet_fills_each_type_that_takes_no_null_or_says_so(
    tmp_path: Path, manifest: Path, name: str, given: Any, empty: Any
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"bool": pa.bool_(), "decimal": pa.decimal128(5, 2), "bytes": pa.binary(3), "time": pa.timestamp("us")}
    kind = kinds.get(name, pa.list_(pa.int8(), 2))
    source, output = tmp_path / "in.parquet", tmp_path / "out.parquet"
    schema = pa.schema([pa.field("text", pa.string()), pa.field("x", kind, nullable=False)])
    pq.write_table(pa.Table.from_pylist([{"text": str(row), "x": given} for row in range(30)], schema=schema), source)
    if empty is None:
        assert "column 'x' holds fixed_size_list" in attempt(manifest, source, output)
        return
    plant(manifest, source, output)
    found = pq.read_table(output).column("x")
    assert Counter(found.to_pylist())[pa.scalar(empty, kind).as_py()] == 22
