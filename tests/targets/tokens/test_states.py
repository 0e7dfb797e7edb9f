"""The states that canaries of one template share, against those of each canary alone."""

import itertools

import numpy as np
import pytest

from leakage_tasks.canaries import parse_template, word_list
from leakage_tasks.targets.tokens import states
from leakage_tasks.targets.tokens.token_paths import lay_out
from leakage_tasks.targets.tokens.tries import Tries
from leakage_tasks.targets.tokens.vocabulary import token_pieces
from tests.oracles import letters, merging

LARGE = "the pin of {name} is {{digits:6}}{end}"


def encode(tokenizer):
    return lambda texts: tokenizer(texts, add_special_tokens=False)["input_ids"]


def laid_out(template, tokenizer, pieces, **alphabets):
    return lay_out(parse_template(template, alphabets), encode(tokenizer), lambda: pieces, Tries())


def pieces_of(tokenizer):
    return token_pieces(tokenizer, len(tokenizer))


def reached(paths):
    """Every state, with its table row, in the order of a walk over columns, which no numbering changes."""
    numbers, rows, waiting = {paths.root: 0}, [], [paths.root]
    while waiting:
        state = waiting.pop(0)
        after = paths.table(np.array([state]))[0]
        for child in after[after >= 0].tolist():
            if child not in numbers:
                numbers[child] = len(numbers)
                waiting.append(child)
        at = np.array([state])
        facts = [bool(paths.ends(at)[0]), bool(paths.goes_on(at)[0]), int(paths.to_come(at)[0])]
        rows.append(([numbers.get(child, -1) for child in after.tolist()], facts))
    return rows


@pytest.mark.parametrize("tokenizer", [letters, merging])
def test_canaries_that_differ_in_the_text_before_the_slots_share_states_and_others_do_not(tokenizer):
    pieces = pieces_of(tokenizer())
    one, same, other = (
        laid_out(LARGE.format(name=name, end=end), tokenizer(), pieces)
        for name, end in (("ann", "."), ("rob", "."), ("ann", " x"))
    )
    assert one.prefix != same.prefix
    assert one.graph is same.graph
    assert one.graph is not other.graph
    alone = laid_out(LARGE.format(name="rob", end="."), tokenizer(), pieces_of(tokenizer()))
    assert reached(same) == reached(alone)
    assert same.longest == alone.longest


def test_states_that_another_canary_reached_first_are_the_same():
    pieces = pieces_of(letters())
    first = laid_out(LARGE.format(name="ann", end="."), letters(), pieces)
    for _ in range(3):
        first.table(np.arange(len(first.graph._sets)))
    second = laid_out(LARGE.format(name="rob", end="."), letters(), pieces)
    assert reached(second) == reached(laid_out(LARGE.format(name="rob", end="."), letters(), pieces_of(letters())))


def test_words_with_more_states_than_there_is_room_for():
    words = word_list("word", ["".join(word) for word in itertools.product("abcdt", repeat=4)])
    paths = laid_out("the {word:2}.", letters(), pieces_of(letters()), word=words)
    rows = reached(paths)
    assert len(rows) > 2 * states.FEWEST
    # The words of each slot as a tree: 1 + 5 + 25 + 125 states, then the space or the full stop, and the end.
    assert len(rows) == 2 * (1 + 5 + 25 + 125 + 1) + 1


def test_a_table_that_is_dropped_is_filled_again(monkeypatch):
    kept = reached(laid_out(LARGE.format(name="ann", end="."), letters(), pieces_of(letters())))
    paths = laid_out(LARGE.format(name="ann", end="."), letters(), pieces_of(letters()))
    monkeypatch.setattr(states, "CELLS", 2 * len(paths.columns))
    assert reached(paths) == kept
    assert len(paths.graph._rows) <= 2
    several = paths.table(np.arange(len(kept)))
    assert np.array_equal(several, np.concatenate([paths.table(np.array([state])) for state in range(len(kept))]))


@pytest.mark.parametrize("limits", [(10, 111_110, 10**6, 5), (10**6, 111_109), (111_110, 111_109, 111_110)])
def test_the_number_of_inner_nodes_does_not_depend_on_earlier_limits(limits):
    paths = laid_out(LARGE.format(name="ann", end=""), letters(), pieces_of(letters()))
    nodes = sum(10**depth for depth in range(1, 6))
    assert [paths.inner_nodes(limit) for limit in limits] == [nodes if limit >= nodes else None for limit in limits]


def test_few_automata_are_kept():
    pieces = pieces_of(letters())
    for number in range(states.KEPT + 3):
        laid_out(LARGE.format(name="ann", end="." + "x" * number), letters(), pieces)
    assert len(pieces.automata) == states.KEPT
