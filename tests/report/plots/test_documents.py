"""The heat map shows each position's highest value."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.core.errors import OptionError
from leakage_tasks.report.load.documents import DocumentWindows, Window
from leakage_tasks.report.plots.documents import CELLS, MOST, cells, draw_documents
from leakage_tasks.stats.passages import Block, Limits, Stretch


def document(*windows: Window, number: int = 0) -> DocumentWindows:
    return DocumentWindows(number, False, windows, Limits(passage=3, block=3))


@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.sampled_from([None, 0.001, 0.25, 1.0]), st.booleans()), min_size=1, max_size=9
    )
)
def test_a_cell_of_one_token_has_the_highest_value_of_its_windows(
    places: list[tuple[int, float | None, bool]],
) -> None:
    windows = [Window(Stretch(start, start + 5), value, exact, ()) for start, value, exact in places]
    probability, exact, near = cells(document(*windows), 60)
    for position in range(60):
        here = [window for window in windows if window.span.start <= position < window.span.end]
        known = [window.probability for window in here if window.probability is not None]
        assert np.array_equal(probability[position], max(known, default=np.nan), equal_nan=True)
        assert np.array_equal(exact[position], max((w.exact for w in here), default=np.nan), equal_nan=True)
        assert np.isnan(near[position]) == (not here)


def test_near_verbatim_cells_are_those_of_passages() -> None:
    window = Window(Stretch(10, 20), 0.5, False, (Block(10, 10, 4), Block(15, 15, 2)))
    near = cells(document(window), 25)[2]
    assert np.flatnonzero(near == 1).tolist() == [10, 11, 12, 13]
    assert np.flatnonzero(near == 0).tolist() == list(range(14, 20))


def test_a_long_document_has_few_cells() -> None:
    length = 10 * CELLS + 1
    probability, _, _ = cells(document(Window(Stretch(length - 5, length), 0.5, True, ())), length)
    assert len(probability) <= CELLS
    assert np.flatnonzero(~np.isnan(probability)).tolist() == [len(probability) - 1]


def test_each_document_has_a_panel_with_its_name() -> None:
    drawn = [document(Window(Stretch(5, 10), 0.5, True, ()), number=n) for n in range(MOST + 2)]
    figure = draw_documents(drawn, "the words", "a part")
    assert figure.get_suptitle() == "a part"
    names = [axes.get_title(loc="left") for axes in figure.axes]
    assert [name for name in names if name] == [f"document {n}" for n in range(MOST)]
    figure.draw_without_rendering()
    label = figure.axes[-1].xaxis.label
    assert label.get_text() == "the words"
    assert label.get_window_extent().y0 > 1


def test_nothing_to_draw_is_an_error() -> None:
    with pytest.raises(OptionError, match="no document to draw"):
        draw_documents([])
