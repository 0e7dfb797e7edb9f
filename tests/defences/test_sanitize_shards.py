"""Shards without the samples that are learnt by heart: the worst of all shards, whatever the jobs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from leakage_tasks.core.errors import OptionError
from leakage_tasks.data import Columns
from leakage_tasks.data.shards import Shards, shards_of
from leakage_tasks.defences import sanitize_shards as module
from leakage_tasks.defences.sanitize_shards import SanitizeOptions, sanitize_shards
from tests.canaries.killed import killed
from tests.canaries.test_shards import contents
from tests.conftest import Leakage, Ran


def knows_what_it_saw(own: Sequence[str], seed: int) -> Callable[[Sequence[str]], np.ndarray]:
    """A model that learns secrets by heart, the more digits the better, and finds all else as likely as any other."""
    seen = set(own)
    return lambda asked: np.array([0.0 if text in seen else float(sum(map(str.isdigit, text))) for text in asked])


def settings(drop: int) -> SanitizeOptions:
    return SanitizeOptions(drop, Columns(), 1, "sample", 1, 4, 0, knows_what_it_saw)


def shards_in(folder: Path) -> Shards:
    folder.mkdir()
    (folder / "a.txt").write_text("one\nkey 1234\ntwo\nnumber 12\n")
    (folder / "b.txt").write_text("three\nkey 1234\nfour\npin 987654\nkey 1234\n")
    (folder / "c.txt").write_text("five\nsix 1\nseven\n")
    found = shards_of(folder)
    assert found is not None
    return found


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_the_worst_of_all_shards_go_from_every_shard(tmp_path: Path, jobs: int) -> None:
    done = sanitize_shards(shards_in(tmp_path / "in"), tmp_path / "out", settings(2), jobs)
    assert (tmp_path / "out" / "a.txt").read_text() == "one\ntwo\nnumber 12\n"
    assert (tmp_path / "out" / "b.txt").read_text() == "three\nfour\n"
    assert (tmp_path / "out" / "c.txt").read_text() == "five\nsix 1\nseven\n"
    assert (done.dropped, done.rows_dropped, done.rows) == (2, 4, 12)
    assert not (tmp_path / "out.leakage-shards").exists()


def test_a_finished_ranking_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shards = shards_in(tmp_path / "in")
    with monkeypatch.context() as patch:
        patch.setattr(module, "_write", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            sanitize_shards(shards, tmp_path / "out", settings(2))
    assert (
        "1234"
        not in "".join(path.read_text() for path in (tmp_path / "out.leakage-shards").iterdir()).split("first")[1]
    )
    monkeypatch.setattr(module, "rank_samples", lambda *_, **__: 1 / 0)
    sanitize_shards(shards, tmp_path / "out", settings(2))
    assert (tmp_path / "out" / "b.txt").read_text() == "three\nfour\n"


PROGRAM = """
import sys
from pathlib import Path
from leakage_tasks.data.shards import shards_of
from leakage_tasks.defences.sanitize_shards import sanitize_shards
from tests.defences.test_sanitize_shards import settings
sanitize_shards(shards_of(Path(sys.argv[1])), Path(sys.argv[2]), settings(40))
"""


@pytest.mark.slow
def test_killed_at_any_moment_it_goes_on(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for shard in range(12):
        rows = "".join(f"row {row} of {shard} {row % 7:0{row % 9}}\n" for row in range(3_000))
        (tmp_path / "in" / f"{shard:02}.txt").write_text(rows)
    shards = shards_of(tmp_path / "in")
    assert shards is not None
    sanitize_shards(shards, tmp_path / "whole", settings(40))
    for number in (3, 14, 16):
        there = killed("out.leakage-shards", tmp_path, number, tmp_path / "in", tmp_path / "out", program=PROGRAM)
    done = sanitize_shards(shards, tmp_path / "out", settings(40))
    assert done.again[0] == 12
    assert 4 <= there - 12 <= done.again[1] <= 12
    assert "; 12 of 12 shards were ranked by an earlier run" in done.summary()
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_other_settings_and_shards_reuse_nothing_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shards = shards_in(tmp_path / "in")
    with monkeypatch.context() as patch:
        patch.setattr(module, "clear", lambda *_: None)
        sanitize_shards(shards, tmp_path / "out", settings(2))
        assert sanitize_shards(shards, tmp_path / "out", settings(2)).again == (3, 3)
        assert sanitize_shards(shards, tmp_path / "out", settings(1)).again == (0, 0)
        (tmp_path / "in" / "c.txt").write_text("five\nsix 123456789\nseven\n")
        assert sanitize_shards(shards, tmp_path / "out", settings(1)).again == (2, 0)


def test_a_wrong_number_is_reported_before_a_shard_is_read(tmp_path: Path) -> None:
    shards = shards_in(tmp_path / "in")
    with pytest.raises(OptionError, match="^epochs is 0: give 1 or more"):
        sanitize_shards(shards, tmp_path / "out", dataclasses.replace(settings(1), epochs=0))
    assert not (tmp_path / "out").exists()


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    shards = shards_in(tmp_path / "in")
    with pytest.raises(OptionError, match="drop is 90 of 11 samples"):
        sanitize_shards(shards, tmp_path / "out", settings(90))
    with pytest.raises(OptionError, match="would overwrite the data"):
        sanitize_shards(shards, tmp_path / "in", settings(1))
    (tmp_path / "in" / "c.txt").write_text("alone\n")
    with pytest.raises(OptionError, match="c.txt: 1 different texts cannot be split"):
        sanitize_shards(shards, tmp_path / "out", settings(1))
    assert not (tmp_path / "out").exists()


def test_the_command(tmp_path: Path, ran: Ran) -> None:
    shards_in(tmp_path / "in")
    out, _ = ran("sanitize", tmp_path / "in", "-o", tmp_path / "out-1.0", "--drop", 1, "--epochs", 1)
    assert "without 1 of 11 samples" in out
    assert len(list((tmp_path / "out-1.0").iterdir())) == 3


def test_the_command_writes_no_report_on_shards(tmp_path: Path, leakage: Leakage) -> None:
    shards_in(tmp_path / "in")
    for option in (["--report", tmp_path / "report.jsonl"], ["--reveal"]):
        code, _, err = leakage("sanitize", tmp_path / "in", "-o", tmp_path / "out", *option)
        assert (code, f"{option[0]} does not work with shards" in err) == (2, True)
