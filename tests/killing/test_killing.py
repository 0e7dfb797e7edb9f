"""Commands that are ended early: a thin selection of what ``make kill`` does at length."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.killing.__main__ import HEAD, State, is_wrong, moments, table
from tests.killing.folders import contents, open_to_others
from tests.killing.judging import Outcome


@pytest.mark.slow
def test_what_is_ended_early_leaves_nothing_and_is_mended_by_running_again(tmp_path: Path) -> None:
    # In a process of its own, as it forks once it has imported everything.
    command = ["-m", "tests.killing", "--rounds", "2", "--calls", "1", "--state", tmp_path / "state"]
    command += ["--only", "plant txt", "--signals", "KILL", "TERM"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = [Outcome(**json.loads(line)) for line in (tmp_path / "state" / "outcomes.jsonl").read_text().splitlines()]
    assert {each.signal for each in found} == {"KILL", "TERM"}
    assert sum(each.ended and each.after_first for each in found) >= 3
    assert not any(map(is_wrong, found))


def test_half_of_the_moments_are_after_the_first_byte() -> None:
    ways = [each.way for each in moments(5, 4)]
    assert (ways.count("after"), ways.count("whole"), ways.count("call")) == (3, 2, 4)


def test_no_two_moments_have_one_name() -> None:
    names = [each.name for each in moments(20, 30)]
    assert len(set(names)) == len(names)


def test_a_second_call_goes_on(tmp_path: Path) -> None:
    State(tmp_path).add(Outcome("plant", "TERM", "call:1"))
    again = State(tmp_path)
    assert again.has("plant", "TERM", "call:1")
    assert not again.has("plant", "TERM", "call:2")


def test_what_is_wrong_is_counted() -> None:
    outcomes = [Outcome("plant", "INT", "call:1", partial=["x"]), Outcome("plant", "INT", "call:2", ended=False)]
    head, row = table(outcomes)
    assert dict(zip(head, row, strict=True)) == {**dict.fromkeys(HEAD, "0"), "command": "plant", "signal": "INT"} | {
        "kills": "1",
        "too late": "1",
        "partial": "1",
    }
    assert [is_wrong(each) for each in outcomes] == [True, False]


def test_a_changed_file_is_seen(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("one")
    before = contents(tmp_path)
    (tmp_path / "file").write_text("two")
    assert contents(tmp_path) != before


def test_files_in_closed_folders_are_not_open(tmp_path: Path) -> None:
    for mode, name in ((0o755, "open"), (0o700, "closed")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("x")
        (tmp_path / name / "file").chmod(0o644)
        (tmp_path / name).chmod(mode)
    assert open_to_others(tmp_path) == [str(tmp_path / "open" / "file")]
