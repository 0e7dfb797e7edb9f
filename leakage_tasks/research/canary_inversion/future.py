"""Studies of the future work of Parikh, Dupuy and Gupta (2022): larger alphabets, longer secrets, few copies.

HDT is the Hamming distance per token.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from statistics import fmean

from leakage_tasks.research.canary_inversion import counts
from leakage_tasks.research.canary_inversion.experiment import GENERATED, SNIPS
from leakage_tasks.research.canary_inversion.future_trials import (
    future_victims,
    register_future_study,
    sets,
    tagger_ground,
)
from leakage_tasks.research.canary_inversion.trials import ONE_START, PATTERNS
from leakage_tasks.research.framework.papers import PaperClaim
from leakage_tasks.research.framework.plots import plotter
from leakage_tasks.research.framework.registry import Config, Scale, StudyPlan, StudyTrial, grouped
from leakage_tasks.research.framework.report import Claim, Measured, Published, Report, TableRow

SERIES = {name: name for name in ("HDT one start", "HDT", "HDT finished")}


@dataclass(frozen=True)
class Sweep:
    """A study that varies one parameter on a set of utterances."""

    name: str
    """Name of the study."""
    shown: str
    """Title of the parameter's column."""
    key: Callable[[Config], int]
    """A function that returns the parameter from a config."""
    values: dict[Scale, tuple[int, ...]]
    """Values of the parameter by scale."""
    victims: Callable[[StudyPlan, str, int], list[Config]]
    """A function that lists the configs for a plan, a data set and a value."""
    trend: PaperClaim
    """The claim about the parameter's effect."""
    below: PaperClaim = counts.BEATS_GUESS
    """The claim that the attack is below chance at each value."""

    def trials(self, plan: StudyPlan, data: str) -> list[Config]:
        """List a config for every value and seed."""
        return [config for value in self.values[plan.scale] for config in self.victims(plan, data, value)]

    def report(self, trials: Sequence[StudyTrial], plan: StudyPlan, data: str) -> Report:
        """Report Hamming distance per token (HDT) by value, pooled over a victim's patterns, and the claims about
        it."""
        by_value = grouped(trials, self.key)
        rows: list[TableRow] = [{self.shown: value, **_figures(group)} for value, group in sorted(by_value.items())]
        claims = [self._trend(by_value), *self._below(by_value), _finished(trials)]
        return Report(list(rows[0]), rows, claims, _notes(trials, plan, data))

    def _trend(self, by_value: dict[int, list[StudyTrial]]) -> Claim:
        """Return the claim that HDT rises with the parameter or, with copies, that the share of right slots rises."""
        columns = [_distances(by_value[value]) for value in sorted(by_value)]
        rows = list(zip(*columns, strict=True))
        if self.name == COPIES:
            rows = [tuple(1 - distance for distance in row) for row in rows]
        return counts.rises(self.trend.words, rows)

    def _below(self, by_value: dict[int, list[StudyTrial]]) -> list[Claim]:
        """Return claims that the attack is below chance at each value, from one start and as the best of five
        starts."""
        levels = {f"{value}": _chance(group[0].config) for value, group in by_value.items()}
        return [
            counts.below_chance(
                words,
                {f"{value}": _pooled(by_value[value], attack) for value in sorted(by_value)},
                levels.__getitem__,
            )
            for words, attack in (
                (self.below.test("from one start"), ONE_START),
                (f"best of five starts: below chance at every {self.shown}", "published"),
            )
        ]


def _entries(trials: Sequence[StudyTrial], pattern: str) -> list[Config]:
    return [trial.result["found"][pattern] for trial in trials]


def _distances(trials: Sequence[StudyTrial], attack: str = "published", when: str = counts.RELAXED) -> list[float]:
    """Return HDT of all canaries by pattern, then by seed."""
    return list(chain(*(counts.distances(_entries(trials, pattern), attack, when) for pattern in PATTERNS)))


def _pooled(trials: Sequence[StudyTrial], attack: str = "published", when: str = counts.RELAXED) -> Measured | None:
    """Return the mean over patterns; each victim counts once."""
    return counts.pooled(counts.distances(_entries(trials, pattern), attack, when) for pattern in PATTERNS)


def _figures(trials: Sequence[StudyTrial]) -> TableRow:
    config = trials[0].config
    everything = [entry for pattern in PATTERNS for entry in _entries(trials, pattern)]
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
    """Return the size of a token's alphabet, by pattern."""
    return [config["alphabet"] or counts.ALPHABET[pattern] for pattern in PATTERNS]


def _chance(config: Config) -> float:
    """Return the HDT of a random filling, averaged over patterns."""
    return fmean(1 - 1 / size for size in _sizes(config))


def _bits(config: Config, pattern: str) -> float:
    return float(config["unknown"][pattern] * math.log2(config["alphabet"] or counts.ALPHABET[pattern]))


def _finished(trials: Sequence[StudyTrial]) -> Claim:
    words = "our discrete finish lowers HDT"
    return counts.closer(words, _distances(trials, when=counts.FINISHED), _distances(trials))


def _notes(trials: Sequence[StudyTrial], plan: StudyPlan, data: str) -> list[str]:
    ground, rows = tagger_ground(plan.scale, data), trials[0].result["utterances"]
    right, f1 = (fmean(trial.result[name] for trial in trials) for name in ("intent_accuracy", "slot_f1"))
    name = "the generated set" if ground.data == GENERATED else f"the set {data}"
    words = f"fixed, those of {ground.vectors}" if ground.vectors else f"{ground.embedding_size} numbers, learnt"
    return [
        f"{rows:,} utterances of {name}, with copies as counted here, not as a share of the whole set. A victim "
        "has a canary of each pattern; values are their mean, and each victim counts once.",
        f"Word embeddings: {words}. 2×{ground.hidden_size} units a direction, {ground.epochs} epochs.",
        f"The victims' accuracy is {100 * right:.1f} % on test intents; slot F1 is {100 * f1:.1f}.",
        "'One start' is the paper's attack; 'HDT' is the best of five starts by loss, 'finished' after coordinate "
        "search. The best of several by loss is better than chance by itself if a model leaks.",
    ]


ALPHABETS, LENGTHS, COPIES = "alphabets", "lengths", "few-copies"
USUAL: dict[Scale, int] = {"smoke": 2, "small": 16, "paper": 100}
"""Copies of a canary in studies of other parameters."""
SWEEPS = (
    Sweep(
        ALPHABETS,
        "alphabet",
        lambda config: int(config["alphabet"]),
        {"smoke": (10, 20, 40), "small": (10, 100, 1000), "paper": (10, 100, 1000, 5000)},
        lambda plan, data, value: future_victims(plan, data, 4, USUAL[plan.scale], value),
        PaperClaim("a larger alphabet makes extraction harder (HDT by alphabet)"),
    ),
    Sweep(
        LENGTHS,
        "length",
        lambda config: int(config["unknown"]["pin"]),
        {"smoke": (4, 6, 12), "small": (4, 12, 20), "paper": (4, 8, 12, 16, 20)},
        lambda plan, data, value: future_victims(plan, data, value, USUAL[plan.scale]),
        PaperClaim("longer secrets are harder (HDT by length)"),
    ),
    Sweep(
        COPIES,
        "number of copies",
        lambda config: int(config["copies"]),
        {"smoke": (1, 2, 4), "small": (1, 4, 16), "paper": (1, 2, 4, 10, 100)},
        lambda plan, data, value: future_victims(plan, data, 4, value),
        PaperClaim("more copies leak more (right slots by copies)"),
        PaperClaim("a single copy leaks (HDT below chance)"),
    ),
)
TITLES = {
    ALPHABETS: "larger alphabets: a set's own words, n = 4",
    LENGTHS: "longer secrets",
    COPIES: "few copies, n = 4",
}


def _register(sweep: Sweep, data: str) -> None:
    """Register a study of a data set. For Snips the name has no suffix."""
    suffix = f", on {data}" if data != SNIPS else ""
    register_future_study(
        sweep.name if data == SNIPS else f"{sweep.name}-{data}",
        f"{TITLES[sweep.name]}{suffix}",
        "left to the future in section 7",
        partial(sweep.trials, data=data),
        partial(sweep.report, data=data),
        plotter(f"{{{sweep.shown}:,}}".format_map, SERIES, counts.AXIS, chance="chance", across=sweep.shown),
    )


for _sweep in SWEEPS:
    for _data in sets():
        _register(_sweep, _data)
