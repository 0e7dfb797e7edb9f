"""Samples by how much of them a model learns by heart, found before it is trained (The Secret Sharer, Appendix F)."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Literal, get_args

import numpy as np

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import OptionError
from leakage_tasks.defences.near_texts import check_similarity, near_groups

By = Literal["character", "sample"]
BY: tuple[By, ...] = get_args(By)
EPOCHS = 20
BATCH_SIZE = 16
CAVEAT = (
    "made for secrets that occur once: copies that differ, if by a letter, hide each other, and nothing is promised; "
    "audit the model trained on what is left"
)
NEAR_CAVEAT = "copies that differ more than --near says hide each other still; audit the model trained on what is left"

Score = Callable[[Sequence[str]], FloatArray]
"""Log-perplexity of each text in bits, shape ``[texts]``."""
Fit = Callable[[Sequence[str], int], Score]
"""Trains a model on texts, from a seed, and gives what tells it the log-perplexity of any text."""


@dataclass
class Sample:
    """A text of the data with the rows that hold it, counted from 0, and what it costs the models of each split.

    ``seen`` and ``unseen`` are its log-perplexities in bits, one a split: by the model that was trained on it and by
    the one that was not. ``near`` are other texts that count as copies of it; rows are theirs too then, and costs a
    mean over all of the texts.
    """

    text: str = field(repr=False)
    rows: list[int]
    near: list[str] = field(default_factory=list, repr=False)
    seen: list[float] = field(default_factory=list)
    unseen: list[float] = field(default_factory=list)

    @property
    def texts(self) -> list[str]:
        """All of its texts."""
        return [self.text, *self.near]

    @property
    def difference(self) -> float:
        """By how many bits it is cheaper for the model that saw it, on average; below 0 where it is dearer."""
        return fmean(self.unseen) - fmean(self.seen)

    @property
    def rate(self) -> float:
        """The difference in bits a character, the end of the text counted as one."""
        return self.difference / (fmean(map(len, self.texts)) + 1)

    def score(self, by: By) -> float:
        """What samples are ranked by."""
        return self.rate if by == "character" else self.difference


def rank_samples(
    texts: Sequence[str],
    fit: Fit,
    *,
    repeats: int = 1,
    by: By = "character",
    seed: int = 0,
    near: float | None = None,
    samples: list[Sample] | None = None,
) -> list[Sample]:
    """Every distinct text, those that a model learns most by heart first.

    The texts are dealt at random into two halves and ``fit`` trains a model on each. What both find about as likely
    is common; what is far likelier to the model that saw it, that model has by heart. The paper ranks by
    |P_A(x) − P_B(x)| of the whole sample (``by="sample"``). Long texts come first then, whatever they hold, as a model
    is a little better on every character that it saw; hence the difference is divided by the length unless asked for
    otherwise. Its sign is kept: where the model that did *not* see a text finds it likelier, nothing was learnt by
    heart. ``repeats`` random splits, of two models each, are averaged.

    Equal texts go to the same half: in the paper's algorithm a secret that occurs twice is missed where its copies
    are dealt to both. Nearly equal ones still may be, unless ``near`` is the similarity from which texts are one sample
    (:func:`~leakage_tasks.defences.near_texts.near_groups`). Texts of white space alone are left out. ``samples`` are
    what :func:`distinct` made of the texts, where the caller has that. The same texts, ``fit`` and seed give the same
    order. Raises OptionError for fewer than two different texts or unusable settings.
    """
    check_settings(repeats, by, near)
    samples = distinct(texts, near) if samples is None else samples
    for split in range(repeats):
        halves = _halves(samples, random.Random(f"halves:{seed}:{split}"))
        costs = [_costs(samples, half, texts, fit, 2 * (seed + split) + place) for place, half in enumerate(halves)]
        for number, sample in enumerate(samples):
            seen, unseen = costs if number in halves[0] else reversed(costs)
            sample.seen.append(float(seen[number]))
            sample.unseen.append(float(unseen[number]))
    return sorted(samples, key=lambda sample: (-sample.score(by), sample.rows))


def check_settings(repeats: int, by: str, near: float | None = None) -> None:
    """Raise OptionError for unusable settings."""
    if near is not None:
        check_similarity(near)
    if repeats < 1:
        raise OptionError(f"repeats is {repeats}: give 1 or more")
    if by not in BY:
        raise OptionError(f"by is {by!r}: give {' or '.join(BY)}")


def distinct(texts: Sequence[str], near: float | None = None) -> list[Sample]:
    """Each text that is not white space alone, once, in order; those so ``near`` each other are one sample.

    Raises OptionError for fewer than two.
    """
    found: dict[str, Sample] = {}
    for row, text in enumerate(texts):
        if text.strip():
            found.setdefault(text, Sample(text, [])).rows.append(row)
    samples = list(found.values())
    if near is not None:
        samples = [_together([samples[place] for place in group]) for group in near_groups(list(found), near)]
    if len(samples) < 2:
        alike = "" if near is None else ", near copies counted as one,"
        raise OptionError(f"{len(samples)} different texts{alike} cannot be split into halves: give two or more")
    return samples


def _together(group: Sequence[Sample]) -> Sample:
    rows = sorted(row for sample in group for row in sample.rows)
    return Sample(group[0].text, rows, [sample.text for sample in group[1:]])


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


def _costs(samples: Sequence[Sample], half: set[int], texts: Sequence[str], fit: Fit, seed: int) -> FloatArray:
    """Costs of all samples by a model of one half, which reads its rows in the data's order."""
    rows = sorted(row for place in half for row in samples[place].rows)
    costs = fit([texts[row] for row in rows], seed)([text for sample in samples for text in sample.texts])
    counts = np.array([len(sample.texts) for sample in samples])
    means: FloatArray = np.add.reduceat(costs, counts.cumsum() - counts) / counts
    return means


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
