"""Recall by number of wrong guesses allowed (Zhang et al. 2023, section 4.3, for every number)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leakage_tasks.core.errors import OptionError
from leakage_tasks.metrics.aggregates import Guessed, early_stop, early_stop_interval
from leakage_tasks.pairs.submission import confidence_order, wrong_allowed
from leakage_tasks.report.plots import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 12
"""Maximum number of lines; a reader cannot distinguish more."""


@dataclass(frozen=True)
class RecallCurve:
    """One line: a run's guesses with their confidences, and the wrong guesses that ``recall_early_stop`` allows.

    With ``wrong`` None, the number of pairs determines the number allowed.
    """

    name: str
    guesses: Sequence[Guessed]
    wrong: int | None = None

    @property
    def allowed(self) -> int:
        """The number of wrong guesses allowed in the run's own ``recall_early_stop``."""
        return self.wrong or wrong_allowed(len(self.guesses))


def recall_curve(guesses: Sequence[Guessed]) -> list[float]:
    """Return the recall with 1, 2, … wrong guesses allowed, most confident guesses first; the last value is the recall
    of all guesses.

    Element w − 1 is :func:`~leakage_tasks.metrics.aggregates.early_stop` of w: the share of all pairs guessed right
    before the w-th wrong guess.
    """
    ordered = sorted(guesses, key=lambda guess: confidence_order(guess.confidence, guess.bits, guess.pair))
    curve, right = [], 0
    for guess in ordered:
        if guess.right:
            right += 1
        else:
            curve.append(right / len(guesses))
    return [*curve, right / len(guesses)] if guesses else []


def draw_recall(lines: Sequence[RecallCurve]) -> Figure:
    """Draw a line per curve; a mark shows the run's ``recall_early_stop``, the legend its 95 % interval.

    Raises OptionError without guesses, and for more than twelve lines.
    """
    shown = [line for line in lines if line.guesses]
    if not shown:
        raise OptionError("no guesses to draw: all pairs were left out: run suffix_extraction on other pairs")
    if len(shown) > MOST:
        raise OptionError(f"{len(shown)} lines are too many to distinguish: give {MOST} runs or fewer")
    figure = style.new_figure(7.2, 4.8)
    axes = figure.add_subplot()
    style.legend_below(figure, [_draw(axes, curve, number) for number, curve in enumerate(shown)])
    for allowed in {curve.allowed for curve in shown}:
        axes.axvline(allowed, color=style.QUIET, linewidth=1, linestyle=style.DASHED, zorder=1)
    axes.set(xlabel="wrong guesses allowed, the surest guesses first", xlim=(0, None))
    axes.set(ylabel="recall: share of suffixes guessed verbatim", ylim=(0, None))
    axes.grid(axis="y", alpha=0.3)
    style.tidy(axes)
    return figure


def _draw(axes: Axes, recall: RecallCurve, number: int) -> style.Entry:
    curve = recall_curve(recall.guesses)
    if recall.allowed > len(curve):
        # The allowed number exceeds the wrong guesses: extend the line so that the mark is on it.
        curve += [curve[-1]] * (recall.allowed - len(curve))
    allowed = range(1, len(curve) + 1)
    colour = style.colour(number)
    path = axes.plot(allowed, curve, color=colour, linestyle=style.line(number), linewidth=1.8, zorder=2)[0]
    ends = early_stop_interval(recall.wrong)
    # early_stop returns None only without guesses, which are not drawn.
    value, low, high = (of(recall.guesses) or 0.0 for of in (early_stop(recall.wrong), ends.low, ends.high))
    look: dict[str, Any] = {"markersize": 8, "markeredgecolor": "black", "linestyle": "none", "zorder": 4}
    dot = axes.plot([recall.allowed], [value], marker=style.marker(number), color=colour, **look)[0]
    stop = f"{value:.3f} (95 % interval {low:.3f} to {high:.3f}) at {recall.allowed}"
    label = f"{style.plain(recall.name)}: {stop}; {curve[-1]:.3f} of {len(recall.guesses):,} pairs at the end"
    return (path, dot), label
