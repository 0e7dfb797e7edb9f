"""Estimates against a uniform sample: honest ones miss as often as said, others are told."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy import stats

from leakage_tasks.attacks import Finding
from leakage_tasks.selftest import agreement, subject
from leakage_tasks.selftest.agreement import AGREE, HIGH, LOW, misses_p, side
from leakage_tasks.selftest.rows import BROKEN, HELD, NOT_APPLICABLE
from tests.selftest.models import Bigrams
from tests.selftest.models import subject as made

SIZE = 10**9
FOUND = Finding("c", "exposure", False, 0, "random", math.log2(SIZE), method="estimated")


def sides(noise: float, *, width: float = 1.0, bias: float = 1.0, number: int = 400) -> np.ndarray:
    """What becomes of estimates with that noise, whose interval is ``width`` times what it should be."""
    stream = np.random.default_rng(0)
    found = []
    for true in stream.uniform(size=number) * SIZE:
        rank = 1 + true * bias * math.exp(noise * stream.normal())
        reach = math.exp(1.96 * noise * width)
        ends = {"rank": rank, "rank_low": 1 + (rank - 1) / reach, "rank_high": 1 + (rank - 1) * reach}
        estimate = replace(FOUND, **{name: min(end, SIZE) for name, end in ends.items()})
        hits = {"draws": 127, "hits": int(stream.binomial(127, true / SIZE))}
        found.append(side(estimate, replace(FOUND, rank=1.0, method="sampled", extra=hits), SIZE, stream.uniform()))
    return np.array(found)


@pytest.mark.parametrize("noise", [0.03, 0.09, 0.4])
def test_honest_estimates_miss_in_one_of_twenty(noise: float) -> None:
    found = sides(noise)
    for which in (LOW, HIGH):
        assert 0.005 < (found == which).mean() < 0.05


def test_narrow_and_biased_estimates_miss_more_often() -> None:
    assert (sides(0.3, width=0.4) != AGREE).mean() > 0.25
    assert (sides(0.1, bias=0.7) == LOW).mean() > 0.5
    assert (sides(0.1, bias=1.6) == HIGH).mean() > 0.4


def test_an_exact_reference_lies_in_the_interval_or_not() -> None:
    estimate = replace(FOUND, rank=50.0, rank_low=40.0, rank_high=60.0)
    exact = [replace(FOUND, rank=rank, method="exact") for rank in (39.0, 40.0, 60.0, 61.0)]
    assert [side(estimate, each, 100, 0.5) for each in exact] == [HIGH, AGREE, AGREE, LOW]


def test_a_bound_is_missed_by_a_sample_with_more_hits_than_it_allows() -> None:
    bound = replace(FOUND, rank=1e7, rank_low=1.0, rank_high=1e7, method="lower_bound")
    sampled = [replace(FOUND, rank=1.0, method="sampled", extra={"hits": hits, "draws": 127}) for hits in (0, 3, 9)]
    assert [side(bound, each, SIZE, 0.5) for each in sampled] == [AGREE, AGREE, LOW]


def test_misses_alarm_as_often_as_said() -> None:
    for number in (10, 32, 100):
        alarms = [hits for hits in range(number + 1) if misses_p(hits, 0, number) < agreement.LEVEL]
        assert 2 * stats.binom.sf(alarms[0] - 1, number, 0.025) <= agreement.LEVEL


def test_the_estimates_of_a_right_target_hold() -> None:
    row = agreement.check(made(Bigrams()))
    assert (row.verdict, row.figures["n"]) == (HELD, 32)


@pytest.mark.parametrize(("ends", "side"), [((0.97, 1.03), None), ((0.4, 0.5), "too_low"), ((2.0, 2.5), "too_high")])
def test_intervals_that_are_too_narrow_or_off_do_not(
    monkeypatch: pytest.MonkeyPatch, ends: tuple[float, float], side: str | None
) -> None:
    def narrow(name: str, *arguments: Any, **options: Any) -> list[Finding]:
        found = run(name, *arguments, **options)
        if name != "exposure":
            return found
        stream, low, high = np.random.default_rng(0), *ends
        shift = [1.0 if side else float(np.exp(0.4 * stream.normal())) for _ in found]
        return [
            replace(
                each,
                method="estimated",
                rank=min(each.rank * by * math.sqrt(low * high), 1e4),
                rank_low=min(each.rank * by * low, 1e4),
                rank_high=min(each.rank * by * high, 1e4),
            )
            for each, by in zip(found, shift, strict=True)
        ]

    run = subject.run_attack
    monkeypatch.setattr(subject, "run_attack", narrow)
    row = agreement.check(made(Bigrams()))
    assert row.verdict == BROKEN
    assert side is None or row.figures[side] > 10


def test_of_a_model_that_only_scores_there_is_nothing_to_compare() -> None:
    class Scores:
        max_length = None
        length = staticmethod(len)
        log_perplexity = staticmethod(partial(Bigrams.log_perplexity, Bigrams()))

    row = agreement.check(made(Scores()))
    assert row.verdict == NOT_APPLICABLE
    assert "no next-token probabilities" in row.words
