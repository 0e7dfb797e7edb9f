"""Controls, plain scoring and batches: a right target holds, one with a fault does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from leakage_tasks.attacks import Finding
from leakage_tasks.core.errors import OptionError
from leakage_tasks.selftest import batch_size, chance, plain, subject
from leakage_tasks.selftest.rows import BROKEN, HELD, NOT_APPLICABLE, SelfTestRow
from leakage_tasks.selftest.run import CHECKS
from leakage_tasks.targets.harness.target import HarnessTarget
from tests.attacks.text_array import text_array
from tests.selftest.models import SETTINGS, Bigrams, Plain, with_costs
from tests.selftest.models import subject as made


def test_everything_holds_on_a_right_target() -> None:
    tested = made(Bigrams())
    assert [check(tested).verdict for check in CHECKS] == [HELD] * 4


def test_costs_that_depend_on_the_batch_are_told() -> None:
    target = with_costs(Bigrams(), lambda costs: costs + 0.01 * (len(costs) > 1))
    row = batch_size.check(made(target))
    assert (row.verdict, row.figures["ranks_same"]) == (BROKEN, 4)
    assert row.figures["largest_difference"] == pytest.approx(0.01)


def test_next_token_costs_that_depend_on_the_batch_are_told() -> None:
    class MixedUp(Bigrams):
        def extend(self, texts: Any, tokens: Any, columns: Any) -> Any:
            return text_array(tokens), self.table[np.roll(tokens, 1)][:, columns]

    row = batch_size.check(made(MixedUp()))
    assert row.verdict == BROKEN
    assert row.figures["ranks_same"] < 4


def test_costs_that_are_not_the_harness_own_are_told() -> None:
    target = Bigrams()
    assert plain.check(made(target)).verdict == HELD
    row = plain.check(made(target, with_costs(target, lambda costs: costs * 1.001)))
    assert row.verdict == BROKEN
    assert "report" in row.words


def test_ranks_that_are_not_the_harness_own_are_told() -> None:
    row = plain.check(made(Bigrams(seed=0), Bigrams(seed=1)))
    assert row.verdict == BROKEN
    assert row.figures["ranks_same"] < 4


def changed(monkeypatch: pytest.MonkeyPatch, rank: Any) -> SelfTestRow:
    """The row about controls whose estimated ranks come out as ``rank`` of them."""

    def attack(name: str, *arguments: Any, **options: Any) -> list[Finding]:
        return [replace(each, rank=rank(each), method="exact") for each in run(name, *arguments, **options)]

    run = subject.run_attack
    monkeypatch.setattr(subject, "run_attack", attack)
    return chance.check(made(Bigrams()))


def test_controls_that_are_exposed_too_much_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    row = changed(monkeypatch, lambda found: max(1.0, found.rank / 4))
    assert row.verdict == BROKEN
    assert row.figures["mean_exposure"] > row.figures["chance_exposure"] + 1


def test_controls_that_are_exposed_too_little_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    row = changed(monkeypatch, lambda found: 5e3 + found.rank / 2)
    assert row.verdict == BROKEN
    assert row.figures["mean_exposure"] < row.figures["chance_exposure"] - 0.5


def test_ties_are_allowed_for_and_a_model_that_tells_nothing_apart_is_not_judged() -> None:
    coarse = Bigrams()
    coarse.table = np.where(np.arange(10) < 5, 2.0, 4.0) * np.ones((11, 1))
    row = chance.check(made(coarse))
    assert (row.verdict, row.figures["tied"] > 0.1) == (HELD, True)
    coarse.table = np.full((11, 10), 3.0)
    row = chance.check(made(coarse))
    assert row.verdict == NOT_APPLICABLE
    assert "have equal costs" in row.words


def test_a_model_that_only_scores_is_compared_with_nothing_but_itself() -> None:
    lm = Plain(Bigrams())
    tested = replace(made(HarnessTarget(lm)), lm=lm)
    rows = [check(tested) for check in CHECKS]
    assert [row.verdict for row in rows] == [HELD, NOT_APPLICABLE, NOT_APPLICABLE, HELD]
    assert "2 % of the cost" in rows[3].words
    lm.batch_size = 1
    assert "larger --batch_size" in batch_size.check(replace(tested, lm=lm)).words


@pytest.mark.parametrize(("name", "value"), [("canaries", 9), ("samples", 1), ("budget", 0)])
def test_numbers_that_can_tell_nothing_are_refused(name: str, value: int) -> None:
    with pytest.raises(OptionError, match=f"--{name} is {value}: give"):
        replace(SETTINGS, **{name: value})
