"""Plans against runs: totals within their range, other pilots' ranges too; natural secrets are left alone."""

from __future__ import annotations

import dataclasses
import io
import logging
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lm_eval.models.huggingface import HFLM

from leakage_tasks.attacks.finding import Finding
from leakage_tasks.canaries import Canary, make_canaries, write_manifest
from leakage_tasks.core.errors import OptionError
from leakage_tasks.planning.estimate import QUANTITIES, KindPlan, estimate_of
from leakage_tasks.planning.expected_costs import FILLINGS, ExpectedCosts, expected_costs
from leakage_tasks.planning.limits import AttackLimits
from leakage_tasks.planning.memory import memory_of
from leakage_tasks.planning.pace import Pace
from leakage_tasks.planning.pilot import attack_together
from leakage_tasks.planning.plan import make_plan, planned_tasks
from leakage_tasks.planning.planner import Planner
from leakage_tasks.planning.report import row_text, table
from leakage_tasks.planning.watch import PilotWatch
from leakage_tasks.stats.totals import Stratum, total_range
from leakage_tasks.targets.causal.first_passes import CHECKED
from leakage_tasks.tasks.canary_tasks import CanaryTask
from tests.oracles import letters, tiny_gpt2
from tests.targets.seq2seq.test_target import ending, tiny
from tests.targets.text_models import TextOnly, hf

TASK = "canary_exposure"
FINDING = Finding("c", "rank-sample", True, 1, "random", 1.0)
METADATA = {"budget": 300}


@pytest.fixture(scope="module")
def lm() -> Any:
    return hf(letters(), tiny_gpt2(letters()))


def manifest_of(folder: Path, canaries: list[Canary]) -> str:
    write_manifest(canaries, folder / "canaries.jsonl")
    return str(folder / "canaries.jsonl")


def planned(manifest: str, metadata: dict[str, Any] = METADATA, task: str = TASK) -> CanaryTask:
    (made,) = planned_tasks([task], manifest, metadata)
    return made


@pytest.fixture
def manifest(tmp_path: Path) -> str:
    return manifest_of(tmp_path, make_canaries("pin {digits:4}.", 12, controls=12, seed=3, id_prefix="p"))


@pytest.mark.slow
def test_the_run_stays_within_the_range(lm: Any, manifest: str) -> None:
    """Rows, passes and tokens of the run itself, counted on the model; and the ranges of 200 other pilots of five."""
    planner = Planner(lm, planned(manifest), 5)
    for kind in planner.kinds():
        own = [request.canary for _, request in planner.pairs if request.canary.planted == (kind.kind == "planted")]
        attempt = attack_together(own, planner.attacked, planner.modules, 1)
        for name in ("rows", "passes", "tokens"):
            found = kind.estimate(name)
            assert found.low <= getattr(attempt.total, name) <= found.high <= found.worst
        calls = [float(each.model_calls or 0) for each in attempt.findings.values()]
        random, most, held = np.random.default_rng(0), kind.limits.rows, 0
        for _ in range(200):
            sample = tuple(random.choice(calls, 5, replace=False))
            low, high = total_range([Stratum(len(calls), sample, 1, most)])
            held += low <= sum(calls) <= high
        assert held >= 160


def test_whole_texts_of_many_canaries_share_passes_as_planned(lm: Any, tmp_path: Path) -> None:
    made = make_canaries("the pin of whom it was told is {digits:4}.", 12, controls=0, seed=3, id_prefix="p")
    planner = Planner(lm, planned(manifest_of(tmp_path, made), {"budget": 20, "attack": "rank-sample"}), 5)
    (kind,) = planner.kinds()
    # A run of its own, which proves what the pilot has proven.
    run = Planner(lm, planned(manifest_of(tmp_path, made), {"budget": 20, "attack": "rank-sample"}), 0)
    took = attack_together(made, run.attacked, run.modules, 1).total
    found = kind.estimate("passes")
    assert kind.merged
    assert found.low <= took.passes <= found.high < 12
    assert took.tokens <= kind.estimate("tokens").worst <= 12 * (22 + CHECKED) * (len(made[0].text) + 1)


def test_without_a_pilot_it_goes_from_the_cheapest_to_the_budget_and_says_so(lm: Any, manifest: str) -> None:
    plan = make_plan(lm, [planned(manifest)], 0)
    for kind in plan.kinds:
        found = kind.estimate("rows")
        assert (found.low, found.high, found.worst) == (12, 12 * kind.limits.rows, found.high)
        assert 300 <= kind.limits.rows <= 310
    assert "without a pilot nothing is known about memorization" in table(plan)


def test_without_a_pilot_a_control_is_expected_to_take_the_most(lm: Any, tmp_path: Path) -> None:
    """A control's search with proof may spend the whole budget, so no plan expects less."""
    made = make_canaries("the pin of {unique} is {digits:6}.", 0, controls=3, seed=3, id_prefix="p")
    planner = Planner(
        lm, planned(manifest_of(tmp_path, made), {"budget": 2000, "stopping": "proven"}, "canary_extraction"), 0
    )
    (kind,) = planner.kinds()
    planner.attacked(made)  # A first run reads a few rows more, which verify fast scoring.
    took = attack_together(made, planner.attacked, planner.modules, 1).total
    assert kind.estimate("rows").likely >= took.rows > 3 * 500


def test_a_plan_without_a_pilot_calls_nothing_likely_and_no_pilots_time(lm: Any, manifest: str) -> None:
    told = table(make_plan(lm, [planned(manifest)], 0))
    assert told.splitlines()[-1] == "times do not include loading the model; there was no pilot"
    assert "(" not in told.splitlines()[1]
    assert "12 to at most " in told.splitlines()[1]


@pytest.mark.slow
def test_the_pilot_keeps_its_time_and_tries_each_kind(manifest: str) -> None:
    slow = hf(letters(), tiny_gpt2.__wrapped__(letters()))
    slow.model.register_forward_pre_hook(lambda *given: time.sleep(0.02))
    watch = PilotWatch(2.0)
    plan = make_plan(slow, [planned(manifest, {"budget": 20_000})], 12, watch)
    assert plan.pilot_seconds < 2.0 + 1.0
    assert {kind.kind: kind.piloted > 0 for kind in plan.kinds} == {"planted": True, "control": True}
    assert any(kind.unfinished for kind in plan.kinds)
    for kind in plan.kinds:
        found = kind.estimate("rows")
        assert found.low < found.likely <= found.high <= found.worst
    told = table(plan)
    assert "the pilot's time ended before all of its canaries were finished" in told
    assert "ended)" in told


def test_a_pilot_that_has_time_ends_no_attack(lm: Any, manifest: str) -> None:
    plan = make_plan(lm, [planned(manifest)], 5)
    assert [(kind.piloted, kind.unfinished) for kind in plan.kinds] == [(5, 0), (5, 0)]


def test_a_pilot_without_time_is_refused() -> None:
    with pytest.raises(OptionError, match="--pilot_seconds is 0: give more than 0"):
        PilotWatch(0)


def test_bar_and_rows_come_while_the_pilot_runs(lm: Any, manifest: str) -> None:
    out = io.StringIO()
    make_plan(lm, [planned(manifest)], 5, PilotWatch(60, out, row_text))
    shown = out.getvalue()
    assert "pilot of canary_exposure" in shown
    assert "canary_exposure, exposure, 12 planted, pilot 5: " in shown
    assert "canary_exposure, exposure, 12 control, pilot 5: " in shown


def test_natural_secrets_are_never_tried(lm: Any, tmp_path: Path) -> None:
    made = make_canaries("pin {digits:4}.", 8, controls=0, seed=3, id_prefix="p")
    others = make_canaries("pin {digits:4}.", 6, controls=0, seed=4, id_prefix="q")
    natural = [dataclasses.replace(each, kind="natural") for each in made]
    plan = make_plan(lm, [planned(manifest_of(tmp_path, natural))], 5)
    both = Planner(lm, planned(manifest_of(tmp_path, [*natural, *others])), 3)
    both.kinds()
    assert sorted(both.expected) == sorted(each.id for each in others)
    (kind,) = plan.kinds
    assert (kind.kind, kind.canaries, kind.piloted, plan.pilot_seconds) == ("natural", 8, 0, 0)
    assert (kind.limits.rows, kind.groups["rows"].least, kind.groups["tokens"].least) == (512, 1, 1)
    told = table(plan)
    assert "natural secrets are not attacked" in told
    assert not any("".join(each.secret) in told for each in natural)


def test_the_pilot_is_drawn_by_comparing_secrets_with_random_fillings(lm: Any, manifest: str) -> None:
    planner = Planner(lm, planned(manifest), 5)
    kinds = planner.kinds()
    assert len(planner.expected) == 24
    assert all(len(kind.groups["rows"].chances) == 5 for kind in kinds)
    # The same random fillings, scored without an attack.
    request = planner.pairs[0][1]
    space = request.canary.attack_space
    fillings = space.sample(FILLINGS, f"{request.seed}:histogram")
    costs = request.target.log_perplexity([space.fill(filling) for filling in (request.canary.secret, *fillings)])
    finding = dataclasses.replace(
        FINDING, log2_size=math.log2(space.size), log_perplexity=costs[0], extra={"costs": costs[1:].tolist()}
    )
    assert planner.expected[request.canary.id] == pytest.approx(expected_costs(finding), rel=1e-3)


def test_extractions_are_expected_to_cost_most_for_the_cheapest_secrets(lm: Any, manifest: str) -> None:
    planner = Planner(lm, planned(manifest, task="canary_extraction"), 5)
    (kind, _) = planner.kinds()
    attack, _ = planner.pairs[0]
    assert planner.expected_by(attack) == {name: costs.extraction for name, costs in planner.expected.items()}
    own = [planner.expected[request.canary.id].extraction for _, request in planner.pairs if request.canary.planted]
    assert np.ptp(own) > 0
    chances = 5 * np.array(own) / sum(own)
    assert chances.max() <= 1
    assert all(np.isclose(chances, chance).any() for chance in kind.groups["rows"].chances)


def test_canaries_are_compared_once_for_all_tasks_and_not_if_all_are_piloted(lm: Any, manifest: str) -> None:
    for pilot, times in ((5, 1), (12, 0)):
        out = io.StringIO()
        tasks = [planned(manifest, {"budget": 30}, task) for task in (TASK, "canary_extraction")]
        make_plan(lm, tasks, pilot, PilotWatch(60, out))
        assert out.getvalue().count("comparing 24 secrets") == times


def test_a_comparison_without_time_leaves_a_random_pilot(lm: Any, manifest: str, monkeypatch: Any) -> None:
    watch = PilotWatch(60)
    monkeypatch.setattr(
        watch, "open_share", lambda groups: setattr(watch, "_deadline", 0.0 if groups > 2 else math.inf)
    )
    planner = Planner(lm, planned(manifest), 5)
    kinds = planner.kinds(watch)
    assert planner.expected == {}
    assert [(kind.piloted, kind.groups["rows"].chances) for kind in kinds] == [(5, ()), (5, ())]


def test_a_group_with_secrets_that_are_not_searched_is_not_compared(tmp_path: Path) -> None:
    """The secret of every other canary is part of its source sentence, which changes all costs."""
    made = make_canaries("pin {digits:2}.", 12, controls=0, seed=3, id_prefix="p")
    canaries = [dataclasses.replace(each, source=("pin", "pin {digits:2}")[n % 2]) for n, each in enumerate(made)]
    translator = HFLM(pretrained=tiny("t5"), tokenizer=ending(), backend="seq2seq", batch_size=8)
    planner = Planner(translator, planned(manifest_of(tmp_path, canaries)), 5)
    (kind,) = planner.kinds()
    assert planner.expected == {}
    assert (kind.piloted, kind.groups["rows"].chances) == (5, ())


def test_to_choose_the_pilot_the_spaces_of_all_canaries_are_not_analysed(
    lm: Any, manifest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    planner, analysed = Planner(lm, planned(manifest), 5), []
    paths = type(planner.target).paths
    monkeypatch.setattr(type(planner.target), "paths", lambda *given: analysed.append(1) or paths(*given))
    planner._sample(planner.pairs)
    assert len(planner.pairs) == 24
    assert sum(analysed) == 1


def test_kinds_have_pilots_of_their_own_chance(lm: Any, manifest: str) -> None:
    planner = Planner(lm, planned(manifest), 5)
    planner.expected = {request.canary.id: ExpectedCosts(1.0, 1.0) for _, request in planner.pairs}
    pilots = [
        planner._sample([pair for pair in planner.pairs if pair[1].canary.planted == planted]).canaries
        for planted in (True, False)
    ]
    numbers = [{int(canary.id.rpartition("-")[2]) % 12 for canary in pilot} for pilot in pilots]
    assert numbers[0] != numbers[1]


def test_what_a_server_logs_of_natural_secrets_is_hidden(
    lm: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Server(TextOnly):
        def loglikelihood(self, requests: Any, *more: Any) -> Any:
            logging.getLogger("lm_eval.models.api_models").error("failed: %s", requests[0].args)
            return super().loglikelihood(requests, *more)

    natural = [dataclasses.replace(each, kind="natural") for each in make_canaries("pin {digits:4}.", 3, controls=0)]
    make_plan(Server(lm), [planned(manifest_of(tmp_path, natural), {"budget": 50})], 0)
    assert "a message of lm_eval.models.api_models is hidden" in caplog.text
    assert "pin" not in caplog.text


def test_a_model_behind_text_alone_is_planned_by_its_sequences(lm: Any, manifest: str) -> None:
    plan = make_plan(TextOnly(lm), [planned(manifest, {"budget": 50})], 5)
    for kind in plan.kinds:
        assert kind.attack == "exposure"
        assert kind.groups["rows"].sampled == (50.0,) * 5


def made_up(merged: bool, task: str = TASK) -> KindPlan:
    """Ten canaries, of which five took 20 rows in 10 passes and 2 seconds, of a second and a half in passes."""
    values = {"rows": 20.0, "passes": 10.0, "tokens": 20.0, "seconds": 2.0}
    groups = {name: Stratum(10, (each,) * 5, each, each, "five") for name, each in values.items()}
    return KindPlan(
        task, "exposure", "planted", 10, 5, AttackLimits(10, 10, 10, 100), groups, Pace(0.15, 0, 100), merged
    )


def test_a_pilot_without_a_finished_attack_has_no_likely_cost() -> None:
    group = Stratum(10, (), 1, 30, "two", unfinished=(4.0, 5.0))
    kind = dataclasses.replace(made_up(False), piloted=2, unfinished=2, groups=dict.fromkeys(QUANTITIES, group))
    assert " to at most 300 rows, " in row_text(kind)


def test_merged_searches_share_their_passes() -> None:
    assert estimate_of([made_up(False)], "passes").likely == 100
    assert estimate_of([made_up(True)], "passes").likely == pytest.approx(1.5 * 10)
    # Two kinds of one task advance together, two tasks one after the other.
    assert estimate_of([made_up(True), made_up(True)], "passes").likely == pytest.approx(1.5 * 10)
    assert estimate_of([made_up(True), made_up(True, "other")], "passes").likely == pytest.approx(2 * 1.5 * 10)
    assert estimate_of([made_up(True)], "seconds").likely == pytest.approx(10 * 0.5 + 15 * 0.15)
    assert estimate_of([made_up(False)], "seconds").likely == pytest.approx(20)
    assert estimate_of([made_up(True)], "rows").likely == 200


def test_if_all_canaries_were_piloted_no_search_is_longer_than_the_longest_seen() -> None:
    limits = dataclasses.replace(made_up(True).limits, passes=1000)
    whole = dataclasses.replace(made_up(True), piloted=10, limits=limits)
    assert whole.estimate("passes").high == pytest.approx(1.5 * 10)
    assert dataclasses.replace(whole, piloted=9).estimate("passes").high == pytest.approx(1.5 * 1000)


@pytest.mark.slow
def test_searches_after_different_sources_are_planned_as_they_run(tmp_path: Path) -> None:
    made = make_canaries("pin {digits:4}.", 12, controls=0, seed=3, id_prefix="p")
    canaries = [dataclasses.replace(each, source=f"pin {'ab ' * (n % 4)}x") for n, each in enumerate(made)]
    translator = HFLM(pretrained=tiny("t5"), tokenizer=ending(), backend="seq2seq", batch_size=8)
    planner = Planner(translator, planned(manifest_of(tmp_path, canaries)), 5)
    (kind,) = planner.kinds()
    took = attack_together([request.canary for _, request in planner.pairs], planner.attacked, planner.modules, 1).total
    found = kind.estimate("passes")
    assert kind.merged
    assert found.low <= took.passes <= found.high


def test_every_quantity_has_a_total(lm: Any, manifest: str) -> None:
    plan = make_plan(lm, [planned(manifest)], 5)
    for name in QUANTITIES:
        total = plan.total(name)
        assert 0 < total.low <= total.likely <= total.high <= total.worst * 1.001
    assert plan.memory.weights == sum(each.numel() * 4 for each in lm.model.parameters())


def test_states_are_of_all_canaries_together_within_the_memory_given(lm: Any, manifest: str) -> None:
    planner = Planner(lm, planned(manifest), 0)
    (_, first), *_ = planner.pairs
    alone = memory_of(first, lm, 1).kept
    assert planner.memory().kept == len(planner.pairs) * alone
    assert Planner(lm, planned(manifest, {**METADATA, "memory": "200kB"}), 0).memory().kept == 120_000 < alone
