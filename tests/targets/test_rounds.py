"""Attacks in threads, whose questions are answered together."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.targets.rounds import FILLED, ask, together


def squares(asked):
    return [each * each for each in asked]


def sum_of_squares(upto, many, size=0.01):
    return lambda: sum(ask("squares", many, number, size) for number in range(upto))


@given(st.lists(st.integers(0, 12), max_size=20))
def test_each_attack_comes_to_what_it_comes_to_alone(lengths):
    found = {each.number: each.result for each in together([sum_of_squares(n, squares) for n in lengths])}
    assert found == {place: sum(k * k for k in range(n)) for place, n in enumerate(lengths)}


def test_questions_of_all_are_answered_at_once_in_the_order_of_the_attacks():
    seen = []

    def many(asked):
        seen.append(list(asked))
        return asked

    list(together([lambda n=n: [ask("k", many, (n, turn), 0.1) for turn in range(3)] for n in range(4)]))
    assert seen == [[(n, turn) for n in range(4)] for turn in range(3)]


def test_kinds_are_answered_apart():
    seen = []

    def many(asked):
        seen.append(sorted(asked))
        return asked

    list(together([lambda kind=kind: ask(kind, many, kind, 0.1) for kind in "abab"]))
    assert seen == [["a", "a"], ["b", "b"]]


def test_no_more_attacks_are_begun_than_fill_passes():
    asked_at_once = []

    def many(asked):
        asked_at_once.append(len(asked))
        return asked

    list(together([lambda: ask("k", many, 0, 1.0)] * 9))
    assert max(asked_at_once) == FILLED
    assert sum(asked_at_once) == 9


def rounds_of(sizes, waits=True):
    """What is answered together, by attack, when attack n asks of a size each time that ``sizes[n]`` says."""
    return [[n for n, _ in group] for group in turns_of(sizes, waits)]


def turns_of(sizes, waits=True):
    """The same with the number of each question among its attack's."""
    seen = []

    def many(asked):
        seen.append(list(asked))
        return asked

    def attack(n, own):
        return lambda: [ask("k", many, (n, turn), size, waits=waits) for turn, size in enumerate(own)]

    list(together([attack(n, own) for n, own in sizes]))
    return seen


def test_what_would_fill_part_of_a_pass_waits_while_others_fill_theirs():
    assert rounds_of(enumerate([[1.0, 1.0], [0.25, 0.25], [0.25]])) == [[0], [0, 1, 2], [1]]


def test_nothing_waits_where_passes_would_be_no_fuller():
    assert rounds_of(enumerate([[0.7], [0.7]])) == [[0, 1]]


def test_what_may_not_wait_is_answered_with_the_others():
    assert rounds_of(enumerate([[1.0, 1.0], [0.25, 0.25]]), waits=False) == [[0, 1], [0, 1]]


@given(st.lists(st.lists(st.floats(0.01, 3.0), min_size=1, max_size=6), min_size=1, max_size=8))
def test_waiting_answers_each_question_once_and_in_its_turn(sizes):
    answered = [each for group in turns_of(enumerate(sizes)) for each in group]
    for n, own in enumerate(sizes):
        assert [turn for attack, turn in answered if attack == n] == list(range(len(own)))


def test_outside_of_attacks_a_question_is_answered_alone():
    assert ask("squares", squares, 7, 1.0) == 49


def test_only_one_attack_runs_at_a_time():
    running, most = [], []

    def attack():
        for _ in range(3):
            running.append(1)
            most.append(len(running))
            running.pop()
            ask("k", squares, 1, 0.01)
        return True

    list(together([attack] * 8))
    assert max(most) == 1


def test_an_error_of_one_is_raised_and_the_others_are_ended():
    ended = []

    def waits():
        try:
            while True:
                ask("k", squares, 1, 0.01)
        finally:
            ended.append(1)

    def fails():
        ask("k", squares, 1, 0.01)
        raise ValueError("mine")

    before = threading.active_count()
    with pytest.raises(ValueError, match="mine"):
        list(together([waits, fails, waits]))
    assert ended == [1, 1]
    assert threading.active_count() == before


def test_a_question_that_cannot_be_answered_is_the_fault_of_who_asked():
    def many(asked):
        if "bad" in asked:
            raise ValueError("bad")
        return asked

    caught = []

    def bad():
        try:
            ask("k", many, "bad", 0.1)
        except ValueError as error:
            caught.append(str(error))
        return "caught"

    found = {each.number: each.result for each in together([lambda: ask("k", many, "good", 0.1), bad])}
    assert found == {0: "good", 1: "caught"}
    assert caught == ["bad"]


def test_leaving_early_ends_all_attacks():
    before = threading.active_count()

    def waits():
        while True:
            ask("k", squares, 1, 0.01)

    answers = together([lambda: 1, waits])
    assert next(answers).result == 1
    answers.close()
    assert threading.active_count() == before


def test_time_is_told_by_share_of_the_passes():
    from time import sleep

    def many(asked):
        sleep(0.06)
        return asked

    found = list(together([lambda: [ask("k", many, 0, 0.2)], lambda: [ask("k", many, 0, 0.1)]]))
    large, small = (each.seconds for each in sorted(found, key=lambda each: each.number))
    assert large > small
