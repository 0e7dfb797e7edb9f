"""What changed between runs, as a table in the terminal and as a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from leakage_tasks.report.compare.changes import IN_ALL, NEVER, TITLES, Change, Comparison
from leakage_tasks.report.reading.format import NOTHING, number, text_table
from leakage_tasks.stats.intervals import LEVEL

HEADS = ("", "n", "before", "after", "difference", "95 % interval", "p", "missed below")
READING = (
    "A difference is after less before, of the same canaries or pairs. p is two-sided, for no change: by flipping "
    "signs (means), McNemar's exact test (shares). Intervals are Student's and Newcombe's. A difference below the last "
    "column could have gone unnoticed: so many show it in fewer than 8 of 10 runs. Differences are of these models: "
    "training twice alike may make one as well."
)


def as_text(comparison: Comparison) -> str:
    """A table a task, and below it in words what changed."""
    parts = [f"before: {comparison.before}\nafter:  {comparison.after}"]
    for task in comparison.documents:
        changes = comparison.changes_of(task)
        rows = [(f"{task}: {TITLES[task]}", *HEADS[1:]), *(_row(each) for each in changes)]
        parts.append("\n".join([text_table(rows), *(f"= {each}" for each in verdicts(changes))]))
    return "\n\n".join(parts)


def verdicts(changes: Sequence[Change]) -> Iterator[str]:
    """What changed in words: of the headline's canaries, of all planted ones, and of the controls."""
    for change in [*changes[:1], *(each for each in changes[1:] if each.group in (IN_ALL, NEVER))]:
        difference = change.difference
        if difference.p > 1 - LEVEL:
            missed = "" if difference.missed is None else f"; would have missed one below {number(difference.missed)}"
            words = f"no change shown (p = {difference.p:.2g}{missed})"
        else:
            way = "less" if difference.value < 0 else "more"
            words = f"{way} than before, by {number(abs(difference.value))} (p = {difference.p:.2g})"
            if change.group == NEVER:
                words += ": they were never planted, so something else than training on them changed"
        if change.bounds:
            words += f"; of {change.bounds} of {change.count} the exposure is a bound or extrapolated: raise budget="
        yield f"{change.task}: {change.group}: {words}"


def page(comparisons: Sequence[Comparison], picture: bytes | None) -> str:
    """All comparisons as one HTML document that loads nothing; ``picture`` is an SVG of slopes."""
    import base64

    from leakage_tasks.report.page.document import render

    return render(
        "changes.html",
        ("base.css", "table.css", "print.css", "changes.css"),
        loads=["img-src data:"],
        comparisons=comparisons,
        heads=HEADS,
        titles=TITLES,
        row=_row,
        verdicts=verdicts,
        number=number,
        picture=None if picture is None else base64.b64encode(picture).decode(),
        reading=READING,
    )


def _row(change: Change) -> tuple[str, ...]:
    difference = change.difference
    interval = NOTHING if difference.low is None else f"[{_signed(difference.low)}, {_signed(difference.high)}]"
    return (
        change.group,
        f"{change.count:,}",
        number(change.before),
        number(change.after),
        _signed(difference.value),
        interval,
        f"{difference.p:.2g}",
        number(difference.missed),
    )


def _signed(value: float | None) -> str:
    shown = number(value)
    return f"+{shown}" if value is not None and value > 0 else shown.replace("-", "−", 1)
