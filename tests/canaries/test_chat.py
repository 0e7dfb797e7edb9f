"""What a chat template puts around a canary, and templates that do not write the same twice."""

from __future__ import annotations

from typing import Any

import pytest

from leakage_tasks.canaries import make_canaries
from leakage_tasks.canaries.chat import Chat
from leakage_tasks.core.errors import TargetError


def test_a_template_whose_clock_ticks_between_two_canaries_is_named_as_the_cause() -> None:
    ticks = iter(range(100))

    def render(turns: Any) -> str:
        return f"{min(next(ticks) // 4, 1)} o'clock. " + " ".join(turn["content"] for turn in turns)

    canaries = make_canaries("The pin of {unique} is {digits:2}.", 3, seed=1)
    with pytest.raises(TargetError, match=r"writes \"0 o'clock.*rendered again, \"1 o'clock"):
        Chat().around(render, canaries)
