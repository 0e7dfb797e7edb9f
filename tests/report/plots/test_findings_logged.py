"""Saved findings, wherever they are."""

from __future__ import annotations

import json

import pytest

from leakage_tasks.core.errors import ResultsError
from leakage_tasks.core.null_results import null_result
from leakage_tasks.core.task_names import EXPOSURE, EXTRACTION, SUFFIXES
from leakage_tasks.report.plots.findings import read_logged
from tests.report.logged import choice, finding, log, suffix
from tests.report.made import STAMP, results, write

BOTH = [EXPOSURE, EXTRACTION]
LATER = "2026-01-02T04-04-05.678901"


def tasks(rank: float = 1.0):
    return {EXPOSURE: [finding("a", rank), finding("b", 9.0, 0)], EXTRACTION: [finding("a", rank)]}


def names(*sources):
    return [run.name for run in read_logged(sources, BOTH)]


def test_a_results_file_a_folder_and_a_folder_above_are_the_same_run(tmp_path):
    path = log(tmp_path / "model", tasks())
    found = [read_logged([source], BOTH) for source in (path, tmp_path / "model", tmp_path)]
    assert found[0] == found[1] == found[2]
    (run,) = found[0]
    assert [each.canary for each in run.exposure] == ["a", "b"]
    assert run.extraction == (finding("a"),)


def test_a_file_of_samples_is_its_task_alone_under_the_runs_name(tmp_path):
    log(tmp_path / "model", tasks())
    (run,) = read_logged([tmp_path / "model" / f"samples_{EXTRACTION}_{STAMP}.jsonl"], BOTH)
    assert (run.name, len(run.exposure), len(run.extraction)) == ("model", 0, 1)


def test_files_of_samples_of_one_run_are_one_run(tmp_path):
    log(tmp_path / "model", tasks())
    (run,) = read_logged([tmp_path / "model" / f"samples_{task}_{STAMP}.jsonl" for task in BOTH], BOTH)
    assert (len(run.exposure), len(run.extraction)) == (2, 1)


def test_samples_without_their_results_are_a_run_too(tmp_path):
    log(tmp_path / "model", tasks()).unlink()
    (run,) = read_logged([tmp_path / "model" / f"samples_{EXPOSURE}_{STAMP}.jsonl"], BOTH)
    assert len(run.exposure) == 2


def test_runs_come_in_the_order_given(tmp_path):
    for name in "bca":
        log(tmp_path / name, tasks())
    assert names(tmp_path / "c", tmp_path / "a", tmp_path / "b") == ["c", "a", "b"]
    assert names(tmp_path) == ["a", "b", "c"]


def test_a_source_given_twice_is_one_run(tmp_path):
    log(tmp_path / "a", tasks())
    assert names(tmp_path / "a", tmp_path) == ["a"]


def test_tasks_of_one_model_run_one_after_another_are_one_run(tmp_path):
    log(tmp_path / "model", {EXPOSURE: [finding("a")]})
    log(tmp_path / "model", {EXTRACTION: [finding("a")]}, stamp=LATER)
    (run,) = read_logged([tmp_path], BOTH)
    assert (len(run.exposure), len(run.extraction)) == (1, 1)


def test_a_run_of_other_tasks_is_left_out(tmp_path):
    log(tmp_path / "a", tasks())
    write(tmp_path / "b", results({"arc": {"acc": 0.5}}, model="b"))
    assert names(tmp_path) == ["a"]


def test_only_the_tasks_asked_for_are_read(tmp_path):
    log(tmp_path / "a", tasks())
    (tmp_path / "a" / f"samples_{EXTRACTION}_{STAMP}.jsonl").write_text("damaged")
    (run,) = read_logged([tmp_path], [EXPOSURE])
    assert run.extraction == ()


def test_a_run_that_logged_nothing_is_an_error_with_the_remedy(tmp_path):
    path = log(tmp_path / "a", tasks())
    (tmp_path / "a" / f"samples_{EXPOSURE}_{STAMP}.jsonl").unlink()
    with pytest.raises(
        ResultsError, match=f"{path.name}: no samples of canary_exposure in its folder: .*--log_samples"
    ):
        read_logged([tmp_path], BOTH)


def test_a_task_that_stayed_unanswered_holds_nothing(tmp_path):
    log(tmp_path / "a", {SUFFIXES: [suffix(0, {})], EXPOSURE: [finding("a")]})
    for task in (SUFFIXES, EXPOSURE):
        path = tmp_path / "a" / f"samples_{task}_{STAMP}.jsonl"
        row = json.loads(path.read_text().splitlines()[0])
        path.write_text(json.dumps(row | {"resps": [[null_result("no data")]]}) + "\n")
    assert read_logged([tmp_path], [EXPOSURE, SUFFIXES]) == []


def test_pairs_are_read_once_however_many_columns_there_are(tmp_path):
    pairs = [suffix(n, {"calibrated": choice(n > 0, n)}) for n in range(3)]
    log(tmp_path / "a", {SUFFIXES: pairs}, columns=["none", "calibrated", "zlib"], task_settings={"wrong": 7})
    (run,) = read_logged([tmp_path], [SUFFIXES])
    assert run.suffixes == tuple(pairs)
    assert run.wrong == 7


@pytest.mark.parametrize(
    ("task", "answer"), [(EXPOSURE, "{}"), (SUFFIXES, "{}"), (SUFFIXES, "not json"), (SUFFIXES, '{"views": 3}')]
)
def test_a_damaged_answer_is_an_error_naming_file_and_line(tmp_path, task, answer):
    log(tmp_path / "a", {task: [suffix(0, {}) if task == SUFFIXES else finding("a")] * 2})
    path = tmp_path / "a" / f"samples_{task}_{STAMP}.jsonl"
    first, second = map(json.loads, path.read_text().splitlines())
    second["resps"] = [[answer]]
    path.write_text(f"{json.dumps(first)}\n{json.dumps(second)}\n")
    with pytest.raises(ResultsError, match=rf"samples_{task}_\S+:2: field 'resps'"):
        read_logged([tmp_path], [task])


def test_a_source_that_is_not_there_is_an_error(tmp_path):
    for name in ("nothing", "nothing.jsonl", "results_x.json"):
        with pytest.raises(ResultsError, match=name):
            read_logged([tmp_path / name], BOTH)
