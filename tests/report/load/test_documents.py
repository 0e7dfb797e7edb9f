"""Figures of documents from samples, against a count of single positions."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.core.errors import ResultsError
from leakage_tasks.report.load.documents import (
    DocumentWindows,
    Window,
    exact_share,
    mean_probability,
    near_share,
    read_documents,
)
from leakage_tasks.stats.intervals import clopper_pearson
from leakage_tasks.stats.passages import Limits, Stretch
from tests.report.load.window_samples import WHOLE, finding, two_documents, write

LIMITS = Limits(gap=3, drift=3, block=5, passage=16)


def documents(folder: Path, limits: Limits = LIMITS) -> list[DocumentWindows]:
    write(folder, two_documents())
    return list(read_documents(folder, limits).documents)


def test_windows_are_grouped_by_document_in_the_order_of_positions(tmp_path: Path) -> None:
    first, second, control = documents(tmp_path)
    assert [each.name for each in (first, second, control)] == ["document 0", "document 1", "control 0"]
    assert [window.span for window in first.windows] == [
        Stretch(10, 20),
        Stretch(20, 30),
        Stretch(30, 40),
        Stretch(40, 50),
    ]
    assert [each.tokens for each in (first, second, control)] == [40, 20, 20]


def test_exact_windows_that_touch_are_one_run(tmp_path: Path) -> None:
    first, second, _ = documents(tmp_path)
    assert (first.exact, first.longest_run) == (2, 20)
    assert (second.exact, second.longest_run) == (0, 0)


def test_near_verbatim_passages_go_on_over_windows(tmp_path: Path) -> None:
    first, second, control = documents(tmp_path)
    assert (first.recalled, second.recalled, control.recalled) == (20, 16, 0)
    assert second.near == [Stretch(11, 19), Stretch(22, 30)]
    strict = documents(tmp_path / "strict", replace(LIMITS, gap=2))
    assert [each.recalled for each in strict] == [20, 0, 0]


@given(st.lists(st.tuples(st.integers(0, 40), st.booleans()), min_size=1, max_size=12))
def test_the_longest_run_is_that_of_positions_one_by_one(places: list[tuple[int, bool]]) -> None:
    windows = tuple(Window(Stretch(start, start + 4), None, exact, ()) for start, exact in places)
    positions = {start + n for start, exact in places if exact for n in range(4)}
    best = 0
    for position in positions:
        length = 0
        while position + length in positions:
            length += 1
        best = max(best, length)
    document = DocumentWindows(0, False, windows)
    assert document.longest_run == best
    assert document.tokens == len({start + n for start, _ in places for n in range(4)})


def test_shares_are_over_all_windows_and_tokens_with_intervals_by_document(tmp_path: Path) -> None:
    first, second, control = documents(tmp_path)
    exact, near, probability = (
        exact_share([first, second]),
        near_share([first, second]),
        mean_probability([first, second]),
    )
    assert near is not None
    assert probability is not None
    assert (exact.value, exact.count) == (2 / 6, 6)
    assert (near.value, near.count) == (36 / 60, 60)
    assert probability.value == pytest.approx((4 * 2**-5 + 2**-1 + 2**-3) / 6)
    for figure in (exact, near, probability):
        assert figure.low is not None
        assert figure.high is not None
        assert figure.low <= (figure.value or 0) <= figure.high
    assert exact_share([control]).low is None


def test_the_interval_of_a_share_names_its_method(tmp_path: Path) -> None:
    first, second, _ = documents(tmp_path)
    near = near_share([first, second])
    assert near is not None
    assert [figure.kind for figure in (exact_share([first, second]), near)] == ["by-document Korn-Graubard"] * 2


def test_independent_windows_have_the_usual_interval() -> None:
    shares = random.Random(0)
    lonely = [DocumentWindows(n, False, (Window(Stretch(0, 5), 0.5, shares.random() < 0.3, ()),)) for n in range(40)]
    figure = exact_share(lonely)
    hits = sum(each.exact for each in lonely)
    assert (figure.low, figure.high) == pytest.approx(clopper_pearson(hits, 40))


@pytest.mark.parametrize(
    ("scheme", "probability"), [("greedy", 2**-5.0), ("beam search, 5 wide", 2**-5.0), ("temperature 1", 2**-2.0)]
)
def test_the_probability_is_that_of_the_scheme_or_the_model_s_own(
    tmp_path: Path, scheme: str, probability: float
) -> None:
    write(tmp_path, [finding(0, 0, 0, bits=5.0, scheme=scheme, p_z_bits=2.0)])
    run = read_documents(tmp_path, LIMITS)
    assert run.documents[0].windows[0].probability == probability
    assert ("p_z" in run.probability_words) is (scheme == "temperature 1")


def test_a_model_that_only_writes_is_judged_by_its_guess(tmp_path: Path) -> None:
    write(tmp_path, [finding(0, 0, 0, exact=True, top1=None), finding(1, 0, 10, exact=False, top1=None)])
    assert [window.exact for window in read_documents(tmp_path, LIMITS).documents[0].windows] == [True, False]


def test_without_equal_runs_recall_is_unknown(tmp_path: Path) -> None:
    write(tmp_path, [finding(0, 0, 0, blocks=WHOLE), finding(1, 0, 10, blocks=None)])
    (document,) = read_documents(tmp_path, LIMITS).documents
    assert document.recalled is None
    assert near_share([document]) is None


def test_a_pair_without_a_place_is_an_error_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, [finding(0, 0, 0), finding(1, None, None)])
    with pytest.raises(ResultsError, match=rf"{path.name}:2: field 'resps': a pair without a place in a document"):
        read_documents(tmp_path, LIMITS)


def test_a_left_out_window_counts_nowhere(tmp_path: Path) -> None:
    gone = replace(finding(1, 0, 10), views={})
    write(tmp_path, [finding(0, 0, 0), gone])
    assert len(read_documents(tmp_path, LIMITS).documents[0].windows) == 1
    write(tmp_path / "all", [gone])
    with pytest.raises(ResultsError, match="every window was left out"):
        read_documents(tmp_path / "all", LIMITS)


def test_several_runs_are_an_error(tmp_path: Path) -> None:
    for name in "ab":
        write(tmp_path / name, [finding(0, 0, 0)])
    with pytest.raises(ResultsError, match="expected one file of samples of suffix_extraction"):
        read_documents(tmp_path, LIMITS)
