"""Exposure against brute force done with `transformers` alone."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from leakage_tasks.attacks import run_attack
from leakage_tasks.attacks.causal.nodes import Children
from leakage_tasks.attacks.causal.proposals import (
    EXPLORING,
    MODEL,
    POWERS,
    ProposalMixture,
    adaptive_mixture,
    model_mixture,
)
from leakage_tasks.attacks.causal.rank_count import count_exactly
from leakage_tasks.attacks.causal.rank_draws import (
    LEAST_EFFECTIVE,
    RankDraws,
    draw,
    draws_needed,
    summary,
)
from leakage_tasks.attacks.causal.search_tree import TIE_BITS, SearchTree, within
from leakage_tasks.attacks.causal.secret_path import SecretPath
from leakage_tasks.canaries import Canary, make_canaries
from leakage_tasks.canaries.alphabets import Alphabet
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.targets import CausalTarget
from leakage_tasks.targets.tokens import token_paths as layout
from tests.attacks.tables import Table
from tests.oracles import brute_rank, direct_costs, letters, merging, tiny_gpt2


def make(template, secret, **fields):
    return Canary("c", template, tuple(secret), **fields)


def target_of(tokenizer, **settings):
    return CausalTarget(tiny_gpt2(tokenizer), tokenizer, **settings)


@pytest.mark.parametrize("tokenizer", [letters, merging])
@pytest.mark.parametrize(
    ("template", "secret"),
    [
        ("the pin is {digits:3}.", "707"),
        ("the pin is {digits:3}", "120"),
        ("{digits:2} is the pin", "90"),
        ("code {letters:1}-{digits:2}.", "b70"),
    ],
)
def test_the_exact_rank_is_brute_forces(template, secret, tokenizer):
    canary = make(template, secret)
    found = run_attack("exposure", target_of(tokenizer()), [canary])[0]
    rank, costs = brute_rank(tiny_gpt2(tokenizer()), tokenizer(), canary)
    assert (found.rank, found.method) == (rank, "exact")
    assert found.log_perplexity == pytest.approx(costs[canary.space.index(canary.secret)], abs=1e-3)
    assert found.exposure == pytest.approx(math.log2(canary.space.size) - math.log2(rank))
    cheapest = sorted(costs)[: min(10, rank)]
    assert [guess.score for guess in found.guesses][:rank] == pytest.approx(cheapest, abs=1e-3)


@pytest.mark.parametrize("tokenizer", [letters, merging])
def test_the_walk_of_the_vocabulary_counts_the_same(tokenizer, monkeypatch):
    canary = make("the pin is {digits:3}.", "707")
    expected = run_attack("exposure", target_of(tokenizer()), [canary])[0].rank
    monkeypatch.setattr(layout, "ENUMERATE", 0)
    assert run_attack("exposure", target_of(tokenizer()), [canary])[0].rank == expected


@pytest.mark.parametrize(
    ("template", "secret"),
    [("pin ☃ is {digits:2}.", "70"), ("é{digits:2} ☃", "12"), ("a {digits:1}中文 {digits:1}", "90")],
)
def test_characters_of_several_tokens_stand_anywhere_in_a_template(template, secret, monkeypatch):
    monkeypatch.setattr(layout, "ENUMERATE", 0)
    monkeypatch.setattr(layout, "ENUMERATE_AT_MOST", 0)
    canary = make(template, secret)
    found = run_attack("exposure", target_of(merging()), [canary])[0]
    rank, costs = brute_rank(tiny_gpt2(merging()), merging(), canary)
    assert (found.rank, found.method) == (rank, "exact")
    assert found.log_perplexity == pytest.approx(costs[canary.space.index(canary.secret)], abs=1e-3)


def test_characters_of_several_tokens_fill_slots(monkeypatch):
    canary = make("pin {sign:2}", "☃é", alphabets={"sign": Alphabet("sign", tuple("☃☄é中a7"))})
    expected = run_attack("exposure", target_of(merging()), [canary])[0]
    monkeypatch.setattr(layout, "ENUMERATE", 0)
    monkeypatch.setattr(layout, "ENUMERATE_AT_MOST", 0)
    found = run_attack("exposure", target_of(merging()), [canary])[0]
    rank, _ = brute_rank(tiny_gpt2(merging()), merging(), canary)
    assert found.rank == expected.rank == rank
    assert [guess.filling for guess in found.guesses] == [guess.filling for guess in expected.guesses]


def test_what_the_attacker_does_not_know_is_not_scored():
    canary = make("my pin {digits:2} is it", "42", known="{digits:2} is")
    found = run_attack("exposure", target_of(letters()), [canary])[0]
    rank, _ = brute_rank(tiny_gpt2(letters()), letters(), canary)
    assert found.rank == rank
    assert found.log_perplexity == pytest.approx(direct_costs(tiny_gpt2(letters()), letters(), ["42 is"])[0], abs=1e-3)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([letters, merging]),
    st.text("abT -", max_size=5),
    st.text("ab.-", max_size=3),
    st.tuples(st.sampled_from("0123456789"), st.sampled_from("abcxyz")),
)
def test_any_template_has_brute_forces_rank(tokenizer, before, after, secret):
    canary = make(f"{before}{{digits}}{{letters}}{after}", secret)
    found = run_attack("exposure", target_of(tokenizer()), [canary])[0]
    rank, costs = brute_rank(tiny_gpt2(tokenizer()), tokenizer(), canary)
    above = np.array(costs) - costs[canary.attack_space.index(canary.secret)]
    # Rounding decides whether a cost at the very end of what counts as a tie counts.
    assume((np.abs(above - TIE_BITS) > TIE_BITS / 10).all())
    assert found.rank == rank


def test_fillings_that_all_cost_the_same_all_tie():
    model = tiny_gpt2.__wrapped__(letters())
    with torch.no_grad():
        model.transformer.wte.weight.zero_()
    found = run_attack("exposure", CausalTarget(model, letters()), [make("pin {digits:3}", "123")])[0]
    assert found.rank == 1000
    assert found.exposure == 0


def estimates(number, seed, tokenizer=letters, template="the pin is {digits:3}.", secret="707", mixture=EXPLORING):
    canary = make(template, secret)
    explorer = SearchTree(target_of(tokenizer()), canary.space)
    ranked = SecretPath(explorer, explorer.paths.path(canary.secret)).ranked()
    count = count_exactly(ranked, 10**6)
    return draw(ranked, number, str(seed), mixture), count.others, explorer


def learnt(tokenizer):
    """A mixture that goes by what 100 draws taught."""
    canary = make("the pin is {digits:3}.", "707")
    explorer = SearchTree(target_of(tokenizer()), canary.space)
    secret = SecretPath(explorer, explorer.paths.path(canary.secret)).ranked()
    lookahead = secret.lookahead()
    draw(secret, 100, "learn", EXPLORING, lookahead)
    lookahead.settle()
    return adaptive_mixture(lookahead)


MIXTURES = {
    "the model's own": lambda tokenizer: ProposalMixture(POWERS, (MODEL,)),
    "all alike": lambda tokenizer: ProposalMixture(POWERS, (0,)),
    "random fillings": lambda tokenizer: ProposalMixture(POWERS, (len(POWERS),)),
    "exploring": lambda tokenizer: EXPLORING,
    "as the model": lambda tokenizer: model_mixture(),
    "adaptive": learnt,
}


@pytest.mark.parametrize(("secret", "tokenizer"), [("707", letters), ("120", merging)])
@pytest.mark.parametrize("mixture", MIXTURES)
def test_draws_estimate_the_count_without_bias(secret, tokenizer, mixture):
    drawn, others, _ = estimates(4000, 1, tokenizer, secret=secret, mixture=MIXTURES[mixture](tokenizer))
    error = drawn.others.std(ddof=1) / math.sqrt(len(drawn.others))
    assert drawn.others.mean() == pytest.approx(others, abs=max(4 * error, 1e-6))


@pytest.mark.parametrize("mixture", ["exploring", "as the model", "adaptive"])
def test_draws_over_paths_that_spell_nothing_are_unbiased_too(mixture, monkeypatch):
    monkeypatch.setattr(layout, "ENUMERATE", 0)
    test_draws_estimate_the_count_without_bias("707", merging, mixture)


@pytest.mark.parametrize("tokenizer", [letters, merging])
@pytest.mark.parametrize("mixture", ["exploring", "as the model", "adaptive"])
def test_no_draw_says_more_than_its_bound_and_none_is_seen_that_is_not_there(tokenizer, mixture, monkeypatch):
    monkeypatch.setattr(layout, "ENUMERATE", 0)
    drawn, others, _ = estimates(2000, 3, tokenizer, mixture=MIXTURES[mixture](tokenizer))
    assert drawn.others.max() <= drawn.most
    assert drawn.seen <= others


def test_a_filling_that_begins_another_counts_once_for_itself():
    """Slots of one to three characters at the end of the text, so that paths end on the way to others' ends."""
    values = ["a", "ab", "abc", "b", "ba", "c"]
    canary = Canary("c", "{v:2}", ("ab", "c"), alphabets={"v": Alphabet("v", tuple(values))})
    assert canary.space.ends_early
    explorer = SearchTree(target_of(letters()), canary.space)
    secret = SecretPath(explorer, explorer.paths.path(canary.secret)).ranked()
    drawn = draw(secret, 6000, "4", EXPLORING)
    others = count_exactly(secret, 10**6).others
    error = drawn.others.std(ddof=1) / math.sqrt(len(drawn.others))
    assert drawn.others.mean() == pytest.approx(others, abs=4 * error)
    assert drawn.others.max() <= drawn.most


def test_draws_estimate_what_an_exact_count_reads():
    canary = make("the pin is {digits:3}.", "707")
    explorer = SearchTree(target_of(letters()), canary.space)
    secret = SecretPath(explorer, explorer.paths.path(canary.secret)).ranked()
    before = explorer.calls
    count_exactly(secret, 10**6)
    read = explorer.calls - before
    drawn = draw(secret, 4000, "3", EXPLORING).nodes
    assert drawn.mean() - 1 == pytest.approx(read, abs=4 * drawn.std() / math.sqrt(len(drawn)))


def test_draws_do_not_depend_on_the_batch():
    expected, _, _ = estimates(100, 7)
    canary = make("the pin is {digits:3}.", "707")
    for rows in (1, 3, 64):
        explorer = SearchTree(target_of(letters()), canary.space)
        explorer.rows = lambda depth, rows=rows: rows
        drawn = draw(SecretPath(explorer, explorer.paths.path(canary.secret)).ranked(), 100, "7", EXPLORING)
        assert np.allclose(drawn.others, expected.others, rtol=1e-4)


@pytest.mark.parametrize("budget", [30, 200, 500, 2000, 20_000])
@pytest.mark.parametrize("method", ["auto", "estimated"])
def test_the_budget_is_kept(budget, method):
    canary = make("the pin is {digits:9}.", "707120333")
    found = run_attack("exposure", target_of(letters()), [canary], budget=budget, values={"method": method})[0]
    assert found.model_calls <= budget


def test_a_pilot_of_one_draw_asks_for_more():
    one = RankDraws(np.array([3.0]), np.ones(1), 1, 9.0)
    assert draws_needed(one, 0.25) == 4


@pytest.mark.slow
def test_a_budget_for_hardly_any_draws_goes_to_uniform_fillings():
    canary = make("the pin is {digits:3}.", "707")
    rank, _ = brute_rank(tiny_gpt2(letters()), letters(), canary)
    held, target, settings = [], target_of(letters()), {"method": "estimated"}
    for seed in range(40):
        found = run_attack("exposure", target, [canary], budget=60, seed=seed, values=settings)[0]
        assert found.method == "sampled"
        held.append(found.rank_low <= rank <= found.rank_high)
    assert stats.binomtest(sum(held), 40, 0.95, alternative="less").pvalue > 0.01


@pytest.mark.parametrize("precision", [0.5, 0.25, 0.1])
def test_the_interval_is_as_narrow_as_asked_for(precision):
    canary = make("the pin is {digits:6}.", "707120")
    settings = {"method": "estimated", "precision": precision}
    found = run_attack("exposure", target_of(letters()), [canary], budget=10**6, values=settings)[0]
    assert found.method == "estimated"
    assert math.log2(found.rank_high / found.rank_low) / 2 <= precision


def test_an_estimate_says_what_stands_behind_it():
    canary = make("the pin is {digits:6}.", "000000")
    extra = run_attack("exposure", target_of(letters()), [canary], values={"method": "estimated"})[0].extra
    assert LEAST_EFFECTIVE <= extra["effective_draws"] <= extra["draws"]
    assert extra["weight_bound"] <= math.log2(10**6) + 4


def test_no_draw_as_cheap_is_a_bound_that_holds_97_times_in_100():
    """Nothing was met in 1,000 draws, each of which stands for 2^20 fillings at most: (1 − μ/2^20)^1000 ≥ 0.03."""
    found = summary(RankDraws(np.zeros(1000), np.ones(1000), 0, 2.0**20), 10**8)
    assert found["method"] == "lower_bound"
    assert found["rank"] == found["rank_high"] == pytest.approx(1 + 2**20 * (1 - 0.03 ** (1 / 1000)))
    assert found["rank_low"] == 1


def test_a_few_draws_that_weigh_more_than_all_others_are_a_bound():
    others = np.r_[np.full(3, 1000.0), np.ones(997)]
    found = summary(RankDraws(others, np.ones(1000), 40, 1e6), 10**9)
    assert found["method"] == "lower_bound"
    assert found["extra"]["effective_draws"] == pytest.approx(others.sum() ** 2 / (others**2).sum())
    assert found["rank_low"] == 41
    assert found["rank_high"] > 1 + 1e6 / 1000


def test_what_was_met_is_within_the_interval_and_does_not_bias_the_estimate():
    others = np.tile([4.0, 8.0], 50)
    fewer = summary(RankDraws(others, np.ones(100), 7, 10.0), 1000)
    assert (fewer["rank"], fewer["rank_low"]) == (7, 7)
    assert fewer["rank_high"] >= 8
    more = summary(RankDraws(others, np.ones(100), 2, 10.0), 1000)
    assert 3 < more["rank_low"] < more["rank"] == 7 < more["rank_high"]


def test_batch_size_changes_nothing():
    canary = make("the pin is {digits:6}.", "707120")
    expected, *others = (
        run_attack("exposure", target_of(letters(), **given), [canary], budget=300)[0]
        for given in ({}, {"batch_size": 1}, {"batch_size": 2})
    )
    for found in others:
        assert found.method == expected.method
        assert found.exposure == pytest.approx(expected.exposure, abs=1e-3)


def test_another_seed_draws_otherwise():
    canary = make("the pin is {digits:6}.", "707120")
    ranks = [run_attack("exposure", target_of(letters()), [canary], budget=3000, seed=seed)[0].rank for seed in (0, 1)]
    assert ranks[0] != ranks[1]


def test_forgotten_states_are_computed_again():
    canary = make("the pin is {digits:3}.", "707")
    explorer = SearchTree(target_of(letters()), canary.space)
    nodes = explorer.root
    for _ in range(2):
        children = explorer.children(nodes)
        nodes = explorer.read_part(nodes, children[:4])
    expected = explorer.read_part(nodes, explorer.children(nodes)[:5]).following
    nodes.memory = None
    assert np.allclose(explorer.read_part(nodes, explorer.children(nodes)[:5]).following, expected, atol=1e-4)
    assert explorer.again > 0


@pytest.mark.parametrize("forgotten", [(0,), (1, 2), (0, 1, 2)])
def test_what_several_batches_forgot_is_computed_again_as_one(forgotten):
    canary = make("the pin is {digits:5}.", "70712")
    target = target_of(letters())
    explorer = SearchTree(target, canary.space)
    root = explorer.root
    first = explorer.read_part(root, explorer.children(root)[[1, 4, 7]])
    batches = [explorer.read_part(first, explorer.children(first)[part]) for part in ([0, 3], [11, 12], [25, 29])]
    children = [explorer.children(nodes) for nodes in batches]
    chosen = Children.joined([children[2][:2], children[0][[3, 15]], children[1][:3], children[0][:1]])
    which = np.array([2, 2, 0, 0, 1, 1, 1, 0])
    expected = explorer.read(batches, which, chosen)
    for place in forgotten:
        batches[place].memory = None
    asked, extend = [], target.extend
    target.extend = lambda *told: asked.append(len(told[1])) or extend(*told)
    found = explorer.read(batches, which, chosen)
    assert np.allclose(found.following, expected.following, atol=1e-4)
    assert np.array_equal(found.paths, expected.paths)
    rows = [part for place in forgotten for part in batches[place].paths[chosen.parents[which == place]].tolist()]
    heads = [len({tuple(path[:depth]) for path in rows}) for depth in (1, 2)]
    assert asked == [*heads, len(chosen)]
    assert explorer.again == sum(heads)


def test_a_histogram_is_the_log_perplexity_of_whole_texts():
    """All of a small space, by `transformers` alone; the finding's own cost is among them."""
    canary = make("the pin is {digits:3}.", "707")
    found = run_attack("exposure", target_of(merging()), [canary], values={"histogram": 1000})[0]
    rank, costs = brute_rank(tiny_gpt2(merging()), merging(), canary)
    assert found.extra["costs"] == pytest.approx(sorted(costs), abs=1e-3)
    assert found.rank == rank
    assert min(abs(cost - found.log_perplexity) for cost in found.extra["costs"]) < 1e-3


@pytest.mark.parametrize("budget", [30, 20_000])
def test_a_histogram_leaves_everything_else_as_it_is(budget):
    canary = make("the pin is {digits:3}.", "707")
    plain, more = (
        run_attack("exposure", target_of(letters()), [canary], budget=budget, values=settings)[0]
        for settings in ({}, {"histogram": 40})
    )
    kept = {name: value for name, value in more.extra.items() if name not in ("costs", "audit_calls")}
    assert dataclasses.replace(more, extra=kept, seconds=0) == dataclasses.replace(plain, seconds=0)
    assert more.extra["audit_calls"] == len(more.extra["costs"]) == 40


def test_a_histogram_does_not_depend_on_company():
    canaries = [Canary(f"c{n}", "the pin is {digits:6}.", tuple(f"{n:06d}")) for n in (5, 333333)]
    target, settings = target_of(letters()), {"histogram": 30}
    together = run_attack("exposure", target, canaries, budget=50, values=settings)
    alone = run_attack("exposure", target, canaries[1:], budget=50, values=settings)[0]
    assert alone.extra["costs"] == pytest.approx(together[1].extra["costs"], abs=1e-3)
    assert alone.extra["costs"] != pytest.approx(together[0].extra["costs"], abs=1e-3)


METHODS = [("exact", "exact"), ("auto", "exact"), ("estimated", "estimated")]


@pytest.mark.parametrize(("method", "got"), METHODS)
def test_the_method_is_the_one_asked_for(method, got):
    canary = make("the pin is {digits:3}.", "707")
    found = run_attack("exposure", target_of(letters()), [canary], values={"method": method})[0]
    rank, _ = brute_rank(tiny_gpt2(letters()), letters(), canary)
    assert found.method == got
    assert (found.rank_low or found.rank) <= rank <= (found.rank_high or found.rank)


@pytest.mark.parametrize("rank", [1, 7100, 60_000])
def test_a_tree_within_the_budget_has_an_exact_rank_whatever_the_size_of_the_space(rank):
    table = Table.random(5, seed=1, sharpness=0.5)
    canary = table.ranked(rank)
    found = run_attack("exposure", table, [canary])[0]
    secret = table.costs[int("".join(canary.secret))]
    assert (found.rank, found.method) == (int((table.costs <= within(secret)).sum()), "exact")
    assert found.model_calls <= 20_000


def test_an_exact_count_takes_no_look_before_it():
    table = Table.random(5, seed=1, sharpness=2.0)
    exact, usual = (
        run_attack("exposure", table, [table.ranked(20)], budget=5000, values={"method": method})[0]
        for method in ("exact", "auto")
    )
    assert exact.rank == usual.rank
    assert exact.model_calls == exact.extra["nodes"] < usual.model_calls


@pytest.mark.parametrize("target", [lambda: target_of(letters()), lambda: WholeTexts()])
def test_an_exact_count_beyond_the_budget_says_so_and_estimates_nothing(target):
    canary = make("the pin is {digits:3}.", "707")
    with pytest.raises(OptionError, match=r"canary 'c': method=exact .* budget=30 sequences: raise budget=…, or leave"):
        run_attack("exposure", target(), [canary], budget=30, values={"method": "exact"})


@pytest.mark.parametrize("rank", [1, 60, 999])
def test_an_exact_count_of_a_natural_secret_fails_whatever_its_rank(rank):
    table = Table.random(3, seed=1, sharpness=2.0)
    natural, exact = dataclasses.replace(table.ranked(rank), kind="natural"), {"method": "exact"}
    # 110 partial fillings have children; the longest path has 3 tokens.
    assert run_attack("exposure", table, [natural], budget=113, values=exact)[0].rank == rank
    with pytest.raises(OptionError, match=r"canary 'c': method=exact counts a natural secret only if .* budget=112 "):
        run_attack("exposure", table, [natural], budget=112, values=exact)


def test_draws_need_next_token_probabilities():
    with pytest.raises(TargetError, match="method=estimated needs next-token probabilities.*attack=rank-sample"):
        run_attack("exposure", WholeTexts(), [make("{digits:3}", "707")], values={"method": "estimated"})


def test_whole_texts_are_counted_where_they_fit_the_budget():
    found = run_attack("exposure", WholeTexts(), [make("{digits:3}", "707")], values={"method": "exact"})[0]
    assert (found.rank, found.method) == (708, "exact")


class WholeTexts:
    """A target that only scores whole texts: the number they hold."""

    max_length = None

    def length(self, text):
        return None

    def log_perplexity(self, texts):
        return np.array([float("".join(filter(str.isdigit, text))) for text in texts])


def test_few_texts_with_long_ends_are_all_read_where_a_count_would_take_too_many_nodes() -> None:
    canary = make_canaries("the pin of {unique} is {digits:2} and that is all.", 1, seed=1)[0]
    (found,) = run_attack("exposure", CausalTarget(tiny_gpt2(letters()), letters()), [canary], budget=1500)
    assert (found.method, found.rank) == ("exact", brute_rank(tiny_gpt2(letters()), letters(), canary)[0])
    assert found.model_calls <= 1500
