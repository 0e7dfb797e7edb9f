"""The look at every row of the training data."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from leakage_tasks.training.preflight.check import _DataCheck


def test_a_row_is_spelled_only_for_copies_that_an_audit_asks_about() -> None:
    spelled: list[str] = []

    def spelling(text: str) -> str:
        spelled.append(text)
        return text

    look: Any = SimpleNamespace(
        _beginnings={"asked": "question"}, _other_turns=[], _spelling=spelling, _as_in_audit=None
    )
    for name in ("plain", "asked"):
        copy: Any = SimpleNamespace(canary=SimpleNamespace(id=name))
        _DataCheck._note_chat(look, copy, f"{name} question")
    assert (spelled, look._as_in_audit) == (["asked question"], True)
