"""The doctor's checks, each with a fault for it to find, and its one real examination."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from leakage_tasks.cli import doctor
from leakage_tasks.harness import places, plugin, run


def test_a_clean_bill(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for check in ("versions", "device", "harness", "adapters", "unfinished_files", "end_to_end"):
        monkeypatch.setattr(doctor, check, lambda: iter([doctor.DoctorLine("fine")]))
    assert doctor.doctor() == 0
    assert capsys.readouterr().out == "ok       fine\n" * 6 + "all is well\n"


def test_problems_come_with_remedies_and_a_count(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> Iterator[doctor.DoctorLine]:
        yield doctor.DoctorLine("half done")
        raise RuntimeError("two\nlines")

    for check in ("device", "harness", "adapters", "unfinished_files"):
        monkeypatch.setattr(doctor, check, lambda: iter(()))
    monkeypatch.setattr(doctor, "versions", lambda: iter([doctor.DoctorLine("it is old", "pip install new")]))
    monkeypatch.setattr(doctor, "end_to_end", broken)
    assert doctor.doctor() == 1
    assert capsys.readouterr().out.splitlines() == [
        "PROBLEM  it is old: pip install new",
        "ok       half done",
        "PROBLEM  broken failed: correct this first: RuntimeError: two lines",
        "2 problems",
    ]


def test_what_killed_runs_left_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert texts(doctor.unfinished_files()) == ["ok       no killed run left incomplete files here"]
    for number in range(7):
        (tmp_path / "data" / f".leakage-{number}.part").mkdir(parents=True)
    found = texts(doctor.unfinished_files())
    place = tmp_path / "data" / ".leakage-0.part"
    assert found[0] == f"PROBLEM  {place}: left by a killed run: remove it: it may hold private text"
    assert found[-1] == "PROBLEM  2 more such files: remove them too"


def texts(lines: Iterator[doctor.DoctorLine]) -> list[str]:
    return [str(line) for line in lines]


def test_versions_out_of_range_or_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = {"lm-eval-leakage": "0.1.0", "lm-eval": "0.5.1", "torch": "2.13.0+cpu"}

    def version(name: str) -> str:
        if name not in installed:
            raise importlib.metadata.PackageNotFoundError(name)
        return installed[name]

    wanted = ["lm-eval[hf]<0.5,>=0.4.13", "torch>=2.6", "scipy>=1.12", "ruff; extra == 'test'"]
    monkeypatch.setattr(importlib.metadata, "version", version)
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: wanted)
    assert texts(doctor.versions())[1:] == [
        "ok       lm-eval-leakage 0.1.0",
        "PROBLEM  lm-eval 0.5.1 is outside <0.5,>=0.4.13: pip install 'lm-eval<0.5,>=0.4.13'",
        "ok       torch 2.13.0+cpu (range >=2.6)",
        "PROBLEM  scipy is not installed: pip install 'scipy>=1.12'",
    ]
    del installed["lm-eval-leakage"]
    assert texts(doctor.versions())[1:] == [
        "PROBLEM  lm-eval-leakage is not installed: pip install . (or pip install -e .) in its checkout"
    ]


def test_an_operating_system_without_file_locks_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "os", SimpleNamespace(name="nt"))
    monkeypatch.setattr("platform.system", lambda: "Windows")
    assert texts(doctor.versions())[1] == "PROBLEM  Windows has no file locks as Linux and macOS do: use it in WSL"


def test_the_device_is_named() -> None:
    (line,) = doctor.device()
    assert line.text.startswith("device ")


@pytest.mark.parametrize("switch", ["0", "1"])
def test_a_harness_that_does_not_know_us(monkeypatch: pytest.MonkeyPatch, switch: str) -> None:
    monkeypatch.setenv("LM_EVAL_LEAKAGE_AUTOLOAD", switch)
    monkeypatch.setattr(run, "all_tasks", lambda: None)
    monkeypatch.setattr(plugin, "status", lambda manager: plugin.Status("startup file", *["not at all"] * 2))
    lines = texts(doctor.harness())
    assert lines[-3:-1][0] == "ok       the harness finds our tasks by startup file"
    remedy = "unset LM_EVAL_LEAKAGE_AUTOLOAD" if switch == "0" else "pip install --force-reinstall --no-deps"
    assert all(remedy in line for line in lines if line.startswith("PROBLEM"))
    assert len(lines) == (4 if switch == "0" else 3)


def test_hidden_adapters_are_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    fine = list(doctor.adapters())
    assert [line.remedy for line in fine] == [None] * len(places.our_models())
    monkeypatch.setattr(places, "hiding_package", lambda: "/somewhere/adapters/__init__.py")
    (line,) = doctor.adapters()
    assert line.remedy is not None
    assert "pip install ." in line.remedy
    assert "/somewhere/adapters" in line.text


def test_the_tiny_model_loads_and_its_tokenizer_loses_nothing(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    doctor.tiny_model(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    text = doctor.TEMPLATE.replace("{digits:2}", "01")
    ids = tokenizer(text, return_tensors="pt").input_ids
    assert tokenizer.decode(ids[0]) == text
    assert AutoModelForCausalLM.from_pretrained(tmp_path)(ids).logits.shape == (1, len(text), len(tokenizer))


@pytest.mark.slow
def test_the_examination_of_a_tiny_model(monkeypatch: pytest.MonkeyPatch) -> None:
    from lm_eval.tasks import TaskManager

    monkeypatch.setattr(TaskManager, "__init__", TaskManager.__init__)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    plugin.install()
    (line,) = doctor.end_to_end()
    assert line.remedy is None
    assert line.text.startswith("audited a tiny random model (exposure ")


def test_nonsense_from_the_harness_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    results = {"canary_exposure": {"exposure_x1,none": float("nan")}, "canary_extraction": {"extracted_x1,none": 0.0}}
    monkeypatch.setattr(doctor, "_audit", lambda folder: results)
    (line,) = doctor.end_to_end()
    assert line.remedy is not None
