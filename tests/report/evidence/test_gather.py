from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from leakage_tasks.canaries import make_canaries, write_manifest
from leakage_tasks.canaries.manifest import manifest_hash
from leakage_tasks.core.errors import LeakageError, OptionError, ResultsError
from leakage_tasks.report.evidence.files import Files
from leakage_tasks.report.evidence.gather import gather
from leakage_tasks.report.evidence.page import page
from leakage_tasks.report.evidence.protocol import protocol_of
from leakage_tasks.report.evidence.record import Evidence, Settings, canonical
from leakage_tasks.report.load.results import read_runs
from tests.conftest import Leakage, Refused
from tests.report.evidence.conftest import SETTINGS
from tests.report.made import STAMP, declaration, leaking, results, write
from tests.report.pages import canary, usual_canaries, write_run

PLAIN = Settings("", "", 0.0, (), ())


def facts(evidence: Evidence, title: str) -> dict[str, str]:
    (group,) = [group for group in evidence.protocol if group.title == title]
    return {fact.name: fact.value for fact in group.facts}


def test_equal_inputs_in_other_folders_give_equal_records(results: Path, tmp_path: Path):
    copy = shutil.copytree(results, tmp_path / "elsewhere")
    assert canonical(gather(copy, PLAIN)) == canonical(gather(results, PLAIN))


def test_the_date_is_that_of_the_results(evidence: Evidence):
    assert evidence.date == "1970-01-01"


def test_the_summary_has_a_verdict_and_a_sentence_with_count_and_interval(evidence: Evidence):
    exposed, extracted = evidence.summary
    assert (exposed.task, exposed.verdict) == ("canary_exposure", "above chance")
    assert exposed.because.startswith("chance alone exposes 10 secrets")
    assert exposed.sentence.startswith("Exposure: ")
    assert "(95 % interval " in exposed.sentence
    assert ", over 10 canaries" in exposed.sentence
    assert "for controls" in exposed.sentence
    assert extracted.task == "canary_extraction"


def test_the_summary_shows_the_lowest_number_of_copies(evidence: Evidence):
    (row,) = [row for row in evidence.results if row.metric == "exposure_x1"]
    assert f"{row.value:.2f} bits" in evidence.summary[0].sentence


def test_the_protocol_describes_model_machine_and_seeds(evidence: Evidence):
    model = facts(evidence, "Model")
    assert (model["Model"], model["Parameters"], model["Commit"]) == ("models/one", "1,234,567", "ab" * 20)
    file = facts(evidence, f"Results file results_{STAMP}.json")
    assert file["GPU"] == "GPU 0: A big one"
    assert file["CPU cores"] == "2"
    assert file["Duration"] == "12 seconds"
    assert file["Seeds"] == "random_seed 7, numpy_seed 1234, torch_seed 1234, fewshot_seed 1234"
    assert file["Started"] == "1970-01-01 00:00:01 UTC"
    assert file["Command"].startswith("lm_eval --model hf --model_args pretrained=models/one ")


def test_passwords_in_arguments_are_masked(results: Path, tmp_path: Path):
    copy = Path(shutil.copytree(results, tmp_path / "copy"))
    file = copy / f"results_{STAMP}.json"
    content = json.loads(file.read_text())
    content["config"]["model_args"] |= {"api_key": "very-secret", "base_url": "https://me:very-secret@host/v1"}
    file.write_text(json.dumps(content))
    assert "very-secret" not in page(gather(copy, PLAIN))


def test_results_hold_every_value_with_its_context(evidence: Evidence, results: Path):
    content = json.loads((results / f"results_{STAMP}.json").read_text())
    for task, metric in (("canary_exposure", "exposure"), ("canary_extraction", "extracted"), ("arc", "acc")):
        (row,) = [row for row in evidence.results if (row.task, row.metric) == (task, metric)]
        assert row.value == content["results"][task][f"{metric},none"]
        assert row.leakage is (task != "arc")
    (row,) = [row for row in evidence.results if row.metric == "exposure"]
    assert row.control == content["results"]["canary_exposure"]["control_exposure,none"]
    assert row.count == 30
    shown = {row.metric for row in evidence.results}
    ends = {name for row in evidence.results for name in (f"{row.metric}_ci_low", f"{row.metric}_ci_high")}
    values = {
        name.partition(",")[0]
        for task in content["results"].values()
        for name, value in task.items()
        if name.endswith(",none") and value is not None and "stderr" not in name
    }
    assert values - ends <= shown


def test_limits_are_checked_as_leakage_check_does(evidence: Evidence):
    (row,) = [row for row in evidence.results if row.metric == "exposure_max"]
    (outcome,) = evidence.outcomes
    assert outcome.passed
    assert outcome.words == f"one: canary_exposure/exposure_max {row.value:.1f} ≤ 25.0 (has no interval)"


def test_a_selftest_is_shown(evidence: Evidence):
    assert [(row.check, row.verdict) for row in evidence.selftest] == [
        ("chance", "held"),
        ("batch size", "did not hold"),
    ]


def test_faulty_controls_leave_no_figure(tmp_path: Path):
    write_run(tmp_path, "models/one", usual_canaries(0.9), control_p=0.001)
    evidence = gather(tmp_path, PLAIN)
    (task,) = [task for task in evidence.summary if task.task == "canary_exposure"]
    assert task.caution == "the controls show a fault"
    assert task.sentence == ""
    (check,) = [check for check in evidence.checks if check.metric == "control_p" and check.task == task.task]
    assert check.held is False
    annex = json.dumps(dataclasses.asdict(evidence.annexes[0]))
    assert "canary_exposure: no figure represents the model: the controls show a fault" in annex
    assert "canary_exposure: Exposure" not in annex


def test_natural_secrets_stay_hidden(tmp_path: Path):
    secret = {"template": "anna's pin is {digits:6}", "secret": tuple("987654"), "reveal": True}
    hidden = [canary(f"n{number}", rank=number + 1, kind="natural", **secret) for number in range(4)]
    write_run(tmp_path, "models/one", [*hidden, canary("k", rank=9, repetitions=0, kind="natural", **secret)])
    text = page(gather(tmp_path, PLAIN))
    assert "anna" not in text
    assert "987654" not in text


def _manifest(results: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A copy of the results with the hash of a manifest, and the manifest."""
    canaries = make_canaries("{unique} pin {digits:3}", 2, seed=1)
    write_manifest(canaries, tmp_path / "canaries.jsonl")
    copy = Path(shutil.copytree(results, tmp_path / "copy"))
    file = copy / f"results_{STAMP}.json"
    file.write_text(file.read_text().replace("ab" * 32, manifest_hash(canaries)))
    return copy, tmp_path / "canaries.jsonl"


def test_the_manifest_must_be_that_of_the_run(results: Path, tmp_path: Path):
    copy, manifest = _manifest(results, tmp_path)
    evidence = gather(copy, PLAIN, Files(manifest=manifest))
    (given,) = [each for each in evidence.hashes if each.name == "canaries.jsonl"]
    assert given.digest in [each.digest for each in evidence.hashes if each.name == "canary_exposure"]
    with pytest.raises(OptionError, match="the run attacked other canaries: give the manifest of canaries="):
        gather(results, PLAIN, Files(manifest=manifest))


def test_data_are_compared_with_the_planted_data(results: Path, tmp_path: Path):
    copy = Path(shutil.copytree(results, tmp_path / "copy"))
    (tmp_path / "planted.txt").write_text("planted")
    file = copy / f"results_{STAMP}.json"
    file.write_text(file.read_text().replace("cd" * 32, hashlib.sha256(b"planted").hexdigest()))
    given = Files(data=(tmp_path / "planted.txt", copy))
    found = [each for each in gather(copy, PLAIN, given).hashes if each.kind == "data"]
    assert [each.source for each in found] == [
        "computed from the file; the planted data of the results",
        "computed from the file; not compared: the results record no hash of this file",
    ]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (lambda folder: Files(model=(folder / "none",)), "holds no files of a model"),
        (lambda folder: Files(selftest=folder / "none"), "cannot be read"),
        (lambda folder: Files(selftest=folder / "text"), "holds no self-test (not JSON)"),
        (lambda folder: Files(selftest=folder / "empty.json"), "checks: expected a list of checks"),
        (lambda folder: Files(data=(folder / "none",)), "cannot be read"),
    ],
)
def test_a_wrong_file_is_one_clear_line(results: Path, tmp_path: Path, given: Any, why: str):
    (tmp_path / "text").write_text("no json")
    (tmp_path / "empty.json").write_text("{}")
    with pytest.raises(LeakageError) as error:
        gather(results, PLAIN, given(tmp_path))
    assert why in str(error.value)


def test_several_models_are_named(tmp_path: Path):
    for name in ("models/one", "models/two"):
        write_run(tmp_path, name, usual_canaries(0.5))
    with pytest.raises(ResultsError, match=r"holds 2 runs \(one, two\): give the results file of one run"):
        gather(tmp_path, PLAIN)


def test_a_folder_without_results_is_an_error(tmp_path: Path):
    with pytest.raises(ResultsError, match="no results file in it or below"):
        gather(tmp_path, PLAIN)


def test_results_without_leakage_are_an_error(tmp_path: Path):
    write_run(tmp_path, "models/one", useful={"arc": 0.5})
    with pytest.raises(ResultsError, match="no leakage was measured"):
        gather(tmp_path, PLAIN)


def test_the_command_writes_the_page(results: Path, model: Path, tmp_path: Path, leakage: Leakage):
    path = tmp_path / "report.html"
    words = ["--name", "My model", "--release", "open weights", "--delta", "1e-5", "--model", model]
    limits = ["--limit", "exposure_max=25", "--allow", "planting-claimed"]
    code, out, err = leakage("report", results, "-o", path, *words, *limits)
    assert (code, out, err) == (0, f"wrote {path}\n", "")
    assert path.read_text(encoding="utf-8") == page(gather(results, SETTINGS, Files(model=(model,))))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--delta", "1"], "--delta is 1: give a number of at least 0 and less than 1"),
        (["--allow", "all"], "--allow is 'all', not a condition of leakage check"),
        (["--limit", "exposure_max"], "--limit 'exposure_max': expected metric=number"),
        (["--limit", "nothing=1"], "nothing is not in it"),
    ],
)
def test_a_wrong_option_is_one_clear_line(results: Path, tmp_path: Path, refused: Refused, words: Any, why: str):
    assert why in refused("report", results, "-o", tmp_path / "a.html", *words)
    assert not (tmp_path / "a.html").exists()


def test_options_whose_names_are_no_nouns_have_other_names(tmp_path: Path):
    protocol = {"of": "gsm8k", "of_split": "test", "ordinary": "ab" * 8}
    declared = {"canary_exposure": declaration("canary_exposure", protocol=protocol)}
    content = results({"canary_exposure": leaking()["canary_exposure"]}, declared=declared)
    (run,) = read_runs([write(tmp_path, content)])
    found = {fact.name: fact.value for group in protocol_of(run) for fact in group.facts}
    assert (found["Benchmark"], found["Split of the benchmark"]) == ("gsm8k", "test")
    assert found["Ordinary prompts (hash)"] == "ab" * 8
