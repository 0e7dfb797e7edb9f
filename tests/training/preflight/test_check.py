"""The look at every row of the training data."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from leakage_tasks.training.preflight.check import _Look


def test_a_row_is_spelled_only_for_copies_that_an_audit_asks_about() -> None:
    spelled: list[str] = []

    def spelling(text: str) -> str:
        spelled.append(text)
        return text

    look: Any = SimpleNamespace(_asked_about={"asked": "question"}, _other_turns=[], _spelling=spelling, _as_asked=None)
    for name in ("plain", "asked"):
        copy: Any = SimpleNamespace(canary=SimpleNamespace(id=name))
        _Look._note_chat(look, copy, f"{name} question")
    assert (spelled, look._as_asked) == (["asked question"], True)
