"""Planting, removing and verifying shards are ended by KILL and go on where they were, with the same result."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from leakage_tasks.canaries import plant
from leakage_tasks.canaries.unplant import remove
from leakage_tasks.canaries.verify import verify
from tests.canaries.killed import killed
from tests.canaries.test_shards import contents, make, pack
from tests.conftest import Leakage, Ran

SHARDS = 24


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards that take some milliseconds each."""
    folder = tmp_path_factory.mktemp("source") / "in"
    for shard in range(SHARDS):
        rows = "".join(json.dumps({"text": f"row {row} of {shard}"}) + "\n" for row in range(8_000))
        pack(rows.encode(), folder / f"{shard:02}.jsonl.gz")
    return folder


def again(told: str) -> int:
    found = re.search(rf"; (\d+) of {SHARDS} shards were done by an earlier run", told)
    return int(found[1]) if found else 0


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_removing(tmp_path: Path, manifest: Path, source: Path, ran: Ran, jobs: int) -> None:
    plant(manifest, source, tmp_path / "planted")
    remove(tmp_path / "planted", tmp_path / "whole")
    command = ("plant", "--remove", tmp_path / "planted", "-o", tmp_path / "back", "--jobs", jobs)
    for number in (1, 5, 9):
        there = killed("back.leakage-shards", tmp_path, number, *command)
    out, _ = ran(*command)
    assert 9 <= there <= again(out) <= SHARDS
    assert contents(tmp_path / "back") == contents(tmp_path / "whole")
    assert sorted(path.name for path in tmp_path.glob("back*")) == ["back"]


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_verifying(tmp_path: Path, manifest: Path, source: Path, leakage: Leakage, jobs: int) -> None:
    plant(manifest, source, tmp_path / "planted")
    pack(b'{"text": "one more"}\n', tmp_path / "planted" / "99.jsonl.gz")
    command = ("verify", tmp_path / "planted", manifest, "--chunk", 100, "--jobs", jobs)
    whole = leakage(*command)
    assert whole[0] == 1
    for number in (1, 5, 9):
        there = killed("*.leakage-verify", tmp_path, number, *command)
    code, out, err = leakage(*command)
    told = re.search(rf"; (\d+) of {SHARDS + 1} shards were done by an earlier run", out)
    assert told
    assert 9 <= there <= int(told[1])
    assert (code, out.replace(told[0], ""), err) == whole
    assert not list(tmp_path.glob("*.leakage-*/"))


@pytest.mark.slow
@pytest.mark.parametrize("alone", [False, True])
def test_planting(tmp_path: Path, manifest: Path, source: Path, ran: Ran, alone: bool) -> None:
    plant(manifest, source, tmp_path / "whole")
    whole = contents(tmp_path / "whole")
    command = ("plant", manifest, source, "-o", tmp_path / "planted", "--jobs", 2)
    for number in (3, SHARDS + 2, SHARDS + 9):
        there = killed("planted.leakage-shards", tmp_path, number, *command, alone=alone)
        published = contents(tmp_path / "planted") if (tmp_path / "planted").exists() else {}
        unfinished = {name for name in published if name.startswith(".leakage-")}
        assert {name: published[name] for name in published.keys() - unfinished}.items() <= whole.items()
    out, _ = ran(*command)
    assert f"; {SHARDS} of {SHARDS} shards were counted by an earlier run" in out
    assert there - SHARDS <= again(out) <= SHARDS
    assert contents(tmp_path / "planted") == whole


@pytest.fixture
def ended(tmp_path: Path, manifest: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Planted shards; removing and verifying have done all of them, and ended before they forgot it."""
    plant(manifest, make(tmp_path / "in", "txt"), tmp_path / "planted")
    with monkeypatch.context() as patch:
        patch.setattr("leakage_tasks.canaries.unplant.clear", lambda *_: None)
        patch.setattr("leakage_tasks.canaries.scanning.delete_parts", lambda *_: None)
        remove(tmp_path / "planted", tmp_path / "back")
        verify(tmp_path / "planted", manifest, 30)
    return tmp_path / "planted"


def test_nothing_is_read_twice(ended: Path, manifest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakage_tasks.canaries.unplant._restore", lambda *_: 1 / 0)
    monkeypatch.setattr("leakage_tasks.canaries.occurrences._scan", lambda *_: 1 / 0)
    assert "; 4 of 4 shards were done by an earlier run" in remove(ended, ended.with_name("back"))
    assert verify(ended, manifest, 30).again == 4


def test_a_changed_shard_is_read_anew(ended: Path, manifest: Path) -> None:
    shard = ended / "part-2.txt"
    shard.write_bytes(shard.read_bytes() + b"more\n")
    report = verify(ended, manifest, 30)
    assert report.again == 3
    assert any("part-2.txt: changed since it was planted" in problem for problem in report.problems)


def test_a_changed_output_is_written_anew(ended: Path) -> None:
    output = ended.with_name("back") / "part-1.txt"
    before = output.read_bytes()
    output.write_bytes(b"other")
    assert "; 3 of 4 shards" in remove(ended, output.parent)
    assert output.read_bytes() == before


def test_other_options_reuse_nothing(ended: Path, manifest: Path) -> None:
    assert verify(ended, manifest, 31).again == 0


def test_another_manifest_reuses_nothing(ended: Path, manifest: Path) -> None:
    lines = manifest.read_text().splitlines(keepends=True)
    manifest.write_text("".join(lines[:-1]))
    assert verify(ended, manifest, 30).again == 0


def test_another_record_reuses_nothing(ended: Path, tmp_path: Path, manifest: Path) -> None:
    plant(manifest, tmp_path / "in", ended, seed=5)
    assert "earlier run" not in remove(ended, tmp_path / "back")
    assert contents(tmp_path / "back") == contents(tmp_path / "in")


def test_no_secret_is_kept(ended: Path, manifest: Path) -> None:
    secrets = ["".join(json.loads(line)["secret"]) for line in manifest.read_text().splitlines()]
    kept = [path for path in manifest.parent.glob("*.leakage-*/**/*") if path.is_file()]
    assert len(kept) == 8
    assert not [path for path in kept for secret in secrets if secret in path.read_text()]


def test_where_nothing_can_be_kept_it_says_so(
    ended: Path, manifest: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    owner = ended.stat().st_uid
    monkeypatch.setattr("os.geteuid", lambda: owner + 1)
    report = verify(ended, manifest, 30)
    assert (report.ok, report.again) == (True, 0)
    assert "belongs to another user" in caplog.text
