"""Style of all plots: palette, names of levels and series, legends, and saving."""

from __future__ import annotations

import base64
import io
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from leakage_tasks.core.atomic import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from leakage_tasks.report.load.figures import Figure as Value

KINDS = (".png", ".svg")
"""File name extensions of plots."""
Entry = tuple[Any, str]
"""A legend entry: one artist or several drawn over each other, and the label."""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito's palette, which colour-blind readers can distinguish; black is kept for controls."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES: tuple[Any, ...] = ("-", "--", "-.", (0, (1, 1)), (0, (6, 1, 1, 1, 1, 1)))
QUIET, STRESS = "#555555", "#D55E00"
DASHED: Any = (0, (4, 3))
SMALL = 9.0
"""Size in points of the smallest letters."""
LONGEST = 48
"""Maximum number of characters of a name in a plot."""
WHOLE: Any = {"clip_on": False, "in_layout": False}
"""Style arguments of marks at the end of an axis, which would otherwise cut them in half. The layout ignores them,
because marks of a legend have no position."""
_RESOLUTION = 150
_SPACES = re.compile(rb"\s*\n\s*")
_SETTINGS: Any = {"svg.fonttype": "none", "svg.hashsalt": "lm-eval-leakage"}


class LengthShare(NamedTuple):
    """A share with its 95 % interval, at a length in tokens."""

    length: int
    value: float
    low: float
    high: float


def reach(value: Value | LengthShare) -> tuple[float, float]:
    """Return the distances from a value to the ends of its interval, or zeros without an interval."""
    if value.value is None or value.low is None or value.high is None:
        return 0.0, 0.0
    return max(0.0, value.value - value.low), max(0.0, value.high - value.value)


def colour(number: int) -> str:
    """Return the colour of series ``number``."""
    return COLOURS[number % len(COLOURS)]


def marker(number: int) -> str:
    """Return the marker of series ``number``; combinations of colour and marker repeat after 42 series."""
    return MARKERS[number % len(MARKERS)]


def line(number: int) -> Any:
    """Return the line style of series ``number``."""
    return LINES[number % len(LINES)]


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure, with sizes in inches, whose layout adapts to its content."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure atomically: SVG if ``path`` ends in ``.svg``, else PNG at 150 dots per inch.

    Text stays text in SVG, and equal figures give identical bytes. Raises LeakageError if ``path`` cannot be written.
    """
    with replacing(path) as temporary:
        _save(figure, temporary, vector=Path(path).suffix.lower() == ".svg")
    return Path(path)


def data_uri(figure: Figure) -> str:
    """Return a figure as the address of an ``<img>``: an SVG without a ground, with text as text.

    A browser shows it as a document of its own, which can neither run scripts nor load anything.
    """
    written = io.BytesIO()
    _save(figure, written, vector=True, transparent=True)
    short = _SPACES.sub(b" ", written.getvalue())
    return f"data:image/svg+xml;base64,{base64.b64encode(short).decode()}"


def _save(figure: Figure, to: Path | io.BytesIO, vector: bool, transparent: bool = False) -> None:
    import matplotlib

    # Without this metadata Matplotlib would write the time and its version.
    metadata: Mapping[str, Any] = {"Date": None, "Creator": None} if vector else {"Software": None}
    with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(
            to, format="svg" if vector else "png", dpi=_RESOLUTION, metadata=metadata, transparent=transparent
        )


def plain(name: str) -> str:
    """Return a name from a file in a form that Matplotlib shows unchanged: without formulas and control characters,
    shortened if long."""
    shown = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in name)
    if len(shown) > LONGEST:
        half = (LONGEST - 1) // 2
        shown = f"{shown[:half]}…{shown[-half:]}"
    # Matplotlib leaves labels that begin with an underscore out of a legend.
    first = "\N{ZERO WIDTH SPACE}" if shown.startswith("_") else ""
    return first + shown.replace("$", r"\$")


def hollow(color: Any, **look: Any) -> dict[str, Any]:
    """Return the style arguments of a mark for a lower bound: hollow, without a line."""
    return {**look, "color": color, "linestyle": "none", "markerfacecolor": "white", "zorder": 4, **WHOLE}


def bound_entry(axes: Axes) -> Entry:
    """Return the legend's entry for hollow marks."""
    return axes.plot([], [], **hollow(QUIET, marker="o", markersize=5))[0], "hollow: at least this value"


def tidy(axes: Axes) -> None:
    """Remove the top and right sides of the frame, which have no axis."""
    axes.spines[["top", "right"]].set_visible(False)


def draw_levels(axes: Axes, named: Mapping[str, float]) -> None:
    """Draw dashed lines with names in the right margin that do not overlap; call it after the limits are set."""
    low, high = axes.get_ylim()
    inches = axes.get_window_extent().height / axes.figure.dpi
    gap = (high - low) * SMALL * 1.4 / 72 / max(inches, 0.1)
    ordered = sorted(named.items(), key=lambda item: item[1])
    for (text, height), position in zip(ordered, spread([height for _, height in ordered], gap), strict=True):
        axes.axhline(height, color=QUIET, linewidth=1, linestyle=DASHED, zorder=1)
        transform = axes.get_yaxis_transform()
        axes.text(1.01, position, text, transform=transform, va="center", color=QUIET, fontsize=SMALL)


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """Move ascending heights up as little as possible so that neighbours are at least ``gap`` apart."""
    placed: list[float] = []
    for height in heights:
        placed.append(max(height, placed[-1] + gap) if placed else height)
    return placed


def _distinct_entries(entries: Iterable[Entry]) -> list[Entry]:
    """Merge legend entries with equal label and style; add numbers to labels that are equal but differ in style."""
    handles: dict[tuple[str, str], Any] = {}
    for handle, label in entries:
        handles.setdefault((label, _style_key(handle)), handle)
    seen: Counter[str] = Counter()
    named = []
    for (label, _), handle in handles.items():
        seen[label] += 1
        named.append((handle, label if seen[label] == 1 else f"{label} ({seen[label]})"))
    return named


def _style_key(handle: Any) -> str:
    getters = ("get_color", "get_facecolor", "get_marker", "get_linestyle")
    return repr([type(handle).__name__, *(str(getattr(handle, name)()) for name in getters if hasattr(handle, name))])


def legend_below(figure: Figure, entries: Iterable[Entry]) -> None:
    """Draw one legend under all panels, with as many columns as its longest entry allows."""
    distinct = _distinct_entries(entries)
    if not distinct:
        return
    widest = max(len(label) for _, label in distinct) * SMALL * 0.58 / 72 + 0.7
    rows = -(-len(distinct) // max(1, int(figure.get_figwidth() / widest)))
    columns = -(-len(distinct) // rows)
    # The figure grows by the height of additional rows, so that the panels keep theirs.
    figure.set_figheight(figure.get_figheight() + max(0, rows - 2) * SMALL * 1.6 / 72)
    figure.legend(
        [handle for handle, _ in distinct],
        [label for _, label in distinct],
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=SMALL,
    )
