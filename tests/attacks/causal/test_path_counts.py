"""Numbers of fillings below the states of a space's paths, against enumeration."""

from collections import Counter

import numpy as np
import pytest

from leakage_tasks.attacks.causal.path_counts import path_counts
from leakage_tasks.canaries import parse_template
from leakage_tasks.canaries.alphabets import Alphabet
from leakage_tasks.targets import CausalTarget
from tests.oracles import letters, tiny_gpt2

NAMES = {"name": Alphabet("name", ("ann", "anna", "bob", "tom"))}


@pytest.mark.parametrize("template", ["pin {digits:3}.", "{name} has {name}."])
def test_the_counts_are_those_of_enumerated_fillings(template):
    space = parse_template(template, NAMES)
    paths = CausalTarget(tiny_gpt2(letters()), letters()).paths(space)
    counts, below = path_counts(paths, space), Counter()
    for filling in space.enumerate():
        state, through = paths.root, {paths.root}
        for column in np.searchsorted(paths.columns, paths.path(filling)):
            state = int(paths.table(np.array([state]))[0, column])
            through.add(state)
        below.update(through)
    assert counts is not None
    assert dict(zip(counts.states.tolist(), counts.fillings.tolist(), strict=True)) == dict(below)


def test_states_that_several_beginnings_share_count_the_fillings_of_each_beginning():
    space = parse_template("pin {digits:9}.")
    paths = CausalTarget(tiny_gpt2(letters()), letters()).paths(space)
    counts = path_counts(paths, space)
    assert sorted(counts.fillings)[-10:] == [10.0**left for left in range(10)]


def test_texts_that_several_fillings_spell_have_no_counts():
    space = parse_template("{v:2}.", {"v": Alphabet("v", ("a", "ab", "b", "bb"))})
    paths = CausalTarget(tiny_gpt2(letters()), letters()).paths(space)
    assert path_counts(paths, space) is None
