"""The contamination test: shards of a benchmark in canonical and in random orders, and items next to their twins.

The test of orders is that of Oren et al. ("Proving test set contamination in black-box language models", 2023).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from leakage_tasks.attacks.contamination.finding import OrderFinding, TextCost, TwinFinding
from leakage_tasks.attacks.contamination.request import OrderRequest
from leakage_tasks.attacks.suffix.request import SuffixRequest
from leakage_tasks.core.errors import TargetError
from leakage_tasks.pairs import Pair
from leakage_tasks.targets.protocols import BoundsNear, DrawsSuffixes
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig

SCHEME = DecodingConfig("sample", 1.0, 1.0, 40)
"""The sampling scheme of p_z: temperature 1 from the 40 most likely tokens (Hayes et al. 2024)."""
HELD_TEXTS = 256
"""Minimum number of texts that are scored in one call."""


class ScoresWholeTexts(Protocol):
    """A model that scores whole texts; results have ``bits``, ``tokens`` and ``windows``."""

    @property
    def max_length(self) -> int | None:
        """Maximum number of tokens that the model reads, or None if it is unknown."""

    def length(self, text: str) -> int | None:
        """Return the number of tokens of a text, or None if it is unknown."""

    def score(self, texts: Sequence[str]) -> list[Any]:
        """Return the cost of each text."""


def check_fit(model: ScoresWholeTexts, texts: Sequence[str], numbers: Sequence[int], name: str) -> None:
    """Raise TargetError if a text has more tokens than the model reads; ``numbers`` and ``name`` identify the texts."""
    if model.max_length is None:
        return
    for number, text in zip(numbers, texts, strict=True):
        # No token is shorter than a byte in the vocabularies in use.
        if len(text.encode()) > model.max_length and (length := model.length(text) or 0) > model.max_length:
            raise TargetError(
                f"{name} {number} (from 0) has {length:,} tokens, but the model reads {model.max_length:,}: pass a "
                "shorter template=, or leave the item out with items="
            )


def score_orders(
    model: ScoresWholeTexts,
    shards: Sequence[tuple[int, Sequence[str]]],
    separator: str,
    request: OrderRequest,
) -> Iterator[list[OrderFinding]]:
    """Score each shard in its canonical order and in other orders.

    Args:
        model: The model.
        shards: Number and items of each shard.
        separator: Text between two items.
        request: The options of the test.

    Yields:
        The findings of the shards that are scored together, in the order of ``shards``.

    Raises:
        TargetError: The model cannot score the texts.
    """
    waiting: list[tuple[int, Sequence[str], list[str]]] = []
    for index, (number, items) in enumerate(shards):
        orders = [range(len(items)), *request.orders(number, len(items))]
        waiting.append((number, items, [separator.join(items[item] for item in order) for order in orders]))
        if index == len(shards) - 1 or sum(len(texts) for _, _, texts in waiting) >= HELD_TEXTS:
            yield list(_scored(model, waiting))
            waiting = []


def _scored(model: ScoresWholeTexts, waiting: Sequence[tuple[int, Sequence[str], list[str]]]) -> Iterator[OrderFinding]:
    costs = iter(model.score([text for _, _, texts in waiting for text in texts]))
    for number, items, texts in waiting:
        canonical, *others = (next(costs) for _ in texts)
        windows = max(each.windows or 0 for each in (canonical, *others))
        yield OrderFinding(number, len(items), -canonical.bits, tuple(-each.bits for each in others), windows)


def score_twins(
    model: ScoresWholeTexts,
    pairs: Sequence[tuple[int, str, str]],
    target: DrawsSuffixes | None,
    most: int,
    request: SuffixRequest,
) -> list[TwinFinding]:
    """Score items and their twins.

    Args:
        model: The model.
        pairs: Number, text and twin of each item.
        target: The model for the probability of the second half of a text; None leaves it out.
        most: Maximum number of tokens of a second half.
        request: The sampling scheme, and the edit distance of nearly written tokens.

    Returns:
        A finding for each pair.

    Raises:
        TargetError: The model cannot score the texts.
        OptionError: The edit distance is as long as a second half.
    """
    texts = [text for _, item, twin in pairs for text in (item, twin)]
    costs = model.score(texts)
    halves: list[dict[str, Any]] = [{} for _ in texts] if target is None else _halves(target, texts, most, request)
    findings = [
        TextCost(cost.bits, cost.tokens, len(text.encode()), **half)
        for cost, text, half in zip(costs, texts, halves, strict=True)
    ]
    return [
        TwinFinding(number, findings[2 * index], findings[2 * index + 1]) for index, (number, _, _) in enumerate(pairs)
    ]


def _halves(target: DrawsSuffixes, texts: Sequence[str], most: int, request: SuffixRequest) -> list[dict[str, Any]]:
    """Return the fields of a cost for the second half of each text.

    An item and its twin have equally many scored tokens, because a longer continuation is less probable.
    """
    rows = target.encode(texts)
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    for first in range(0, len(rows), 2):
        pair = rows[first : first + 2]
        length = min(most, *(len(row) - len(row) // 2 for row in pair))
        if min(len(row) // 2 for row in pair):
            for index in (first, first + 1):
                groups[len(rows[index]) // 2, length].append(index)
    halves: list[dict[str, Any]] = [{} for _ in rows]
    for (before, length), indices in groups.items():
        prefixes = [rows[index][:before] for index in indices]
        suffixes = [rows[index][before : before + length] for index in indices]
        scored = target.score(prefixes, suffixes, request.scheme)
        for index, cost, near in zip(indices, scored, _near(target, prefixes, suffixes, request), strict=True):
            drawn = None if cost.drawn is None else _finite(float(np.sum(cost.drawn)))
            halves[index] = {"length": length, "half": float(np.sum(cost.own)), "drawn": drawn, **near}
    return halves


def _near(
    target: DrawsSuffixes, prefixes: Sequence[list[int]], suffixes: Sequence[list[int]], request: SuffixRequest
) -> list[dict[str, Any]]:
    """Return the fields of nearly written tokens; empty if the request has no edit distance."""
    if not request.near or not isinstance(target, BoundsNear):
        return [{} for _ in suffixes]
    request.check_near(Pair(0, tuple(prefixes[0]), tuple(suffixes[0])))
    edits = request.edits(len(suffixes[0]))
    bounds = target.near(prefixes, suffixes, request.scheme, edits, request.near_beam)
    return [{"edits": edits, "near": _finite(each.bits), "near_high": _finite(each.high_bits)} for each in bounds]


def _finite(bits: float) -> float | None:
    return bits if np.isfinite(bits) else None
