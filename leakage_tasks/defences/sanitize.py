"""A data set without the samples that a model would learn by heart, and a report of what was dropped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakage_tasks.canaries.canary import MASK
from leakage_tasks.canaries.sidecar import named
from leakage_tasks.core.atomic import check_place, replacing
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.jsonl import write_json_lines
from leakage_tasks.core.stable_inputs import unchanged
from leakage_tasks.data import Columns, check_output, format_of, overlap
from leakage_tasks.defences.ranking import (
    BATCH_SIZE,
    CAVEAT,
    EPOCHS,
    NEAR_CAVEAT,
    By,
    Fit,
    Sample,
    character_lm,
    check_settings,
    distinct,
    rank_samples,
)

MOST_CHARACTERS = 100_000_000
"""Of all rows, their ends among them: what models are trained on is in memory several times over."""


@dataclass(frozen=True)
class Sanitized:
    """What was dropped: samples in order, of how many different ones, and rows of how many."""

    output: Path
    dropped: Sequence[Sample]
    samples: int
    rows: int
    by: By
    near: float | None = None
    """The similarity from which texts are one sample."""

    def summary(self) -> str:
        """Two lines for people; no text is in them."""
        rows = sum(len(sample.rows) for sample in self.dropped)
        unit = "a character" if self.by == "character" else "a sample"
        most, least = (self.dropped[place].score(self.by) for place in (0, -1))
        groups = [sample for sample in self.dropped if sample.near]
        copies = sum(len(sample.texts) for sample in groups)
        alike = "" if self.near is None else f"; {len(groups):,} of them stand for {copies:,} near copies"
        return (
            f"{self.output}: without {len(self.dropped):,} of {self.samples:,} different samples ({rows:,} of "
            f"{self.rows:,} rows), which are {least:.2f} to {most:.2f} bits {unit} cheaper for a model that saw them"
            f"{alike}\n{CAVEAT if self.near is None else NEAR_CAVEAT}"
        )


def sanitize(
    source: Path,
    output: Path,
    *,
    drop: int = 50,
    report: Path | None = None,
    reveal: bool = False,
    text_column: str = "text",
    split: str = "train",
    repeats: int = 1,
    by: By = "character",
    epochs: int = EPOCHS,
    batch_size: int = BATCH_SIZE,
    seed: int = 0,
    fit: Fit | None = None,
    near: float | None = None,
) -> Sanitized:
    """Copy ``source`` to ``output`` without the ``drop`` samples that :func:`rank_samples` puts first.

    A sample is a row's text (a line of a text file); all rows with an equal text go with it, and with ``near`` those
    whose text is as similar. The rows that stay are copied byte for byte. ``report`` is a JSON line for every sample,
    the dropped ones first; texts are masked in it unless ``reveal``. ``fit`` defaults to :func:`character_lm`. Raises
    LeakageError, leaving nothing behind, if anything is unreadable, unwritable, does not fit or changes while it is
    read.
    """
    check_settings(repeats, by, near)
    wanted = Columns(text_column, None, split)
    kind, output = format_of(source), named(output)
    _check_places(source, output, report)
    with ExitStack() as files, unchanged(source):
        # Once more for this alone, so that nobody waits for models of a text that is no more.
        with unchanged(source):
            layout = kind.survey(source, wanted)
            texts = all_texts(source, kind.row_texts(source, layout, wanted))
        samples = distinct(texts, near)
        if not 1 <= drop < len(samples):
            raise OptionError(f"drop is {drop} of {len(samples):,} different samples: give 1 to {len(samples) - 1:,}")
        fit = fit or character_lm(texts, epochs=epochs, batch_size=batch_size)
        ranked = rank_samples(texts, fit, repeats=repeats, by=by, seed=seed, samples=samples)
        gone = {row for sample in ranked[:drop] for row in sample.rows}
        if report is not None:
            _write_report(ranked, drop, reveal, files.enter_context(replacing(report, like=source, private=reveal)))
        kind.write_without(source, files.enter_context(replacing(output, like=source)), layout, wanted, gone)
    return Sanitized(output, ranked[:drop], len(samples), len(texts), by, near)


def all_texts(source: Path, rows: Iterable[str]) -> list[str]:
    """The text of every row; equal ones are one string. Raises OptionError for more than models can be trained on."""
    texts: list[str] = []
    known: dict[str, str] = {}
    characters = 0
    for text in rows:
        texts.append(known.setdefault(text, text))
        characters += len(text) + 1
        if characters > MOST_CHARACTERS:
            raise OptionError(
                f"{source}: has more than {MOST_CHARACTERS:,} characters of text, too many to train on here: "
                "sanitize it in parts"
            )
    return texts


def _check_places(source: Path, output: Path, report: Path | None) -> None:
    """Refuse places that cannot be written to, or hold what is still needed, before anything long begins."""
    check_output(source, output)
    if report is not None and (report.is_dir() or overlap(report, output)):
        raise OptionError(f"{report}: name a file of its own for the report")
    for place in filter(None, (output, report)):
        check_place(place)
        if overlap(place, source):
            raise OptionError(f"{place}: would overwrite the data or write into it: choose another place")


def _write_report(ranked: Sequence[Sample], drop: int, reveal: bool, path: Path) -> None:
    """Write a line for each sample; rows are counted from 1, as lines are."""

    def entry(place: int, sample: Sample) -> dict[str, Any]:
        return {
            "place": place,
            "dropped": place <= drop,
            "rows": [row + 1 for row in sample.rows],
            "texts": len(sample.texts),
            "characters": len(sample.text),
            "difference": round(sample.difference, 3),
            "difference_per_character": round(sample.rate, 4),
            "seen": [round(cost, 3) for cost in sample.seen],
            "unseen": [round(cost, 3) for cost in sample.unseen],
            "text": sample.text if reveal else MASK,
            **({"near": sample.near} if reveal and sample.near else {}),
        }

    with path.open("w", encoding="utf-8", newline="\n") as out:
        write_json_lines((entry(place, sample) for place, sample in enumerate(ranked, 1)), out)
