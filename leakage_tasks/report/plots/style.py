"""How every plot looks and is saved: one palette, one way of naming levels and series, one function that writes."""

from __future__ import annotations

import io
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakage_tasks.core.atomic import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = (".png", ".svg")
"""How the name of a picture may end."""
Entry = tuple[Any, str]
"""What a legend shows, an artist or several on one another, and what it is."""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito's, told apart by colour-blind readers too; black is for what is no series, such as controls."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES: tuple[Any, ...] = ("-", "--", "-.", (0, (1, 1)), (0, (6, 1, 1, 1, 1, 1)))
QUIET, STRESS = "#555555", "#D55E00"
DASHED: Any = (0, (4, 3))
SMALL = 9.0
"""Points of the smallest letters."""
LONGEST = 48
"""The most characters of a name in a picture."""
_RESOLUTION = 150
_SETTINGS: Any = {"svg.fonttype": "none", "svg.hashsalt": "lm-eval-leakage"}


def colour(number: int) -> str:
    """The colour of series ``number``."""
    return COLOURS[number % len(COLOURS)]


def marker(number: int) -> str:
    """The marker of series ``number``; beyond six series no two share colour and marker until 42."""
    return MARKERS[number % len(MARKERS)]


def line(number: int) -> Any:
    """The line style of series ``number``."""
    return LINES[number % len(LINES)]


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of that many inches whose layout makes room for all that is in it."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure whole or not at all: SVG where ``path`` ends in ``.svg``, else PNG of 150 dots an inch.

    Letters stay letters in an SVG, and the same figure is the same file, byte for byte. Raises LeakageError for a
    place that cannot be written to.
    """
    with replacing(path) as beside:
        _save(figure, beside, vector=Path(path).suffix.lower() == ".svg")
    return Path(path)


def svg(figure: Figure) -> bytes:
    """The SVG that :func:`save` writes."""
    written = io.BytesIO()
    _save(figure, written, vector=True)
    return written.getvalue()


def _save(figure: Figure, to: Path | io.BytesIO, vector: bool) -> None:
    import matplotlib

    # Matplotlib would write the time, and which version of it drew.
    metadata: Mapping[str, Any] = {"Date": None, "Creator": None} if vector else {"Software": None}
    with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(to, format="svg" if vector else "png", dpi=_RESOLUTION, metadata=metadata)


def plain(name: str) -> str:
    """A name from a file as matplotlib may show it: no formulas, no control characters, not too long."""
    shown = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in name)
    if len(shown) > LONGEST:
        half = (LONGEST - 1) // 2
        shown = f"{shown[:half]}…{shown[-half:]}"
    # A label that begins with an underscore is left out of a legend.
    first = "\N{ZERO WIDTH SPACE}" if shown.startswith("_") else ""
    return first + shown.replace("$", r"\$")


def hollow(color: Any, **look: Any) -> dict[str, Any]:
    """Return the look of a mark for a lower bound: hollow, without a line."""
    return {**look, "color": color, "linestyle": "none", "markerfacecolor": "white", "zorder": 4}


def bound_entry(axes: Axes) -> Entry:
    """Return the legend's entry for hollow marks."""
    return axes.plot([], [], **hollow(QUIET, marker="o", markersize=5))[0], "hollow: at least this value"


def tidy(axes: Axes) -> None:
    """Take away the two sides of the frame that say nothing."""
    axes.spines[["top", "right"]].set_visible(False)


def levels(axes: Axes, named: Mapping[str, float]) -> None:
    """Dashed lines at heights, named in the right margin without one name on another; call it with the limits set."""
    low, high = axes.get_ylim()
    inches = axes.get_window_extent().height / axes.figure.dpi
    gap = (high - low) * SMALL * 1.4 / 72 / max(inches, 0.1)
    ordered = sorted(named.items(), key=lambda item: item[1])
    for (text, height), place in zip(ordered, spread([height for _, height in ordered], gap), strict=True):
        axes.axhline(height, color=QUIET, linewidth=1, linestyle=DASHED, zorder=1)
        where = axes.get_yaxis_transform()
        axes.text(1.01, place, text, transform=where, va="center", color=QUIET, fontsize=SMALL)


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """Ascending heights moved up as little as it takes for each to be ``gap`` above the one before."""
    placed: list[float] = []
    for height in heights:
        placed.append(max(height, placed[-1] + gap) if placed else height)
    return placed


def _different(entries: Iterable[Entry]) -> list[Entry]:
    """Entries without repetitions: those of one label and one look are one; of one label alone they are numbered."""
    found: dict[tuple[str, str], Any] = {}
    for handle, label in entries:
        found.setdefault((label, _look(handle)), handle)
    seen: Counter[str] = Counter()
    named = []
    for (label, _), handle in found.items():
        seen[label] += 1
        named.append((handle, label if seen[label] == 1 else f"{label} ({seen[label]})"))
    return named


def _look(handle: Any) -> str:
    """What tells a mark in a legend from another."""
    asked = ("get_color", "get_facecolor", "get_marker", "get_linestyle")
    return repr([type(handle).__name__, *(str(getattr(handle, name)()) for name in asked if hasattr(handle, name))])


def legend_below(figure: Figure, entries: Iterable[Entry]) -> None:
    """One legend under all panels, in as many columns as its longest entry lets stand side by side."""
    found = _different(entries)
    if not found:
        return
    widest = max(len(label) for _, label in found) * SMALL * 0.58 / 72 + 0.7
    rows = -(-len(found) // max(1, int(figure.get_figwidth() / widest)))
    columns = -(-len(found) // rows)
    # What many rows take is added below, so that the panels keep their height.
    figure.set_figheight(figure.get_figheight() + max(0, rows - 2) * SMALL * 1.6 / 72)
    figure.legend(
        [handle for handle, _ in found],
        [label for _, label in found],
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=SMALL,
    )
