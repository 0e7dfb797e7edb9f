"""Ranking of samples by how much a model memorizes them, computed before training (The Secret Sharer, Appendix F)."""

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
    "finds secrets that occur once, without a guarantee: copies that differ, even by one letter, hide each other; "
    "audit the model trained on the remaining data"
)
NEAR_CAVEAT = (
    "copies that are less similar than --near still hide each other; audit the model trained on the remaining data"
)

Score = Callable[[Sequence[str]], FloatArray]
"""Log-perplexity of each text in bits, shape ``[texts]``."""
Fit = Callable[[Sequence[str], int], Score]
"""A function that trains a model on texts with a seed, and returns a function for the log-perplexity of any text."""


@dataclass
class Sample:
    """A distinct text of the data with its rows, counted from 0, and its log-perplexities under the models.

    ``seen`` and ``unseen`` have a log-perplexity in bits per random split: by the model that was trained on the text,
    and by the other model. ``near`` are further texts that count as copies of this text. Then ``rows`` includes their
    rows, and the log-perplexities are means over all texts.
    """

    text: str = field(repr=False)
    rows: list[int]
    near: list[str] = field(default_factory=list, repr=False)
    seen: list[float] = field(default_factory=list)
    unseen: list[float] = field(default_factory=list)

    @property
    def texts(self) -> list[str]:
        """The text and its near copies."""
        return [self.text, *self.near]

    @property
    def difference(self) -> float:
        """Mean log-perplexity of the models that did not see the text minus that of the models that did, in bits."""
        return fmean(self.unseen) - fmean(self.seen)

    @property
    def rate(self) -> float:
        """The difference in bits per character; the end of the text counts as a character."""
        return self.difference / (fmean(map(len, self.texts)) + 1)

    def score(self, by: By) -> float:
        """Return the value that samples are ranked by."""
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
    """Rank all distinct texts, starting with the text that a model memorizes most.

    The texts are split at random into two halves and ``fit`` trains a model on each half. A text that both models find
    about equally likely is common. A text that is far more likely under the model that saw it is memorized. The paper
    ranks by |P_A(x) − P_B(x)| of the whole sample (``by="sample"``). This ranks long texts first, because a model
    improves a little on every character that it saw; therefore the default divides the difference by the length. The
    sign is kept: if the model that did *not* see a text finds it more likely, the text is not memorized.

    Equal texts go to one half: the paper's algorithm misses a secret that occurs twice if each half has a copy. Near
    copies may still be split between the halves unless ``near`` is given. Texts of white space only are left out.

    Args:
        texts: The texts of all rows.
        fit: Trains a model on texts.
        repeats: Number of random splits, of two models each, whose log-perplexities are averaged.
        by: Rank by the difference per ``character`` or per whole ``sample``.
        seed: Seed of the splits and models; results are reproducible.
        near: Similarity from which texts count as one sample
            (:func:`~leakage_tasks.defences.near_texts.near_groups`).
        samples: The result of :func:`distinct` for these texts, if already computed.

    Returns:
        The samples, in order of decreasing memorization.

    Raises:
        OptionError: Fewer than two distinct texts, or an invalid option.
    """
    check_options(by, near, repeats=repeats)
    samples = distinct(texts, near) if samples is None else samples
    for split in range(repeats):
        halves = _halves(samples, random.Random(f"halves:{seed}:{split}"))
        # torch accepts seeds below 2^64; halves differ beyond them.
        seeds = [(2 * (seed + split) + index) % (1 << 64) for index in range(2)]
        costs = [_costs(samples, half, texts, fit, fit_seed) for half, fit_seed in zip(halves, seeds, strict=True)]
        for number, sample in enumerate(samples):
            seen, unseen = costs if number in halves[0] else reversed(costs)
            sample.seen.append(float(seen[number]))
            sample.unseen.append(float(unseen[number]))
    return sorted(samples, key=lambda sample: (-sample.score(by), sample.rows))


def check_options(by: str, near: float | None = None, **sizes: int) -> None:
    """Raise OptionError for an invalid option; ``sizes`` are numbers of 1 or more."""
    if near is not None:
        check_similarity(near)
    for name, size in sizes.items():
        if size < 1:
            raise OptionError(f"{name} is {size}: give 1 or more")
    if by not in BY:
        raise OptionError(f"by is {by!r}: give {' or '.join(BY)}")


def distinct(texts: Sequence[str], near: float | None = None) -> list[Sample]:
    """Return the distinct texts in order, without texts of white space only.

    Texts with a similarity of ``near`` or more are one sample. Raises OptionError for fewer than two samples.
    """
    by_text: dict[str, Sample] = {}
    for row, text in enumerate(texts):
        if text.strip():
            by_text.setdefault(text, Sample(text, [])).rows.append(row)
    samples = list(by_text.values())
    if near is not None:
        samples = [_merge([samples[index] for index in group]) for group in near_groups(list(by_text), near)]
    if len(samples) < 2:
        counting = "" if near is None else ", near copies counted as one,"
        raise OptionError(f"{len(samples)} different texts{counting} cannot be split into halves: give two or more")
    return samples


def _merge(group: Sequence[Sample]) -> Sample:
    rows = sorted(row for sample in group for row in sample.rows)
    return Sample(group[0].text, rows, [sample.text for sample in group[1:]])


def _halves(samples: Sequence[Sample], stream: random.Random) -> tuple[set[int], set[int]]:
    """Return the indices of the samples of two random halves with about equal numbers of rows."""
    order = list(range(len(samples)))
    stream.shuffle(order)
    halves: tuple[set[int], set[int]] = (set(), set())
    rows = [0, 0]
    for index in order:
        smaller = rows.index(min(rows))
        halves[smaller].add(index)
        rows[smaller] += len(samples[index].rows)
    return halves


def _costs(samples: Sequence[Sample], half: set[int], texts: Sequence[str], fit: Fit, seed: int) -> FloatArray:
    """Train a model on one half, in the order of the data. Return the log-perplexity of all samples, in bits."""
    rows = sorted(row for index in half for row in samples[index].rows)
    costs = fit([texts[row] for row in rows], seed)([text for sample in samples for text in sample.texts])
    counts = np.array([len(sample.texts) for sample in samples])
    means: FloatArray = np.add.reduceat(costs, counts.cumsum() - counts) / counts
    return means


def character_lm(texts: Sequence[str], *, epochs: int = EPOCHS, batch_size: int = BATCH_SIZE) -> Fit:
    """Return a ``fit`` that trains the 2×200 LSTM of ``models`` on the characters of ``texts`` (Adam).

    Training uses the GPU if there is one. Line breaks separate the texts, and each text is scored as a separate line.
    Raises OptionError if ``epochs`` or ``batch_size`` is below 1.
    """
    from leakage_tasks.models.char_tokenizer import char_tokenizer
    from leakage_tasks.training.rows import check_sizes

    check_sizes(epochs=epochs, batch_size=batch_size)
    longest = max(map(len, texts), default=0) + 1
    tokenizer = char_tokenizer({"\n"}.union(*map(set, texts)), max_length=longest)

    def fit(train_texts: Sequence[str], seed: int) -> Score:
        from leakage_tasks.targets import CausalTarget
        from leakage_tasks.training.char_lstm import train_char_lm
        from leakage_tasks.training.threads import one_thread

        text = "".join(f"{line}\n" for line in train_texts)
        with one_thread():
            trained = train_char_lm(text, tokenizer=tokenizer, epochs=epochs, batch_size=batch_size, seed=seed)
        # An LSTM can read texts of any length, so the maximum in its config does not apply.
        target = CausalTarget(trained.model, tokenizer, max_length=longest)

        def score(scored_texts: Sequence[str]) -> FloatArray:
            with one_thread():
                return target.log_perplexity([f"{text}\n" for text in scored_texts])

        return score

    return fit
