"""Figures 3, 4, 5 and 8 of Zhang, Wen and Huang (2023): model size, lengths, draws.

Their points are not in the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from leakage_tasks.attacks.suffix.finding import HEADLINE
from leakage_tasks.research.ethicist.experiment import ground_at
from leakage_tasks.research.ethicist.guesses import Side, above, contrast, difference, every, more
from leakage_tasks.research.ethicist.lines import (
    ETHICIST,
    MEASURES,
    METHODS,
    OTHERS,
    best,
    plotter,
    report,
    slope,
    slopes,
    swept,
)
from leakage_tasks.research.ethicist.settings import by_setting, register_study
from leakage_tasks.research.ethicist.trials import SEEDS, of_size, shortened, tuned, untuned
from leakage_tasks.research.framework.registry import Config, StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Report


def main_trials(plan: StudyPlan) -> list[Config]:
    """The main model with and without Ethicist's prompt."""
    return [make(plan, seed) for make in (untuned, tuned) for seed in plan.seeds(SEEDS[plan.scale])]


def prefix_trials(plan: StudyPlan) -> list[Config]:
    """The same after prefixes of several lengths."""
    seeds = plan.seeds(SEEDS[plan.scale])
    return [shortened(plan, seed, prompt) for prompt in (False, True) for seed in seeds]


def size_trials(plan: StudyPlan) -> list[Config]:
    """Models of all sizes, with and without."""
    sizes, seeds = ground_at(plan.scale).sizes, plan.seeds(SEEDS[plan.scale])
    return [of_size(plan, seed, size, prompt) for size in sizes for prompt in (False, True) for seed in seeds]


def figure_3(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """By model size."""
    sizes = list(dict.fromkeys(each.config["size"] for each in trials))
    settings = {size: by_setting([each for each in trials if each.config["size"] == size]) for size in sizes}

    def side(method: str, what: str, size: str) -> Side:
        setting, confidence = METHODS[method]
        return settings[size][setting], MEASURES[what](confidence, HEADLINE)

    claims = [
        every(
            f"larger models leak more: {what} of {method}",
            {
                f"{large} over {small}": difference(side(method, what, large), side(method, what, small))
                for small, large in pairwise(sizes)
            },
        )
        for method in METHODS
        for what in MEASURES
    ]
    return report("model", sizes, side, [*claims, *best(sizes, side)], trials, plan, _draws(trials))


def figure_4(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """By the number of prefix tokens the attacker has, the last ones."""
    lengths, side = swept(trials, "prefix", "prefix_lengths")
    claims = [
        above(f"{what} of {method} grows with the prefix", slope(method, what, lengths, side), "a token:")
        for method in METHODS
        for what in MEASURES
    ]
    faster = {f"than {other}": slopes(ETHICIST, other, lengths, side) for other in OTHERS}
    claims += [*best(lengths, side), every("recall_early_stop grows fastest a token with Ethicist", faster)]
    notes = [
        "The prompt was tuned before whole prefixes and is used as it is before shorter ones; the paper does not say.",
        _draws(trials),
    ]
    return report("prefix", lengths, side, claims, trials, plan, *notes)


def figure_5(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """By the number of suffix tokens asked for, the first ones."""
    lengths, side = swept(trials, "suffix", "suffix_lengths")
    first, middle, last = lengths[0], lengths[len(lengths) // 2], lengths[-1]
    falls = [
        more(f"{what} of {method} falls as the suffix grows", side(method, what, first), side(method, what, last))
        for method in METHODS
        for what in MEASURES
    ]
    early, late = 1 / (middle - first), 1 / (last - middle)
    slows = [
        above(
            f"recall of {method} falls more slowly a token beyond {middle} tokens than before",
            contrast(
                (early, *side(method, "recall", first)),
                (-early - late, *side(method, "recall", middle)),
                (late, *side(method, "recall", last)),
            ),
            "less a token:",
        )
        for method in METHODS
    ]
    slower = {f"than {other}": slopes(ETHICIST, other, lengths, side) for other in OTHERS}
    claims = [*falls, *slows, every("recall_early_stop falls most slowly a token with Ethicist", slower)]
    return report("suffix", lengths, side, claims, trials, plan)


def figure_8(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """By the number of draws."""
    counts, side = swept(trials, "samples", "sample_counts")
    few = max((count for count in counts[:-1] if count <= 10), default=counts[0])
    first, last = counts[0], counts[-1]
    claims = [
        more(
            f"recall of {method} grows from {first} to {few} draws",
            side(method, "recall", few),
            side(method, "recall", first),
        )
        for method in METHODS
    ]
    claims += [
        more(
            f"{what} of Ethicist still grows from {few} to {last} draws",
            side(ETHICIST, what, last),
            side(ETHICIST, what, few),
        )
        for what in MEASURES
    ]
    slower = contrast(
        (2.0, *side(ETHICIST, "recall", few)),
        (-1.0, *side(ETHICIST, "recall", first)),
        (-1.0, *side(ETHICIST, "recall", last)),
    )
    claims.append(above(f"that is less than from {first} to {few}", slower, "recall, first gain − second"))
    return report("draws", counts, side, claims, trials, plan)


def _draws(trials: Sequence[StudyTrial]) -> str:
    return f"{trials[0].config['samples']} suffixes are drawn after each prefix (the paper: 100)."


register_study("figure-3", "model size", "Figure 3", size_trials, figure_3, plotter("model", "model, smallest first"))
register_study(
    "figure-4",
    "prefix length",
    "Figure 4",
    prefix_trials,
    figure_4,
    plotter("prefix", "tokens of the prefix"),
)
register_study(
    "figure-5", "suffix length", "Figure 5", main_trials, figure_5, plotter("suffix", "tokens of the suffix")
)
register_study(
    "figure-8",
    "number of draws",
    "Figure 8 (Appendix C)",
    main_trials,
    figure_8,
    plotter("draws", "draws", logarithmic=True),
)
