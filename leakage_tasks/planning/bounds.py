"""A cost model for each attack: the smallest and largest cost of one canary, without a pilot."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from leakage_tasks.attacks.causal.beam import BEAM
from leakage_tasks.attacks.causal.shortest_path import SETTLED
from leakage_tasks.planning.case import CHUNK, Case
from leakage_tasks.targets.causal.first_passes import CHECKED

PATHS = 64
"""Upper estimate of the number of token paths of one filling; with most tokenizers there is only one."""
PHASES = 14
"""Maximum number of searches and counts in one exposure attack; each descends the tree once."""
ROUNDS = 12
"""Maximum number of sampling rounds; each round makes as many draws as the remaining budget allows in the worst
case."""
DRAWN = 640
"""Number of paths; with a budget for fewer paths, there may be too few draws for an estimate."""


@dataclass(frozen=True)
class Range:
    """A range from a smallest to a largest value."""

    least: float
    most: float

    def times(self, low: float, high: float) -> Range:
        """Return the range with its ends multiplied by ``low`` and ``high``."""
        return Range(self.least * low, self.most * high)


@dataclass(frozen=True)
class Bounds:
    """Ranges for the cost of one canary: rows, forward passes and tokens. The upper end of passes is only an
    estimate."""

    rows: Range
    passes: Range
    tokens: Range


def bounds_of(attack: str, case: Case) -> Bounds:
    """Apply the cost model of an attack. For another package's attack, assume only that it respects its budget."""
    return MODELS.get(attack, _unknown)(case)


def _unknown(case: Case) -> Bounds:
    return Bounds(Range(1, case.budget), Range(1, case.budget), Range(1, case.budget * case.length))


def _tree_search(case: Case, rows: Range, phases: float, least_passes: float) -> Bounds:
    """Return the cost of a tree search: one token per row, the shared prefix once, and passes by tree level and by
    rows."""
    most = min(rows.most, phases * max(case.most_steps, 1) + 2 * rows.most / case.at_once + 1)
    beginning = max(case.length - case.longest, 1)
    tokens = Range(rows.least * case.step, rows.most * case.step + beginning)
    return Bounds(rows, Range(min(least_passes, most), most), tokens)


def _texts(case: Case, number: Range) -> Bounds:
    """Return the cost of scoring whole texts.

    A masked model scores each token of a text separately; texts that differ only at that token share a row.
    """
    if case.by_token:
        return _by_token(case, number)
    rows = number.times(1 / max(case.slots), case.length) if case.masked else number
    passes = Range(max(1, rows.least / case.at_once), math.ceil(rows.most / case.at_once) + rows.most / CHUNK + 2)
    tokens = Range(rows.least, _tokens_of_texts(case, rows.most))
    return Bounds(Range(max(1, rows.least), rows.most + _shared_rows(case, rows.most)), passes, tokens)


def _shared_rows(case: Case, texts: float) -> float:
    """Return the additional rows for whole texts: the shared prefix once per chunk, and the rows that verify this
    method."""
    return texts // CHUNK + 1 + CHECKED if case.own_tokens < case.length else 0


def _by_token(case: Case, number: Range) -> Bounds:
    """Return the cost of whole texts that are read token by token after a shared prefix; equal beginnings share a
    row."""
    chunks = number.most // CHUNK + 1
    rows = Range(1, number.most * case.own_tokens + _shared_rows(case, number.most))
    # The first texts are read in small batches.
    passes = Range(1, case.own_tokens * (number.most / case.at_once + chunks + 1) + chunks + 1)
    # The last chunk may have too few texts for this method.
    whole = (case.length - case.own_tokens) * min(case.by_token, number.most)
    return Bounds(rows, passes, Range(1, _tokens_of_texts(case, number.most) + whole))


def _tokens_of_texts(case: Case, texts: float) -> float:
    """Return the most tokens for whole texts: the shared prefix once per chunk, and the full texts that verify this
    method."""
    shared = case.length - case.own_tokens
    return texts * case.own_tokens + (shared * (texts // CHUNK + 1) + CHECKED * case.length if shared else 0)


def _exposure(case: Case) -> Bounds:
    if case.values.get("signal") == "calibrated":
        return _twice(_unknown_tree(case))
    if not case.next_token:
        return _sampled(case)
    histogram, steps = _histogram_draws(case), case.least_steps
    # A whole tree within the budget is counted without draws and without whole texts.
    counted = case.tree is not None
    tree = 2 * case.size * max(case.most_steps, 1) * PATHS + case.size if case.tree is None else case.tree
    most = min(max(case.budget, case.longest) + 1, 1 + case.longest + tree) + histogram
    least = 1 + steps + min(steps, 1)
    search = _tree_search(case, Range(least, most), PHASES, least)
    # Whole texts are read if all fillings fit the budget, or on a model without a cache for too few draws.
    few_draws = not counted and case.step > 1 and case.budget < DRAWN * case.most_steps
    texts = most if few_draws else (0 if counted or case.size > case.budget else case.size) + histogram
    if case.by_token:
        texts_cost = _by_token(case, Range(0, texts))
    else:
        texts_cost = Bounds(Range(0, _shared_rows(case, texts)), Range(0, 0), Range(0, _tokens_of_texts(case, texts)))
    both = ((search.rows, texts_cost.rows), (search.passes, texts_cost.passes), (search.tokens, texts_cost.tokens))
    return Bounds(*(Range(first.least, first.most + second.most) for first, second in both))


def _unknown_tree(case: Case) -> Bounds:
    return _tree_search(
        case, Range(1 + case.least_steps, 3 * (case.budget + case.longest)), 3 * PHASES, case.least_steps
    )


def _twice(bounds: Bounds) -> Bounds:
    """Return the cost for two models: each of them may have up to the given cost."""
    return Bounds(*(ends.times(1, 2) for ends in (bounds.rows, bounds.passes, bounds.tokens)))


def _histogram_draws(case: Case) -> int:
    """Return the number of random fillings that are scored for a histogram."""
    return min(int(case.values.get("histogram") or 0), case.size)


def _sampled(case: Case) -> Bounds:
    number = min(case.size, case.budget)
    # A draw equal to the secret is not scored twice; a masked model reads the secret first.
    return _texts(case, Range(max(1, number - (case.size > number)), number + 1 + _histogram_draws(case)))


def _skew_normal(case: Case) -> Bounds:
    number = min(case.size, int(case.values["draws"]) + 1)
    return _texts(case, Range(max(1, number * 0.5), number + _histogram_draws(case)))


def _brute_force(case: Case) -> Bounds:
    return _texts(case, Range(case.size, case.size + 1))


def _shortest_path(case: Case) -> Bounds:
    steps = case.least_steps
    # A search that may end as soon as the secret is settled reads at least the secret's path, else also a beam's.
    least = 1 + steps if case.values["stopping"] == SETTLED else 1 + 2 * steps
    most = Range(least, case.budget + 1)
    return _tree_search(case, most, 3 + case.budget / 128, min(least, 1 + steps + min(steps, 1)))


def _beam(case: Case) -> Bounds:
    width = int(case.values["width"])
    return _tree_search(
        case, Range(1 + case.least_steps, min(case.budget, width * case.most_steps) + 1), 1, case.least_steps
    )


def _greedy(case: Case) -> Bounds:
    if not case.next_token:
        return Bounds(Range(1, case.length + 2), Range(1, case.length + 2), Range(1, (case.length + 2) * case.length))
    # It widens the search if the most likely tokens do not spell a filling: 1, 4, 16 nodes per level.
    most = min(case.budget, (1 + 4 + BEAM) * case.most_steps) + 1
    return _tree_search(case, Range(1 + case.least_steps, most), 3, case.least_steps)


def _sampling(case: Case) -> Bounds:
    draws = case.budget if case.values["until"] == "found" else int(case.values["draws"])
    most = min(case.budget, draws * max(case.most_steps, 1)) + 1
    # Draws with a common beginning save budget, which pays for further draws.
    return _tree_search(case, Range(1 + case.least_steps, most), ROUNDS, case.least_steps)


def _text_sampling(case: Case) -> Bounds:
    texts = min(int(case.values["texts"]), case.budget)
    return Bounds(Range(1, texts * case.length), Range(1, texts * case.length), Range(texts, texts * case.length**2))


def _class_loss(case: Case) -> Bounds:
    whole = len(case.slots) == 1 or case.size <= case.budget
    number = case.size if whole else case.budget
    # Two ranks for a generator's candidates: one proposal per slot, and the accepted candidates per slot.
    more = len(case.slots) + sum(case.slots) if case.proposes else 0
    return _written(case, _texts(case, Range(number - (not whole), number + more + _histogram_draws(case))))


def _label_search(case: Case) -> Bounds:
    width, limit = int(case.values["beam"]), case.values.get("shortlist")
    heads, least, most = 1, 0, 0
    for slot, values in enumerate(case.slots):
        tried = min(values, int(limit)) if limit else values
        scored = heads * tried
        paid = scored if slot == 0 else min(scored, max(case.budget, heads))
        least, most = least + min(tried, 10) * (slot > 0) + (scored if slot == 0 else 0), most + paid + 2 * heads
        heads = min(heads * values, width)
    if case.values.get("audit"):
        most += case.size if len(case.slots) == 1 else sum(case.slots) * width
    return _texts(case, Range(max(least, 1), most))


def _mix_and_match(case: Case) -> Bounds:
    most = case.slots[0] + sum(case.slots) + 2 * len(case.slots) + (case.budget if len(case.slots) > 1 else 0)
    return _written(case, _texts(case, Range(1, most)))


def _written(case: Case, bounds: Bounds) -> Bounds:
    """Add the cost of texts that a generator writes to the upper ends."""
    rows, tokens, steps = case.written
    every = zip((bounds.rows, bounds.passes, bounds.tokens), (rows, rows / case.at_once + steps, tokens), strict=True)
    return Bounds(*(Range(ends.least, ends.most + number) for ends, number in every))


def _inversion(case: Case) -> Bounds:
    restarts, steps = int(case.values["restarts"]), int(case.values["steps"])
    # Rows of the model itself; a row that was read back is not read again.
    least, most = restarts * (steps + 1), max(case.budget, restarts * (2 * steps + 1)) + 1
    passes = Range(steps + 1, 2 * (steps + 2) + most)
    return Bounds(Range(least, most), passes, Range(least, most * case.length))


MODELS: dict[str, Callable[[Case], Bounds]] = {
    "exposure": _exposure,
    "rank-sample": _sampled,
    "skew-normal": _skew_normal,
    "brute-force": _brute_force,
    "shortest-path": _shortest_path,
    "beam": _beam,
    "contrastive-beam": lambda case: _twice(_beam(case)),
    "greedy": _greedy,
    "sample-tokens": _sampling,
    "sample-text": _text_sampling,
    "class-loss": _class_loss,
    "label-search": _label_search,
    "mix-and-match": _mix_and_match,
    "inversion": _inversion,
}
"""Cost models by name of the attack."""
