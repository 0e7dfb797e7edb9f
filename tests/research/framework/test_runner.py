"""Trials run once, resume where they stopped, and leave whole reports or none."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from leakage_tasks.core.errors import LeakageError, OptionError, TargetError
from leakage_tasks.research.framework import trials as trials_module
from leakage_tasks.research.framework.registry import Config, Result, Study, StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Measured, Report
from leakage_tasks.research.framework.runner import StudyRun, run_studies
from leakage_tasks.research.framework.trials import made_by
from tests.research.toy import Toy, make_study

SMOKE = StudyPlan("smoke")


def run_one(study: Study, output: Path, plan: StudyPlan = SMOKE, fresh: bool = False) -> StudyRun:
    (done,) = run_studies([study], plan, output, fresh=fresh, progress=False)
    return done


def test_what_is_reported_is_what_the_trials_found(study: Study, tmp_path: Path) -> None:
    rows = run_one(study, tmp_path).report.rows
    assert [row["ours"] for row in rows] == [Measured.rate(0, 3), Measured.rate(3, 3)]


def test_a_second_run_reads_what_the_first_saved(study: Study, toy: Toy, tmp_path: Path) -> None:
    first = run_one(study, tmp_path)
    second = run_one(study, tmp_path)
    assert len(toy.ran) == 6
    assert (second.ran, second.reused) == (0, 6)
    assert second.report == first.report
    assert second.seconds == first.seconds


def test_a_trial_is_the_same_run_or_read(study: Study, tmp_path: Path) -> None:
    seen: list[list[Result]] = []

    def report(trials, plan):
        seen.append([trial.result for trial in trials])
        return Report(["a"], [])

    for _ in range(2):
        run_one(replace(study, report=report), tmp_path)
    assert seen[0] == seen[1]
    assert seen[0][0] == {"hit": 0, "pair": [0, "cast"]}


def test_an_interrupted_run_goes_on(study: Study, toy: Toy, tmp_path: Path) -> None:
    toy.stop_after = 4
    with pytest.raises(KeyboardInterrupt):
        run_one(study, tmp_path)
    assert not (tmp_path / "coins/smoke/table-1").exists()
    toy.stop_after = None
    done = run_one(study, tmp_path)
    assert (done.ran, done.reused) == (2, 4)
    assert toy.ran == toy.trials(SMOKE)


def test_studies_of_one_paper_share_trials(study: Study, toy: Toy, tmp_path: Path) -> None:
    other = make_study(toy, "coins/table-2")
    runs = list(run_studies([study, other], SMOKE, tmp_path, fresh=True, progress=False))
    assert [(done.ran, done.reused) for done in runs] == [(6, 0), (0, 6)]
    assert (tmp_path / "coins/smoke/table-2/report.json").exists()


def test_another_run_function_is_another_trial(study: Study, toy: Toy, tmp_path: Path) -> None:
    def otherwise(config: Config, shared: Path) -> Result:
        return {"hit": 1 - config["coin"]}

    run_one(study, tmp_path)
    rows = run_one(replace(study, run=otherwise), tmp_path).report.rows
    assert [row["ours"].value for row in rows] == [1, 0]


def test_more_trials_keep_those_there_are(study: Study, toy: Toy, tmp_path: Path) -> None:
    run_one(study, tmp_path)
    done = run_one(study, tmp_path, StudyPlan("smoke", trials=4))
    assert (done.ran, done.reused) == (2, 6)
    assert run_one(study, tmp_path, StudyPlan("smoke", seed=2, trials=1)).ran == 0


def test_a_config_named_twice_is_run_once(study: Study, toy: Toy, tmp_path: Path) -> None:
    done = run_one(replace(study, trials=lambda plan: toy.trials(plan) * 2), tmp_path)
    assert done.ran == 6
    assert [row["ours"].count for row in done.report.rows] == [3, 3]


@pytest.mark.parametrize("package", ["lm-eval-leakage", "torch", "transformers"])
def test_another_version_runs_trials_anew(
    study: Study, toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    run_one(study, tmp_path)
    before = trials_module.versions()
    monkeypatch.setattr(trials_module, "versions", lambda *more: before | {package: "99"})
    assert run_one(study, tmp_path).ran == 6


def test_fresh_runs_trials_anew(study: Study, toy: Toy, tmp_path: Path) -> None:
    run_one(study, tmp_path)
    (mould,) = (tmp_path / "coins/smoke/shared").rglob("mould.txt")
    mould.write_text("worn")
    assert run_one(study, tmp_path, fresh=True).ran == 6
    assert mould.read_text() == "cast"


def test_a_damaged_trial_is_run_anew(study: Study, toy: Toy, tmp_path: Path) -> None:
    run_one(study, tmp_path)
    one, two, *_ = sorted((tmp_path / "coins/smoke/trials").iterdir())
    one.write_text("{")
    two.write_text("[]")
    assert run_one(study, tmp_path).ran == 2


def test_the_folder_of_a_report(study: Study, tmp_path: Path) -> None:
    done = run_one(study, tmp_path)
    assert done.folder == tmp_path / "coins/smoke/table-1"
    names = ["figure.png", "how.json", "report.json", "table.md", "table.txt"]
    assert sorted(path.name for path in done.folder.iterdir()) == names
    report = json.loads((done.folder / "report.json").read_text())
    assert report["study"] == "coins/table-1"
    assert report["rows"][0]["paper"] == {"published": 0.25}
    assert report["rows"][1]["ours"] == vars(Measured.rate(3, 3))
    assert report["claims"][1] == {"words": "coin 0 hits", "holds": False, "evidence": "0 of 3", "p": None, "takes": ""}
    assert {f"{name}.json" for name in report["trials"]} == {
        path.name for path in (tmp_path / "coins/smoke/trials").iterdir()
    }


def test_how_to_run_it_again(study: Study, tmp_path: Path) -> None:
    done = run_one(study, tmp_path / "a b", StudyPlan("smoke", seed=7, trials=2))
    how = json.loads((done.folder / "how.json").read_text())
    folder = tmp_path / "a b"
    assert how["command"] == f"leakage study run coins/table-1 --scale smoke --seed 7 --trials 2 -o '{folder}'"
    assert {"python", "torch", "transformers", "lm-eval-leakage", "lm_eval"} <= how["versions"].keys()
    assert how["machine"]["cores"] >= 1
    assert how["trials"]["run"] == 4


def test_a_report_that_fails_leaves_the_earlier_one(study: Study, tmp_path: Path) -> None:
    def broken(report: Report, path: Path) -> None:
        path.write_bytes(b"half")
        raise RuntimeError("out of ink")

    done = run_one(study, tmp_path)
    before = {path.name: path.read_bytes() for path in done.folder.iterdir()}
    with pytest.raises(RuntimeError, match="ink"):
        run_one(replace(study, plot=broken), tmp_path)
    assert {path.name: path.read_bytes() for path in done.folder.iterdir()} == before
    assert sorted(path.name for path in done.folder.parent.iterdir()) == ["shared", "table-1", "trials"]


def test_a_failing_trial_is_named(study: Study, tmp_path: Path) -> None:
    def fail(config: Config, shared: Path) -> Result:
        raise TargetError("the coin rolled away: pick it up")

    with pytest.raises(TargetError, match=r'^study coins/table-1: the coin rolled.* \(trial {"coin": 0, "seed": 0}\)$'):
        run_one(replace(study, run=fail), tmp_path)


def test_a_result_that_is_not_json_is_refused(study: Study, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        run_one(replace(study, run=lambda config, shared: {"rate": float("nan")}), tmp_path)
    assert not list((tmp_path / "coins/smoke/trials").iterdir())


def test_a_scale_that_a_study_lacks_is_refused(study: Study, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="coins/table-1 has no scale small: use smoke, paper"):
        run_one(study, tmp_path, StudyPlan("small"))


def test_an_output_that_cannot_be_made(study: Study, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LeakageError, match=r"cannot create the folder .* choose another --output"):
        run_one(study, tmp_path / "file")


def test_a_trial_of_other_code_is_run_anew(
    study: Study, toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for code, ran in (("first", 6), ("first", 6), ("second", 12)):
        monkeypatch.setattr(trials_module, "code_of", lambda run, code=code: code)
        done = run_one(study, tmp_path)
        assert len(toy.ran) == ran
        assert json.loads((done.folder / "how.json").read_text())["code"] == [code]


def test_a_trial_without_a_note_of_its_code_is_kept(study: Study, toy: Toy, tmp_path: Path) -> None:
    done = run_one(study, tmp_path)
    for path in (done.folder.parent / "trials").iterdir():
        data = json.loads(path.read_text())
        path.write_text(json.dumps({name: value for name, value in data.items() if name not in ("code", "device")}))
    how = json.loads((run_one(study, tmp_path).folder / "how.json").read_text())
    assert (len(toy.ran), how["code"], how["seeds"]) == (6, [None], 3)


def test_torch_without_a_gpu_tells_the_device_of_an_earlier_trial() -> None:
    assert trials_module._only_device({"torch": "2.13.0+cpu"}) == "CPU"
    assert trials_module._only_device({"torch": "2.13.0"}) is None


def test_the_fewest_seeds_of_a_setting_count() -> None:
    trials = [StudyTrial({"coin": coin, "seed": seed}, {}, 0.0, "a", "CPU") for coin, seed in ((0, 0), (0, 1), (1, 0))]
    assert made_by(trials) == {"code": ["a"], "devices": ["CPU"], "seeds": 1}
