"""Searches in trees of several canaries at once, against searches in one tree at a time."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.attacks.causal.beam import _beams, beam_search
from leakage_tasks.attacks.causal.forest import Forest, SecretMask
from leakage_tasks.attacks.causal.group_shares import _learned_draws
from leakage_tasks.attacks.causal.lookahead import TOGETHER, Lookahead
from leakage_tasks.attacks.causal.path_counts import path_counts
from leakage_tasks.attacks.causal.proposals import EXPLORING, adaptive_mixture
from leakage_tasks.attacks.causal.random_descents import DescentRequest, _descend
from leakage_tasks.attacks.causal.rank_draws import _DrawRequest, _draws
from leakage_tasks.attacks.causal.search_tree import SearchTree
from leakage_tasks.attacks.causal.secret_path import RankedSecret, SecretPath, _read_paths
from leakage_tasks.attacks.causal.uniform_draws import GroupRequest, Groups
from leakage_tasks.canaries import Canary
from leakage_tasks.targets import CausalTarget
from tests.attacks.visits import visits_of
from tests.oracles import letters, merging, tiny_gpt2

WHO = ("ann", "bob", "eve")
TARGETS = {"letters": letters, "merging": merging}
BINS = (128, 1024, 256)


def trees(tokenizer):
    target = CausalTarget(tiny_gpt2(TARGETS[tokenizer]()), TARGETS[tokenizer]())
    return [SearchTree(target, Canary(who, f"the pin of {who} is {{digits:5}}.", tuple("31415")).space) for who in WHO]


@pytest.mark.parametrize("tokenizer", TARGETS)
def test_beams_of_several_widths_and_budgets_are_those_of_one_tree(tokenizer):
    alone, forest = trees(tokenizer), Forest(trees(tokenizer))
    requests = [(4, 10**6, 10), (16, 10**6, 0), (16, 30, 0)]
    expected = [beam_search(tree, *request) for tree, request in zip(alone, requests, strict=True)]
    for found, own in zip(_beams(forest, requests), expected, strict=True):
        assert [guess.filling for guess in found] == [guess.filling for guess in own]
        assert [guess.score for guess in found] == pytest.approx([guess.score for guess in own], abs=1e-4)
    assert [tree.calls for tree in forest.trees] == [tree.calls for tree in alone]


def test_paths_are_those_of_one_tree():
    alone, forest = trees("letters"), Forest(trees("letters"))
    paths = [tree.path_of(tuple(secret)) for tree, secret in zip(alone, ("00000", "31415", "92653"), strict=True)]
    for read, tree, path in zip(_read_paths(forest, paths), alone, paths, strict=True):
        own = SecretPath(tree, path)
        assert read.cost == pytest.approx(own.cost, abs=1e-4)
        assert read.cheaper_siblings == own.cheaper_siblings
        assert read.spread == pytest.approx(own.ranked().spread, abs=1e-4)
        for depth in range(1, len(own)):
            node = forest.trees[read.tree].only_node(read.levels[depth - 1], read.tree)
            other = own.node(depth)
            assert np.array_equal(node.paths, other.paths)
            assert node.following == pytest.approx(other.following, abs=1e-4)


def test_descents_are_those_of_one_tree():
    forest, seen = Forest(trees("letters")), [[], [], []]
    requests = [
        (DescentRequest(range(8 + n), f"seed {n}", 14.0 + n, EXPLORING), seen[n].append) for n in range(len(seen))
    ]
    _descend(forest, requests)
    for number, (tree, found) in enumerate(zip(trees("letters"), seen, strict=True)):
        own = visits_of(tree, range(8 + number), f"seed {number}", bound=14.0 + number, mixture=EXPLORING)
        for visit, other in zip(found, own, strict=True):
            for name in ("at", "who", "rows", "goers", "taken_row", "whole"):
                assert np.array_equal(getattr(visit, name), getattr(other, name)), name
            assert visit.chance == pytest.approx(other.chance, rel=1e-4)
            assert np.array_equal(visit.taken.parents, other.taken.parents)


def named(template, names):
    target = CausalTarget(tiny_gpt2(letters()), letters())
    canaries = [Canary(name, f"the pin of {name} is {template}", tuple("31415")) for name in names]
    searched = [SearchTree(target, canary.space) for canary in canaries]
    return searched, [tree.path_of(canary.secret) for tree, canary in zip(searched, canaries, strict=True)]


@pytest.mark.parametrize("template", ["{digits:5}", "{digits:5}. ok"])
def test_shares_and_lookaheads_of_more_trees_than_are_estimated_together_are_those_of_one_tree(template):
    names = [f"{a}{b}" for a in "abcde" for b in "klmn"]
    assert len(names) > TOGETHER
    searched, paths = named(template, names)
    counts = path_counts(searched[0].paths, searched[0].space)
    groups, bounds = [Groups.of(tree, counts) for tree in searched], [10.0 + n for n in range(len(names))]
    bins = [BINS[n % len(BINS)] for n in range(len(names))]

    def asked():
        return [
            GroupRequest(group, 8, str(n), (b, b - 1, b + 1), path, Lookahead(tree, b, bins[n]))
            for n, (group, tree, b, path) in enumerate(zip(groups, searched, bounds, paths, strict=True))
        ]

    def more(n, request, known):
        return dataclasses.replace(request, number=4 + n, seed=f"more {n}", known=known, is_steered=True)

    first = _learned_draws(Forest(searched), asked())
    again = [more(n, *both) for n, both in enumerate(zip(asked(), (done.lookahead() for done in first), strict=True))]
    together = _learned_draws(Forest(searched), again)
    for n, (tree, request) in enumerate(zip(searched, asked(), strict=True)):
        (alone,) = _learned_draws(Forest([tree]), [request])
        known = alone.lookahead()
        assert first[n].values == pytest.approx(alone.values, abs=1e-5)
        assert first[n].reached_ends == alone.reached_ends
        (single,) = _learned_draws(Forest([tree]), [more(n, request, known)])
        assert together[n].values == pytest.approx(single.values, abs=1e-5)
        assert together[n].seen.tolist() == single.seen.tolist()
        children = tree.children(tree.root)
        for bound in request.bounds:
            expected = known.expected(children, bound)
            assert again[n].known.expected(children, bound) == pytest.approx(expected, rel=1e-4)


def test_draws_and_what_they_teach_are_those_of_one_tree():
    searched, paths = named("{digits:5}", WHO)
    counts = path_counts(searched[0].paths, searched[0].space)
    bounds = [12.0, 14.0, 15.0]

    def taught():
        asked = [
            GroupRequest(Groups.of(tree, counts), 8, tree.space.pieces[0], (bound,), path, Lookahead(tree, bound, bins))
            for tree, bound, path, bins in zip(searched, bounds, paths, BINS, strict=True)
        ]
        return [
            _learned_draws(Forest([tree]), [request])[0].lookahead()
            for tree, request in zip(searched, asked, strict=True)
        ]

    def requests(lookaheads):
        return [
            _DrawRequest(
                DescentRequest(range(20 + n), str(n), bound + 1, adaptive_mixture(ahead)),
                RankedSecret(tree, path, bound, 1.0),
                ahead,
            )
            for n, (tree, bound, path, ahead) in enumerate(zip(searched, bounds, paths, lookaheads, strict=True))
        ]

    joint, single = taught(), taught()
    together = _draws(Forest(searched), requests(joint))
    for tree, draws, request, mine, other in zip(searched, together, requests(single), joint, single, strict=True):
        (alone,) = _draws(Forest([tree]), [request])
        for one, same in ((draws, alone), *zip(draws.ends, alone.ends, strict=True)):
            assert one.others == pytest.approx(same.others, rel=1e-4)
            assert one.nodes == pytest.approx(same.nodes, rel=1e-4)
            assert (one.seen, one.most) == (same.seen, same.most)
        for ahead in (mine, other):
            ahead.settle()
        children = tree.children(tree.root)
        assert mine.expected(children, 14.0) == pytest.approx(other.expected(children, 14.0), rel=1e-4)


@given(st.lists(st.lists(st.integers(0, 2), max_size=3), min_size=1, max_size=4), st.integers(0, 4), st.data())
def test_the_secrets_of_trees(secrets, depth, data):
    rows = data.draw(st.lists(st.tuples(st.integers(0, len(secrets) - 1), st.tuples(*[st.integers(0, 2)] * depth))))
    paths = np.array([path for _, path in rows], dtype=int).reshape(len(rows), depth)
    mask = SecretMask(secrets).of(paths, np.array([tree for tree, _ in rows], dtype=int))
    assert mask.tolist() == [list(path) == secrets[tree] for tree, path in rows]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=20), st.integers(0, 4))
def test_the_cheapest_of_each_tree(rows, most):
    rows = sorted(rows, key=lambda row: row[0])
    tree, costs = np.array([row[0] for row in rows], dtype=int), np.array([row[1] for row in rows], dtype=float)
    forest = object.__new__(Forest)
    expected = []
    for number in range(3):
        own = [index for index in range(len(rows)) if tree[index] == number]
        expected += sorted(sorted(own, key=lambda index: costs[index])[:most])
    assert forest.first_of_each(costs, tree, np.full(3, most)).tolist() == expected
