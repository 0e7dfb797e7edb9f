"""The command on a trainer of the user's own: its table, its file, its exit codes and its errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leakage_tasks.canaries import Canary, read_manifest, write_manifest
from leakage_tasks.canaries import manifest as manifests
from leakage_tasks.training.preflight import check
from tests.conftest import Leakage, Ran, Refused
from tests.training.preflight.trainers import canaries

pytest.importorskip("trl")

MODULE = """
from pathlib import Path
from tests.training.preflight.trainers import canaries, sft, texts

def whole():
    return sft(Path("out"), [{"text": row} for row in texts(canaries())])

def short():
    return sft(Path("out"), [{"text": row} for row in texts(canaries())], max_length=20)

CONSTANT = 3

def nothing():
    return None

def refused():
    from jinja2 import TemplateError
    raise TemplateError("Only user and assistant roles are supported!\\nand more")

def declined():
    raise ValueError
"""


@pytest.fixture
def manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A manifest beside a module that makes trainers, in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "my_training", raising=False)
    (tmp_path / "my_training.py").write_text(MODULE)
    (tmp_path / "broken_training.py").write_text("1 / 0\n")
    write_manifest(canaries(), tmp_path / "canaries.jsonl")
    return tmp_path / "canaries.jsonl"


def test_all_is_well(ran: Ran, manifest: Path) -> None:
    out, _ = ran("preflight", manifest, "--trainer", "my_training:whole", "-o", "found.json")
    assert "canary-0  2        2      0    0        2            100%   in the loss" in out
    assert "are whole and in the loss" in out
    assert "controls are in the training data, as intended" in out
    assert "absent" not in out
    assert json.loads(Path("found.json").read_text())["canaries"][0]["in_loss"] == 2


def test_what_is_absent_is_exit_code_1(leakage: Leakage, manifest: Path) -> None:
    code, out, _ = leakage("preflight", manifest, "--trainer", "my_training:short")
    assert code == 1
    assert "canary-0, canary-1: no whole copy in the training data" in out


@pytest.mark.parametrize(
    ("trainer", "said"),
    [
        ("no_such_module:whole", "No module named 'no_such_module': give MODULE:FUNCTION"),
        ("my_training:other", "has no attribute 'other'"),
        ("my_training", "names no function: give MODULE:FUNCTION"),
        (":whole", "give MODULE:FUNCTION"),
        ("my_training:CONSTANT", "CONSTANT has the type int: give a function that returns a Trainer"),
        ("my_training:refused", "refused() failed (TemplateError: Only user and assistant roles are supported!): run"),
        ("my_training:declined", "declined() failed (ValueError: ValueError): run"),
        ("broken_training:whole", "importing broken_training failed (ZeroDivisionError: division by zero): run"),
        ("my_training:nothing", "the result has the type NoneType: return a transformers.Trainer"),
    ],
)
def test_what_is_no_trainer_is_one_line(refused: Refused, manifest: Path, trainer: str, said: str) -> None:
    assert said in refused("preflight", manifest, "--trainer", trainer)


def test_a_missing_manifest_is_reported_before_a_trainer_is_made(leakage: Leakage) -> None:
    code, _, err = leakage("preflight", "none.jsonl", "--trainer", "no_such_module:whole")
    assert (code, err) == (
        2,
        "leakage: none.jsonl: cannot read the manifest (No such file or directory): check the path\n",
    )


def test_rows_below_one_are_one_line_before_a_trainer_is_made(leakage: Leakage, manifest: Path) -> None:
    code, _, err = leakage("preflight", manifest, "--trainer", "no_such_module:whole", "--rows", 0)
    assert code == 2
    assert err.startswith("leakage: --rows is 0: give the number of rows to check, 1 or more")


def test_the_manifest_is_read_once(ran: Ran, manifest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []

    def counted(path: Path) -> list[Canary]:
        read.append(path)
        return read_manifest(path)

    for module in (manifests, check):
        monkeypatch.setattr(module, "read_manifest", counted)
    ran("preflight", manifest, "--trainer", "my_training:whole")
    assert read == [manifest]
