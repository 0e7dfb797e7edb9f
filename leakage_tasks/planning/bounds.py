"""The cost model of every attack: the least and the most that one canary can take, before anything is known of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from leakage_tasks.attacks.causal.beam import BEAM
from leakage_tasks.planning.case import CHUNK, Case
from leakage_tasks.targets.causal.passes import CHECKED

PATHS = 64
"""Token paths of a filling, at most: of those that are not its own few tokenizers have more."""
PHASES = 8
"""Descents and counts of one exposure, each of which goes down the tree once."""
ROUNDS = 12
"""Rounds of sampling, each of what the budget certainly pays for."""
DRAWN = 640
"""Budgets of fewer paths than that may pay for too few draws."""


@dataclass(frozen=True)
class Range:
    """From the least there can be to the most."""

    least: float
    most: float

    def times(self, low: float, high: float) -> Range:
        """Both ends multiplied."""
        return Range(self.least * low, self.most * high)


@dataclass(frozen=True)
class Bounds:
    """What one canary can take: rows read, passes, tokens. Of passes the most is an estimate, no bound."""

    rows: Range
    passes: Range
    tokens: Range


def bounds_of(attack: str, case: Case) -> Bounds:
    """The cost model of an attack; of one that is not ours all that is known is that it keeps to its budget."""
    return MODELS.get(attack, _unknown)(case)


def _unknown(case: Case) -> Bounds:
    return Bounds(Range(1, case.budget), Range(1, case.budget), Range(1, case.budget * case.length))


def _stepped(case: Case, rows: Range, phases: float, least_passes: float) -> Bounds:
    """An attack that goes down the tree: a token a row, the shared beginning once; passes by level and by rows."""
    most = min(rows.most, phases * max(case.most_steps, 1) + 2 * rows.most / case.at_once + 1)
    beginning = max(case.length - case.longest, 1)
    tokens = Range(rows.least * case.step, rows.most * case.step + beginning)
    return Bounds(rows, Range(min(least_passes, most), most), tokens)


def _texts(case: Case, number: Range) -> Bounds:
    """An attack on whole texts; a masked model reads each once for every token, texts that differ there alone once."""
    if case.by_token:
        return _by_token(case, number)
    rows = number.times(1 / max(case.slots), case.length) if case.masked else number
    passes = Range(max(1, rows.least / case.at_once), math.ceil(rows.most / case.at_once) + rows.most / CHUNK + 2)
    tokens = Range(rows.least, _tokens_of_texts(case, rows.most))
    return Bounds(Range(max(1, rows.least), rows.most + _shared_rows(case, rows.most)), passes, tokens)


def _shared_rows(case: Case, texts: float) -> float:
    """Rows beside so many whole texts: what they share, once a chunk, and those that prove reading it once."""
    return texts // CHUNK + 1 + CHECKED if case.own < case.length else 0


def _by_token(case: Case, number: Range) -> Bounds:
    """The same where texts are read a token at a time after what they share; those alike up to there are one row."""
    chunks = number.most // CHUNK + 1
    rows = Range(1, number.most * case.own + _shared_rows(case, number.most))
    # The first ones are read a few at a time.
    passes = Range(1, case.own * (number.most / case.at_once + chunks + 1) + chunks + 1)
    # Of the last ones there may be too few.
    whole = (case.length - case.own) * min(case.by_token, number.most)
    return Bounds(rows, passes, Range(1, _tokens_of_texts(case, number.most) + whole))


def _tokens_of_texts(case: Case, texts: float) -> float:
    """The most that so many whole texts read: what they share once a chunk, and the texts that prove this in full."""
    shared = case.length - case.own
    return texts * case.own + (shared * (texts // CHUNK + 1) + CHECKED * case.length if shared else 0)


def _exposure(case: Case) -> Bounds:
    if case.values.get("signal") == "calibrated":
        return _twice(_unknown_tree(case))
    if not case.next_token:
        return _sampled(case)
    asked, steps = _asked(case), case.least_steps
    # A whole tree within the budget is counted without draws and without whole texts.
    counted = case.tree is not None
    tree = 2 * case.size * max(case.most_steps, 1) * PATHS + case.size if case.tree is None else case.tree
    most = min(max(case.budget, case.longest) + 1, 1 + case.longest + tree) + asked
    least = 1 + steps + min(steps, 1)
    found = _stepped(case, Range(least, most), PHASES, least)
    # Whole texts are read where the budget pays for too few draws, and all of a space that fits the budget.
    few_draws = not counted and case.budget < DRAWN * case.most_steps
    texts = most if few_draws else (0 if counted or case.size > case.budget else case.size) + asked
    if case.by_token:
        beside = _by_token(case, Range(0, texts))
    else:
        beside = Bounds(Range(0, _shared_rows(case, texts)), Range(0, 0), Range(0, _tokens_of_texts(case, texts)))
    both = ((found.rows, beside.rows), (found.passes, beside.passes), (found.tokens, beside.tokens))
    return Bounds(*(Range(one.least, one.most + other.most) for one, other in both))


def _unknown_tree(case: Case) -> Bounds:
    return _stepped(case, Range(1 + case.least_steps, 3 * (case.budget + case.longest)), 3 * PHASES, case.least_steps)


def _twice(bounds: Bounds) -> Bounds:
    """Two models read all there is."""
    return Bounds(*(each.times(1, 2) for each in (bounds.rows, bounds.passes, bounds.tokens)))


def _asked(case: Case) -> int:
    """Random fillings that are scored for a histogram."""
    return min(int(case.values.get("histogram") or 0), case.size)


def _sampled(case: Case) -> Bounds:
    number = min(case.size, case.budget)
    # A draw that is the secret itself is not scored twice; a masked model reads the secret first.
    return _texts(case, Range(max(1, number - (case.size > number)), number + 1 + _asked(case)))


def _skew_normal(case: Case) -> Bounds:
    number = min(case.size, int(case.values["draws"]) + 1)
    return _texts(case, Range(max(1, number * 0.5), number + _asked(case)))


def _brute_force(case: Case) -> Bounds:
    return _texts(case, Range(case.size, case.size + 1))


def _shortest_path(case: Case) -> Bounds:
    steps = case.least_steps
    return _stepped(case, Range(1 + 2 * steps, case.budget + 1), 2 + case.budget / 128, 1 + steps + min(steps, 1))


def _beam(case: Case) -> Bounds:
    width = int(case.values["width"])
    return _stepped(
        case, Range(1 + case.least_steps, min(case.budget, width * case.most_steps) + 1), 1, case.least_steps
    )


def _greedy(case: Case) -> Bounds:
    if not case.next_token:
        return Bounds(Range(1, case.length + 2), Range(1, case.length + 2), Range(1, (case.length + 2) * case.length))
    # It looks wider where the likeliest tokens spell no filling: 1, 4, 16 nodes a level.
    most = min(case.budget, (1 + 4 + BEAM) * case.most_steps) + 1
    return _stepped(case, Range(1 + case.least_steps, most), 3, case.least_steps)


def _sampling(case: Case) -> Bounds:
    draws = case.budget if case.values["until"] == "found" else int(case.values["draws"])
    most = min(case.budget, draws * max(case.most_steps, 1)) + 1
    # What draws share leaves budget for more of them, again and again.
    return _stepped(case, Range(1 + case.least_steps, most), ROUNDS, case.least_steps)


def _text_sampling(case: Case) -> Bounds:
    texts = min(int(case.values["texts"]), case.budget)
    return Bounds(Range(1, texts * case.length), Range(1, texts * case.length), Range(texts, texts * case.length**2))


def _class_loss(case: Case) -> Bounds:
    whole = len(case.slots) == 1 or case.size <= case.budget
    number = case.size if whole else case.budget
    # The two ranks of a generator's candidates: a proposal a slot, and what is let through there.
    more = len(case.slots) + sum(case.slots) if case.proposes else 0
    return _written(case, _texts(case, Range(number - (not whole), number + more + _asked(case))))


def _label_search(case: Case) -> Bounds:
    width, limit = int(case.values["beam"]), case.values.get("shortlist")
    heads, least, most = 1, 0, 0
    for slot, values in enumerate(case.slots):
        tried = min(values, int(limit)) if limit else values
        each = heads * tried
        paid = each if slot == 0 else min(each, max(case.budget, heads))
        least, most = least + min(tried, 10) * (slot > 0) + (each if slot == 0 else 0), most + paid + 2 * heads
        heads = min(heads * values, width)
    if case.values.get("audit"):
        most += case.size if len(case.slots) == 1 else sum(case.slots) * width
    return _texts(case, Range(max(least, 1), most))


def _mix_and_match(case: Case) -> Bounds:
    most = case.slots[0] + sum(case.slots) + 2 * len(case.slots) + (case.budget if len(case.slots) > 1 else 0)
    return _written(case, _texts(case, Range(1, most)))


def _written(case: Case, bounds: Bounds) -> Bounds:
    """With the texts that a generator writes."""
    rows, tokens, steps = case.written
    every = zip((bounds.rows, bounds.passes, bounds.tokens), (rows, rows / case.at_once + steps, tokens), strict=True)
    return Bounds(*(Range(each.least, each.most + number) for each, number in every))


def _inversion(case: Case) -> Bounds:
    restarts, steps = int(case.values["restarts"]), int(case.values["steps"])
    # The model's own rows: one read back is not read again.
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
"""By the attack's name."""
