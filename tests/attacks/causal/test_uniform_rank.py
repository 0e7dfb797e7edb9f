"""Ranks from uniform random fillings, against exact counts and made-up models with known ranks."""

import dataclasses
import math
from functools import partial

import numpy as np
import pytest
from scipy import stats

from leakage_tasks.attacks import run_attack
from leakage_tasks.attacks.causal.forest import Forest
from leakage_tasks.attacks.causal.group_shares import LearnedDraws, learned_draws
from leakage_tasks.attacks.causal.path_counts import path_counts
from leakage_tasks.attacks.causal.rank_count import count_exactly
from leakage_tasks.attacks.causal.rank_draws import RankDraws
from leakage_tasks.attacks.causal.rank_estimate import LEAST, RankEstimate
from leakage_tasks.attacks.causal.search_tree import SearchTree
from leakage_tasks.attacks.causal.secret_path import RankedSecret, SecretPath
from leakage_tasks.attacks.causal.uniform_draws import GROUP, GroupDraws, GroupRequest, Groups, read_groups
from leakage_tasks.attacks.causal.uniform_rank import Shares, UniformRank
from leakage_tasks.canaries import Canary
from leakage_tasks.targets import CausalTarget
from leakage_tasks.targets.scheduler import run_concurrently
from tests.attacks.made_up import MadeUp, Ranks
from tests.oracles import letters, merging, tiny_gpt2

WITHOUT_PILOTS = (64, 96, 144, 224, 336, 512, 768)
"""Numbers of draws by the proposals of a lookahead that learned from uniform draws."""


def searched(template, secret, tokenizer=letters):
    canary = Canary("c", template, tuple(secret))
    explorer = SearchTree(CausalTarget(tiny_gpt2(tokenizer()), tokenizer()), canary.space)
    return SecretPath(explorer, explorer.path_of(canary.secret)).ranked()


@pytest.mark.parametrize("template", ["the pin is {digits:3}", "the pin is {digits:3}.", "the pin is {digits:2}. it"])
@pytest.mark.parametrize("taught", [0, 6])
def test_estimates_are_unbiased_with_any_prediction(template, taught):
    secret = searched(template, "70" if "2" in template else "707")
    others, explorer = count_exactly(secret, 10**6).others, secret.explorer
    counts = path_counts(explorer.paths, explorer.space)
    groups, lookahead = Groups.of(explorer, counts), secret.lookahead()
    if taught:
        request = GroupRequest(groups, taught, "learn", secret.bounds, secret.path, lookahead)
        lookahead = learned_draws(explorer, request).lookahead()
    drawn = learned_draws(
        explorer, GroupRequest(groups, 3000, "draw", secret.bounds, secret.path, lookahead, bool(taught))
    )
    (values,), (seen,) = drawn.values, drawn.seen
    error = values.std(ddof=1) / math.sqrt(3000)
    assert values.mean() == pytest.approx(others / explorer.space.size, abs=4 * error + 1e-9)
    assert seen <= others


def test_steered_draws_do_not_depend_on_first_draws_of_other_canaries():
    target = CausalTarget(tiny_gpt2(letters()), letters())

    def draws(secret: str, is_steered: bool) -> LearnedDraws:
        explorer = SearchTree(target, Canary("c", "the pin is {digits:3}.", tuple(secret)).space)
        known = SecretPath(explorer, explorer.path_of(tuple(secret))).ranked()
        groups = Groups.of(explorer, path_counts(explorer.paths, explorer.space))
        learning = GroupRequest(groups, 8, "learn", known.bounds, known.path, known.lookahead())
        first = learned_draws(explorer, learning)
        request = GroupRequest(groups, 8, "draw", known.bounds, known.path, first.lookahead(), is_steered)
        return learned_draws(explorer, request)

    attacks = [partial(draws, "707", True), partial(draws, "120", False)]
    together = {done.number: done.result.values for done in run_concurrently(attacks)}
    for number, attack in enumerate(attacks):
        assert together[number] == pytest.approx(attack().values, abs=1e-5)


def test_the_draws_of_a_group_share_a_beginning_and_one_reads_the_rest():
    secret = searched("the pin is {digits:2}. it", "70")
    explorer, known = secret.explorer, secret.lookahead()
    groups = Groups.of(explorer, path_counts(explorer.paths, explorer.space))
    before = explorer.calls
    read_groups(
        Forest([explorer]), GroupDraws([GroupRequest(groups, 1, "0", (np.inf,), (), known)]), lambda visit: None
    )
    rest = len(". it")
    assert explorer.calls - before == 1 + GROUP + (rest - 1)


@pytest.fixture(scope="module")
def undecided() -> RankedSecret:
    """A secret among 10^9, with a model that is not read."""
    target = MadeUp("Markov", 9)
    canary, _ = Ranks(target).near(20, "c", np.random.default_rng(4))
    explorer = SearchTree(target, canary.attack_space)
    return SecretPath(explorer, explorer.path_of(canary.secret)).ranked()


def beta(stream, number):
    return stream.beta(1.0, 9.0, number)


def lognormal(stream, number):
    """A quarter of the draws finds nothing."""
    return stream.lognormal(-0.32, 0.8, number) * (stream.random(number) < 0.75) / 7.5


def heavy(stream, number):
    """A twentieth of the draws carries half of the mean."""
    return np.where(stream.random(number) < 0.05, 1.0, 0.05 / 0.95)


@pytest.mark.parametrize(("made", "precision"), [(beta, 0.25), (beta, 0.5)])
def test_uniform_draws_that_end_by_the_width_of_their_interval_hold_its_level(undecided, made, precision):
    stream, held = np.random.default_rng(1), []
    for _ in range(600):
        uniform = UniformRank(undecided, "0", 10**9, precision)
        uniform._first_draws = lambda: Shares(made(stream, 12), 0, binary=False)
        uniform._draws = lambda number, _: Shares(made(stream, number), 0, binary=False)
        found = uniform.result()
        held += [] if found is None else [found["rank_low"] <= 1e8 <= found["rank_high"]]
    assert len(held) > 300
    assert np.mean(held) >= 0.94


@pytest.mark.parametrize(("made", "precision"), [(lognormal, 0.25), (lognormal, 0.5), (heavy, 0.25), (heavy, 0.5)])
def test_draws_that_end_by_the_width_of_their_interval_hold_its_level(undecided, made, precision):
    stream, lookahead, held = np.random.default_rng(1), undecided.lookahead(), []
    for _ in range(600):
        estimate = RankEstimate(undecided, "0", 10**9, precision, lookahead)
        estimate._is_taught, estimate._calls_a_draw = True, 1.0
        estimate._pilots = [RankDraws(np.ones(64), np.ones(64), 1, 1e9)]
        estimate.make_draws = lambda number, *_, **__: RankDraws(1e6 * made(stream, number), np.ones(number), 1, 1e9)
        found = estimate.result()
        if found["method"] == "estimated" and "draws" in found["extra"]:
            assert math.log2(found["rank_high"] / found["rank_low"]) / 2 <= precision
            held.append(found["rank_low"] <= 1e5 <= found["rank_high"])
    assert len(held) > 500
    assert np.mean(held) >= 0.92


def test_draws_that_a_few_dominate_are_replaced_once_the_lookahead_has_learned_from_them(undecided):
    estimate = RankEstimate(undecided, "0", 10**9, 0.25)
    estimate._is_taught, estimate._calls_a_draw = True, 1.0
    estimate._pilots = [RankDraws(np.ones(64), np.ones(64), 1, 1e9)]
    streams = []

    def make(number, stream, *_, **__):
        streams.append((stream, number))
        others = np.full(number, 2.0) if stream.startswith("5") else np.r_[1000.0, np.ones(number - 1)]
        return RankDraws(others, np.ones(number), 1, 1e9)

    estimate.make_draws = make
    found = estimate.result()
    assert streams == [("4", 64), ("5", 64)]
    assert (found["rank"], found["extra"]["draws"]) == (3.0, 64)


def test_draws_that_the_budget_cannot_make_effective_leave_it_to_the_tree(undecided):
    """With an effective size of 10 of 64 draws, 20 needs 128 draws; the budget pays for 112."""
    estimate, numbers, before = RankEstimate(undecided, "0", 10**9, 0.25), [], undecided.explorer.calls
    estimate._is_taught, estimate._calls_a_draw = True, 8.0
    estimate._pilots = [RankDraws(np.ones(64), np.ones(64), 1, 1e9)]
    weights = np.r_[np.ones(10), np.zeros(54)]

    def make(number, *_, **__):
        numbers.append(number)
        undecided.explorer.calls += 8 * number
        return RankDraws(weights[:number], np.ones(number), 1, 1e9)

    estimate.make_draws, estimate._estimate_by_tree = make, lambda by_draws: {"method": "tree"}
    undecided.explorer.calls = 10**9 - 8 * 112
    try:
        assert estimate.result() == {"method": "tree"}
    finally:
        undecided.explorer.calls = before
    assert numbers == [64]


@pytest.mark.parametrize(("spent", "sets"), [(0, [64, 32, 48, 80, 32]), (10**9 - 8 * 100, [64, 32])])
def test_draws_that_find_nothing_go_on_within_the_budget(undecided, spent, sets):
    """Where no draw finds a cheaper filling, 256 draws bound their number, or as many as the budget pays for."""
    estimate, numbers = RankEstimate(undecided, "0", 10**9, 0.25), []
    estimate._is_taught, estimate._calls_a_draw = True, 1.0
    estimate._pilots = [RankDraws(np.zeros(64), np.ones(64), 0, 1e9)]
    before = undecided.explorer.calls

    def make(number, *_, **__):
        numbers.append(number)
        undecided.explorer.calls += 8 * number
        return RankDraws(np.zeros(number), np.ones(number), 0, 1e9)

    estimate.make_draws, estimate._estimate_by_tree = make, lambda by_draws: by_draws
    undecided.explorer.calls = spent
    try:
        found = estimate.result()
    finally:
        undecided.explorer.calls = before
    assert (numbers, found["method"]) == (sets, "lower_bound")


@pytest.mark.parametrize("tokenizer", [letters, merging])
def test_the_interval_holds_the_exact_rank(tokenizer):
    held = []
    for secret in ("707", "120", "999"):
        known = searched("the pin is {digits:3}.", secret, tokenizer)
        rank = 1 + count_exactly(known, 10**6).others
        for seed in range(12):
            ranked = UniformRank(known, str(seed), 10**6, 0.5).result()
            held += [] if ranked is None else [ranked["rank_low"] <= rank <= ranked["rank_high"]]
    assert len(held) >= 12
    assert stats.binomtest(sum(held), len(held), 0.95, alternative="less").pvalue > 0.01


@pytest.mark.parametrize("model", ["independent", "Markov"])
def test_a_small_share_that_no_draw_shows_is_not_estimated_by_its_prediction(model):
    target, stream = MadeUp(model, 9), np.random.default_rng(3)
    ranks = Ranks(target)
    for log2_rank in (2, 8, 14, 20, 23):
        canary, _ = ranks.near(log2_rank, f"c{log2_rank}", stream)
        explorer = SearchTree(target, canary.attack_space)
        secret = SecretPath(explorer, explorer.path_of(canary.secret)).ranked()
        assert UniformRank(secret, "0", 10**6, 0.5).result() is None


def taught(log2_rank: float, room: int, precision: float) -> tuple[SearchTree, RankEstimate, int]:
    """An estimate whose lookahead has learned from uniform draws, with ``room`` sequences left, and the true rank."""
    target = MadeUp("Markov", 9)
    canary, rank = Ranks(target).near(log2_rank, "c", np.random.default_rng(4))
    explorer = SearchTree(target, canary.attack_space)
    secret = SecretPath(explorer, explorer.path_of(canary.secret)).ranked()
    uniform = UniformRank(secret, "1", 10**6, precision)
    assert uniform.result() is None
    lookahead, budget = uniform.lookahead, explorer.calls + room
    return explorer, RankEstimate(secret, "1", budget, precision, lookahead), rank


def test_draws_without_pilots_end_where_the_budget_does_not_pay_for_enough():
    numbers = {}
    for room in (800, 20_000):
        explorer, estimate, _ = taught(20, room, 0.15)
        before = explorer.calls
        is_precise = estimate.without_pilots() is not None
        numbers[room] = is_precise, explorer.calls - before
    assert numbers[20_000][0]
    assert not numbers[800][0]
    assert numbers[800][1] <= LEAST * 8


def test_draws_that_leave_no_budget_are_the_estimate():
    explorer, estimate, rank = taught(20, 20_000, 0.01)
    assert estimate.without_pilots() is None
    assert estimate.explore() > 0
    explorer.calls += 20_000
    found = estimate.result()
    assert found is not None
    assert found["method"] == "estimated"
    assert found["rank_low"] <= rank <= found["rank_high"]
    assert found["extra"]["draws"] in WITHOUT_PILOTS


@pytest.mark.parametrize("model", ["independent", "Markov"])
def test_controls_of_a_model_that_knows_nothing_take_few_rows_and_have_their_rank(model):
    target, stream = MadeUp(model, 9), np.random.default_rng(2)
    ranks = Ranks(target)
    made = [ranks.random(f"c{n}", stream) for n in range(30)]
    controls = [dataclasses.replace(canary, planted=False, repetitions=0) for canary, _ in made]
    found = run_attack("exposure", target, controls)
    held = [each.rank_low <= rank <= each.rank_high for each, (_, rank) in zip(found, made, strict=True)]
    assert np.mean(held) >= 0.9
    assert np.mean([each.model_calls for each in found]) <= 300


@pytest.mark.parametrize(("planted", "given", "used"), [(True, None, 0.25), (False, None, 0.5), (False, 0.1, 0.1)])
def test_the_precision_is_by_purpose_or_the_user_s_and_in_the_finding(planted, given, used):
    target = MadeUp("Markov", 9)
    canary, _ = Ranks(target).near(29, "c", np.random.default_rng(0))
    canary = dataclasses.replace(canary, planted=planted, repetitions=int(planted))
    values = {} if given is None else {"precision": given}
    found = run_attack("exposure", target, [canary], values=values)[0]
    assert found.extra["precision"] == used
    assert math.log2(found.rank_high / found.rank_low) / 2 <= used


def test_a_memorized_secret_takes_the_rows_of_its_path_alone():
    target = MadeUp("independent", 9)
    target._costs = np.full((9, 10, 10), 10.0)
    target._costs[:, :, 7] = 0.1
    found = run_attack("exposure", target, [Canary("c", "{digits:9}", tuple("777777777"))])[0]
    assert (found.rank, found.method, found.model_calls) == (1, "exact", 9)


def test_a_smaller_budget_reads_fewer_rows_although_text_follows_the_secret():
    canary = Canary("c", "the pin is {digits:9}. that is it now.", tuple("707120333"), repetitions=0, planted=False)
    tokens = []
    for budget in (120, 300, 2000):
        target, read = CausalTarget(tiny_gpt2(letters()), letters()), []
        hook = target.model.register_forward_pre_hook(
            lambda module, args, kwargs, read=read: read.append(kwargs["input_ids"].numel()), with_kwargs=True
        )
        run_attack("exposure", target, [canary], budget=budget)
        hook.remove()
        tokens.append(sum(read))
    assert tokens[0] < tokens[1] < tokens[2]
    assert tokens[1] <= 300 + 200
