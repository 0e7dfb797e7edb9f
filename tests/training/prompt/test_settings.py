"""Settings of prompt tuning: their ranges and the learning rate they make."""

from __future__ import annotations

from typing import Any

import pytest

from leakage_tasks.core.errors import OptionError
from leakage_tasks.training.prompt.settings import PromptSettings


@pytest.mark.parametrize(
    "wrong",
    [
        {"length": 0},
        {"epochs": 0},
        {"epochs": 1.5},
        {"batch_size": 0},
        {"accumulation": 0},
        {"patience": 0},
        {"hardest": -1},
        {"alpha": -0.1},
        {"alpha": float("nan")},
        {"learning_rate": 0.0},
        {"learning_rate": float("inf")},
        {"weight_decay": -1.0},
        {"warmup": -1},
        {"seed": -1},
        {"bf16": True, "epochs": True},
        {"init": "zeros"},
        {"batch_size": 4, "accumulation": 5},
    ],
)
def test_values_out_of_range_are_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=f"^{list(wrong)[-1]}=.*: "):
        PromptSettings(**wrong)


def test_the_defaults_are_the_papers() -> None:
    known = PromptSettings()
    assert (known.length, known.batch_size, known.learning_rate, known.epochs) == (100, 32, 1e-3, 20)
    assert (known.hardest, known.alpha) == (5, 0.7)
    assert known.warmup_of(known.steps(12_600)) == 500


def test_the_warm_up_is_a_tenth_where_500_would_be_more() -> None:
    settings = PromptSettings(epochs=5, batch_size=10)
    assert settings.steps(101) == 55
    assert settings.warmup_of(55) == 5
    assert settings.warmup_of(3) == 0


def test_the_rate_rises_in_a_line_and_falls_in_a_line() -> None:
    settings = PromptSettings(learning_rate=1.0, warmup=4)
    rates = [settings.rate(step, 9) for step in range(9)]
    assert rates == pytest.approx([0.25, 0.5, 0.75, 1, 1, 0.8, 0.6, 0.4, 0.2])
    assert PromptSettings(learning_rate=1.0, warmup=0).rate(0, 5) == 1


def test_parts_hold_the_whole_batch() -> None:
    assert [PromptSettings(batch_size=7, accumulation=parts).part_size() for parts in (1, 2, 3, 7)] == [7, 4, 3, 1]
