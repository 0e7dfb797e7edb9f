"""What was tested, by which attacks, and what that leaves open, in a model card's words."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from leakage_tasks.attacks.registry import Attack
from leakage_tasks.attacks.suffix.finding import HEADLINE
from leakage_tasks.report.card.sentences import KINDS
from leakage_tasks.report.reading.declared import Declared
from leakage_tasks.report.reading.figures import row_of
from leakage_tasks.report.reading.format import number, percent
from leakage_tasks.report.reading.markdown import escaped
from leakage_tasks.report.reading.run import Run
from leakage_tasks.targets.protocols import ProposesValues, RelaxesTokens, ScoresLabels

GOALS = {"canary_exposure": "exposure", "canary_extraction": "extraction", "suffix_extraction": "suffixes"}
"""Tasks of this package that measure leakage, and what their attacks are for."""
_MOST = 50
"""log2 of the largest number that is written out."""


def bullets(lines: Iterable[str]) -> str:
    """A list of lines that are Markdown already."""
    return "\n".join(f"- {line}" for line in lines)


def what_was_tested(tested: Mapping[str, Any]) -> str:
    """What the figures of a task rest on; what is not known here stands as ``name: value``. Markdown."""
    hidden = "natural" in _list(tested.get("kinds"))
    said = []
    for name, value in tested.items():
        if name in ("repetitions", "example", "planted_data", "planted_sha256", "planted_share"):
            continue
        said.append(_words(name, value, tested))
    example = tested.get("example")
    if isinstance(example, str) and not hidden:
        said.append(f"for instance “{escaped(example)}”, where the secret stands in braces")
    return "; ".join(said) or "the results do not say what"


def which_attacks(attacks: Sequence[tuple[str, str]]) -> str:
    """Which attacks ran, with the access each took. Markdown."""
    if not attacks:
        return "the results do not say which"
    return "; ".join(escaped(attack) + (f" ({escaped(access)})" if access else "") for attack, access in attacks)


def limits(run: Run) -> Iterator[str]:
    """What the figures of a run do not show, for the kinds of tasks that ran. Markdown."""
    tested = [each.tested for each in _declared(run)]
    yield (
        "These attacks, with this access, found so much. Others may find more, so low figures do not show that the "
        "training data are safe."
    )
    yield from _chance(run)
    yield from _not_tried(run)
    yield (
        "They are about memorization: what of its training text a model gives away. They do not say whether a "
        "benchmark's test set was in that text, which is called contamination."
    )
    missed = list(_missed(run))
    if missed:
        yield f"With so few canaries it would have missed, in 1 of 5 runs or more, {' and '.join(missed)}."
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


def _chance(run: Run) -> Iterator[str]:
    if any(row_of(result, "exposure") is not None for result in run.tasks.values()):
        yield (
            "An exposure of 1.44 bits is chance: what secrets have on average that the model never saw. It does not "
            "prove that nothing leaks."
        )


def _not_tried(run: Run) -> Iterator[str]:
    """Tasks and attacks of this package that the run did without."""
    from leakage_tasks.attacks import ATTACKS

    ran = {attack for each in _declared(run) for attack, _ in each.attacks}
    goals = {GOALS[task] for task, result in run.tasks.items() if task in GOALS and result.answered}
    tasks = [task for task in GOALS if GOALS[task] not in goals]
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
        row, value = row_of(result, "missed_below"), result.values.get(HEADLINE, {}).get("missed_below")
        if row is not None and value is not None:
            bits = row.unit == "bits"
            yield (
                f"a mean exposure below {number(value)} bits" if bits else f"an extraction rate below {percent(value)}"
            )


def _declared(run: Run) -> list[Declared]:
    return [each.declared for each in run.tasks.values() if each.declared is not None and each.is_leakage]


def _words(name: str, value: Any, tested: Mapping[str, Any]) -> str:
    try:
        return _KNOWN[name](value, tested)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return escaped(f"{name}: {shown}")


def _planted(value: Any, tested: Mapping[str, Any]) -> str:
    times = tested.get("repetitions")
    how = (
        ", ".join(f"{int(n):,} of them {_times(t)}" for t, n in times.items())
        if isinstance(times, dict) and times
        else ""
    )
    return f"{int(value):,} canaries planted" + (f" ({how})" if how else "")


def _planting(value: Any, tested: Mapping[str, Any]) -> str:
    if value != "proven":
        return {"claimed": "planting claimed by the manifest, no data prove it", "none": "nothing planted"}[value]
    return escaped(f"planting proven by {tested['planted_data']} (SHA-256 {tested['planted_sha256'][:12]}…)")


def _times(text: str) -> str:
    return "once" if int(text) == 1 else f"{int(text):,} times"


def _size(value: Any, tested: Mapping[str, Any]) -> str:
    low, high = _ends(value)
    each = _count(low) if low == high else f"{_count(low)} to {_count(high)}"
    return f"each secret is one of {each} possible values"


def _count(bits: float) -> str:
    return f"2^{bits:.1f} (about {float(f'{2**bits:.2g}'):,.0f})" if bits <= _MOST else f"2^{bits:.1f}"


def _tokens(of: str) -> Callable[[Any, Mapping[str, Any]], str]:
    def words(value: Any, tested: Mapping[str, Any]) -> str:
        low, high = _ends(value)
        return f"{of} of {f'{low:,.0f}' if low == high else f'{low:,.0f} to {high:,.0f}'} tokens"

    return words


def _ends(value: Any) -> tuple[float, float]:
    low, high = value if isinstance(value, list) else (value, value)
    return float(low), float(high)


def _kinds(value: Any, tested: Mapping[str, Any]) -> str:
    return escaped(f"kind: {' or '.join(KINDS.get(kind, kind) for kind in value)}")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


_KNOWN: Mapping[str, Callable[[Any, Mapping[str, Any]], str]] = {
    "planted": _planted,
    "planting": _planting,
    "controls": lambda value, tested: f"{int(value):,} controls, made alike and never planted",
    "kinds": _kinds,
    "log2_size": _size,
    "pairs": lambda value, tested: f"{int(value):,} pairs of a prefix and the suffix that follows it",
    "prefix_tokens": _tokens("prefixes"),
    "suffix_tokens": _tokens("suffixes"),
}
