"""Metadata from the environment count as if they were given, and give way to what is given, name by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies

from leakage_tasks.canaries import make_canaries, write_manifest
from leakage_tasks.core.errors import OptionError
from leakage_tasks.harness.default_metadata import VARIABLE, command_with_defaults, default_metadata, with_defaults
from leakage_tasks.harness.given import forgotten_after, full_metadata, names_of_model, noted
from leakage_tasks.tasks.canary_tasks import CanaryExposure
from leakage_tasks.tasks.heldout_text import documents
from leakage_tasks.tasks.options import read_options
from leakage_tasks.tasks.own_command import own_command

NAMES = strategies.sampled_from(["canaries", "budget", "seed", "canary_exposure"])
VALUES = strategies.integers(0, 9) | strategies.text("ab", max_size=2)


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    write_manifest(make_canaries("pin {digits:2}.", 2, controls=1), tmp_path / "canaries.jsonl")
    return tmp_path / "canaries.jsonl"


@pytest.mark.parametrize("unset", ["", "  "])
def test_an_empty_variable_is_unset(monkeypatch: pytest.MonkeyPatch, unset: str) -> None:
    monkeypatch.setenv(VARIABLE, unset)
    assert default_metadata() == {}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"budget": 5', "not JSON: the text breaks off at line 1"),
        ("budget=5", "not JSON: Expecting value at line 1, column 1"),
        ("[1]", "holds JSON of type list"),
        ('"canaries"', "holds JSON of type str"),
        ("[" * 100_000, "not JSON: nested too deeply"),
    ],
)
def test_another_value_is_one_line_that_names_the_variable(
    monkeypatch: pytest.MonkeyPatch, text: str, fault: str
) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(OptionError) as error:
        CanaryExposure({"task": "canary_exposure"})
    assert str(error.value).startswith(f"{VARIABLE}: {fault}")
    assert "expected a JSON object" in str(error.value)


@given(strategies.dictionaries(NAMES, VALUES), strategies.dictionaries(NAMES, VALUES))
def test_what_is_given_wins_name_by_name(given: dict[str, Any], defaults: dict[str, Any]) -> None:
    merged = with_defaults(given, defaults)
    assert merged.keys() == given.keys() | defaults.keys()
    assert all(value == (given if name in given else defaults)[name] for name, value in merged.items())


def test_an_option_of_the_run_wins_over_a_default_of_one_task() -> None:
    defaults = {"canary_exposure": {"budget": 5, "seed": 1, "attack": "exposure"}}
    given = {"budget": 9, "canary_exposure": {"seed": 2}}
    assert with_defaults(given, defaults) == {"budget": 9, "canary_exposure": {"seed": 2, "attack": "exposure"}}


def test_a_default_is_no_argument_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, '{"budget": 5, "seed": 7}')
    with forgotten_after(), noted({"pretrained": "x", "budget": 3, "seed": 1}, {"seed": 2}):
        metadata = full_metadata({"pretrained": "x", "budget": 3, "seed": 2})
        options = read_options(metadata, "canary_exposure")
        assert names_of_model() == {"pretrained"}
    assert (options.budget, options.seed) == (5, 2)


def test_results_are_those_of_the_metadata_given(monkeypatch: pytest.MonkeyPatch, manifest: Path) -> None:
    values = {"canaries": str(manifest), "budget": 50, "attack": "exposure"}
    passed = CanaryExposure({"task": "canary_exposure", "metadata": {"version": 1.0, **values}})
    monkeypatch.setenv(VARIABLE, json.dumps(values))
    defaulted = CanaryExposure({"task": "canary_exposure", "metadata": {"version": 1.0}})
    assert defaulted.dump_config() == passed.dump_config()
    assert defaulted.protocol()["budget"] == 50


def test_held_out_text_takes_them_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("default", "given"):
        (tmp_path / f"{name}.txt").write_text(f"{name}\n")
    monkeypatch.setenv(VARIABLE, json.dumps({"text": str(tmp_path / "default.txt")}))
    assert documents()["test"]["text"] == ["default\n"]
    assert documents(text=str(tmp_path / "given.txt"))["test"]["text"] == ["given\n"]


@pytest.mark.parametrize(
    ("words", "written"),
    [
        ([], "budget=5,seed=1"),
        (["--metadata", "seed=2"], "seed=2,budget=5"),
        (["--metadata", "seed=2", "width=3", "--limit", "4"], "seed=2,width=3,budget=5"),
        (["--metadata", "seed=2", "-L", "4"], "seed=2,budget=5"),
        (['--metadata={"seed": 2}'], "seed=2,budget=5"),
        (["--metadata", '{"seed": [2]}'], '{"seed": [2], "budget": 5}'),
        (["--metadata", "canaries=007,seed=2"], "canaries=007,seed=2,budget=5"),
    ],
)
def test_a_recorded_command_works_without_the_variable(
    monkeypatch: pytest.MonkeyPatch, words: list[str], written: str
) -> None:
    monkeypatch.setenv(VARIABLE, '{"budget": 5, "seed": 1}')
    rest = words[-2:] if "4" in words else []
    assert command_with_defaults(["--model", "hf", *words]) == ["--model", "hf", *rest, "--metadata", written]


def test_a_command_with_a_configuration_file_is_recorded_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, '{"budget": 5}')
    monkeypatch.setattr("sys.argv", ["lm_eval", "run", "--config", "run.yaml"])
    assert own_command() == ["--config", "run.yaml"]


def test_a_password_among_the_defaults_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, '{"api_key": "abc", "budget": 5}')
    monkeypatch.setattr("sys.argv", ["lm_eval", "--model", "hf"])
    assert own_command() == ["--model", "hf", "--metadata", "api_key=HIDDEN,budget=5"]
