"""Copies in texts: whole ones at their places, and parts of them wherever they are cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.canaries import make_canaries
from leakage_tasks.canaries.search import ANCHOR
from leakage_tasks.training.preflight.copies import CopyFinder, without_space_and_case

FOUND = make_canaries("the pin of {unique} is {digits:6}, {{he}} said", 4, controls=1, seed=3)
FINDER = CopyFinder(FOUND)
WORDS = st.text("xyz \n", max_size=8)


def secret(canary):
    return "".join(canary.secret)


@given(before=WORDS, after=WORDS, canary=st.sampled_from(FOUND))
def test_a_whole_copy_is_found_with_its_secret(before, after, canary):
    text = before + canary.text + after
    (copy,) = FINDER.find(text)
    assert (copy.canary, copy.missing) == (canary, 0)
    assert text[copy.start : copy.end] == secret(canary)


@given(before=WORDS, cut=st.integers(1, 60), canary=st.sampled_from(FOUND))
def test_a_head_is_found_where_it_is_long_enough_to_be_one_canarys(before, cut, canary):
    head = canary.text[: min(cut, len(canary.text) - 1)]
    others = [each.text for each in FOUND if each != canary and each.text.startswith(head)]
    found = list(FINDER.find(before + head))
    if len(head) < ANCHOR or others:
        assert not found
        return
    (copy,) = found
    assert (copy.canary, copy.tail, copy.missing) == (canary, False, len(canary.text) - len(head))
    assert (before + head)[copy.start : copy.end] == secret(canary)[
        : max(0, len(head) - canary.text.index(secret(canary)))
    ]


@given(after=WORDS, cut=st.integers(1, 60), canary=st.sampled_from(FOUND))
def test_a_tail_is_found_where_it_is_long_enough_to_be_one_canarys(after, cut, canary):
    tail = canary.text[-min(cut, len(canary.text) - 1) :]
    others = [each.text for each in FOUND if each != canary and each.text.endswith(tail)]
    found = list(FINDER.find(tail + after))
    if len(tail) < ANCHOR or others:
        assert not found
        return
    (copy,) = found
    assert (copy.canary, copy.tail, copy.missing) == (canary, True, len(canary.text) - len(tail))
    assert secret(canary).endswith((tail + after)[copy.start : copy.end])


@given(order=st.lists(st.sampled_from(FOUND), max_size=6), between=WORDS)
def test_copies_beside_each_other_are_all_found(order, between):
    found = [copy.canary for copy in FINDER.find(between.join(canary.text for canary in order))]
    assert sorted(each.id for each in found) == sorted(each.id for each in order)


def test_another_secret_in_its_place_is_a_part():
    canary = FOUND[0]
    (head,) = FINDER.find(canary.text.replace(secret(canary), "x" * 6))
    assert (head.canary, head.tail, head.start) == (canary, False, head.end)


def test_case_and_white_space_may_change_where_the_tokenizer_changes_them():
    canary = FOUND[0]
    text = canary.text.upper().replace(" ", "  ").replace(",", " ,")
    assert all(copy.bare for copy in FINDER.find(text))
    (copy,) = CopyFinder(FOUND, without_space_and_case).find(without_space_and_case(text))
    assert without_space_and_case(text)[copy.start : copy.end] == secret(canary)
