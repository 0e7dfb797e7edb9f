"""What Parikh, Dupuy and Gupta (2022) leave to the future: larger alphabets, longer secrets, few copies, on any set."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

from leakage_tasks.research.canary_inversion import counts
from leakage_tasks.research.canary_inversion.experiment import GENERATED, SNIPS
from leakage_tasks.research.canary_inversion.future_trials import (
    future_victims,
    register_future_study,
    sets,
    tagger_ground,
)
from leakage_tasks.research.canary_inversion.trials import ONE_START, PATTERNS
from leakage_tasks.research.framework.registry import Config, Scale, StudyPlan, StudyTrial, grouped
from leakage_tasks.research.framework.report import Claim, Measured, Published, Report, TableRow, point_of

SERIES = ("HDT one start", "HDT", "HDT finished")


@dataclass(frozen=True)
class Sweep:
    """One number that is changed from setting to setting: a study of it on a set of utterances."""

    name: str
    """Of the study."""
    shown: str
    """The column of the table."""
    key: Callable[[Config], int]
    """What it is in a config."""
    values: dict[Scale, tuple[int, ...]]
    """What it takes on."""
    victims: Callable[[StudyPlan, str, int], list[Config]]
    """The configs of a plan, a set and a value."""

    def trials(self, plan: StudyPlan, data: str) -> list[Config]:
        """A config for every value and seed."""
        return [config for value in self.values[plan.scale] for config in self.victims(plan, data, value)]

    def report(self, trials: Sequence[StudyTrial], plan: StudyPlan, data: str) -> Report:
        """HDT by value, over the patterns of a victim together, and the claims about it."""
        found = grouped(trials, self.key)
        rows: list[TableRow] = [{self.shown: value, **_figures(own)} for value, own in sorted(found.items())]
        claims = [self._trend(found), *self._below(found), _finished(trials)]
        return Report(list(rows[0]), rows, claims, _notes(trials, plan, data))

    def _trend(self, found: dict[int, list[StudyTrial]]) -> Claim:
        """Whether HDT rises with the number; with copies, whether the share of right slots does."""
        columns = [_distances(found[value]) for value in sorted(found)]
        rows = list(zip(*columns, strict=True))
        if self.name == COPIES:
            return counts.rises(
                "the share of right slots rises with copies", [[1 - each for each in row] for row in rows]
            )
        return counts.rises(f"HDT rises with the {self.shown}", rows)

    def _below(self, found: dict[int, list[StudyTrial]]) -> list[Claim]:
        """Whether the attack is below chance at each value, from one start and as the best of five."""
        levels = {f"{value}": _chance(own[0].config) for value, own in found.items()}
        return [
            counts.below_chance(
                f"{words}: below chance at every {self.shown}",
                {f"{value}": _pooled(found[value], attack) for value in sorted(found)},
                levels.__getitem__,
            )
            for words, attack in (("from one start", ONE_START), ("best of five starts", "published"))
        ]

    def plot(self, report: Report, path: Path) -> None:
        """HDT with intervals: a place a value, a colour for each way of attacking, chance at each."""
        from leakage_tasks.research.framework.plots import plot_groups

        groups: dict[str, Any] = {
            f"{row[self.shown]:,}": {series: point_of(row[series]) for series in SERIES} for row in report.rows
        }
        levels = [float(row["chance"]) for row in report.rows]  # type: ignore[arg-type]
        plot_groups(groups, "Hamming distance per token", path, chance=levels, across=self.shown)


def _found(trials: Sequence[StudyTrial], pattern: str) -> list[Config]:
    return [trial.result["found"][pattern] for trial in trials]


def _distances(trials: Sequence[StudyTrial], attack: str = "published", when: str = counts.RELAXED) -> list[float]:
    """Of all canaries, by pattern, then by seed."""
    return list(chain(*(counts.distances(_found(trials, pattern), attack, when) for pattern in PATTERNS)))


def _pooled(trials: Sequence[StudyTrial], attack: str = "published", when: str = counts.RELAXED) -> Measured | None:
    """The mean over patterns, each victim counted once."""
    return counts.pooled(counts.distances(_found(trials, pattern), attack, when) for pattern in PATTERNS)


def _figures(trials: Sequence[StudyTrial]) -> TableRow:
    config = trials[0].config
    everything = [entry for pattern in PATTERNS for entry in _found(trials, pattern)]
    most = max(_bits(config, pattern) for pattern in PATTERNS)
    return {
        "published": Published(None),
        "HDT one start": _pooled(trials, ONE_START),
        "HDT": _pooled(trials),
        "HDT finished": _pooled(trials, when=counts.FINISHED),
        "Acc finished": counts.accuracy(everything, when=counts.FINISHED),
        "chance": round(_chance(config), 4),
        "exposure (bits)": counts.exposure_up_to(most, everything),
        "most (bits)": round(most, 1),
    }


def _sizes(config: Config) -> list[int]:
    """How many values a token may have, by pattern."""
    return [config["alphabet"] or counts.ALPHABET[pattern] for pattern in PATTERNS]


def _chance(config: Config) -> float:
    """HDT of a random filling, the mean of the patterns'."""
    return fmean(1 - 1 / size for size in _sizes(config))


def _bits(config: Config, pattern: str) -> float:
    return float(config["unknown"][pattern] * math.log2(config["alphabet"] or counts.ALPHABET[pattern]))


def _finished(trials: Sequence[StudyTrial]) -> Claim:
    words = "the discrete finish, which is ours, comes closer"
    return counts.closer(words, _distances(trials, when=counts.FINISHED), _distances(trials))


def _notes(trials: Sequence[StudyTrial], plan: StudyPlan, data: str) -> list[str]:
    ground, rows = tagger_ground(plan.scale, data), trials[0].result["utterances"]
    right, f1 = (fmean(trial.result[name] for trial in trials) for name in ("intent_accuracy", "slot_f1"))
    name = "the generated set" if ground.data == GENERATED else f"the set {data}"
    words = f"fixed, those of {ground.vectors}" if ground.vectors else f"{ground.embedding_size} numbers, learnt"
    return [
        f"{rows:,} utterances of {name}, and copies as they are counted here, not as a share of the whole set. A "
        "victim holds a canary of each pattern; figures are their mean, a victim counted once.",
        f"Word embeddings: {words}. 2×{ground.hidden_size} units a direction, {ground.epochs} epochs.",
        f"The victims get {100 * right:.1f} % of test intents right; slot F1 {100 * f1:.1f}.",
        "'One start' is what the paper describes; 'HDT' is the best of five by loss, 'finished' after coordinate "
        "search. A choice by loss among several is better than chance by itself where a model leaks.",
    ]


ALPHABETS, LENGTHS, COPIES = "alphabets", "lengths", "few-copies"
USUAL: dict[Scale, int] = {"smoke": 2, "small": 16, "paper": 100}
"""Copies of a canary where they are not what is changed."""
SWEEPS = (
    Sweep(
        ALPHABETS,
        "alphabet",
        lambda config: int(config["alphabet"]),
        {"smoke": (10, 20, 40), "small": (10, 100, 1000), "paper": (10, 100, 1000, 5000)},
        lambda plan, data, value: future_victims(plan, data, 4, USUAL[plan.scale], value),
    ),
    Sweep(
        LENGTHS,
        "length",
        lambda config: int(config["unknown"]["pin"]),
        {"smoke": (4, 6, 12), "small": (4, 12, 20), "paper": (4, 8, 12, 16, 20)},
        lambda plan, data, value: future_victims(plan, data, value, USUAL[plan.scale]),
    ),
    Sweep(
        COPIES,
        "number of copies",
        lambda config: int(config["copies"]),
        {"smoke": (1, 2, 4), "small": (1, 4, 16), "paper": (1, 2, 4, 10, 100)},
        lambda plan, data, value: future_victims(plan, data, 4, value),
    ),
)
TITLES = {
    ALPHABETS: "larger alphabets: a set's own words, n = 4",
    LENGTHS: "longer secrets",
    COPIES: "few copies, n = 4",
}


def _register(sweep: Sweep, data: str) -> None:
    """A study of a set: Snips' has the plain name."""
    place = f", on {data}" if data != SNIPS else ""
    register_future_study(
        sweep.name if data == SNIPS else f"{sweep.name}-{data}",
        f"{TITLES[sweep.name]}{place}",
        "left to the future in section 7",
        partial(sweep.trials, data=data),
        partial(sweep.report, data=data),
        sweep.plot,
    )


for _sweep in SWEEPS:
    for _data in sets():
        _register(_sweep, _data)
