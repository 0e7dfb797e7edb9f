"""Searches of many canaries advance together, and each comes to what it comes to alone."""

from functools import cache

import numpy as np
import pytest

from leakage_tasks.attacks import run_attack
from leakage_tasks.attacks.run import Hooks
from leakage_tasks.canaries import make_canaries
from leakage_tasks.core.errors import TargetError
from leakage_tasks.planning.meter import metered
from leakage_tasks.targets import CausalTarget
from leakage_tasks.targets.causal.requests import Step
from leakage_tasks.targets.pass_rows import PassSize
from tests.oracles import letters, tiny_gpt2
from tests.targets.causal.models import model_of

CANARIES = make_canaries("the pin of {unique} is {digits:4}.", 4, controls=2, seed=1)
ATTACKS = [("exposure", "exposure"), ("shortest-path", "extraction"), ("beam", "extraction")]


MODELS = {"gpt2": lambda: tiny_gpt2(letters()), "lstm": lambda: model_of("lstm")}


def counted(target):
    """The rows of each pass that continues texts."""
    passes, go_on = [], target.engine.go_on

    def count(rows, *rest, **named):
        passes.append(len(rows))
        return go_on(rows, *rest, **named)

    target.engine.go_on = count
    return passes


def run(model, attack, goal, groups):
    target = CausalTarget(model, letters())
    passes = counted(target)
    return [each for group in groups for each in run_attack(attack, target, group, goal=goal, budget=400)], passes


@cache
def run_apart(model, attack, goal):
    """Findings and passes of canaries that are attacked one by one."""
    return run(MODELS[model](), attack, goal, [[canary] for canary in CANARIES])


def assert_equal(met, alone):
    for one, other in zip(met, alone, strict=True):
        assert [guess.filling for guess in one.guesses] == [guess.filling for guess in other.guesses]
        assert (one.canary, one.place, one.model_calls, one.method) == (
            other.canary,
            other.place,
            other.model_calls,
            other.method,
        )
        for field in ("rank", "rank_low", "rank_high", "log_perplexity"):
            mine, theirs = getattr(one, field), getattr(other, field)
            assert (mine is None) == (theirs is None)
            assert mine is None or np.log2(mine) == pytest.approx(np.log2(theirs), abs=1e-4)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("attack", "goal"), ATTACKS)
def test_company_and_order_change_no_figure_and_the_same_rows_share_passes(model, attack, goal):
    met, together = run(MODELS[model](), attack, goal, [CANARIES[::-1]])
    alone, apart = run_apart(model, attack, goal)
    assert_equal(met[::-1], alone)
    assert sum(together) == sum(apart)
    assert len(together) <= len(apart) / 3


@pytest.mark.parametrize(("attack", "goal"), ATTACKS[:2])
def test_questions_answered_in_parts_change_no_figure(attack, goal, monkeypatch):
    joined, join = [], Step.join

    def noted(step, answers):
        joined.append(len(answers))
        return join(step, answers)

    alone, _ = run_apart("gpt2", attack, goal)
    monkeypatch.setattr(Step, "join", noted)
    target = CausalTarget(tiny_gpt2(letters()), letters())
    target.pass_rows.tuned = PassSize(fixed=32)
    met = run_attack(attack, target, CANARIES, goal=goal, budget=400)
    assert max(joined) > 1
    assert_equal(met, alone)


def test_a_third_of_the_findings_are_complete_at_half_of_the_rows():
    """Serving the attacks with the fewest rows first completes 12 of 60, in as many passes."""
    made = make_canaries("the pin of {unique} is {digits:6}.", 30, controls=30, seed=1)
    target = CausalTarget(tiny_gpt2(letters()), letters())
    target.pass_rows.tuned = PassSize(fixed=32)
    passes, rows, complete = counted(target), [0], []

    def on_rows(_, read):
        rows[0] += read

    options = {"goal": "extraction", "budget": 100}
    hooks = Hooks(done=lambda *_: complete.append(rows[0]), on_rows=on_rows)
    run_attack("shortest-path", target, made, hooks=hooks, **options)
    assert sum(each <= rows[0] / 2 for each in complete) >= 20
    assert len(passes) <= 1.05 * 68


def test_texts_that_share_passes_only_at_equal_lengths_advance_together():
    canaries, passes = make_canaries("the pin of {unique} is {digits:5}", 16, controls=8, seed=1), []
    for model in (tiny_gpt2(letters()), model_of("hybrid")):
        target = CausalTarget(model, letters())
        target.pass_rows.tuned = PassSize(fixed=64)
        with metered([model]) as count:
            run_attack("shortest-path", target, canaries, goal="extraction", budget=300, values={"stopping": "proven"})
        passes.append(count.passes)
    assert passes[1] <= 1.2 * passes[0]


def test_a_canary_at_fault_is_named_in_company(monkeypatch):
    plain = CausalTarget.paths

    def paths(target, space):
        if space == CANARIES[2].space:
            raise TargetError("not this one")
        return plain(target, space)

    monkeypatch.setattr(CausalTarget, "paths", paths)
    with pytest.raises(TargetError, match=f"{CANARIES[2].id}.*not this one"):
        run(tiny_gpt2(letters()), "exposure", "exposure", [CANARIES])
