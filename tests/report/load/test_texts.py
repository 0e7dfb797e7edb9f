from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leakage_tasks.core.errors import ResultsError
from leakage_tasks.core.task_names import TEXTS
from leakage_tasks.report.load.results import read_one_run
from leakage_tasks.report.load.texts import TextDetail, read_texts
from tests.report.logged import log, text
from tests.report.made import STAMP


def read(folder: Path, *findings: Any, **settings: Any) -> list[TextDetail]:
    return read_texts(read_one_run(log(folder, {TEXTS: findings}, task_settings=settings)))


def test_a_text_has_its_longest_runs_and_its_group(tmp_path: Path):
    found = read(tmp_path / "a", text("empty", 0, 25, 0), text("ordinary", 3, 0, 40), text("prefix", 1, None, 30))
    assert [(one.group, one.corpus, one.controls, one.least) for one in found] == [
        ("untargeted prompts", 25, 0, 20),
        ("ordinary prompts", 0, 40, 20),
        ("prefix prompts", None, 30, 20),
    ]


def test_prompts_that_the_seed_draws_have_it_in_their_id(tmp_path: Path):
    kinds = [text(kind, 2, 0) for kind in ("empty", "short", "divergence", "prefix", "ordinary")]
    assert [one.id for one in read(tmp_path / "a", *kinds, seed=5)] == [
        "empty:2:0",
        "short:2:0, seed 5",
        "divergence:2:0",
        "prefix:2:0, seed 5",
        "ordinary:2:0",
    ]
    (own,) = read(tmp_path / "b", text("short", 2, 0), seed=5, prompts="mine.txt")
    assert own.id == "short:2:0"


def test_texts_after_controls_are_a_group_of_their_own(tmp_path: Path):
    (found,) = read(tmp_path / "a", text("prefix", 0, None, 30, unseen=True))
    assert (found.group, found.id) == ("prefix prompts from controls", "prefix:0:0:unseen, seed 0")


def test_a_damaged_line_is_named(tmp_path: Path):
    path = log(tmp_path / "a", {TEXTS: [text("empty", 0, 0)]})
    samples = path.with_name(f"samples_{TEXTS}_{STAMP}.jsonl")
    samples.write_text(samples.read_text().replace("run_length", "run_width"))
    with pytest.raises(ResultsError, match=rf"{samples.name}:1: field 'resps': no finding of {TEXTS}"):
        read_texts(read_one_run(path))


def test_lost_samples_are_an_error(tmp_path: Path):
    path = log(tmp_path, {TEXTS: [text("empty", 0, 0), text("empty", 1, 0)]})
    (samples,) = tmp_path.glob("samples_*")
    samples.write_text(samples.read_text().splitlines(keepends=True)[0])
    with pytest.raises(ResultsError, match=r"1 document, but the results are of 2: give the file as lm_eval wrote it"):
        read_texts(read_one_run(path))


def test_missing_samples_are_an_error(tmp_path: Path):
    path = log(tmp_path / "a", {TEXTS: [text("empty", 0, 0)]})
    path.with_name(f"samples_{TEXTS}_{STAMP}.jsonl").unlink()
    with pytest.raises(ResultsError, match="no samples next to its results"):
        read_texts(read_one_run(path))
