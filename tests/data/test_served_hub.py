"""Data sets by their names on a hub, through the real clients: a server on this machine stands for the hub."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leakage_tasks.canaries import make_canaries, plant, write_manifest
from tests.canaries.killed import COMMAND
from tests.data.served_hub import COMMIT, NAME, ServedHub, serving
from tests.data.test_hub import rows_of

SHARDS, ROWS = 2, 40


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """6 copies of 2 canaries that nobody else has."""
    write_manifest(make_canaries("pin of {unique}: {digits:9}", 2, repetitions=(1, 5), seed=12), tmp_path / "c.jsonl")
    return tmp_path / "c.jsonl"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[ServedHub]:
    """A hub whose data set has no files yet."""
    (tmp_path / "served" / "data").mkdir(parents=True)
    with serving(tmp_path / "served") as made:
        yield made


def fill(hub: ServedHub, kind: str) -> None:
    for shard in range(SHARDS):
        rows = [{"text": f"mail {shard}-{row}", "n": row} for row in range(ROWS)]
        path = hub.folder / "data" / f"train-{shard:05}-of-{SHARDS:05}.{kind}"
        if kind == "parquet":
            pq.write_table(pa.Table.from_pylist(rows), path)
        else:
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def run(hub: ServedHub, home: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """``leakage`` in a process of its own, as the address of the hub is read when its client is imported."""
    environment = {**os.environ, "HF_ENDPOINT": hub.address, "HF_HUB_OFFLINE": "0", "HF_HOME": str(home)}
    command = [sys.executable, "-c", COMMAND, *map(str, words)]
    return subprocess.run(command, env={**environment, "NO_PROXY": "127.0.0.1"}, capture_output=True, text=True)


def planted(tmp_path: Path, manifest: Path, hub: ServedHub, name: str, *words: object) -> None:
    """Plant into a data set of the hub; what comes out is what a folder of the same files gives."""
    done = run(hub, tmp_path / "home", "plant", manifest, f"hub:{name}", "-o", tmp_path / "out", *words)
    assert done.returncode == 0
    # Six copies of 80 rows are worth a remark.
    assert done.stderr.startswith("leakage: warning: 7 % of out are copies of canaries (6 added to 80 rows)")
    assert done.stderr.count("\n") == 1
    plant(manifest, Path(f"hub:{hub.folder}"), tmp_path / "local")
    assert rows_of(tmp_path / "out").equals(rows_of(tmp_path / "local"))
    assert json.loads((tmp_path / "out.leakage.json").read_text())["input"] == f"hub:{NAME}@{COMMIT[:12]}"


@pytest.mark.slow
def test_what_is_planted_is_what_a_folder_of_the_same_files_gives(
    tmp_path: Path, manifest: Path, hub: ServedHub
) -> None:
    fill(hub, "parquet")
    planted(tmp_path, manifest, hub, NAME, "--jobs", 2)


@pytest.mark.slow
def test_files_are_read_of_one_commit_and_twice_at_most(tmp_path: Path, manifest: Path, hub: ServedHub) -> None:
    fill(hub, "jsonl")
    planted(tmp_path, manifest, hub, f"{NAME}@main")
    read = [each for each in hub.asked if each.startswith("GET") and each.endswith(".jsonl")]
    assert all(f"/resolve/{COMMIT}/" in each for each in read)
    # What columns there are is read of the first file, once.
    counts = [sum(f"train-{shard:05}" in each for each in read) for shard in range(SHARDS)]
    assert counts == [3, 2]


@pytest.mark.parametrize(
    ("name", "told"),
    [("someone/other", "404"), pytest.param(f"{NAME}:letters", "'letters' not found", marks=pytest.mark.slow)],
)
def test_what_the_hub_lacks_is_one_line(tmp_path: Path, manifest: Path, hub: ServedHub, name: str, told: str) -> None:
    fill(hub, "jsonl")
    done = run(hub, tmp_path / "home", "plant", manifest, f"hub:{name}", "-o", tmp_path / "out")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert told in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_file_that_is_gone_is_one_line(tmp_path: Path, manifest: Path, hub: ServedHub) -> None:
    fill(hub, "parquet")
    hub.gone = "train-00001"
    done = run(hub, tmp_path / "home", "plant", manifest, f"hub:{NAME}", "-o", tmp_path / "out")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert "shard 2 of 2: cannot be streamed" in done.stderr
