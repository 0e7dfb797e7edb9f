"""Groups of near copies against the similarity of all pairs, computed one by one."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from leakage_tasks.core.errors import OptionError
from leakage_tasks.defences.near_texts import NearIndex, near_groups

WORDS = [
    "amber",
    "basil",
    "copper",
    "dune",
    "ember",
    "fjord",
    "grove",
    "harbour",
    "island",
    "juniper",
    "kelp",
    "lagoon",
]


def similarity(one: str, other: str) -> float:
    """Jaccard's, written a second way: of lists of slices, by counting."""
    sides = []
    for text in (one, other):
        plain = " ".join(text.lower().split())
        sides.append({plain[place : place + 5] for place in range(len(plain)) if place + 5 <= len(plain)} or {plain})
    every = sides[0] | sides[1]
    return sum(run in sides[0] and run in sides[1] for run in every) / len(every)


def brute_force(number: int, similar: dict[tuple[int, int], float], limit: float) -> list[list[int]]:
    """Groups by asking all pairs, again and again until nothing changes."""
    group = list(range(number))
    pairs = [pair for pair, value in similar.items() if value >= limit]
    moved = True
    while moved:
        moved = False
        for a, b in pairs:
            least = min(group[a], group[b])
            moved |= group[a] != group[b]
            group[a] = group[b] = least
    return sorted([n for n, own in enumerate(group) if own == name] for name in set(group))


def made_texts(seed: int) -> list[str]:
    """Lines of random words; of some there are copies with a word, a digit or the spacing changed."""
    draw = random.Random(seed)
    lines = [" ".join([*draw.choices(WORDS, k=6), str(draw.randrange(10**9))]) for _ in range(60)]
    for line in lines[:20]:
        parts = line.split()
        parts[draw.randrange(len(parts))] = draw.choice(WORDS)
        lines.append(" ".join(parts))
        place = draw.randrange(len(line))
        lines.append(line[:place] + "#" + line[place + 1 :])
    return [*dict.fromkeys([*lines, lines[0].upper(), lines[1].replace(" ", "  "), "a", "ab", "", "A "])]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_groups_are_those_of_all_pairs(seed: int) -> None:
    texts = made_texts(seed)
    similar = {(a, b): similarity(texts[a], texts[b]) for a, b in combinations(range(len(texts)), 2)}
    for limit in (0.3, 0.4, 0.6, 0.8, 1.0):
        expected = brute_force(len(texts), similar, limit)
        assert 20 < len(expected) < len(texts)
        assert near_groups(texts, limit) == expected


def test_a_chain_is_one_group() -> None:
    words = [f"word{number:04}" for number in range(12)]
    chain = [" ".join(words[start : start + 8]) for start in range(5)]
    assert similarity(chain[0], chain[4]) < 0.4 < similarity(chain[0], chain[1])
    assert near_groups(chain, 0.6) == [[0, 1, 2, 3, 4]]


def test_many_copies_of_one_text_are_compared_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    from leakage_tasks.defences import near_texts as module

    asked = []
    plain = module.similarity_of
    monkeypatch.setattr(module, "similarity_of", lambda *sides: asked.append(1) or plain(*sides))
    texts = [f"the gate code of the harbour office by the long pier is {number:04}" for number in range(400)]
    assert len(near_groups(texts, 0.5)) == 1
    assert len(asked) < 2 * len(texts)


def test_parts_hashed_one_after_the_other_are_as_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from leakage_tasks.defences import near_texts as module

    texts = made_texts(3)
    whole = near_groups(texts, 0.4)
    monkeypatch.setattr(module, "CHARACTERS", 100)
    assert near_groups(texts, 0.4) == whole


def test_what_is_near_to_some_texts_is_what_all_pairs_say() -> None:
    texts = made_texts(4)
    some, rest = texts[:10], texts[10:]
    near = NearIndex(some, 0.4)
    expected = [any(similarity(each, own) >= 0.4 for own in some) for each in rest]
    assert [each in near for each in rest] == expected
    assert 0 < sum(expected) < len(rest)


@pytest.mark.parametrize("similarity", [0.0, 0.1, 1.5, float("nan")])
def test_a_similarity_that_parts_nothing_is_refused(similarity: float) -> None:
    with pytest.raises(OptionError, match=r"near is .*: give a similarity from 0\.2 to 1"):
        near_groups(["one", "two"], similarity)


def test_no_text_is_no_group() -> None:
    assert near_groups([], 0.5) == []
