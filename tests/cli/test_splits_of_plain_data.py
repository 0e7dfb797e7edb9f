"""``--split`` with data that have no splits: an error in every command, because no other row would be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Leakage, Refused

CANARIES = ("canaries", "-o", "new.jsonl")
COMMANDS = {
    "sanitize": ("sanitize", "in.txt", "-o", "out.txt", "--drop", "1"),
    "sanitize shards": ("sanitize", "shards", "-o", "out", "--drop", "1"),
    "plant": ("plant", "c.jsonl", "in.txt", "-o", "out.txt"),
    "verify": ("verify", "planted.txt", "c.jsonl"),
    "canaries from text": (*CANARIES, "--from-text", "in.txt"),
    "canaries of a family": (*CANARIES, "--family", "typical", "--data", "in.txt"),
    "canaries with a class": (
        *CANARIES,
        "--template",
        "Pin {digits:4}.",
        "--data",
        "in.csv",
        "--label-column",
        "class",
    ),
}


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leakage: Leakage) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("in.txt", "shards/a.txt", "shards/b.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("one\ntwo\nthree\n")
    (tmp_path / "in.csv").write_text("text,class\none,a\ntwo,b\n")
    assert leakage("canaries", "-o", "c.jsonl", "--template", "Pin {digits:4}.", "--count", "1")[0] == 0
    assert leakage("plant", "c.jsonl", "in.txt", "-o", "planted.txt")[0] == 0
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_split_of_data_without_splits_is_an_error(command: tuple[str, ...], data: Path, refused: Refused) -> None:
    before = sorted(data.rglob("*"))
    message = refused(*command, "--split", "test")
    assert message.startswith("leakage: --split test: ")
    assert message.endswith(" has no splits: leave --split out\n")
    assert sorted(data.rglob("*")) == before


def test_data_that_do_not_exist_are_the_problem_that_is_named(data: Path, refused: Refused) -> None:
    message = refused("sanitize", "missing.txt", "-o", "out.txt", "--split", "test")
    assert "missing.txt" in message
    assert "splits" not in message
