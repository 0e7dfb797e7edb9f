"""A data set without the samples that a model would learn by heart, and a report of what was dropped.

They are found before it is trained (The Secret Sharer, Appendix F).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, get_args

from leakage_tasks.canaries.canary import MASK
from leakage_tasks.canaries.sidecar import named
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.atomic import check_place, replacing
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.jsonl import write_json_lines
from leakage_tasks.core.steady import unchanged
from leakage_tasks.data import Columns, check_output, format_of, overlap

By = Literal["character", "sample"]
BY: tuple[By, ...] = get_args(By)
EPOCHS = 20
BATCH_SIZE = 16
MOST_CHARACTERS = 100_000_000
"""Of all rows, their ends among them: what models are trained on is in memory several times over."""

Score = Callable[[Sequence[str]], FloatArray]
"""Log-perplexity of each text in bits, shape ``[texts]``."""
Fit = Callable[[Sequence[str], int], Score]
"""Trains a model on texts, from a seed, and gives what tells it the log-perplexity of any text."""


@dataclass
class Sample:
    """A text of the data with the rows that hold it, counted from 0, and what it costs the models of each split.

    ``seen`` and ``unseen`` are its log-perplexities in bits, one a split: by the model that was trained on it and by
    the one that was not.
    """

    text: str = field(repr=False)
    rows: list[int]
    seen: list[float] = field(default_factory=list)
    unseen: list[float] = field(default_factory=list)

    @property
    def difference(self) -> float:
        """By how many bits it is cheaper for the model that saw it, on average; below 0 where it is dearer."""
        return fmean(self.unseen) - fmean(self.seen)

    @property
    def rate(self) -> float:
        """The difference in bits a character, the end of the text counted as one."""
        return self.difference / (len(self.text) + 1)

    def score(self, by: By) -> float:
        """What samples are ranked by."""
        return self.rate if by == "character" else self.difference


def rank_samples(
    texts: Sequence[str], fit: Fit, *, repeats: int = 1, by: By = "character", seed: int = 0
) -> list[Sample]:
    """Every distinct text, those that a model learns most by heart first.

    The texts are dealt at random into two halves and ``fit`` trains a model on each. What both find about as likely
    is common; what is far likelier to the model that saw it, that model has by heart. The paper ranks by
    |P_A(x) − P_B(x)| of the whole sample (``by="sample"``). Long texts come first then, whatever they hold, as a model
    is a little better on every character that it saw; hence the difference is divided by the length unless asked for
    otherwise. Its sign is kept: where the model that did *not* see a text finds it likelier, nothing was learnt by
    heart. ``repeats`` random splits, of two models each, are averaged.

    Equal texts go to the same half: in the paper's algorithm a secret that occurs twice is missed where its copies
    are dealt to both. Nearly equal ones still may be. Texts of white space alone are left out. The same texts, ``fit``
    and seed give the same order. Raises OptionError for fewer than two different texts or unusable settings.
    """
    check_settings(repeats, by)
    samples = distinct(texts)
    for split in range(repeats):
        halves = _halves(samples, random.Random(f"halves:{seed}:{split}"))
        costs = [_costs(samples, half, fit, 2 * (seed + split) + place) for place, half in enumerate(halves)]
        for number, sample in enumerate(samples):
            seen, unseen = costs if number in halves[0] else reversed(costs)
            sample.seen.append(float(seen[number]))
            sample.unseen.append(float(unseen[number]))
    return sorted(samples, key=lambda sample: (-sample.score(by), sample.rows))


def check_settings(repeats: int, by: str) -> None:
    """Raise OptionError for unusable settings."""
    if repeats < 1:
        raise OptionError(f"repeats is {repeats}: give 1 or more")
    if by not in BY:
        raise OptionError(f"by is {by!r}: give {' or '.join(BY)}")


def distinct(texts: Sequence[str]) -> list[Sample]:
    """Each text that is not white space alone, once, in order. Raises OptionError for fewer than two."""
    found: dict[str, Sample] = {}
    for row, text in enumerate(texts):
        if text.strip():
            found.setdefault(text, Sample(text, [])).rows.append(row)
    if len(found) < 2:
        raise OptionError(f"{len(found)} different texts cannot be split into halves: give two or more")
    return list(found.values())


def _halves(samples: Sequence[Sample], stream: random.Random) -> tuple[set[int], set[int]]:
    """Places of samples, dealt at random such that both halves have about as many rows."""
    order = list(range(len(samples)))
    stream.shuffle(order)
    halves: tuple[set[int], set[int]] = (set(), set())
    rows = [0, 0]
    for place in order:
        smaller = rows.index(min(rows))
        halves[smaller].add(place)
        rows[smaller] += len(samples[place].rows)
    return halves


def _costs(samples: Sequence[Sample], half: set[int], fit: Fit, seed: int) -> FloatArray:
    """Costs of all samples by a model of one half, which reads its rows in the data's order."""
    rows = sorted((row, samples[place].text) for place in half for row in samples[place].rows)
    return fit([text for _, text in rows], seed)([sample.text for sample in samples])


def character_lm(texts: Sequence[str], *, epochs: int = EPOCHS, batch_size: int = BATCH_SIZE) -> Fit:
    """A ``fit`` that trains the lab's 2×200 LSTM over the characters of ``texts`` (Adam, on the GPU if there is one).

    Texts are parted by line breaks, and each is scored as a line of its own. Raises OptionError on sizes below 1.
    """
    from leakage_tasks.models.char_tokenizer import char_tokenizer
    from leakage_tasks.training.rows import check_sizes

    check_sizes(epochs=epochs, batch_size=batch_size)
    longest = max(map(len, texts), default=0) + 1
    tokenizer = char_tokenizer({"\n"}.union(*map(set, texts)), max_length=longest)

    def fit(own: Sequence[str], seed: int) -> Score:
        from leakage_tasks.targets import CausalTarget
        from leakage_tasks.training.char_lstm import train_char_lm
        from leakage_tasks.training.threads import one_thread

        text = "".join(f"{each}\n" for each in own)
        with one_thread():
            trained = train_char_lm(text, tokenizer=tokenizer, epochs=epochs, batch_size=batch_size, seed=seed)
        # An LSTM has no end to what it can read; its config's length only speaks to others.
        target = CausalTarget(trained.model, tokenizer, max_length=longest)

        def score(asked: Sequence[str]) -> FloatArray:
            with one_thread():
                return target.log_perplexity([f"{each}\n" for each in asked])

        return score

    return fit


@dataclass(frozen=True)
class Sanitized:
    """What was dropped: samples in order, of how many different ones, and rows of how many."""

    output: Path
    dropped: Sequence[Sample]
    samples: int
    rows: int
    by: By

    def summary(self) -> str:
        """Two lines for people; no text is in them."""
        rows = sum(len(sample.rows) for sample in self.dropped)
        unit = "a character" if self.by == "character" else "a sample"
        most, least = (self.dropped[place].score(self.by) for place in (0, -1))
        return (
            f"{self.output}: without {len(self.dropped):,} of {self.samples:,} different samples ({rows:,} of "
            f"{self.rows:,} rows), which are {least:.2f} to {most:.2f} bits {unit} cheaper for a model that saw them\n"
            "made for secrets that occur once: copies that differ, if by a letter, hide each other, and nothing is "
            "promised; audit the model trained on what is left"
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
) -> Sanitized:
    """Copy ``source`` to ``output`` without the ``drop`` samples that :func:`rank_samples` puts first.

    A sample is a row's text (a line of a text file); all rows with an equal text go with it, and the rows that stay
    are copied byte for byte. ``report`` is a JSON line for every sample, the dropped ones first; texts are masked in
    it unless ``reveal``. ``fit`` defaults to :func:`character_lm`. Raises LeakageError, leaving nothing behind, if
    anything is unreadable, unwritable, does not fit or changes while it is read.
    """
    check_settings(repeats, by)
    wanted = Columns(text_column, None, split)
    kind, output = format_of(source), named(output)
    _check_places(source, output, report)
    with ExitStack() as files, unchanged(source):
        # Once more for this alone, so that nobody waits for models of a text that is no more.
        with unchanged(source):
            layout = kind.survey(source, wanted)
            texts = all_texts(source, kind.row_texts(source, layout, wanted))
        samples = len(distinct(texts))
        if not 1 <= drop < samples:
            raise OptionError(f"drop is {drop} of {samples:,} different samples: give 1 to {samples - 1:,}")
        fit = fit or character_lm(texts, epochs=epochs, batch_size=batch_size)
        ranked = rank_samples(texts, fit, repeats=repeats, by=by, seed=seed)
        gone = {row for sample in ranked[:drop] for row in sample.rows}
        if report is not None:
            _write_report(ranked, drop, reveal, files.enter_context(replacing(report, like=source, private=reveal)))
        kind.write_without(source, files.enter_context(replacing(output, like=source)), layout, wanted, gone)
    return Sanitized(output, ranked[:drop], samples, len(texts), by)


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
            "characters": len(sample.text),
            "difference": round(sample.difference, 3),
            "difference_per_character": round(sample.rate, 4),
            "seen": [round(cost, 3) for cost in sample.seen],
            "unseen": [round(cost, 3) for cost in sample.unseen],
            "text": sample.text if reveal else MASK,
        }

    with path.open("w", encoding="utf-8", newline="\n") as out:
        write_json_lines((entry(place, sample) for place, sample in enumerate(ranked, 1)), out)
