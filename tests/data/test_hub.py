"""Data sets as the library 'datasets' loads them: streamed, a split at a time, from folders laid out as on the hub."""

from __future__ import annotations

import json
import os
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leakage_tasks.canaries import plant, verify
from leakage_tasks.canaries.unplant import remove
from tests.canaries.conftest import manifest as manifest
from tests.canaries.killed import killed
from tests.conftest import Leakage, Ran, Refused

CARD = """---
configs:
- config_name: mails
  default: true
  data_files:
  - split: train
    path: mails/train-*.jsonl
  - split: test
    path: mails/test.jsonl
- config_name: notes
  data_files:
  - split: train
    path: notes/*
---
# Some texts
"""
ROWS = 30


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data set of two subsets, one of two splits, one of which is three files."""
    folder = tmp_path / "texts"
    for part in ("mails", "notes"):
        (folder / part).mkdir(parents=True)
    (folder / "README.md").write_text(CARD)
    for shard in range(3):
        rows = [{"text": f"mail {shard}-{row}", "n": row, "tags": ["a"] * (row % 3)} for row in range(ROWS)]
        (folder / "mails" / f"train-{shard}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "mails" / "test.jsonl").write_text('{"text": "held out", "n": 1, "tags": ["a"]}\n')
    (folder / "notes" / "a.jsonl").write_text('{"body": "first note"}\n{"body": "second, of two"}\n')
    return folder


def rows_of(folder: Path) -> pa.Table:
    return pa.concat_tables(pq.read_table(path) for path in sorted(folder.glob("*.parquet")))


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_split_is_planted_into_shards(
    tmp_path: Path, manifest: Path, data: Path, leakage: Leakage, ran: Ran, jobs: int
) -> None:
    out = tmp_path / "out"
    told, _ = ran("plant", manifest, f"hub:{data}", "-o", out, "--jobs", jobs)
    assert f"22 copies of 4 canaries among {3 * ROWS} rows of 'text'" in told
    assert sorted(path.name for path in out.iterdir()) == [f"train-{shard:05}-of-00003.parquet" for shard in range(3)]
    texts = rows_of(out).column("text").to_pylist()
    canaries = {"".join(json.loads(line)["secret"]) for line in manifest.read_text().splitlines()}
    own = [text for text in texts if not any(secret in text for secret in canaries)]
    assert own == [row["text"] for row in datasets.load_dataset(str(data), split="train", streaming=True)]
    assert len(texts) == len(own) + 22
    assert leakage("verify", out, manifest)[0] == 0
    record = json.loads((tmp_path / "out.leakage.json").read_text())
    assert record["input"].startswith(f"hub:{data}@")
    assert record["split"] == "train"
    assert not (tmp_path / "out.leakage-shards").exists()


def test_what_is_planted_loads_again_with_its_features(tmp_path: Path, manifest: Path, data: Path) -> None:
    plant(manifest, Path(f"hub:{data}"), tmp_path / "out")
    before = datasets.load_dataset(str(data), split="train", streaming=True)
    after = datasets.load_dataset(str(tmp_path / "out"), split="train", streaming=True)
    assert after.features == datasets.Features.from_arrow_schema(next(iter(before.with_format("arrow").iter(9))).schema)


def test_removing_gives_back_the_rows(tmp_path: Path, manifest: Path, data: Path) -> None:
    plant(manifest, Path(f"hub:{data}"), tmp_path / "out")
    remove(tmp_path / "out", tmp_path / "back")
    expected = datasets.load_dataset(str(data), split="train", streaming=True)
    assert rows_of(tmp_path / "back").to_pylist() == list(expected)


def test_subset_split_and_column(tmp_path: Path, manifest: Path, data: Path, leakage: Leakage, ran: Ran) -> None:
    command = ("plant", manifest, f"hub:{data}:notes", "-o", tmp_path / "out", "--text-column", "body")
    ran(*command)
    assert set(rows_of(tmp_path / "out").column("body").to_pylist()) > {"first note", "second, of two"}
    assert leakage("plant", manifest, f"hub:{data}", "-o", tmp_path / "test", "--split", "test")[0] == 0
    assert rows_of(tmp_path / "test").num_rows == 23


def test_a_folder_by_a_relative_path(
    tmp_path: Path, manifest: Path, data: Path, leakage: Leakage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert leakage("plant", manifest, "hub:./texts", "-o", "out")[0] == 0
    assert leakage("plant", manifest, "hub:texts", "-o", "other")[0] == 0
    assert rows_of(Path("out")).equals(rows_of(Path("other")))


@pytest.mark.slow
def test_verifying_a_stream(tmp_path: Path, manifest: Path, data: Path, leakage: Leakage) -> None:
    code, out, err = leakage("verify", f"hub:{data}", manifest)
    assert (code, err) == (1, "")
    assert "no record next to it, so hashes not checked" in out
    plant(manifest, Path(f"hub:{data}"), tmp_path / "out")
    for jobs in (1, 2):
        code, out, err = leakage("verify", f"hub:{tmp_path / 'out'}", manifest, "--jobs", jobs)
        assert code == 0, err
        assert f"22 copies in {3 * ROWS + 22} rows" in out
    assert not list(tmp_path.glob("*.leakage-verify"))


def test_sanitizing_a_stream(tmp_path: Path, data: Path, ran: Ran) -> None:
    command = ("sanitize", f"hub:{data}", "-o", tmp_path / "clean", "--drop", 2, "--epochs", 1)
    out, _ = ran(*command)
    assert f"without 2 of {3 * ROWS} samples" in out
    assert rows_of(tmp_path / "clean").num_rows == 3 * ROWS - 2


def test_a_stream_is_one_data_set_with_files_of_the_same_rows(tmp_path: Path, manifest: Path, data: Path) -> None:
    whole = tmp_path / "all.jsonl"
    whole.write_text("".join(path.read_text() for path in sorted((data / "mails").glob("train-*"))))
    plant(manifest, whole, tmp_path / "planted.jsonl", seed=4)
    plant(manifest, Path(f"hub:{data}"), tmp_path / "out", seed=4)
    lines = (tmp_path / "planted.jsonl").read_text().splitlines()
    assert rows_of(tmp_path / "out").column("text").to_pylist() == [json.loads(line)["text"] for line in lines]


def test_never_the_whole_in_memory(tmp_path: Path, manifest: Path) -> None:
    """Arrow's memory at its most is what a row group that is written takes, however large the data are."""
    folder = tmp_path / "large"
    folder.mkdir()
    text = "".join(chr(33 + place % 90) for place in range(20_000))
    rows = pa.table({"text": [f"{row} {text}" for row in range(12_000)]})
    pq.write_table(rows, folder / "train.parquet", row_group_size=100, use_dictionary=False)
    size = rows.nbytes
    del rows
    pool = pa.system_memory_pool()
    usual, before = pa.default_memory_pool(), pool.max_memory()
    pa.set_memory_pool(pool)
    try:
        plant(manifest, Path(f"hub:{folder}"), tmp_path / "out")
    finally:
        pa.set_memory_pool(usual)
    assert (pool.max_memory() or 0) - (before or 0) < size / 3


@pytest.mark.slow
def test_killed_it_goes_on(tmp_path: Path, manifest: Path, data: Path, ran: Ran) -> None:
    plant(manifest, Path(f"hub:{data}"), tmp_path / "whole")
    command = ("plant", manifest, f"hub:{data}", "-o", tmp_path / "out")
    killed("out.leakage-shards", tmp_path, 4, *command)
    out, _ = ran(*command)
    assert "; 3 of 3 shards were counted by an earlier run" in out
    assert rows_of(tmp_path / "out").equals(rows_of(tmp_path / "whole"))


@pytest.mark.slow
def test_a_changed_data_set_is_read_anew(tmp_path: Path, manifest: Path, data: Path, leakage: Leakage) -> None:
    command = ("plant", manifest, f"hub:{data}", "-o", tmp_path / "out")
    killed("out.leakage-shards", tmp_path, 3, *command)
    with (data / "mails" / "train-1.jsonl").open("a") as file:
        file.write('{"text": "late", "n": 1, "tags": []}\n')
    code, out, _ = leakage(*command)
    assert (code, "earlier run" in out) == (0, False)
    assert f"among {3 * ROWS + 1} rows" in out


def test_data_that_change_while_they_are_read(
    tmp_path: Path, manifest: Path, data: Path, leakage: Leakage, monkeypatch: pytest.MonkeyPatch
) -> None:
    from leakage_tasks.canaries import shard_work

    counted = shard_work.count_shard

    def count_and_change(place: object) -> object:
        found = counted(place)
        os.utime(data / "mails" / "train-0.jsonl", (1, 1))
        return found

    monkeypatch.setattr("leakage_tasks.canaries.plant_shards.count_shard", count_and_change)
    code, _, err = leakage("plant", manifest, f"hub:{data}", "-o", tmp_path / "out")
    assert (code, err) == (2, f"leakage: {data}: changed while it was read: run again when nothing writes to it\n")


def broken(folder: Path) -> str:
    (folder / "mails" / "train-2.jsonl").write_text('{"text": 1, oh\n')
    return f"hub:{folder}"


@pytest.mark.parametrize(
    ("source", "more", "told"),
    [
        ("hub:{data}", ("--split", "dev"), "no split 'dev' (it has train, test): name one with --split"),
        (
            "hub:{data}",
            ("--text-column", "body"),
            "no column 'body' (it has text, n, tags): name one with --text-column",
        ),
        ("hub:{data}:letters", (), "BuilderConfig 'letters' not found. Available: ['mails', 'notes']"),
        ("hub:{data}@main", (), "is a folder, which has no revisions: leave @main out"),
        ("hub:{data}/mails/none", (), "cannot be streamed"),
        ("hub:someone/something", (), "hub:someone/something: cannot be streamed"),
        ("hub:", (), "hub:: names no data set: write hub:owner/name"),
        ("someone/something", (), "check the path, or write hub:someone/something for a data set of the hub"),
        ("{data}", (), "README.md divides its files into splits: write hub:"),
        ("hub:{data}", ("--near-copies", "1"), "--near-copies is not for shards"),
    ],
)
def test_errors_are_one_line(
    tmp_path: Path, manifest: Path, data: Path, refused: Refused, source: str, more: tuple[str, ...], told: str
) -> None:
    assert told in refused("plant", manifest, source.format(data=data), "-o", tmp_path / "out", *more)
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "out.leakage-shards").exists()


def test_a_broken_file_is_one_line(tmp_path: Path, manifest: Path, data: Path, refused: Refused) -> None:
    assert "shard 3 of 3: cannot be streamed" in refused("plant", manifest, broken(data), "-o", tmp_path / "out")


def test_it_is_not_planted_into_itself_nor_twice(tmp_path: Path, manifest: Path, data: Path, leakage: Leakage) -> None:
    code, _, err = leakage("plant", manifest, f"hub:{data}", "-o", data / "out")
    assert (code, "would overwrite the input" in err) == (2, True)
    plant(manifest, Path(f"hub:{data}"), tmp_path / "out")
    code, _, err = leakage("plant", manifest, f"hub:{tmp_path / 'out'}", "-o", tmp_path / "again")
    assert (code, "is planted already: plant into" in err) == (2, True)


def test_verify_needs_no_shards_of_its_own(tmp_path: Path, manifest: Path, data: Path) -> None:
    report = verify(Path(f"hub:{data}"), manifest, split="test")
    assert (report.rows, report.recorded) == (1, False)
