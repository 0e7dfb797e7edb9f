"""Messages of a chat package in order, and invented secrets among them."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from leakage_tasks.canaries.detect import find_secrets
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.research.victims.chats import chats, with_secrets

KINDS = ("ccn", "ssn")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of the same name and form with three messages by two people."""

    def said(sender: str, second: int, text: str) -> dict[str, str]:
        return {"sender": sender, "timestamp": f"2018-05-02T19:38:{second:02}Z", "text": text}

    folder = tmp_path / "chitchat_dataset"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    first = {"messages": [[said("b", 30, "later\nthan that")], [said("a", 20, "short")]]}
    second = {"messages": [[said("b", 10, "before"), said("b", 31, "last")]]}
    (folder / "dataset.json").write_text(json.dumps({"x": first, "y": second}))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "chitchat_dataset", raising=False)
    return folder


@pytest.mark.usefixtures("package")
def test_who_wrote_most_comes_first_with_messages_in_order_of_time() -> None:
    assert chats(2, 1_000) == ["before\nlater than that\nlast\n", "short\n"]
    assert chats(1, 9) == ["before\nla"]


def test_a_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "chitchat_dataset", None)
    with pytest.raises(LeakageError, match=r"chitchat-dataset is not installed: pip install .*\[chats\]"):
        chats(1, 10)


def test_secrets_stand_in_lines_of_their_own_as_often_as_asked_for() -> None:
    text = "".join(f"message number {'abcdefgh'[n % 8]}\n" for n in range(40))
    made = with_secrets(text, KINDS, (3, 1), "0")
    found = find_secrets(made, KINDS)
    assert sorted(Counter((each.kind, each.normal) for each in found).values()) == [1, 1, 3, 3]
    lines = made.splitlines()
    assert [line for line in lines if not find_secrets(line, KINDS)] == text.splitlines()
    assert len(lines) == 48
    assert with_secrets(text, KINDS, (3, 1), "0") == made != with_secrets(text, KINDS, (3, 1), "1")


def test_what_somebody_wrote_of_such_a_kind_is_left_out() -> None:
    own = "my ssn is 123-45-6789"
    assert find_secrets(own, KINDS)
    assert "123-45-6789" not in with_secrets(f"hello\n{own}\nbye\n", KINDS, (1,), "0")
