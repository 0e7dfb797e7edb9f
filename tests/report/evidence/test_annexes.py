from __future__ import annotations

import dataclasses
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from leakage_tasks.attacks import ATTACKS
from leakage_tasks.attacks.classes import MEANINGS
from leakage_tasks.core.null_results import null_result
from leakage_tasks.metrics.scoring import SCORINGS, Scoring
from leakage_tasks.report.evidence.annexes import NOT_TESTED, classes_of
from leakage_tasks.report.evidence.gather import gather
from leakage_tasks.report.evidence.omissions import omissions_of
from leakage_tasks.report.evidence.questions import NO_PROMISE
from leakage_tasks.report.evidence.record import AnnexQuestion, Evidence, Omission, Settings
from leakage_tasks.report.load.results import read_one_run
from tests.report.made import STAMP

PLAIN = Settings("", "", 0.0, (), ())


def question(evidence: Evidence, topic: str) -> AnnexQuestion:
    (found,) = [each for annex in evidence.annexes for each in annex.questions if topic in each.topic]
    return found


def declared(results: Path, place: Path, **changed: Any) -> Path:
    """A copy of the results in which the exposure task declares other entries."""
    copy = Path(shutil.copytree(results, place / "copy"))
    file = copy / f"results_{STAMP}.json"
    content = json.loads(file.read_text())
    content["configs"]["canary_exposure"]["leakage"] |= changed
    file.write_text(json.dumps(content))
    return copy


def test_every_task_of_the_package_that_measures_leakage_declares_a_class():
    without = [name for name, scoring in SCORINGS.without_plugins().items() if not scoring.classes]
    assert without == []


def test_every_declared_class_has_a_meaning():
    classes = {kind for scoring in SCORINGS.values() for kind in scoring.classes}
    classes |= {kind for attack in ATTACKS.values() for kind in attack.classes}
    assert classes <= MEANINGS.keys()


def test_the_classes_come_from_the_declaration_else_from_the_scoring(results: Path, tmp_path: Path):
    older = read_one_run(results).tasks
    assert classes_of(older["canary_exposure"]) == ("attribute inference", "membership inference")
    assert classes_of(older["canary_extraction"]) == ("reconstruction",)
    newer = read_one_run(declared(results, tmp_path, classes=["regurgitation"])).tasks
    assert classes_of(newer["canary_exposure"]) == ("regurgitation",)


def test_a_scoring_without_classes_has_those_of_its_goal(results: Path, monkeypatch: pytest.MonkeyPatch):
    bare = Scoring("canary_exposure", lambda a, b: [], lambda a, b, c, d: {}, list, goal="suffixes")
    monkeypatch.setattr("leakage_tasks.report.evidence.annexes.SCORINGS", {"canary_exposure": bare})
    assert classes_of(read_one_run(results).tasks["canary_exposure"]) == ("regurgitation",)


def test_a_scoring_of_a_package_that_is_not_installed_has_no_classes(results: Path, tmp_path: Path):
    copy = declared(results, tmp_path, scoring="elsewhere")
    assert classes_of(read_one_run(copy).tasks["canary_exposure"]) == ()
    assert "canary_exposure" in [task.task for task in gather(copy, PLAIN).summary]


def test_a_class_that_ran_has_its_figures_with_count_interval_controls_and_verdict(evidence: Evidence):
    figures = question(evidence, "attribute inference").figures
    (row,) = [row for row in evidence.results if row.metric == "exposure_x1"]
    (line,) = [line for line in figures if line.startswith(f"canary_exposure: {row.title} ")]
    assert "n = 10" in line
    assert "controls " in line
    assert "1.44 bits" in line
    assert line.endswith("verdict: above chance)")
    assert " [" in line
    assert question(evidence, "attribute inference").command == ""


def test_membership_has_the_audit_with_controls(evidence: Evidence):
    figures = question(evidence, "membership inference").figures
    known = [figure for figure in evidence.audit if figure.refused is None]
    assert known
    assert [line for line in figures if line.startswith("Membership AUC: ")]
    assert len([line for line in figures if not line.startswith("canary_exposure")]) == len(known)


def test_a_class_without_figures_is_not_tested_with_the_command_that_would(evidence: Evidence):
    asked = question(evidence, "resistance to attacks: regurgitation")
    assert asked.figures == (NOT_TESTED,)
    assert asked.command.startswith("lm_eval --model hf --model_args pretrained=models/one --tasks memorization ")
    assert "--metadata data=FILE" in asked.command
    assert "--metadata of=TASK" in omission(evidence, "contamination_test").command


def test_a_class_of_attacks_for_other_models_says_so(evidence: Evidence):
    asked = question(evidence, "model inversion")
    words = "the attacks of this class (inversion, label-search, mix-and-match) are for other kinds of model"
    assert asked.figures == (f"{NOT_TESTED}; {words}",)
    assert asked.command == ""


def test_a_class_that_no_task_declares_says_so(evidence: Evidence):
    asked = question(evidence, "exfiltration")
    assert asked.figures == (f"{NOT_TESTED}; no installed task declares this class",)


def test_the_release_is_stated_by_the_author(evidence: Evidence, results: Path):
    assert question(evidence, "Release").figures == ("stated by the author of the report: open weights",)
    assert question(gather(results, PLAIN), "Release").figures == ("not stated: give --release",)


def test_annexes_promise_nothing(evidence: Evidence):
    assert len(evidence.annexes) == 2
    assert {annex.statement for annex in evidence.annexes} == {NO_PROMISE}
    assert "does not promise, show or certify that a model is anonymous" in NO_PROMISE


def test_each_annex_states_what_its_numbers_were_checked_against(evidence: Evidence):
    for annex in evidence.annexes:
        numbers = {
            number for asked in annex.questions for number in re.findall(r"(?:Paragraph|Measure) ([\d.]+)", asked.topic)
        }
        assert numbers
        checked = annex.document.partition("checked on")[2]
        assert all(re.search(rf"\b{re.escape(number)}\b", annex.document) for number in numbers)
        assert "was not available for the check" in checked


def omission(evidence: Evidence, name: str) -> Omission:
    (found,) = [each for each in evidence.omissions if each.name == name]
    return found


def test_tasks_and_attacks_that_did_not_run_are_listed_with_commands(evidence: Evidence):
    tasks = [each.name for each in evidence.omissions if each.kind == "task"]
    assert {"memorization", "suffix_extraction", "untargeted_extraction"} <= set(tasks)
    assert not {"canary_exposure", "canary_extraction"} & set(tasks)
    beam = omission(evidence, "beam")
    assert (beam.kind, beam.reason) == ("attack", "not requested in this run")
    assert "--tasks canary_extraction --metadata canaries=canaries.jsonl,attack=beam " in beam.command
    assert not [each for each in evidence.omissions if each.name in ("exposure", "label-search")]


def test_tasks_that_continue_text_are_not_listed_for_a_classifier(results: Path, tmp_path: Path):
    on_classes = declared(results, tmp_path, attacks=[{"attack": "class-loss", "access": "black box"}])
    tasks = [each.name for each in omissions_of(read_one_run(on_classes)) if each.kind == "task"]
    assert not {"memorization", "membership", "untargeted_extraction"} & set(tasks)


def test_a_task_that_the_model_could_not_serve_has_its_reason(results: Path, tmp_path: Path):
    copy = Path(shutil.copytree(results, tmp_path / "copy"))
    file = copy / f"results_{STAMP}.json"
    content = json.loads(file.read_text())
    row = content["results"]["canary_extraction"]
    content["results"]["canary_extraction"] = {
        name: None if name.endswith(",none") else value for name, value in row.items()
    }
    file.write_text(json.dumps(content))
    samples = copy / f"samples_canary_extraction_{STAMP}.jsonl"
    lines = [json.loads(line) for line in samples.read_text().splitlines()]
    reason = null_result("the model has no logits")
    samples.write_text("".join(json.dumps(line | {"resps": [[reason]]}) + "\n" for line in lines))
    evidence = gather(copy, PLAIN)
    assert [task.task for task in evidence.summary] == ["canary_exposure"]
    assert omission(evidence, "canary_extraction").reason == "declined: the model has no logits"


def test_a_declined_attack_has_its_reason(results: Path, tmp_path: Path):
    tested = {"planted": 20, "controls": 20, "not_run": {"beam": "needs logits"}}
    evidence = gather(declared(results, tmp_path, tested=tested), PLAIN)
    (facts,) = [group.facts for group in evidence.protocol if group.title == "Task canary_exposure"]
    assert "not run: the attack beam" in facts[0].value
    assert dataclasses.asdict(omission(evidence, "beam")) == {
        "kind": "attack",
        "name": "beam",
        "reason": "declined: needs logits",
        "command": "",
    }
