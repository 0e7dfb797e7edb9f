"""What is left of a natural secret's finding: the power of ten that its rank is in, and nothing finer."""

from __future__ import annotations

import dataclasses
import json
import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.attacks.coarse import coarsened
from leakage_tasks.attacks.finding import Finding, Guess, finding_from_json, grade_guesses

SIZE = 10**9
SECRET = ("1", "2")
BANDS = (range(1, 11), range(11, 101), range(101, 1001))


def natural(rank: float | None = None, **fields) -> Finding:
    given = {"method": "exact", "log_perplexity": 31.4159, "model_calls": 4711, "seconds": 0.12} | fields
    return Finding("n", "exposure", True, 1, "natural", math.log2(SIZE), rank=rank, **given)


def guessed(place: int | None, offered: int = 10) -> Finding:
    others = [Guess(("9", str(number)), "", 3.0 + number) for number in range(offered)]
    if place is not None:
        others[place - 1] = Guess(SECRET, "", 2.5)
    return natural(method=None, **grade_guesses(others, SECRET), extra={"nodes": 17}, proven=place or 0)


@pytest.mark.parametrize("band", BANDS)
def test_all_ranks_of_a_band_are_told_alike(band: range) -> None:
    told = {coarsened(natural(rank, extra={"nodes": rank}, model_calls=rank)).to_json() for rank in band}
    assert len(told) == 1


def test_ranks_of_two_bands_are_told_apart() -> None:
    assert len({coarsened(natural(band[-1])).to_json() for band in BANDS}) == len(BANDS)


@given(st.integers(1, SIZE))
def test_a_band_holds_the_rank_and_is_three_bits_wide_or_more(rank: int) -> None:
    found = coarsened(natural(rank))
    low, high = found.rank_low, found.rank_high
    assert low <= rank <= high
    assert math.log2(high / low) > 3
    least, most = found.exposure_ends
    assert least <= math.log2(SIZE) - math.log2(rank) + 1e-9
    assert most >= math.log2(SIZE) - math.log2(rank) - 1e-9
    assert least < found.exposure < most


@given(st.integers(11, SIZE), st.floats(0, 0.49))
def test_how_a_rank_was_come_by_is_not_told(rank: int, bits: float) -> None:
    ends = {"rank_low": rank / 2**bits, "rank_high": min(SIZE, rank * 2**bits)}
    estimated = natural(rank, method="estimated", extra={"draws": 128}, **ends)
    assert coarsened(estimated) == coarsened(natural(rank))


def test_an_estimate_that_may_be_further_off_is_a_lower_bound() -> None:
    found = coarsened(natural(5000, method="estimated", rank_low=1000, rank_high=20_000))
    assert (found.method, found.rank, found.rank_low, found.rank_high) == ("lower_bound", 1e5, 1.0, 1e5)
    assert coarsened(natural(20_000, method="lower_bound", rank_low=1, rank_high=20_000)) == found


def test_a_small_space_is_one_band() -> None:
    few = {coarsened(dataclasses.replace(natural(rank), log2_size=math.log2(7))).to_json() for rank in range(1, 8)}
    assert len(few) == 1


def test_nothing_but_the_band_is_left() -> None:
    found = coarsened(natural(3, extra={"draws": 7, "costs": [1.5], "secret_loss": 2.5}, **grade_guesses([], SECRET)))
    assert (found.log_perplexity, found.model_calls, found.seconds, found.correct, found.place) == (None,) * 5
    assert (found.guesses, found.proven, found.extra, found.method) == ((), 0, {}, "banded")


def test_of_guesses_it_is_told_whether_one_of_ten_is_right() -> None:
    hits = {coarsened(guessed(place)).to_json() for place in range(1, 11)}
    assert len(hits) == 1
    assert (coarsened(guessed(1)).place, coarsened(guessed(None)).place) == (10, None)


def test_fewer_than_ten_guesses_would_tell_too_much() -> None:
    assert coarsened(guessed(1, offered=1)) == coarsened(guessed(None, offered=9))


def test_an_extrapolated_exposure_keeps_how_well_its_fit_fits_in_two_digits() -> None:
    fit = {"ks": 0.0123456, "p_value": 0.56789, "draws": 1000, "rejected": False}
    found = coarsened(
        natural(123.0, method="extrapolated", extra={"extrapolated": 22.9, "extrapolated_low": 1.0} | fit)
    )
    assert found.extra == fit | {"ks": 0.012, "p_value": 0.57, "extrapolated": found.exposure}
    assert found.exposure == pytest.approx(math.log2(SIZE) - math.log2(statistics.geometric_mean(range(101, 1001))))


def test_other_canaries_are_left_as_they_are_and_a_coarse_one_is_no_coarser() -> None:
    other = dataclasses.replace(natural(3), kind="random")
    assert coarsened(other) is other
    assert coarsened(coarsened(natural(3))) == coarsened(natural(3))


@pytest.mark.parametrize("found", [natural(77), guessed(4), guessed(1, offered=2)])
def test_it_survives_json(found: Finding) -> None:
    told = coarsened(found)
    assert finding_from_json(told.to_json()) == told
    assert json.loads(told.to_json())["exposure"] == told.exposure
