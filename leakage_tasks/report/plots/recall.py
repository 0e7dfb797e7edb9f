"""Recall against the wrong guesses allowed on the way to it (Zhang et al. 2023, section 4.3, for every number)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leakage_tasks.core.errors import OptionError
from leakage_tasks.metrics.aggregates import Guessed, early_stop, early_stop_interval
from leakage_tasks.pairs.submission import surest_first, wrong_allowed
from leakage_tasks.report.plots import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 12
"""The most lines that can still be told apart."""


@dataclass(frozen=True)
class RecallCurve:
    """One line: the guesses of a run in a confidence's order, and how many wrong ones ``recall_early_stop`` allows.

    ``wrong`` None leaves that to the number of pairs.
    """

    name: str
    guesses: Sequence[Guessed]
    wrong: int | None = None

    @property
    def allowed(self) -> int:
        """The wrong guesses allowed in the run's own ``recall_early_stop``."""
        return self.wrong or wrong_allowed(len(self.guesses))


def recall_curve(guesses: Sequence[Guessed]) -> list[float]:
    """Recall when 1, 2, … wrong guesses are allowed, the surest guesses first; the last is that of all guesses.

    Number w − 1 is :func:`~leakage_tasks.metrics.aggregates.early_stop` of w: the share of all pairs guessed right
    before the w-th wrong guess.
    """
    ordered = sorted(guesses, key=lambda guess: surest_first(guess.confidence, guess.bits, guess.pair))
    found, right = [], 0
    for guess in ordered:
        if guess.right:
            right += 1
        else:
            found.append(right / len(guesses))
    return [*found, right / len(guesses)] if guesses else []


def draw_recall(lines: Sequence[RecallCurve]) -> Figure:
    """A line each, with the run's own ``recall_early_stop`` marked on it and its 95 % bootstrap interval in the legend.

    Raises OptionError without anything to draw, and for more than twelve lines.
    """
    shown = [line for line in lines if line.guesses]
    if not shown:
        raise OptionError("no guesses to draw: all pairs were left out")
    if len(shown) > MOST:
        raise OptionError(f"{len(shown)} lines are too many to tell apart: give {MOST} runs or fewer")
    figure = style.new_figure(7.2, 4.8)
    axes = figure.add_subplot()
    style.legend_below(figure, [_draw(axes, each, number) for number, each in enumerate(shown)])
    for allowed in {each.allowed for each in shown}:
        axes.axvline(allowed, color=style.QUIET, linewidth=1, linestyle=style.DASHED, zorder=1)
    axes.set(xlabel="wrong guesses allowed, the surest guesses first", xlim=(0, None))
    axes.set(ylabel="recall: share of suffixes guessed verbatim", ylim=(0, None))
    axes.grid(axis="y", alpha=0.3)
    style.tidy(axes)
    return figure


def _draw(axes: Axes, each: RecallCurve, number: int) -> style.Entry:
    curve = recall_curve(each.guesses)
    if each.allowed > len(curve):
        # More wrong guesses allowed than there are: the mark still stands on the line.
        curve += [curve[-1]] * (each.allowed - len(curve))
    places = range(1, len(curve) + 1)
    colour = style.colour(number)
    path = axes.plot(places, curve, color=colour, linestyle=style.line(number), linewidth=1.8, zorder=2)[0]
    ends = early_stop_interval(each.wrong)
    # None is for no guesses, of which nothing is drawn.
    value, low, high = (of(each.guesses) or 0.0 for of in (early_stop(each.wrong), ends.low, ends.high))
    look: dict[str, Any] = {"markersize": 8, "markeredgecolor": "black", "linestyle": "none", "zorder": 4}
    dot = axes.plot([each.allowed], [value], marker=style.marker(number), color=colour, **look)[0]
    stop = f"{value:.3f} (95 % interval {low:.3f} to {high:.3f}) at {each.allowed}"
    return (path, dot), f"{style.plain(each.name)}: {stop}; {curve[-1]:.3f} of {len(each.guesses):,} pairs at the end"
