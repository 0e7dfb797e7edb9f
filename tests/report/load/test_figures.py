from __future__ import annotations

import math
from pathlib import Path

import pytest
from scipy import stats

from leakage_tasks.report.load.figures import Figure, counted_words, figure, flags
from leakage_tasks.report.load.results import TaskResult, read_runs
from tests.report.made import leaking, results, write


def _task(tmp_path: Path, tasks: dict, task: str, samples: int = 40) -> TaskResult:
    return read_runs([write(tmp_path, results(tasks, samples=samples))])[0].tasks[task]


def test_a_declared_figure_brings_interval_controls_and_count(tmp_path: Path):
    found = figure(_task(tmp_path, leaking(), "canary_exposure"), "exposure")
    assert found == Figure(9.0, 7.5, 10.5, "log-t", control=1.5, count=20)


def test_a_rate_says_how_its_interval_was_got(tmp_path: Path):
    assert figure(_task(tmp_path, leaking(), "canary_extraction"), "extracted").kind == "Clopper-Pearson"


def test_results_of_version_0_1_0_say_in_words_how_an_interval_was_got(tmp_path: Path):
    older = results(leaking())
    rows = older["configs"]["canary_exposure"]["leakage"]["rows"]
    assert rows["exposure"].pop("interval_kind") == "log-t"
    task = read_runs([write(tmp_path, older)])[0].tasks["canary_exposure"]
    assert figure(task, "exposure").kind == "log-t"
    rows["exposure_ci_low"]["description"] = "a lower end"
    assert figure(read_runs([write(tmp_path, older)])[0].tasks["canary_exposure"], "exposure").kind == ""


@pytest.mark.parametrize(("hits", "count"), [(0, 50), (13, 50), (50, 50), (1, 2), (333, 1000)])
def test_a_harness_share_has_the_clopper_pearson_interval(tmp_path: Path, hits: int, count: int):
    # The harness' standard error is that of the sample: of hits ones and the rest zeros.
    ones = [1.0] * hits + [0.0] * (count - hits)
    mean = sum(ones) / count
    error = math.sqrt(sum((one - mean) ** 2 for one in ones) / (count - 1)) / math.sqrt(count)
    found = figure(_task(tmp_path, {"arc": {"acc": mean, "acc_stderr": error}}, "arc", count), "acc")
    low = stats.beta.ppf(0.025, hits, count - hits + 1) if hits else 0.0
    high = stats.beta.ppf(0.975, hits + 1, count - hits) if hits < count else 1.0
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    assert found.kind == "Clopper-Pearson"


def test_another_harness_figure_has_the_interval_of_its_standard_error(tmp_path: Path):
    found = figure(
        _task(tmp_path, {"ppl": {"word_perplexity": 12.0, "word_perplexity_stderr": 0.5}}, "ppl"), "word_perplexity"
    )
    assert (found.low, found.high) == (pytest.approx(12 - 1.959964 * 0.5), pytest.approx(12 + 1.959964 * 0.5))


def test_without_a_standard_error_there_is_no_interval(tmp_path: Path):
    found = figure(_task(tmp_path, {"arc": {"acc": 0.5, "acc_stderr": "N/A"}}, "arc"), "acc")
    assert (found.value, found.low, found.high, found.kind) == (0.5, None, None, "")


def test_an_interval_beyond_all_numbers_is_none(tmp_path: Path):
    found = figure(_task(tmp_path, {"ppl": {"ppl": 1e308, "ppl_stderr": 1e308}}, "ppl"), "ppl")
    assert (found.value, found.low, found.high) == (1e308, None, None)


def test_a_column_that_is_not_there_has_no_figure(tmp_path: Path):
    assert figure(_task(tmp_path, {"gsm": {"match,strict": 0.5}}, "gsm"), "match").value is None


def test_sound_figures_raise_no_flag(tmp_path: Path):
    assert flags(_task(tmp_path, leaking(), "canary_exposure")) == []


@pytest.mark.parametrize(
    ("changed", "row", "fault"),
    [
        ({"n_planted": 4}, "n_planted", False),
        ({"control_p": 0.004}, "control_p", True),
        ({"n_controls": 0}, "n_controls", False),
    ],
)
def test_what_may_not_be_read_as_it_stands_is_flagged(tmp_path: Path, changed: dict, row: str, fault: bool):
    (flag,) = flags(_task(tmp_path, leaking(**changed), "canary_exposure"))
    assert (flag.row, flag.fault, flag.value) == (row, fault, changed[row])


def test_a_null_task_raises_no_flag(tmp_path: Path):
    empty = dict.fromkeys(leaking()["canary_exposure"], None)
    assert flags(_task(tmp_path, {"canary_exposure": empty}, "canary_exposure")) == []


@pytest.mark.parametrize(
    ("number", "words"), [(20, "canaries planted"), (12, "canaries planted with a value of success_at_10")]
)
def test_a_rate_over_all_canaries_is_not_said_to_be_over_those_with_a_value(
    tmp_path: Path, number: int, words: str
) -> None:
    content = results(leaking())
    content["results"]["canary_extraction"] |= {"success_at_10,none": 0.5, "n_success_at_10,none": number}
    (run,) = read_runs([write(tmp_path, content)])
    assert counted_words(run.tasks["canary_extraction"], "success_at_10") == words
