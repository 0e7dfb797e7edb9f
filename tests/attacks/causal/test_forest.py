"""Searches in trees of several canaries at once, against searches in one tree at a time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.attacks.causal.beam import _beams, beam_search
from leakage_tasks.attacks.causal.forest import Forest
from leakage_tasks.attacks.causal.random_descents import EXPLORING, DescentRequest, _descend
from leakage_tasks.attacks.causal.search_tree import SearchTree
from leakage_tasks.attacks.causal.secret_path import SecretPath, _read_paths
from leakage_tasks.canaries import Canary
from leakage_tasks.targets import CausalTarget
from tests.attacks.visits import visits_of
from tests.oracles import letters, merging, tiny_gpt2

WHO = ("ann", "bob", "eve")
TARGETS = {"letters": letters, "merging": merging}


def trees(tokenizer):
    target = CausalTarget(tiny_gpt2(TARGETS[tokenizer]()), TARGETS[tokenizer]())
    return [SearchTree(target, Canary(who, f"the pin of {who} is {{digits:5}}.", tuple("31415")).space) for who in WHO]


@pytest.mark.parametrize("tokenizer", TARGETS)
def test_beams_of_several_widths_and_budgets_are_those_of_one_tree(tokenizer):
    alone, forest = trees(tokenizer), Forest(trees(tokenizer))
    requests = [(4, 10**6), (16, 10**6), (16, 30)]
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
        for node, other in zip(read.nodes, own.nodes[1:], strict=True):
            assert np.array_equal(node.paths, other.paths)
            assert node.following == pytest.approx(other.following, abs=1e-4)


def test_descents_are_those_of_one_tree():
    forest, seen = Forest(trees("letters")), [[], [], []]
    requests = [
        DescentRequest(range(8 + n), f"seed {n}", seen[n].append, 14.0 + n, EXPLORING) for n in range(len(seen))
    ]
    _descend(forest, requests)
    for number, (tree, found) in enumerate(zip(trees("letters"), seen, strict=True)):
        own = visits_of(tree, range(8 + number), f"seed {number}", bound=14.0 + number, mixture=EXPLORING)
        for visit, other in zip(found, own, strict=True):
            for name in ("at", "who", "rows", "goers", "taken_row", "whole"):
                assert np.array_equal(getattr(visit, name), getattr(other, name)), name
            assert visit.chance == pytest.approx(other.chance, rel=1e-4)
            assert np.array_equal(visit.taken.parents, other.taken.parents)


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
