"""A model card's sentences: figures with all that they may not be said without, what was tested, what stays open."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from leakage_tasks.attacks.registry import Attack
from leakage_tasks.metrics.aggregates import FEWEST
from leakage_tasks.metrics.tiers import planted_words
from leakage_tasks.report.board.board import Column
from leakage_tasks.report.load.figures import Figure, counted_words, learnt_from
from leakage_tasks.report.load.format import learnt_words, number, percent
from leakage_tasks.report.load.markdown import escaped
from leakage_tasks.report.load.run import Run, TaskResult
from leakage_tasks.report.load.validate import is_finite
from leakage_tasks.targets.protocols import ProposesValues, RelaxesTokens, ScoresLabels

KINDS = {
    "random": "synthetic, drawn at random",
    "organic": "synthetic, written by a person",
    "natural": "natural, of the training text itself",
}
_MOST = 50
"""log2 of the largest number that is written out."""
LOWER_BOUND = "This is a lower bound on what leaks: another attack may get more."
UPPER_BOUND = "This is an upper bound, which another attack that gets more out would lower."
EXTRAPOLATED = "This is extrapolated from a fitted distribution: nothing as cheap as the secrets was counted."


def sentence(result: TaskResult, column: Column, found: Figure) -> str:
    """Value, interval, what it rests on, the tier, kind and share of the training text, the attack and its access."""
    attacks = () if result.declared is None else result.declared.attacks
    ran = " and ".join(f"{attack} ({access})" for attack, access in attacks)
    by = f", by {'the attack' if len(attacks) == 1 else 'the attacks'} {ran}" if ran else ""
    figure = f"{_value(found.value, column.unit)}{_interval(column, found)}{_over(result, column, found)}"
    bound = UPPER_BOUND if column.direction == "higher" else LOWER_BOUND
    if column.unit == "bits" and result.headline.get("fit_not_rejected") is not None:
        bound = EXTRAPOLATED
    return f"{_title(column)}: {figure}{_without_leak(column, found)}{by}. {bound}"


def _without_leak(column: Column, found: Figure) -> str:
    """What the figure would be without a leak, and what it is of controls."""
    control = [f"controls have {_value(found.control, column.unit)}"] if found.control is not None else []
    chance = [f"chance is {column.chance}"] if column.chance else []
    return f", where {' and '.join([*control, *chance])}" if chance or control else ""


def _title(column: Column) -> str:
    """The title without the number of copies, which is said with the number of canaries."""
    planted = "pooled" if column.copies is None else planted_words(column.copies)
    return column.title.removesuffix(f" ({column.task})").removesuffix(f", {planted}")


def _value(value: float | None, unit: str) -> str:
    if value is not None and unit == "share":
        return percent(value)
    return f"{number(value)} {unit}".strip()


def _interval(column: Column, found: Figure) -> str:
    if found.low is None or found.high is None:
        few = column.copies is not None and found.count is not None and found.count < FEWEST
        return f" (no interval{': too few canaries' if few else ''})"
    low = _value(found.low, column.unit).removesuffix(column.unit).strip()
    kind = f", {found.kind}" if found.kind else ""
    return f" (95 % interval {low} to {_value(found.high, column.unit)}{kind})"


def _over(result: TaskResult, column: Column, found: Figure) -> str:
    if found.count is None:
        return ""
    told = "; ".join(_facts(result, column))
    return f", over {found.count:,} {counted_words(result, column.name)}{f' ({told})' if told else ''}"


def _facts(result: TaskResult, column: Column) -> Iterator[str]:
    """Copies of a canary where there are several numbers of them, kind, share of the training text, planting."""
    copies, kinds, shares = (result.tested.get(name) for name in ("repetitions", "kinds", "planted_share"))
    if column.copies is None and isinstance(copies, Mapping) and copies:
        *most, last = map(str, copies)
        several = f"{', '.join(most)} or {last} copies" if most else f"{last} {'copy' if last == '1' else 'copies'}"
        yield f"{several} of each"
    if isinstance(kinds, list) and kinds:
        yield " or ".join(KINDS.get(str(kind), str(kind)) for kind in kinds)
    if isinstance(shares, Mapping) and all(is_finite(share) and 0 < share <= 1 for share in shares.values()):
        # All their copies together.
        own = sum(shares.values()) if column.copies is None else shares.get(str(column.copies))
        if own:
            yield f"{percent(own)} of the training text by characters"
    if (learnt := learnt_from(result.tested.get("learnt_from"), column.copies)) is not None:
        yield learnt_words(*learnt)
    if result.claimed:
        yield "planting claimed, not proven"


def what_was_tested(tested: Mapping[str, Any]) -> str:
    """What the figures of a task rest on; what is not known here stands as ``name: value``. Markdown."""
    elsewhere = ("repetitions", "example", "planted_data", "planted_sha256", "planted_share")
    said = [_words(name, value, tested) for name, value in tested.items() if name not in elsewhere]
    example = tested.get("example")
    if isinstance(example, str) and "natural" not in _list(tested.get("kinds")):
        said.append(f"for instance “{escaped(example)}”, where the secret stands in braces")
    return "; ".join(said) or "the results do not say what"


def which_attacks(attacks: Sequence[tuple[str, str]]) -> str:
    """Which attacks ran, with the access each took. Markdown."""
    if not attacks:
        return "the results do not say which"
    return "; ".join(escaped(attack) + (f" ({escaped(access)})" if access else "") for attack, access in attacks)


def limits(run: Run) -> Iterator[str]:
    """What the figures of a run do not show, for the kinds of tasks that ran. Markdown."""
    tested = [task.tested for task in run.tasks.values() if task.is_leakage]
    yield (
        "These attacks, with this access, found so much. Others may find more, so low figures do not show that the "
        "training data are safe."
    )
    if any("exposure" in result.rows for result in run.tasks.values()):
        yield (
            "An exposure of 1.44 bits is chance: what secrets have on average that the model never saw. It does not "
            "prove that nothing leaks."
        )
    yield from _not_tried(run)
    yield (
        "They are about memorization: what of its training text a model gives away. They do not say whether a "
        "benchmark's test set was in that text, which is called contamination."
    )
    if missed := " and ".join(_missed(run)):
        yield f"With so few canaries it would have missed, in 1 of 5 runs or more, {missed}."
    if any("planted" in each for each in tested):
        yield (
            "Canaries stand for text like them that was trained on as often. Other text, or the same more often, may "
            "leak more or less."
        )
    if any("natural" in _list(each.get("kinds")) for each in tested):
        yield "Natural secrets were not drawn at random: without a leak they need not be at chance."
    if any("pairs" in each for each in tested):
        yield (
            "Suffixes that come out may be guessable without having been trained on: only what is above the figure for "
            "text the model never saw is a leak."
        )
    yield "The figures hold for the model as tested, not for versions trained further, cut down or quantized."


def _not_tried(run: Run) -> Iterator[str]:
    """Tasks and attacks of this package that the run did without."""
    from leakage_tasks.attacks import ATTACKS
    from leakage_tasks.metrics.scoring import SCORINGS

    declared = [task.declared for task in run.tasks.values() if task.declared is not None and task.is_leakage]
    ran = {attack for each in declared for attack, _ in each.attacks}
    aims = {task: each.goal for task, each in SCORINGS.own().items() if each.goal}
    answered = {result.scoring_name for result in run.tasks.values() if result.answered}
    goals = {each.goal for name, each in SCORINGS.items() if name in answered}
    tasks = [task for task, goal in aims.items() if goal not in goals]
    classes = any(_of_classifiers(ATTACKS[name]) for name in ran if name in ATTACKS)
    fitting = [name for name, each in ATTACKS.items() if each.goal in goals and _of_classifiers(each) == classes]
    attacks = sorted(name for name in fitting if name not in ran)
    named = [f"the {'tasks' if len(tasks) > 1 else 'task'} {', '.join(tasks)}"] if tasks else []
    named += [f"the attacks {', '.join(attacks)}"] if attacks else []
    also = "text before a secret other than what the task put there, and models trained further on what they give away"
    yield f"Not tried: {'; '.join([*named, also])}."


def _of_classifiers(attack: Attack) -> bool:
    return not {ProposesValues, RelaxesTokens, ScoresLabels}.isdisjoint(attack.needs)


def _missed(run: Run) -> Iterator[str]:
    """What was too small to show, of each task that says so."""
    for result in run.tasks.values():
        bits, rate = map(result.headline.get, ("min_detectable_exposure", "min_detectable_rate"))
        if bits is not None:
            yield f"a mean exposure below {number(bits)} bits"
        if rate is not None:
            yield f"an extraction rate below {percent(rate)}"


def _words(name: str, value: Any, tested: Mapping[str, Any]) -> str:
    try:
        return _known(name, value, tested)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return escaped(f"{name}: {shown}")


def _known(name: str, value: Any, tested: Mapping[str, Any]) -> str:
    """What one thing that is tested is; raises KeyError for what is not known, other errors for odd values."""
    match name:
        case "planted":
            return f"{int(value):,} canaries planted{_by_copies(tested.get('repetitions'))}"
        case "planting" if value == "proven":
            return escaped(f"planting proven by {tested['planted_data']} (SHA-256 {tested['planted_sha256'][:12]}…)")
        case "planting":
            return {"claimed": "planting claimed by the manifest, no data prove it", "none": "nothing planted"}[value]
        case "learnt_from":
            if (learnt := learnt_from(value)) is None:
                raise KeyError(name)
            return f"{learnt_words(*learnt)}, as the training data showed before training"
        case "controls":
            return f"{int(value):,} controls, made alike and never planted"
        case "kinds":
            return escaped(f"kind: {' or '.join(KINDS.get(kind, kind) for kind in value)}")
        case "near_copies":
            return f"{int(value):,} of the copies have other words around the secret"
        case "families":
            told = [f"{int(number):,} {family}" for family, number in value.items()]
            return escaped(f"families: {', '.join(told)}")
        case "log2_size":
            return f"each secret is one of {_span(value, _count)} possible values"
        case "pairs":
            return f"{int(value):,} pairs of a prefix and the suffix that follows it"
        case "unseen_pairs":
            return f"{int(value):,} controls, pairs of text that the model never saw"
        case "prefix_tokens" | "suffix_tokens":
            return f"{name.removesuffix('_tokens')}es of {_span(value, '{:,.0f}'.format)} tokens"
    raise KeyError(name)


def _by_copies(copies: Any) -> str:
    if not isinstance(copies, dict) or not copies:
        return ""
    many = ((int(number), int(times)) for times, number in copies.items())
    said = (f"{number:,} of them {'once' if times == 1 else f'{times:,} times'}" for number, times in many)
    return f" ({', '.join(said)})"


def _span(value: Any, shown: Callable[[float], str]) -> str:
    """One number, or two from the lower to the higher."""
    low, high = map(float, value if isinstance(value, list) else (value, value))
    return shown(low) if low == high else f"{shown(low)} to {shown(high)}"


def _count(bits: float) -> str:
    return f"2^{bits:.1f} (about {float(f'{2**bits:.2g}'):,.0f})" if bits <= _MOST else f"2^{bits:.1f}"


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
