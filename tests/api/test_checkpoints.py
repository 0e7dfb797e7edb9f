"""Each checkpoint is audited once, with the command that its files ask for, and a broken one stops no other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leakage_tasks.api import checkpoints
from leakage_tasks.api.checkpoints import CheckpointSettings, audit_checkpoints, check_any, find_checkpoints
from leakage_tasks.core.errors import LeakageError, OptionError, ResultsError
from leakage_tasks.harness.default_metadata import VARIABLE
from tests.api.checkpoint_runs import Harness, training_run

SETTINGS = CheckpointSettings("canary_exposure", {"budget": 5})


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Harness:
    made = Harness()
    monkeypatch.setattr(checkpoints, "run_command", made)
    return made


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return training_run(tmp_path / "run")


def adapter(folder: Path, base: str | None) -> Path:
    """A checkpoint of an adapter in place of a full model."""
    (folder / "config.json").unlink()
    (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": base}))
    return folder


def test_checkpoints_are_in_the_order_of_steps(run: Path) -> None:
    (run / "checkpoint-5").write_text("a file")
    (run / "runs").mkdir()
    assert [each.name for each in find_checkpoints(run)] == ["checkpoint-10", "checkpoint-20", "checkpoint-100"]


def test_the_command_is_that_of_the_user_with_the_checkpoint_as_model(run: Path, harness: Harness) -> None:
    settings = CheckpointSettings(
        "canary_exposure,hellaswag",
        {"canaries": "c.jsonl", "budget": 5},
        "hf",
        {"dtype": "float32"},
        None,
        ("--limit", "3"),
    )
    audit_checkpoints(run, run / "out", settings)
    assert harness.commands[0] == {
        "--model": "hf",
        "--model_args": f"pretrained={run}/checkpoint-10,dtype=float32",
        "--tasks": "canary_exposure,hellaswag",
        "--metadata": "canaries=c.jsonl,budget=5",
        "--limit": "3",
        "--output_path": str(run / "out" / "checkpoint-10"),
        "--log_samples": "",
    }


@pytest.mark.parametrize(("given", "used"), [(None, "./named"), ("./given", "./given")])
def test_an_adapter_is_loaded_on_its_base_model(run: Path, harness: Harness, given: str | None, used: str) -> None:
    adapter(run / "checkpoint-20", "./named")
    audit_checkpoints(run, run / "out", CheckpointSettings("canary_exposure", base=given))
    (arguments,) = [each["--model_args"] for each in harness.commands if "checkpoint-20" in each["--model_args"]]
    assert arguments == f"pretrained={used},peft={run}/checkpoint-20"


def test_the_base_model_is_step_0(run: Path, harness: Harness) -> None:
    audits = audit_checkpoints(run, run / "out", CheckpointSettings("canary_exposure", base="./base"))
    assert [audit.checkpoint.step for audit in audits] == [0, 10, 20, 100]
    assert harness.commands[0]["--model_args"] == "pretrained=base"
    assert audits[0].results == run / "out" / "base"


@pytest.mark.parametrize(("base", "used"), [("./base", "./base"), (None, "run")])
def test_a_model_saved_without_a_tokenizer_gets_one(run: Path, harness: Harness, base: str | None, used: str) -> None:
    (run / "checkpoint-10" / "tokenizer.json").unlink()
    (run / "tokenizer.json").write_text("{}")
    audit_checkpoints(run, run / "out", CheckpointSettings("canary_exposure", base=base))
    arguments = [each["--model_args"] for each in harness.commands]
    wanted = str(run) if used == "run" else used
    assert [each for each in arguments if "tokenizer=" in each] == [
        f"pretrained={run}/checkpoint-10,tokenizer={wanted}"
    ]


def test_a_finished_checkpoint_is_not_run_again(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Harness("checkpoint-20"), Harness()
    monkeypatch.setattr(checkpoints, "run_command", first)
    audits = audit_checkpoints(run, run / "out", SETTINGS)
    assert [audit.failure is None for audit in audits] == [True, False, True]
    monkeypatch.setattr(checkpoints, "run_command", second)
    assert all(audit.failure is None for audit in audit_checkpoints(run, run / "out", SETTINGS))
    assert [Path(each["--output_path"]).name for each in second.commands] == ["checkpoint-20"]


def test_an_interrupted_audit_is_run_again(run: Path, harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(arguments: Any, log: Path) -> None:
        harness(arguments, log)
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoints, "run_command", interrupt)
    with pytest.raises(KeyboardInterrupt):
        audit_checkpoints(run, run / "out", SETTINGS)
    monkeypatch.setattr(checkpoints, "run_command", harness)
    audit_checkpoints(run, run / "out", SETTINGS)
    assert len(harness.commands) == 4


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"tasks": "canary_extraction"}, "--tasks"),
        ({"metadata": {"budget": 6}}, "--metadata"),
        ({"model_args": {"dtype": "float32"}}, "--model"),
        ({"options": ("--apply_chat_template",)}, "options of lm_eval"),
    ],
)
def test_other_settings_are_an_error_not_a_mixture(
    run: Path, harness: Harness, changed: dict[str, Any], named: str
) -> None:
    audit_checkpoints(run, run / "out", SETTINGS)
    other = CheckpointSettings(**{"tasks": "canary_exposure", "metadata": {"budget": 5}, **changed})
    with pytest.raises(OptionError, match=f"checkpoint-10: was audited with other {named}: choose another --output"):
        audit_checkpoints(run, run / "out", other)
    assert len(harness.commands) == 3


def test_a_manifest_or_checkpoint_that_changed_is_an_error(run: Path, harness: Harness, tmp_path: Path) -> None:
    manifest = tmp_path / "canaries.jsonl"
    manifest.write_text("one")
    settings = CheckpointSettings("canary_exposure", {"canaries": str(manifest)})
    audit_checkpoints(run, run / "out", settings)
    manifest.write_text("another")
    (run / "checkpoint-20" / "model.safetensors").write_text("trained again")
    with pytest.raises(OptionError, match=r"checkpoint-10: was audited with other files of --metadata"):
        audit_checkpoints(run, run / "out", settings)
    manifest.unlink()
    with pytest.raises(OptionError, match=r"files of --metadata"):
        audit_checkpoints(run, run / "out", settings)


def test_defaults_of_the_environment_are_settings_too(
    run: Path, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit_checkpoints(run, run / "out", SETTINGS)
    monkeypatch.setenv(VARIABLE, '{"budget": 7}')
    assert audit_checkpoints(run, run / "out", SETTINGS)
    monkeypatch.setenv(VARIABLE, '{"seed": 7}')
    with pytest.raises(OptionError, match="other --metadata"):
        audit_checkpoints(run, run / "out", SETTINGS)


@pytest.mark.parametrize(
    ("remove", "reason"),
    [
        (["config.json"], "neither config.json nor adapter_config.json is in it"),
        (["model.safetensors"], "no weights in it"),
    ],
)
def test_a_broken_checkpoint_is_one_line_and_the_others_count(
    run: Path, harness: Harness, remove: list[str], reason: str
) -> None:
    for name in remove:
        (run / "checkpoint-20" / name).unlink()
    lines: list[str] = []
    audits = audit_checkpoints(run, run / "out", SETTINGS, lines.append)
    assert [audit.failure is None for audit in audits] == [True, False, True]
    assert [line for line in lines if "left out" in line] == [f"checkpoint-20 (2 of 3): left out: {audits[1].failure}"]
    assert (audits[1].failure or "").startswith(reason)
    assert len(harness.commands) == 2


def test_an_adapter_that_names_no_base_model_is_left_out(run: Path, harness: Harness) -> None:
    adapter(run / "checkpoint-20", None)
    audits = audit_checkpoints(run, run / "out", SETTINGS)
    assert audits[1].failure == "adapter_config.json names no base model: give it with --base"


def test_a_failure_names_the_log(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "run_command", Harness("checkpoint-10", "checkpoint-20", "checkpoint-100"))
    audits = audit_checkpoints(run, run / "out", SETTINGS)
    log = run / "out" / "checkpoint-20" / "lm_eval.log"
    assert audits[1].failure == f"lm_eval ended with code 1: OSError: no weights (see {log})"
    assert log.read_text() == "the log"
    with pytest.raises(LeakageError, match="checkpoint-10: lm_eval ended with code 1.*no other checkpoint could be"):
        check_any(audits)


@pytest.mark.parametrize(("name", "reason"), [("run", "no folder checkpoint-"), ("none", "no such folder")])
def test_a_folder_without_checkpoints_is_an_error(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "run").mkdir()
    with pytest.raises(OptionError, match=reason):
        find_checkpoints(tmp_path / name)


def test_a_foreign_output_folder_is_refused(run: Path, harness: Harness) -> None:
    with pytest.raises(LeakageError, match="no sign that 'leakage checkpoints' wrote it"):
        audit_checkpoints(run, run, SETTINGS)


def test_a_damaged_marker_is_an_error(run: Path, harness: Harness) -> None:
    audit_checkpoints(run, run / "out", SETTINGS)
    (run / "out" / "checkpoint-10" / checkpoints.DONE).write_text("{")
    with pytest.raises(ResultsError, match=r"audited\.json: cannot be read: delete the folder"):
        audit_checkpoints(run, run / "out", SETTINGS)
