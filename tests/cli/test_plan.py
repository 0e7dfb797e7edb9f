"""``leakage plan`` on a model from disk: its table, its file, and its errors of one line."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from leakage_tasks.canaries import Canary, make_canaries, read_manifest, write_manifest
from leakage_tasks.tasks import manifests
from tests.conftest import Leakage, Ran, Refused
from tests.oracles import letters, tiny_gpt2


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    write_manifest(make_canaries("pin {digits:3}.", 6, controls=6, seed=3, id_prefix="p"), tmp_path / "c.jsonl")
    return tmp_path / "c.jsonl"


def test_a_table_and_the_same_as_json(leakage: Leakage, tmp_path: Path, manifest: Path) -> None:
    tiny_gpt2(letters()).save_pretrained(tmp_path / "mine")
    letters().save_pretrained(tmp_path / "mine")
    options = ("--model_args", f"pretrained={tmp_path / 'mine'}", "--device", "cpu", "--metadata", "budget=200")
    code, out, _ = leakage("plan", manifest, *options, "--batch_size", 16, "-o", tmp_path / "plan.json")
    saved = json.loads((tmp_path / "plan.json").read_text())
    assert code == 0
    assert [(each["task"], each["kind"], each["canaries"], each["piloted"]) for each in saved["kinds"]] == [
        (task, kind, 6, 5) for task in ("canary_exposure", "canary_extraction") for kind in ("planted", "control")
    ]
    for name in ("rows", "passes", "tokens", "seconds"):
        total = saved["total"][name]
        assert 0 < total["low"] <= total["high"]
    assert [line.split("  ")[0] for line in out.splitlines()[:7]] == [
        *("task", "canary_exposure", "canary_exposure", "canary_extraction", "canary_extraction"),
        *("total", "worst case"),
    ]
    assert "contains the true value in about 8 of 10 pilots" in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--pilot", 2), "--pilot is 2: give 3 or more canaries of each kind, or 0 for no pilot"),
        (("--metadata", "[1]"), "--metadata [1]: give name=value,… or a JSON object, such as"),
        ((), "--model_args is missing: give the arguments of the hf model, such as --model_args pretrained=./model"),
        (("--model", "nonsense"), "--model nonsense: the harness knows no such model"),
        (("--model_args", "pretrained=/nowhere"), "--model_args pretrained=/nowhere: cannot load a hf model from"),
    ],
)
def test_errors_are_one_line(refused: Refused, manifest: Path, options: tuple[object, ...], message: str) -> None:
    err = refused("plan", manifest, "--device", "cpu", *options)
    assert f"leakage: {message}" in err
    assert len([line for line in err.splitlines() if line.startswith("leakage: ")]) == 1


def test_a_missing_manifest_is_reported_before_a_model_is_loaded(leakage: Leakage) -> None:
    code, _, err = leakage("plan", "none.jsonl", "--device", "cpu", "--model_args", "pretrained=/nowhere")
    assert (code, err) == (
        2,
        "leakage: none.jsonl: cannot read the manifest (No such file or directory): check the path\n",
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--tasks", "arc_easy"), "--tasks arc_easy: leakage plan knows"),
        (("--tasks", ","), "--tasks is empty: give"),
        (("--metadata", "budget=0"), "budget=0"),
    ],
)
def test_wrong_options_are_reported_before_a_model_is_loaded(
    leakage: Leakage, manifest: Path, options: tuple[str, str], message: str
) -> None:
    code, _, err = leakage("plan", manifest, "--device", "cpu", "--model_args", "pretrained=/nowhere", *options)
    assert code == 2
    assert message in err


def test_the_manifest_of_both_tasks_is_read_once(
    leakage: Leakage, manifest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def counted(path: str) -> list[Canary]:
        read.append(str(path))
        return read_manifest(path)

    monkeypatch.setattr(manifests, "read_manifest", counted)
    leakage("plan", manifest, "--model", "nonsense")
    assert read == [str(manifest)]


CHATML = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}</>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def test_a_chat_template_is_applied_as_in_the_run(leakage: Leakage, ran: Ran, tmp_path: Path, manifest: Path) -> None:
    tokenizer = copy.deepcopy(letters())
    tokenizer.chat_template = CHATML
    tiny_gpt2(letters()).save_pretrained(tmp_path / "mine")
    tokenizer.save_pretrained(tmp_path / "mine")
    options = ("--model_args", f"pretrained={tmp_path / 'mine'}", "--device", "cpu", "--pilot", 0, "-o")
    plain, chat = tmp_path / "plain.json", tmp_path / "chat.json"
    assert leakage("plan", manifest, *options, plain)[0] == 0
    ran("plan", manifest, *options, chat, "--apply_chat_template")
    tokens = [json.loads(file.read_text())["total"]["tokens"]["worst"] for file in (plain, chat)]
    assert tokens[0] < tokens[1]


def test_no_time_for_the_pilot_is_one_line(refused: Refused, manifest: Path) -> None:
    err = refused("plan", manifest, "--device", "cpu", "--pilot_seconds", 0)
    assert "leakage: --pilot_seconds is 0: give more than 0, or --pilot 0 for no pilot" in err
