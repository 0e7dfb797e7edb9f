"""What a run notes of its own command: every word, but no password and no key, in the main process alone."""

from __future__ import annotations

import json

import pytest

from leakage_tasks.core.command_words import HIDDEN
from leakage_tasks.tasks.own_command import own_command

WORDS = ["--model", "hf", "--model_args", "pretrained=a model,dtype=float32", "--limit=3", "--log_samples"]


@pytest.mark.parametrize("program", ["/v/bin/lm_eval", "/v/bin/lm-eval", "/v/lm_eval/__main__.py", "lm_eval.exe"])
def test_every_word_is_noted(monkeypatch, program):
    monkeypatch.setattr("sys.argv", [program, *WORDS])
    assert own_command() == WORDS


def test_what_the_harness_adds_is_not_noted(monkeypatch):
    monkeypatch.setattr("sys.argv", ["lm_eval", "run", *WORDS])
    assert own_command() == WORDS


@pytest.mark.parametrize("program", ["/v/bin/leakage", "-c", "", "/v/other/__main__.py", "my_lm_eval.py"])
def test_another_program_has_none(monkeypatch, program):
    monkeypatch.setattr("sys.argv", [program, *WORDS])
    assert own_command() == []


@pytest.mark.parametrize(("rank", "notes"), [("0", True), ("1", False)])
def test_the_main_process_alone_notes_it(monkeypatch, rank, notes):
    monkeypatch.setattr("sys.argv", ["lm_eval", *WORDS])
    monkeypatch.setenv("RANK", rank)
    assert bool(own_command()) is notes


@pytest.mark.parametrize(
    "word",
    [
        "base_url=http://a,api_key=mysecret",
        json.dumps({"auth": {"token": "mysecret"}, "model": "a"}),
        json.dumps([{"header": "mysecret"}]),
        "url=https://me:mysecret@host/v1",
        "sk-mysecret0123456789abc",
        'model=a,header={"a":"x","b":"mysecret"}',
        'model=a,header={"a":"x","b":"mysecret=="}',
        "model=a,token=mysecret==",
        "API_KEY=mysecret",
        json.dumps({"headers": {"Authorization": "Bearer mysecret"}}),
        json.dumps({"a": [{"authorization": "Bearer mysecret"}]}),
        '{"api_key": "mysecret"',
    ],
)
@pytest.mark.parametrize("form", ["apart", "joined"])
def test_passwords_and_keys_are_not(monkeypatch, word, form):
    words = ["--model_args", word] if form == "apart" else [f"--model_args={word}"]
    monkeypatch.setattr("sys.argv", ["lm_eval", *words])
    assert "mysecret" not in str(own_command())
    assert HIDDEN in str(own_command())


@pytest.mark.parametrize("words", [["--token", "mysecret=="], ["--api_key=mysecret,a=b"], ["--hf_token", "a=mysecret"]])
def test_nothing_is_shown_of_an_option_that_is_a_key(monkeypatch, words):
    monkeypatch.setattr("sys.argv", ["lm_eval", *words])
    assert "mysecret" not in str(own_command())


def test_json_stays_what_it_says(monkeypatch):
    given = {"canaries": "a b.jsonl", "width": 8, "text": "é, =", "canary_exposure": {"attack": "rank-sample"}}
    monkeypatch.setattr("sys.argv", ["lm_eval", "--metadata", json.dumps(given)])
    assert json.loads(own_command()[1]) == given
