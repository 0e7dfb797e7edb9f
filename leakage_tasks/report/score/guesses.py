"""Guesses of any attack, in files of the Training Data Extraction Challenge's form, scored by the same pairs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.text_table import text_table
from leakage_tasks.metrics.aggregates import check_wrong
from leakage_tasks.pairs import Pair
from leakage_tasks.pairs.submission import found_before, judged_guesses, read_submission, wrong_allowed
from leakage_tasks.report.load.format import number
from leakage_tasks.report.load.validate import printable
from leakage_tasks.stats.intervals import clopper_pearson, early_stop_interval
from leakage_tasks.stats.paired import Difference, rate_difference

HEADS = ("", "guesses", "pairs", "recall", "95 % interval", "early stop", "95 % interval")
BESIDE_FIRST = ("more than the first", "95 % interval", "p")


@dataclass(frozen=True)
class ScoredGuesses:
    """What one file of guesses found of ``n`` pairs."""

    file: str
    guesses: int
    """How many there are, several for a pair counted one by one."""
    pairs_guessed: int
    """Pairs with a guess; the others count as not found."""
    n: int
    recall: float
    """Share of all pairs whose surest guess is right; ``recall_interval`` is Clopper and Pearson's."""
    recall_interval: tuple[float, float]
    recall_early_stop: float
    """Share found before the ``wrong``-th wrong guess, the surest first; the interval is bootstrapped over pairs."""
    recall_early_stop_interval: tuple[float, float]
    wrong: int
    more_than_first: Difference | None = None
    """Recall less that of the first file, of the same pairs; None of the first."""

    def to_json(self) -> dict[str, Any]:
        """All of it, JSON-able."""
        return dataclasses.asdict(self)


def score_guesses(files: Sequence[Path], pairs: Sequence[Pair], wrong: int | None = None) -> list[ScoredGuesses]:
    """Score files of guesses by the same pairs; an example's id is the pair's place among them, from 0.

    ``wrong`` guesses are allowed, unless given as many as :func:`~leakage_tasks.pairs.submission.wrong_allowed` says.
    Raises OptionError naming the file.
    """
    check_wrong(wrong)
    suffixes = {index: pair.suffix for index, pair in enumerate(pairs)}
    judged = [_judged(path, suffixes) for path in files]
    surest = [dict(reversed(each)) for each in judged]
    found = [[own.get(place, False) for place in suffixes] for own in surest]
    return [
        dataclasses.replace(
            _scored(str(path), guesses, own, wrong or wrong_allowed(len(pairs))),
            more_than_first=rate_difference(found[0], own) if index else None,
        )
        for index, (path, guesses, own) in enumerate(zip(files, judged, found, strict=True))
    ]


def _judged(path: Path, suffixes: dict[int, tuple[int, ...]]) -> list[tuple[int, bool]]:
    guesses = read_submission(path)
    try:
        return judged_guesses(guesses, suffixes)
    except OptionError as error:
        raise OptionError(f"{path}: {error}") from None


def _scored(file: str, guesses: Sequence[tuple[int, bool]], surest: Sequence[bool], wrong: int) -> ScoredGuesses:
    n, right = len(surest), sum(surest)
    return ScoredGuesses(
        file=file,
        guesses=len(guesses),
        pairs_guessed=len({pair for pair, _ in guesses}),
        n=n,
        recall=right / n,
        recall_interval=clopper_pearson(right, n),
        recall_early_stop=found_before(guesses, wrong) / n,
        recall_early_stop_interval=early_stop_interval(guesses, n, wrong),
        wrong=wrong,
    )


def guesses_text(scored: Sequence[ScoredGuesses]) -> str:
    """A table with a row a file, and below it what its columns are."""
    heads = HEADS if len(scored) == 1 else HEADS + BESIDE_FIRST
    rows = [heads, *(tuple(_cells(each))[: len(heads)] for each in scored)]
    return "\n\n".join([text_table(rows), "\n".join(_reading(scored))])


def _cells(each: ScoredGuesses) -> Iterator[str]:
    yield printable(each.file)
    yield f"{each.guesses:,}"
    yield f"{each.pairs_guessed:,} of {each.n:,}"
    for share, ends in (
        (each.recall, each.recall_interval),
        (each.recall_early_stop, each.recall_early_stop_interval),
    ):
        yield number(share)
        yield _interval(*ends)
    if each.more_than_first is None:
        yield from [""] * len(BESIDE_FIRST)
    else:
        yield f"{each.more_than_first.value:+.3f}"
        yield _interval(each.more_than_first.low, each.more_than_first.high, "+.3f")
        yield f"{each.more_than_first.p:.2g}"


def _interval(low: float | None, high: float | None, form: str = ".3f") -> str:
    return "" if low is None or high is None else f"[{low:{form}}, {high:{form}}]"


def _reading(scored: Sequence[ScoredGuesses]) -> Iterator[str]:
    yield "recall: share of all pairs whose surest guess is right; Clopper and Pearson's interval"
    yield (
        f"early stop: share found before wrong guess number {scored[0].wrong:,}, the surest first; interval "
        "bootstrapped over pairs"
    )
    if len(scored) > 1:
        yield "more than the first: recall less that of the first file, pair by pair; Newcombe's interval, McNemar's p"
