"""``leakage score``: what it prints, writes and ends with."""

import json
import re
import shutil
from functools import partial

import pytest

from leakage_tasks.report.load.results_file import every_row
from leakage_tasks.report.score import score_file
from tests.report.logged import finding, log
from tests.report.saved import EXPOSURE, SUFFIXES, canary_run, suffix_run
from tests.report.test_score import samples_of


@pytest.fixture(scope="module")
def canaries(tmp_path_factory):
    return canary_run(tmp_path_factory.mktemp("canaries"))


@pytest.fixture(scope="module")
def suffixes(tmp_path_factory):
    return suffix_run(
        tmp_path_factory.mktemp("suffixes"), rows="all", guesses=str(tmp_path_factory.mktemp("out") / "guesses.csv")
    )


@pytest.fixture
def run(leakage):
    """The command: exit code, stdout and stderr."""
    return partial(leakage, "score")


def line_of(text, *words):
    """The one line that begins with these words, parted by blanks."""
    (line,) = [line for line in text.splitlines() if line.split()[: len(words)] == list(words)]
    return line


def test_control_characters_in_samples_reach_no_terminal(run, tmp_path):
    log(tmp_path, {EXPOSURE: [finding("a"), finding("k", repetitions=0)]}, columns=("none", "\x1b[2Jx"))
    _, text, _ = run(tmp_path, "--all")
    assert "\ufffd[2Jx" in text
    assert "\x1b" not in text


def test_a_row_stands_with_its_interval_unit_and_words(run, canaries):
    code, text, _ = run(samples_of(canaries, EXPOSURE))
    scores = score_file(samples_of(canaries, EXPOSURE)).scores["none"]
    assert code == 0
    line = line_of(text, "none", "exposure")
    low, high = scores["exposure_ci_low"], scores["exposure_ci_high"]
    assert f"{scores['exposure']:.6g}" in line
    assert f"[{low:.6g}, {high:.6g}]" in line
    assert line.split("  ")[-1].strip().startswith("bits of the secret")
    assert "exposure_ci_low" not in text


def test_it_ends_with_whether_it_equals_the_run(run, canaries):
    code, text, _ = run(samples_of(canaries, "canary_extraction"))
    number = len(every_row(json.loads(canaries.read_text()), "canary_extraction"))
    assert text.splitlines()[-1] == f"equal to {canaries.name} ({number} rows)"
    assert code == 0


def test_a_difference_is_listed_and_ends_in_1(run, canaries, tmp_path):
    for file in (canaries, samples_of(canaries, EXPOSURE)):
        shutil.copy(file, tmp_path)
    results = tmp_path / canaries.name
    data = json.loads(results.read_text())
    data["results"][EXPOSURE]["rank,none"] = -1
    results.write_text(json.dumps(data))
    code, text, _ = run(tmp_path, "-o", tmp_path / "scores.json")
    assert code == 1
    assert f"differs from {canaries.name}" in text
    assert "rank,none: -1.0 in the run, " in text
    assert json.loads((tmp_path / "scores.json").read_text())["runs"][0]["compared"]["differences"]


def test_only_the_runs_own_column_is_shown_unless_all_are_asked_for(run, suffixes):
    _, text, _ = run(samples_of(suffixes, SUFFIXES))
    assert "zlib" not in {line.split()[0] for line in text.splitlines()}
    assert re.search(r"^\d+ more columns with --all", text, re.MULTILINE)
    _, every, _ = run(samples_of(suffixes, SUFFIXES), "--all")
    assert "zlib" in {line.split()[0] for line in every.splitlines()}
    assert "more columns" not in every


def test_what_samples_do_not_tell_is_said(run, suffixes, canaries):
    _, text, _ = run(samples_of(suffixes, SUFFIXES))
    assert "guesses_written is left out: it counts guesses that the run wrote to a file" in text
    assert "left out" not in run(samples_of(canaries, EXPOSURE))[1]


def test_each_file_has_its_table_and_only_exposure_is_audited(run, canaries, suffixes):
    code, text, _ = run(canaries, suffixes)
    assert code == 0
    headings = [line.split(",")[0] for line in text.splitlines() if ".jsonl" in line and " documents: " in line]
    assert headings == [EXPOSURE, "canary_extraction", SUFFIXES]
    assert text.count("audit at") == 1


def test_the_audit_says_what_each_figure_means_and_why_one_is_missing(run, canaries):
    _, text, _ = run(samples_of(canaries, EXPOSURE), "--delta", "1e-5")
    assert f"audit at δ = 1e-05: {samples_of(canaries, EXPOSURE)}" in text
    figures = {each.name: each for each in score_file(samples_of(canaries, EXPOSURE), 1e-5).audit}
    auc, bound = figures["auc"], figures["epsilon"]
    assert f"Membership AUC: {auc.value:.6g} [{auc.low:.6g}, {auc.high:.6g}] (6 planted, 5 controls" in text
    assert f"ε, one canary swapped: {bound.value:.6g} or more (" in text
    assert f"a perfect attack could have shown {bound.best:.6g})" in text
    assert "TPR at 1 % FPR: no value: requires 100 controls" in text
    assert "0 shows nothing and is no evidence of privacy" in " ".join(text.split())


def test_all_of_it_goes_to_strict_json(run, canaries, suffixes, tmp_path):
    run(canaries, suffixes, "-o", tmp_path / "scores.json", "--delta", "1e-6")

    def refuse(name):
        raise AssertionError(name)

    data = json.loads((tmp_path / "scores.json").read_text(), parse_constant=refuse)
    assert data["delta"] == 1e-6
    assert [each["task"] for each in data["runs"]] == [EXPOSURE, "canary_extraction", SUFFIXES]
    suffix = data["runs"][2]
    assert suffix["scores"] == json.loads(json.dumps(score_file(samples_of(suffixes, SUFFIXES)).scores))
    assert set(suffix["scores"]) >= {"none", "zlib"}
    assert suffix["compared"]["file"] == suffixes.name
    assert [each["name"] for each in data["runs"][0]["audit"]] == [
        "auc",
        "tpr_at_1_fpr",
        "epsilon",
        "epsilon_surest",
        "epsilon_gaussian",
        "epsilon_row",
        "epsilon_secret",
        "epsilon_independent",
    ]


@pytest.mark.parametrize("delta", ["-1", "1", "nan"])
def test_a_delta_that_is_none_is_refused(refused, canaries, delta):
    assert re.search(r"--delta is .*: give a number of at least 0", refused("score", canaries, f"--delta={delta}"))


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_read(refused, tmp_path):
    assert "make it first" in refused("score", tmp_path / "missing.jsonl", "-o", tmp_path / "none" / "scores.json")


def test_a_damaged_file_leaves_no_output(refused, canaries, tmp_path):
    file = tmp_path / samples_of(canaries, EXPOSURE).name
    file.write_bytes(samples_of(canaries, EXPOSURE).read_bytes()[:-20])
    assert "jsonl:11: the line is cut off" in refused("score", file, "-o", tmp_path / "scores.json")
    assert not (tmp_path / "scores.json").exists()
