"""Sentences of a model card: values with their full context, the test setup, and the limits of the results."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from leakage_tasks.core.nouns import percent
from leakage_tasks.core.task_names import CONTAMINATION, MEMBERSHIP
from leakage_tasks.metrics.aggregates import FEWEST
from leakage_tasks.metrics.exposure import chance_exposure
from leakage_tasks.metrics.secret_sizes import stated_sizes
from leakage_tasks.metrics.tiers import planted_words
from leakage_tasks.report.board.board import Column
from leakage_tasks.report.card.tested import KINDS, as_list
from leakage_tasks.report.load.figures import Figure, counted_words, learnt_from
from leakage_tasks.report.load.format import attack_words, learnt_words, number
from leakage_tasks.report.load.run import Run, TaskResult
from leakage_tasks.report.load.validate import is_finite

SHARE = "suspected_share"
ESTIMATE = "This estimate assumes that suspected texts are recognized as often as known texts."
LOWER_BOUND = "This is a lower bound on leakage: another attack may extract more."
OTHER_BOUNDS = {
    CONTAMINATION: "This is a lower bound: another test may recognize the benchmark better.",
    MEMBERSHIP: "This is a lower bound: another attack may distinguish the texts better.",
}
"""Lower bounds of tasks that extract nothing, by the task whose scoring they use."""
UPPER_BOUND = "This is an upper bound: a stronger attack may lower it."
LARGE = 50.0
"""log2|R| from which the exposure by chance no longer changes."""
COSTS = "cost_auc"
"""The metric that compares costs of true suffixes and needs no attack."""
COSTS_BOUND = "This is a lower bound: another test may distinguish documents from controls better."
EXTRAPOLATED = (
    "This is extrapolated from a fitted distribution: no filling with a cost as low as the secrets' was counted."
)


def sentence(result: TaskResult, column: Column, figure: Figure) -> str:
    """State a value with its interval, number of documents, copies, kind, share of the training text, and attacks."""
    attacks = () if result.declared is None else result.declared.attacks
    ran = " and ".join(attack_words(attacks))
    by = f", by {'the attack' if len(attacks) == 1 else 'the attacks'} {ran}" if ran else ""
    if column.name == COSTS:
        by = ", by the costs of the true suffixes, without an attack"
    value = f"{_value(figure.value, column.unit)}{_interval(column, figure)}{_over(result, column, figure)}"
    return f"{_title(column)}: {value}{_without_leak(column, figure)}{by}. {bound_words(result, column)}"


def bound_words(result: TaskResult, column: Column) -> str:
    """State if a value is a lower or an upper bound on leakage, extrapolated, or an estimate under an assumption."""
    if column.name == SHARE:
        return ESTIMATE
    if column.name == COSTS:
        return COSTS_BOUND
    if column.unit == "bits" and result.headline.get("fit_not_rejected") is not None:
        return EXTRAPOLATED
    if column.direction == "higher":
        return UPPER_BOUND
    return OTHER_BOUNDS.get(result.scoring_name, LOWER_BOUND)


def _without_leak(column: Column, figure: Figure) -> str:
    """State the value without a leak: of the controls, and by chance."""
    control = [f"{_value(figure.control, column.unit)} for controls"] if figure.control is not None else []
    size = " (|R|: number of possible secrets)" if "|R|" in (column.chance or "") else ""
    level = column.chance
    if level and column.unit == "share" and level.replace(".", "", 1).isdigit():
        level = percent(float(level))
    chance = [f"{level} by chance{size}"] if level else []
    return f", compared with {' and '.join([*control, *chance])}" if chance or control else ""


def _title(column: Column) -> str:
    """Return the title without the number of copies, which the sentence states with the number of canaries."""
    planted = "pooled" if column.copies is None else planted_words(column.copies)
    return column.title.removesuffix(f" ({column.task})").removesuffix(f", {planted}")


def _value(value: float | None, unit: str) -> str:
    if value is not None and unit == "share":
        return percent(value)
    return f"{number(value)} {unit}".strip()


def _interval(column: Column, figure: Figure) -> str:
    if figure.low is None or figure.high is None:
        few = column.copies is not None and figure.count is not None and figure.count < FEWEST
        return f" (no interval{': too few canaries' if few else ''})"
    low = _value(figure.low, column.unit).removesuffix(column.unit).strip()
    kind = f", {figure.kind}" if figure.kind else ""
    return f" (95 % interval {low} to {_value(figure.high, column.unit)}{kind})"


def _over(result: TaskResult, column: Column, figure: Figure) -> str:
    if figure.count is None:
        return ""
    facts = "; ".join(_facts(result, column))
    # The words are in the plural.
    many = "1 value of" if figure.count == 1 else f"{figure.count:,}"
    return f", over {many} {counted_words(result, column.name)}{f' ({facts})' if facts else ''}"


def _facts(result: TaskResult, column: Column) -> Iterator[str]:
    """Yield the canaries' numbers of copies (if several), kinds, share of the training text, and planting."""
    copies, kinds, shares = (result.tested.get(name) for name in ("repetitions", "kinds", "planted_share"))
    if column.copies is None and isinstance(copies, Mapping) and copies:
        *most, last = map(str, copies)
        several = f"{', '.join(most)} or {last} copies" if most else f"{last} {'copy' if last == '1' else 'copies'}"
        yield f"{several} of each"
    if isinstance(kinds, list) and kinds:
        yield " or ".join(KINDS.get(str(kind), str(kind)) for kind in kinds)
    if isinstance(shares, Mapping) and all(is_finite(share) and 0 < share <= 1 for share in shares.values()):
        # Without a number of copies, the share covers the copies of all canaries.
        share = sum(shares.values()) if column.copies is None else shares.get(str(column.copies))
        if share:
            yield f"{percent(share)} of the training text by characters"
    if (learnt := learnt_from(result.tested.get("learnt_from"), column.copies)) is not None:
        yield learnt_words(*learnt)
    if result.claimed:
        yield "planting claimed, not proven"


def describe_attacks(attacks: Sequence[tuple[str, str]]) -> str:
    """Describe the attacks that ran, with the access that each needed."""
    return "; ".join(attack_words(attacks)) or "not recorded in the results"


def limits(run: Run) -> Iterator[str]:
    """Yield the limits of a run's results, for the tasks that ran."""
    tested = [task.tested for task in run.tasks.values() if task.is_leakage]
    yield (
        "The results hold for these attacks with this access. Other attacks may extract more, so low values do not "
        "prove that the training data are safe."
    )
    if exposed := [result.tested for result in run.tasks.values() if "exposure" in result.rows]:
        yield (
            f"An exposure of {_chance(exposed)} bits is chance: the mean over secrets that the model never saw. It "
            "does not prove that nothing leaks."
        )
    yield from _not_tried(run)
    yield from _on_benchmarks(tested)
    if missed := " and ".join(_missed(run)):
        yield f"With this number of canaries, 1 of 5 runs or more would miss {missed}."
    if any("planted" in facts for facts in tested):
        yield (
            "Canaries represent similar text with as many copies in the training data. Other text, or other numbers of "
            "copies, may leak more or less."
        )
    if any("natural" in as_list(facts.get("kinds")) and facts.get("uniform") is not True for facts in tested):
        yield "Natural secrets were not drawn at random: even without a leak, their values may differ from chance."
    if any("pairs" in facts for facts in tested):
        yield (
            "Some suffixes can be guessed without training on them: only recall above that of text the model never saw "
            "is a leak."
        )
    yield "The values hold for the model as tested, not for versions that are fine-tuned, pruned or quantized."


def _chance(tested: Sequence[Mapping[str, Any]]) -> str:
    """Return the mean exposure by chance in the smallest and the largest space, which small spaces lower."""
    sizes = [size for facts in tested for size in stated_sizes(facts)] or [math.inf]
    ends = (max(1, round(2.0 ** min(size, LARGE))) for size in (min(sizes), max(sizes)))
    return " to ".join(dict.fromkeys(f"{chance_exposure(size):.2f}" for size in ends))


def _on_benchmarks(tested: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a sentence on the benchmarks that were tested for contamination, or on the lack of such a test."""
    benchmarks = sorted({name for facts in tested if isinstance(name := facts.get("benchmark"), str)})
    if benchmarks:
        yield (
            f"A test that does not show contamination of {', '.join(benchmarks)} does not exclude it: items that were "
            "trained on in another order, or once in a large corpus, are rarely seen by it."
        )
        return
    yield (
        "The results measure memorization, the training text that a model reveals. They do not show if a benchmark's "
        "test set was in the training data, which is called contamination."
    )


def _not_tried(run: Run) -> Iterator[str]:
    """Yield a sentence on the tasks and attacks of this package that the run did not use but that fit its model."""
    from leakage_tasks.report.card.served import fitting_attacks, untried_tasks

    tasks, attacks = untried_tasks(run), fitting_attacks(run)
    named = [f"the {'tasks' if len(tasks) > 1 else 'task'} {', '.join(tasks)}"] if tasks else []
    named += [f"the {'attacks' if len(attacks) > 1 else 'attack'} {', '.join(attacks)}"] if attacks else []
    also = "other prompts before a secret, and fine-tuning of the model on extracted text"
    yield f"Not tried: {'; '.join([*named, also])}."


def _missed(run: Run) -> Iterator[str]:
    """Yield the effects that are too small to detect, for each task that declares them."""
    for result in run.tasks.values():
        bits, rate = map(result.headline.get, ("min_detectable_exposure", "min_detectable_rate"))
        if bits is not None:
            yield f"a mean exposure below {number(bits)} bits"
        if rate is not None:
            yield f"an extraction rate below {percent(rate)}"
