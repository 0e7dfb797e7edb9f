"""Extraction from classifiers: find the values that make the canary's class most likely (Elmahdy et al., section 6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from leakage_tasks.attacks.access import access_to_labels
from leakage_tasks.attacks.classifier.class_beam import LEAST, beam_search, kept_fillings, loss_only, size_of_step
from leakage_tasks.attacks.classifier.class_scores import BEAM, ClassScores
from leakage_tasks.attacks.classifier.shortlist import AUDIT, NUMBER, SHORTLIST, SHORTLIST_AT, first_order
from leakage_tasks.attacks.finding import GUESSES, AttackResult, Extra
from leakage_tasks.attacks.registry import AttackRequest, register
from leakage_tasks.attacks.signal import LOSS, SIGNAL
from leakage_tasks.canaries.alphabets import Alphabet
from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.core.errors import OptionError, PlantingError, TargetError, on_command_line
from leakage_tasks.core.inputs import parse_json, read_text
from leakage_tasks.core.log import warn_once
from leakage_tasks.core.option import Option
from leakage_tasks.data import Columns, format_of
from leakage_tasks.targets.calls import Calls
from leakage_tasks.targets.protocols import DifferentiableInputs, ScoresLabels

BATCH = 1024
_COUNTED: WeakKeyDictionary[Any, dict[tuple[str | None, str], dict[int, float]]] = WeakKeyDictionary()
NO_LABELS = (
    "use --model classifier-scorer, frankenstein-mlm or nlu-tagger for models that label texts, or another attack for "
    "other models"
)
PENALTY = Option("lambda", float, 0.0, "the weight of the penalty on words that are frequent in training", minimum=0.0)
CORPUS = Option("corpus", str, None, "a text file in which the word frequencies for lambda are counted")
CORPUS_COLUMN = Option("corpus_column", str, "text", "the column of corpus that holds the text")
COUNTS = Option("counts", str, None, "a JSON file of counts by word, instead of corpus")


def _most_calls(request: AttackRequest) -> Calls:
    """Return the most calls: all values of the first slot, then what the budget allows for each filling."""
    space, texts = request.canary.attack_space, 0
    for slot, alphabet in enumerate(space.slots):
        heads = kept_fillings(space, slot, request.values["beam"])
        everything = heads * len(alphabet)
        texts += everything if slot == 0 else min(everything, max(request.budget, heads))
        # A user's shortlist is scored beyond the budget, and so are its gradients. An audit scores all values.
        if shortlist := request.values["shortlist"]:
            texts += 2 * max(heads, NUMBER) + heads * min(len(alphabet), shortlist)
        texts += everything if request.values["audit"] else 0
    return Calls(texts, rounds=4 * len(space.slots))


@register(
    "label-search",
    "extraction",
    ScoresLabels,
    auto=1,
    remedy=NO_LABELS,
    options=(BEAM, PENALTY, CORPUS, CORPUS_COLUMN, COUNTS, SHORTLIST, SHORTLIST_AT, AUDIT, SIGNAL),
    access=access_to_labels,
    classes=["model inversion"],
    most_calls=_most_calls,
)
def label_search(request: AttackRequest) -> AttackResult:
    """Beam search for the values with the highest P(label | x1 … xt−1, v) − λ·C(v), slot after slot.

    The text ends before the next open slot; if the unknown tokens are at the end of the text, this is Equation 1. The
    penalty of a filling is the sum of its values' penalties. With one unknown token, all of its alphabet is scored and
    ranked, also beyond ``budget``. With more, each of ``beam`` fillings is extended by every value if ``budget``
    allows, else by as many of the best values by gradient (``shortlist``) as it allows. A guess's score is its class
    loss; with a penalty, guesses are ordered by the penalised goal.
    """
    search = _Search(request)
    space, secret = request.canary.attack_space, request.canary.secret
    goal = search.goal if request.values["lambda"] else loss_only
    beam = beam_search(search.scores, secret, request.values["beam"], search.grow, goal)
    extra = {"ranked": beam.ranked, **search.notes}
    return {**beam.result(space, secret), "model_calls": search.scores.calls, "extra": extra}


class _Search:
    """One search: the values to try and the goal to minimise."""

    def __init__(self, request: AttackRequest) -> None:
        self.values, self.space = request.values, request.canary.attack_space
        self.scores = ClassScores(request, request.values["signal"])
        self.shares = _penalties(request, self.scores)
        self.limits = [self._limit(request, slot) for slot in range(len(self.space.slots))]
        self.notes: Extra = {"shortlist_kept": []} if request.values["audit"] else {}
        if request.values["audit"] and not any(self.limits):
            raise OptionError(
                "audit=true reports on a shortlist, and there is no shortlist: add shortlist=…, or leave audit out"
            )
        if any(self.limits):
            self.notes["shortlist"] = max(limit or 0 for limit in self.limits)

    def _limit(self, request: AttackRequest, slot: int) -> int | None:
        """Return the number of values of a slot that are scored after each filling; None for all values."""
        size, shortlist = len(self.space.slots[slot]), self.values["shortlist"]
        if shortlist is not None:
            return shortlist if shortlist < size else None
        width, values = size_of_step(self.space, slot, self.values["beam"], request.budget)
        if slot == 0 or size <= values:
            return None
        # Each filling is also read forward and backward for its gradient, a single filling at several points.
        values -= 2 * (NUMBER if width == 1 else 1)
        if values < LEAST:
            raise OptionError(
                f"budget={request.budget} leaves {max(values, 0)} values to try after each of {width} fillings: raise "
                "budget=…, or lower beam=…"
            )
        if self.scores.rows.single(slot) is None or not isinstance(request.target, DifferentiableInputs):
            raise TargetError(
                f"budget={request.budget} does not allow all {size} values after each of {width} fillings, and the "
                "choice by gradient needs values of one token each: raise budget=…, or lower beam=…"
            )
        return values

    def grow(self, heads: IntArray, penalties: FloatArray, slot: int) -> tuple[IntArray, FloatArray]:
        """Return every head extended by each value to try, and the penalties of these fillings."""
        size, limit = len(self.space.slots[slot]), self.limits[slot]
        if limit is None:
            rows, values = _everything(heads, size)
        else:
            likely = first_order(self.scores, heads, self.values["shortlist_at"])
            goals = self.goal(likely, penalties[:, None] + self.shares[slot])
            values = np.argsort(goals, axis=1, kind="stable")[:, :limit].reshape(-1)
            rows = np.repeat(np.arange(len(heads)), limit)
            if self.values["audit"]:
                self._audit(heads, penalties, slot, rows * size + values)
        return np.concatenate([heads[rows], values[:, None]], axis=1), penalties[rows] + self.shares[slot][values]

    def goal(self, losses: FloatArray, penalties: FloatArray) -> FloatArray:
        """Return 1 − P(label | text) + λ·ΣC, precise for P close to 1; the loss itself if λ is 0."""
        if not self.values["lambda"]:
            return losses
        return -np.expm1(-losses * np.log(2)) + self.values["lambda"] * penalties

    def _audit(self, heads: IntArray, penalties: FloatArray, slot: int, tried: IntArray) -> None:
        """Score all values and record the share of the ten best that the shortlist has."""
        size, before = len(self.space.slots[slot]), self.scores.calls
        rows, values = _everything(heads, size)
        losses = self.scores.of(np.concatenate([heads[rows], values[:, None]], axis=1))
        goals = self.goal(losses, penalties[rows] + self.shares[slot][values])
        best = np.argsort(goals, kind="stable")[:GUESSES]
        self.notes["shortlist_kept"].append(float(np.isin(best, tried).mean()))
        # The first slot's scores are cached, so the shortlist's scores will not be counted again.
        shortlist_calls = len(tried) if slot == 0 else 0
        self.notes["audit_calls"] = self.notes.get("audit_calls", 0) + self.scores.calls - before - shortlist_calls
        self.scores.calls = before + shortlist_calls


def _everything(heads: IntArray, size: int) -> tuple[IntArray, IntArray]:
    """Return all pairs of a head and a value, as two arrays of indices."""
    return np.repeat(np.arange(len(heads)), size), np.tile(np.arange(size), len(heads))


def _penalties(request: AttackRequest, scores: ClassScores) -> Sequence[FloatArray]:
    slots = request.canary.attack_space.slots
    if not request.values["lambda"]:
        return [np.zeros(len(slot)) for slot in slots]
    if request.values["signal"] != LOSS:
        raise OptionError(
            "lambda=… is a penalty on a probability and needs signal=loss: leave one of the two options out"
        )
    tokens = [scores.rows.tokens(index) for index in range(len(slots))]
    return [
        value_shares(request.target, *slot_tokens, request.values) for slot_tokens in zip(slots, tokens, strict=True)
    ]


def value_shares(
    target: Any, alphabet: Alphabet, tokens: Sequence[Sequence[int]], option_values: Mapping[str, Any]
) -> FloatArray:
    """Return C of each value of an alphabet, ``[A]``, from the options ``corpus`` or ``counts``.

    A value of several tokens has the share of its rarest token, which is an upper bound. Without ``corpus`` and
    ``counts``, Python's help text replaces the training text; the paper suggests a public text.

    Args:
        target: The classifier.
        alphabet: The alphabet of a slot.
        tokens: The tokens of each value in its slot, which may differ from the tokens of the word alone.
        option_values: Values of the attack's options.

    Returns:
        Shares between 0 and 1.

    Raises:
        LeakageError: A file cannot be read or has no words.
    """
    if option_values["counts"] is not None:
        shares = shares_from_counts(option_values["counts"])
        return np.array([shares.get(value, 0.0) for value in alphabet.values])
    if option_values["corpus"] is None:
        warn_once(
            f"lambda={option_values['lambda']}: word frequencies are counted in Python's help text and may differ "
            "much from your training text; give them with corpus=FILE or counts=FILE"
        )
    counted = token_shares(target, option_values["corpus"], option_values["corpus_column"])
    return np.array([min((counted.get(token, 0.0) for token in value), default=0.0) for value in tokens])


def token_shares(target: Any, corpus: str | None, column: str) -> dict[int, float]:
    """Return the share of each token in a dataset's texts, or in Python's help text, without special tokens.

    The shares are counted once for each target. Raises LeakageError if the texts cannot be read or have no words.
    """
    known = _COUNTED.setdefault(target, {})
    if (corpus, column) not in known:
        known[corpus, column] = _shares(target, _help_texts() if corpus is None else _corpus_texts(corpus, column))
    if not known[corpus, column]:
        texts = f"corpus={corpus} contains no words" if corpus else "Python's help text has no words of the tokenizer"
        raise OptionError(f"{texts}: give the training text or a public text")
    return known[corpus, column]


def _help_texts() -> Iterator[str]:
    from pydoc_data.topics import topics

    return (part for topic in topics.values() for part in topic.split("\n\n"))


def _as_setting(option: str) -> str:
    return "corpus_column=…" if option == "text_column" else on_command_line(option)


def _corpus_texts(corpus: str, column: str) -> Iterator[str]:
    path, wanted = Path(corpus), Columns(column)
    kind = format_of(path)
    try:
        layout = kind.survey(path, wanted)
    except PlantingError as error:
        raise error.spelled(_as_setting, OptionError) from None
    return chain.from_iterable(kind.texts(path, layout, wanted))


def _shares(target: Any, texts: Iterable[str]) -> dict[int, float]:
    counts: Counter[int] = Counter()
    source = iter(texts)
    while rows := list(islice(source, BATCH)):
        for tokens in target.encode(rows):
            counts.update(tokens)
    for token in set(target.encode([""])[0]):
        del counts[token]
    total = counts.total()
    return {token: count / total for token, count in counts.items()}


def shares_from_counts(path: str) -> dict[str, float]:
    """Read the shares from a JSON object of counts by word. Raises OptionError for any other file."""
    try:
        counts = parse_json(read_text(path))
    except (OSError, ValueError) as error:
        raise OptionError(f"counts={path}: cannot be read ({error}): give a JSON object of counts by word") from None
    numbers = counts.values() if isinstance(counts, dict) else [None]
    if not all(isinstance(count, int | float) and count >= 0 for count in numbers) or not sum(numbers):
        raise OptionError(f"counts={path}: expected a JSON object of counts by word, all at least 0 and some above 0")
    total = sum(numbers)
    return {word: count / total for word, count in counts.items()}
