"""Removal of the samples that a model would memorize from a data set, with a report of the dropped samples."""

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
from leakage_tasks.core.nouns import counted
from leakage_tasks.core.stable_inputs import unchanged
from leakage_tasks.data import Columns, check_output, format_of, overlap
from leakage_tasks.data.shards import check_splits
from leakage_tasks.defences.ranking import (
    BATCH_SIZE,
    CAVEAT,
    EPOCHS,
    NEAR_CAVEAT,
    By,
    Fit,
    Sample,
    character_lm,
    check_options,
    distinct,
    rank_samples,
)

MOST_CHARACTERS = 100_000_000
"""Limit on the characters of all rows, counting row ends: training keeps several copies of the data in memory."""


@dataclass(frozen=True)
class Sanitized:
    """The dropped samples in order of rank, and the numbers of distinct samples and rows in the data."""

    output: Path
    dropped: Sequence[Sample]
    samples: int
    rows: int
    by: By
    near: float | None = None
    """Similarity from which texts count as one sample."""

    def summary(self) -> str:
        """Return two lines for people, without any text of the data."""
        rows = sum(len(sample.rows) for sample in self.dropped)
        unit = "a character" if self.by == "character" else "a sample"
        most, least = (self.dropped[index].score(self.by) for index in (0, -1))
        groups = [sample for sample in self.dropped if sample.near]
        copies = sum(len(sample.texts) for sample in groups)
        merged = (
            "" if self.near is None else f"; near copies: {counted(copies, 'text')} in {counted(len(groups), 'sample')}"
        )
        return (
            f"{self.output}: without {len(self.dropped):,} of {self.samples:,} different samples ({rows:,} of "
            f"{self.rows:,} rows), whose costs are {least:.2f} to {most:.2f} bits {unit} lower for a model that saw "
            f"them{merged}\n{CAVEAT if self.near is None else NEAR_CAVEAT}"
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
    """Copy ``source`` to ``output`` without the ``drop`` samples that :func:`rank_samples` ranks first.

    A sample is the text of a row (a line of a text file), with all rows that have an equal text or, with ``near``, a
    text of this similarity. The remaining rows are copied byte for byte.

    Args:
        source: The data.
        output: The file or folder to write.
        drop: Number of samples to drop.
        report: File for a JSON line per sample, dropped samples first. Texts in it are masked unless ``reveal``.
        reveal: Write texts to ``report``.
        text_column: Column with the texts.
        split: Split with the texts, for data with several splits.
        repeats, by, seed, near: See :func:`rank_samples`.
        epochs, batch_size: See :func:`character_lm`.
        fit: Trains a model on texts; by default :func:`character_lm`.

    Returns:
        The dropped samples and their numbers.

    Raises:
        LeakageError: A file cannot be read or written or changed while it was read, or an option is invalid. No file
            is left behind.
    """
    check_options(by, near, drop=drop, repeats=repeats, epochs=epochs, batch_size=batch_size)
    if reveal and report is None:
        raise OptionError("--reveal shows the texts in a report: give --report FILE too, or leave --reveal out")
    check_splits(source, split)
    wanted = Columns(text_column, None, split)
    kind, output = format_of(source), named(output)
    _check_paths(source, output, report)
    with ExitStack() as files, unchanged(source):
        # A separate check, so that a change of the data is reported before models are trained.
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
    """Return the text of every row, with one string object for equal texts.

    Raises OptionError for more than :data:`MOST_CHARACTERS`.
    """
    texts: list[str] = []
    interned: dict[str, str] = {}
    characters = 0
    for text in rows:
        texts.append(interned.setdefault(text, text))
        characters += len(text) + 1
        if characters > MOST_CHARACTERS:
            raise OptionError(
                f"{source}: has more than {MOST_CHARACTERS:,} characters of text, too many to train on here: "
                "sanitize it in parts"
            )
    return texts


def _check_paths(source: Path, output: Path, report: Path | None) -> None:
    """Raise LeakageError before any long work if a path cannot be written or would overwrite the data."""
    check_output(source, output)
    if report is not None and (report.is_dir() or overlap(report, output)):
        raise OptionError(f"{report}: name a file of its own for the report")
    for path in filter(None, (output, report)):
        check_place(path)
        if overlap(path, source):
            raise OptionError(f"{path}: would overwrite the data or write into it: choose another path")


def _write_report(ranked: Sequence[Sample], drop: int, reveal: bool, path: Path) -> None:
    """Write a line for each sample; rows are counted from 1, as lines are."""

    def entry(rank: int, sample: Sample) -> dict[str, Any]:
        return {
            "place": rank,
            "dropped": rank <= drop,
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
        write_json_lines((entry(rank, sample) for rank, sample in enumerate(ranked, 1)), out)
