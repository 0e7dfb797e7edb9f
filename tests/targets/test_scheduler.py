"""Attacks as coroutines, whose questions are answered together."""

import _thread
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.targets.attack_coroutine import share_rows, submit, submit_jointly
from leakage_tasks.targets.batching import Capacity
from leakage_tasks.targets.memory import allowed_memory, memory_within
from leakage_tasks.targets.scheduler import FILLED, JOINT, run_concurrently

SMALL = Capacity(100)
"""Of which a row fills a hundredth."""


def squares(asked):
    return [each * each for each in asked]


def sum_of_squares(upto, many):
    return lambda: sum(submit("squares", many, number, 1, SMALL) for number in range(upto))


def forever(ended):
    """Return an attack that ends only if it is ended, which it adds to ``ended``."""

    def attack():
        try:
            while True:
                submit("k", squares, 1, 1, SMALL)
        finally:
            ended.append(1)

    return attack


@given(st.lists(st.integers(0, 12), max_size=20))
def test_each_attack_comes_to_what_it_comes_to_alone(lengths):
    found = {each.number: each.result for each in run_concurrently([sum_of_squares(n, squares) for n in lengths])}
    assert found == {place: sum(k * k for k in range(n)) for place, n in enumerate(lengths)}


def test_questions_of_all_are_answered_at_once_in_the_order_of_the_attacks():
    seen = []

    def many(asked):
        seen.append(list(asked))
        return asked

    list(
        run_concurrently([lambda n=n: [submit("k", many, (n, turn), 10, SMALL) for turn in range(3)] for n in range(4)])
    )
    assert seen == [[(n, turn) for n in range(4)] for turn in range(3)]


def test_kinds_are_answered_apart():
    seen = []

    def many(asked):
        seen.append(sorted(asked))
        return asked

    list(run_concurrently([lambda kind=kind: submit(kind, many, kind, 10, SMALL) for kind in "abab"]))
    assert seen == [["a", "a"], ["b", "b"]]


def most_running(number, rows, capacity):
    """The maximum number of attacks that have begun and not ended; each makes one request of ``rows`` rows."""
    running, most = set(), []

    def attack(n):
        def run():
            running.add(n)
            most.append(len(running))
            submit("k", lambda asked: asked, n, rows, capacity)
            running.remove(n)
            return True

        return run

    assert len(list(run_concurrently([attack(n) for n in range(number)]))) == number
    return max(most)


def test_no_more_attacks_are_begun_than_fill_passes():
    assert most_running(9, 10, Capacity(10)) == FILLED


def test_no_more_attacks_are_begun_than_memory_holds_answers_for():
    assert most_running(9, 3, Capacity(10)) == 7
    assert most_running(9, 3, Capacity(10, row_bytes=10, memory=100)) == 4
    assert most_running(9, 3, Capacity(10, row_bytes=20, memory=100)) == 4
    # Also if they do not fill a pass.
    assert most_running(9, 1, Capacity(100, row_bytes=30, memory=100)) == 4


@dataclass(frozen=True)
class Asked:
    """A request of attack ``number`` for ``rows`` rows; its answer is the number of rows."""

    number: int
    rows: int

    def part(self, rows):
        return replace(self, rows=rows.stop - rows.start)

    def join(self, answers):
        return sum(answers)


def rounds_of(rows, splits=True, row_bytes=0):
    """Who has how many rows read together, when attack n asks for ``rows[n]`` in turn, 100 of which fill a pass."""
    seen = []

    def many(requests):
        seen.append([(asked.number, asked.rows) for asked in requests])
        return [asked.rows for asked in requests]

    def attack(n):
        capacity = Capacity(100, row_bytes, memory=1000)
        return lambda: [submit("k", many, Asked(n, size), size, capacity, splits) for size in rows[n]]

    answers = {each.number: each.result for each in run_concurrently([attack(n) for n in range(len(rows))])}
    assert answers == dict(enumerate(rows))
    return seen


@pytest.mark.parametrize(
    ("rows", "more", "rounds"),
    [
        ([[100, 100], [25, 25], [25]], {}, [[(0, 100)], [(0, 50), (1, 25), (2, 25)], [(0, 50), (1, 25)]]),
        ([[60], [30, 30]], {}, [[(0, 60), (1, 30)], [(1, 30)]]),
        ([[200, 200], [25, 25]], {"splits": False}, [[(0, 200)], [(0, 200)], [(1, 25)], [(1, 25)]]),
        ([[100, 100], [25, 25]], {"splits": False, "row_bytes": 1}, [[(0, 100), (1, 25)]] * 2),
    ],
    ids=[
        "the rest of a question waits",
        "less than a pass is answered at once",
        "questions that cannot be split wait for those that fill passes",
        "questions that hold caches and cannot be split advance together",
    ],
)
def test_who_is_answered_together(rows, more, rounds):
    assert rounds_of(rows, **more) == rounds


LEVELS = (1, 1, 10, 37, 44, 47, 10, 24, 28, 29, 10, 66, 117, 135, 134)
"""Rows of the requests of an exposure run for one canary, on a random GPT-2."""


@pytest.mark.parametrize(
    ("canaries", "full", "evenly"),
    [
        (60, 256, 252.1),
        pytest.param(1000, 256, 255.8, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(("split", "later"), [(True, False), (False, False), (True, True)])
def test_attacks_end_at_a_steady_rate_in_full_passes(canaries, full, evenly, split, later):
    """A third have ended at half of the rows. If attacks with the fewest rows are served first, as many passes as the
    requests fill at a time, a pass has ``evenly`` rows, and 0, 44 and 0 % have ended at half of the rows."""
    read, passes, ended_at = [0], [0], []

    def many(requests):
        rows = [asked.rows for asked in requests]
        passes[0] += -(-sum(rows) // full)
        return (lambda: rows) if later else rows

    def attack(n):
        sizes = [rows if rows == 1 else rows * (8 + n % 5) // 10 for rows in LEVELS]
        return lambda: [
            submit(level == 0, many, Asked(n, rows), rows, Capacity(full), split) for level, rows in enumerate(sizes)
        ]

    def on_rows(_, rows):
        read[0] += rows

    for _ in run_concurrently([attack(n) for n in range(canaries)], on_rows=on_rows):
        ended_at.append(read[0])
    assert sum(rows <= read[0] / 2 for rows in ended_at) >= canaries / 3
    assert read[0] / passes[0] >= 0.95 * evenly


def on_a_device(events, rows_of_attacks, fails=()):
    """Run attacks whose requests a device answers, and note the attacks of each batch when it is launched and read."""

    def many(requests):
        numbers = [asked.number for asked in requests]
        events.append(("launch", numbers))

        def answers():
            events.append(("read", numbers))
            if fails and set(fails) <= set(numbers):
                raise RuntimeError("the device failed")
            return [asked.rows for asked in requests]

        return answers

    def attack(n):
        return lambda: [submit("k", many, Asked(n, rows), rows, SMALL, True) for rows in rows_of_attacks[n]]

    return {each.number: each.result for each in run_concurrently([attack(n) for n in range(len(rows_of_attacks))])}


def test_a_device_computes_the_next_pass_while_the_attacks_of_the_last_one_continue():
    events = []
    assert on_a_device(events, [[100, 100], [100, 100]]) == {0: [100, 100], 1: [100, 100]}
    assert events == [
        ("launch", [0]),
        ("launch", [1]),
        ("read", [0]),
        ("launch", [0]),
        ("read", [1]),
        ("launch", [1]),
        ("read", [0]),
        ("read", [1]),
    ]


def test_a_pass_that_is_not_full_waits_for_the_one_that_a_device_computes():
    events = []
    on_a_device(events, [[100, 30], [60, 30]])
    assert events == [
        ("launch", [0]),
        ("read", [0]),
        ("launch", [0, 1]),
        ("read", [0, 1]),
        ("launch", [1]),
        ("read", [1]),
    ]


def test_an_error_of_a_device_is_that_of_the_attack():
    with pytest.raises(RuntimeError, match="the device failed"):
        on_a_device([], [[100], [100], [100]], fails=[1])


@given(st.lists(st.lists(st.integers(0, 250), min_size=1, max_size=6), min_size=1, max_size=8))
def test_a_device_changes_no_answer(rows):
    assert on_a_device([], rows) == dict(enumerate(rows))


def test_rows_are_told_as_they_are_read():
    told = []

    def attack(rows):
        return lambda: submit("k", lambda asked: [each.rows for each in asked], Asked(0, rows), rows, SMALL, True)

    list(run_concurrently([attack(80), attack(60)], on_rows=lambda *told_of: told.append(told_of)))
    assert told == [(0, 80), (1, 20), (1, 40)]


@given(st.lists(st.lists(st.integers(1, 300), min_size=1, max_size=6), min_size=1, max_size=8))
def test_each_question_is_answered_once_and_in_its_turn_in_passes_that_are_full_while_others_wait(rows):
    seen = rounds_of(rows)
    for n, own in enumerate(rows):
        assert sum(size for each in seen for attack, size in each if attack == n) == sum(own)
    for each in seen[:-1]:
        assert sum(size for _, size in each) % 100 == 0 or sum(size for _, size in each) < 100 or len(each) == 1


def test_outside_of_attacks_a_question_is_answered_alone():
    assert submit("squares", squares, 7, 1, Capacity(1)) == 49


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_of_one_is_raised_and_the_others_are_ended(error):
    ended = []

    def fails():
        submit("k", squares, 1, 1, SMALL)
        raise error("mine")

    with pytest.raises(error, match="mine"):
        list(run_concurrently([forever(ended), fails, forever(ended)]))
    assert ended == [1, 1]


def test_an_error_of_the_cleanup_hides_neither_the_first_error_nor_an_attack():
    ended = []

    def fails(error):
        try:
            submit("k", squares, 1, 1, SMALL)
            submit("k" if error is OSError else "never", squares, 1, 1, SMALL)
            raise ValueError("mine")
        finally:
            if error is OSError:
                raise error

    with pytest.raises(ValueError, match="mine"):
        list(run_concurrently([lambda: fails(ValueError), lambda: fails(OSError), forever(ended)]))
    assert ended == [1]


def test_each_attack_has_its_own_grad_mode():
    seen = []

    def attack(has_grad, rounds):
        with torch.set_grad_enabled(has_grad):
            for _ in range(rounds):
                submit("k", squares, 1, 1, SMALL)
                seen.append(torch.is_grad_enabled() == has_grad)
        return True

    rounds = [(False, 1), (True, 3), (False, 2), (True, 1)]
    list(run_concurrently([lambda each=each: attack(*each) for each in rounds]))
    assert all(seen)
    assert torch.is_grad_enabled()


def test_a_question_that_cannot_be_answered_is_the_fault_of_who_asked():
    def many(asked):
        if "bad" in asked:
            raise ValueError("bad")
        return asked

    caught = []

    def bad():
        try:
            submit("k", many, "bad", 10, SMALL)
        except ValueError as error:
            caught.append(str(error))
        return "caught"

    found = {each.number: each.result for each in run_concurrently([lambda: submit("k", many, "good", 10, SMALL), bad])}
    assert found == {0: "good", 1: "caught"}
    assert caught == ["bad"]


def test_leaving_early_ends_all_attacks():
    ended = []
    answers = run_concurrently([forever(ended), lambda: 1])
    assert next(answers).result == 1
    answers.close()
    assert ended == [1]


def test_attacks_take_no_threads_and_have_the_context_of_their_run():
    before, threads, allowed = _thread._count(), [], []

    def attack():
        submit("k", squares, 1, 1, Capacity(10**6))
        threads.append(_thread._count())
        allowed.append(allowed_memory())
        return True

    with memory_within(1000):
        list(run_concurrently([attack] * 300))
    assert set(threads) == {before}
    assert allowed == [1000] * 300


def test_time_is_told_by_share_of_the_passes():
    from time import sleep

    def many(asked):
        sleep(0.06)
        return asked

    found = list(
        run_concurrently([lambda: [submit("k", many, 0, 20, SMALL)], lambda: [submit("k", many, 0, 10, SMALL)]])
    )
    large, small = (each.seconds for each in sorted(found, key=lambda each: each.number))
    assert large > small


def squared_jointly(seen, rows=(1, 2, 3)):
    """Attacks whose squares are computed jointly, by one request to the model with ``rows`` of each attack."""

    def many(numbers):
        seen.append(list(numbers))
        share_rows(np.array([rows[number] for number in numbers]))
        return submit("k", lambda asked: asked, [n * n for n in numbers], sum(rows[n] for n in numbers), SMALL)

    return [lambda n=n: submit_jointly("squares", many, n, 1, SMALL) for n in range(len(rows))]


def test_a_stage_is_computed_jointly_and_each_row_belongs_to_its_attack():
    seen, told = [], []
    answers = run_concurrently(squared_jointly(seen), on_rows=lambda *of: told.append(of))
    assert {each.number: each.result for each in answers} == {0: 0, 1: 1, 2: 4}
    assert (seen, told) == ([[0, 1, 2]], [(0, 1), (1, 2), (2, 3)])


def test_as_many_attacks_as_fill_half_of_a_pass_are_joined():
    seen = []

    def many(numbers):
        seen.append(len(numbers))
        share_rows(np.full(len(numbers), 30))
        return submit("k", lambda asked: asked, numbers, 30 * len(numbers), SMALL, None)

    list(run_concurrently([lambda n=n: submit_jointly("j", many, n, 30, SMALL) for n in range(20)]))
    assert max(seen) == -(-JOINT * 100 // 30)


def test_attacks_whose_joint_stage_fails_go_on_alone():
    def many(numbers):
        if 1 in numbers:
            raise ValueError("one")
        return numbers

    def tried(n):
        try:
            return submit_jointly("j", many, n, 1, SMALL)
        except ValueError:
            return "failed"

    found = {each.number: each.result for each in run_concurrently([lambda n=n: tried(n) for n in range(3)])}
    assert found == {0: 0, 1: "failed", 2: 2}


def test_leaving_early_ends_joint_attacks():
    ended = []
    joint = [lambda: submit_jointly("j", lambda numbers: forever(ended)(), 0, 1, SMALL)] * 2
    answers = run_concurrently([*joint, lambda: submit("k", squares, 3, 1, SMALL)])
    assert next(answers).result == 9
    answers.close()
    assert ended == [1]
