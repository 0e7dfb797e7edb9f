"""Share of written texts with a run of the corpus, and of the controls, by length of the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.task_names import TEXTS
from leakage_tasks.report.load.results import read_runs
from leakage_tasks.report.load.texts import TextDetail, read_texts
from leakage_tasks.report.plots import style
from leakage_tasks.stats.intervals import clopper_pearson

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 12
"""Maximum number of lines."""


@dataclass(frozen=True)
class RunCurve:
    """One line: the shares of a group of ``count`` texts with a run of a length or more, in ascending order.

    Intervals are Clopper-Pearson. ``controls`` is True for runs of controls.
    """

    name: str
    count: int
    controls: bool
    shares: tuple[style.LengthShare, ...]


def run_curves(texts: Sequence[TextDetail], name: str = "") -> list[RunCurve]:
    """Return two curves for each group of prompts: runs of the corpus, and of the controls if there are controls.

    Args:
        texts: The texts of a run.
        name: Name of the run, or an empty text.

    Returns:
        The curves; each begins at the shortest recorded length and ends with a share of 0.
    """
    curves = []
    for group in dict.fromkeys(text.group for text in texts):
        for controls in (False, True):
            lengths = [text.controls if controls else text.corpus for text in texts if text.group == group]
            known = [length for length in lengths if length is not None]
            least = max((text.least for text in texts if text.group == group), default=1)
            if known:
                words = f"{group}, {'controls' if controls else 'corpus'}"
                shares = tuple(_shares(known, least))
                curves.append(RunCurve(f"{name}: {words}" if name else words, len(known), controls, shares))
    return curves


def _shares(lengths: Sequence[int], least: int) -> list[style.LengthShare]:
    steps = sorted({least, *(length for length in lengths if length > least), max(least, *lengths) + 1})
    hits = [(step, sum(length >= step for length in lengths)) for step in steps]
    total = len(lengths)
    return [style.LengthShare(step, count / total, *clopper_pearson(count, total)) for step, count in hits]


def runs_of(sources: Sequence[str | Path]) -> list[RunCurve]:
    """Return the curves of all runs of ``untargeted_extraction``. Raises LeakageError without such a run."""
    runs = [run for run in read_runs(sources) if TEXTS in run.tasks and run.tasks[TEXTS].answered]
    if not runs:
        raise OptionError(f"nothing to draw: no samples of {TEXTS}: run lm_eval --tasks {TEXTS} --log_samples")
    return [curve for run in runs for curve in run_curves(read_texts(run), run.name if len(runs) > 1 else "")]


def draw_runs(curves: Sequence[RunCurve]) -> Figure:
    """Draw each curve as steps with its interval. Raises OptionError for too many lines."""
    if len(curves) > MOST:
        raise OptionError(f"{len(curves)} lines are too many to distinguish: give fewer runs")
    from matplotlib.ticker import MaxNLocator

    figure = style.new_figure(7.2, 4.8)
    axes = figure.add_subplot()
    groups = list(dict.fromkeys(curve.name.rpartition(", ")[0] for curve in curves))
    entries = [_draw(axes, curve, groups.index(curve.name.rpartition(", ")[0])) for curve in curves]
    style.legend_below(figure, entries)
    axes.set(xlabel="tokens of the run, or more", ylabel="share of texts", ylim=(0, None))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(axis="y", alpha=0.3)
    style.tidy(axes)
    return figure


def _draw(axes: Axes, curve: RunCurve, number: int) -> style.Entry:
    lengths = [share.length for share in curve.shares]
    look: dict[str, Any] = {"color": style.colour(number), "step": "pre", "alpha": 0.06 if curve.controls else 0.15}
    axes.fill_between(
        lengths, [share.low for share in curve.shares], [share.high for share in curve.shares], linewidth=0, **look
    )
    (line,) = axes.step(
        lengths,
        [share.value for share in curve.shares],
        where="pre",
        color=style.colour(number),
        linestyle="--" if curve.controls else "-",
        linewidth=1.8,
    )
    return line, style.plain(f"{curve.name} (n = {curve.count:,})")
