"""Heat map of documents: probability and exact match of each window, and near-verbatim passages, by position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import OptionError
from leakage_tasks.report.load.documents import DocumentWindows
from leakage_tasks.report.plots.style import QUIET, SMALL, new_figure
from leakage_tasks.stats.passages import Stretch

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 12
"""Maximum number of documents."""
CELLS = 600
"""Maximum number of cells of a row."""
LOWEST = 1e-3
"""Probability from which a cell has a colour."""
ROWS = ("probability", "exact", "near-verbatim")


def draw_documents(
    documents: Sequence[DocumentWindows], words: str = "probability of the exact suffix", part: str = ""
) -> Figure:
    """Draw three rows of cells per document, by position in tokens.

    A cell shows the highest value at its positions: the probability of the exact suffix on a logarithmic scale, and in
    black the exact suffixes and the near-verbatim passages. Positions without a test are grey. Only the first twelve
    documents are drawn. Raises OptionError without documents.

    Args:
        documents: The documents to draw.
        words: Description of the probability.
        part: Sentence above the figure, which states the documents that are not drawn.
    """
    from matplotlib.colors import LogNorm

    if not documents:
        raise OptionError("no document to draw: the run has no window")
    drawn = documents[:MOST]
    figure = new_figure(9, 0.9 + 0.85 * len(drawn))
    # Default padding lets the colour bar's label reach below a figure of twelve documents.
    figure.set_layout_engine("constrained", h_pad=0.08)
    places = figure.subplots(len(drawn), 1, sharex=True, squeeze=False)[:, 0]
    length = max(document.tested[-1].end for document in drawn)
    heat: Any = {"cmap": _map("magma_r"), "norm": LogNorm(LOWEST, 1)}
    flat: Any = {"cmap": _map("Greys"), "vmin": 0, "vmax": 1}
    image = None
    for axes, document in zip(places, drawn, strict=True):
        probability, exact, near = cells(document, length)
        image = _draw_row(axes, probability, 0, length, heat)
        _draw_row(axes, exact, 1, length, flat)
        _draw_row(axes, near, 2, length, flat)
        axes.set(ylim=(3, 0), yticks=[0.5, 1.5, 2.5], xlim=(0, length))
        axes.set_yticklabels(ROWS, fontsize=SMALL)
        axes.set_title(document.name, fontsize=SMALL, loc="left", color=QUIET)
    places[-1].set_xlabel("position in tokens")
    assert image is not None
    bar = figure.colorbar(image, ax=list(places), location="bottom", aspect=60, shrink=0.8, extend="min")
    bar.set_label(words, fontsize=SMALL)
    if part:
        figure.suptitle(part, fontsize=SMALL, color=QUIET)
    return figure


def cells(document: DocumentWindows, length: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the probability, 1 for an exact suffix, and 1 for a near-verbatim passage, for each cell of a row.

    The row has ``length`` positions; NaN marks cells without a test or with an unknown value.
    """
    size = -(-length // CELLS)
    number = -(-length // size)
    probability, exact, near = (np.full(number, np.nan) for _ in range(3))
    for window in document.windows:
        _raise(probability, window.span, size, window.probability)
        _raise(exact, window.span, size, float(window.exact))
    if document.near is not None:
        for span in document.tested:
            _raise(near, span, size, 0.0)
        for span in document.near:
            _raise(near, span, size, 1.0)
    return probability, exact, near


def _raise(row: FloatArray, span: Stretch, size: int, value: float | None) -> None:
    if value is not None:
        part = slice(span.start // size, (span.end - 1) // size + 1)
        row[part] = np.fmax(row[part], value)


def _map(name: str) -> Any:
    from matplotlib import colormaps

    return colormaps[name].with_extremes(bad="#dddddd", under="white")


def _draw_row(axes: Axes, row: FloatArray, number: int, length: int, look: dict[str, Any]) -> Any:
    extent = (0, length, number + 1, number)
    return axes.imshow(np.ma.masked_invalid(row[None]), aspect="auto", interpolation="none", extent=extent, **look)
