"""Calling lm_eval: what is said to it, what is read back, and what a failure looks like."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from leakage_tasks.attacks import Finding, Guess
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.research.victims.harness_run import HarnessCommand


def command(output: Path, **metadata: str | int) -> HarnessCommand:
    return HarnessCommand(Path("runs/demo/model"), ("one", "two"), metadata, output)


def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Let ``script`` (sh) run in place of Python."""
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))


def test_plain_values_are_given_as_a_user_would_type_them():
    words = command(Path("out"), canaries="runs/demo/canaries.jsonl", text="a.txt").arguments
    assert words[words.index("--metadata") + 1] == "canaries=runs/demo/canaries.jsonl,text=a.txt"
    assert words[words.index("--model_args") + 1] == "pretrained=runs/demo/model"
    assert words[words.index("--tasks") + 1] == "one,two"


@pytest.mark.parametrize(
    "value", ["a, b/c.jsonl", "x=1", "12", 12, "[1]", "with space", 'quo"te', "None", "1e5", "true"]
)
def test_values_the_harness_would_misread_arrive_whole(value):
    from lm_eval._cli.utils import key_val_to_dict, try_parse_json

    words = command(Path("out"), canaries=value).arguments
    given = try_parse_json(words[words.index("--metadata") + 1])
    assert (given if isinstance(given, dict) else key_val_to_dict(given)) == {"canaries": value}


def test_other_models_tasks_and_batches_are_asked_for():
    words = HarnessCommand(
        Path("runs/model"),
        ("one",),
        {"data": "a.jsonl"},
        Path("out"),
        kind="classifier-scorer",
        settings={"truncate": True, "max_length": 32},
        include=Path("tasks"),
        batch_size="auto:4",
    ).arguments
    assert words[words.index("--model") + 1] == "classifier-scorer"
    assert words[words.index("--model_args") + 1] == "pretrained=runs/model,truncate=True,max_length=32"
    assert words[words.index("--include_path") + 1] == "tasks"
    assert words[words.index("--batch_size") + 1] == "auto:4"


def test_what_is_not_asked_for_is_not_said():
    assert not {"--include_path", "--batch_size"} & set(command(Path("out")).arguments)


def test_it_runs_offline_and_keeps_table_and_messages_apart(tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    stand_in(tmp_path, monkeypatch, 'echo "messages $HF_HUB_OFFLINE $OMP_NUM_THREADS" >&2; echo "table: $*"')
    stale = tmp_path / "results" / "old.json"
    stale.parent.mkdir()
    stale.write_text("{}")
    table = command(tmp_path / "results").run(tmp_path / "log")
    assert table.startswith("table: -m lm_eval --model hf")
    assert (tmp_path / "log").read_text() == "messages 1 1\n"
    assert not stale.exists()


def test_a_failure_is_one_line_with_the_last_message(tmp_path, monkeypatch):
    stand_in(tmp_path, monkeypatch, 'printf "much\\nthe reason\\n\\n" >&2; exit 3')
    with pytest.raises(LeakageError, match=r"code 3 \(the reason\).*log.*leakage doctor"):
        command(tmp_path / "results").run(tmp_path / "log")


def test_findings_are_read_from_the_samples_of_their_task(tmp_path):
    one = Finding(
        "canary-0", "shortest-path", True, 10, "random", 29.9, (Guess(("1", "2"), "x 12", 3.5),), 1, (True, True)
    )
    two = Finding("control-0", "shortest-path", False, 0, "random", 29.9)
    folder = tmp_path / "results" / "model"
    folder.mkdir(parents=True)
    lines = [json.dumps({"resps": [[finding.to_json()]]}) for finding in (one, two)]
    (folder / "samples_one_2024.jsonl").write_text("\n".join(lines) + "\n")
    assert command(tmp_path / "results").findings("one") == [one, two]
    with pytest.raises(LeakageError, match="no samples of two"):
        command(tmp_path / "results").findings("two")


def test_figures_are_read_from_the_results_file(tmp_path):
    folder = tmp_path / "results" / "model"
    folder.mkdir(parents=True)
    (folder / "results_2024.json").write_text(json.dumps({"results": {"one": {"acc,none": 0.5}}}))
    assert command(tmp_path / "results").results() == {"results": {"one": {"acc,none": 0.5}}}
    with pytest.raises(LeakageError, match="no results: run lm_eval"):
        command(tmp_path / "nowhere").results()
