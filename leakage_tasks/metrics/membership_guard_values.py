"""Values of one text for the comparison of attacks with blind baselines and for dataset inference, and their
aggregation over texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Literal, TypeVar

from leakage_tasks.attacks.membership.finding import MembershipFinding
from leakage_tasks.metrics.aggregates import Aggregate, estimate_of, number_of, of_defined
from leakage_tasks.metrics.membership_values import AllScores, Pairs, chosen_attack, scores_of
from leakage_tasks.stats import dataset_inference, dataset_share
from leakage_tasks.stats.auc_comparison import BlindComparison, compare_with_blind, cross_validation_spread
from leakage_tasks.stats.membership import Estimate, auc

Texts = tuple[AllScores, ...]
Result = TypeVar("Result")


def guarded(
    finding: MembershipFinding, baseline: str | None = None, attacks: bool = True, blind: bool = True
) -> AllScores | None:
    """Return the scores of a text; None for a text that is left out or without blind scores.

    Args:
        finding: The result of the text.
        baseline: Take only the scores of this blind baseline.
        attacks: Take the scores of attacks.
        blind: Take the scores of blind baselines.
    """
    text = scores_of(finding)
    if text is None or not finding.blind:
        return None
    both = text._replace(blind=_chosen(finding.blind, baseline) if blind else ())
    return both if attacks else part(both, "blind")


def _chosen(scores: Mapping[str, float], name: str | None) -> Pairs:
    return tuple((key, value) for key, value in scores.items() if name in (None, key))


def part(text: AllScores, of: Literal["scores", "blind"]) -> AllScores:
    """Return a text with only the scores of attacks, or only the scores of blind baselines."""
    return text._replace(blind=()) if of == "scores" else text._replace(scores=())


def columns(rows: Sequence[Pairs]) -> dict[str, list[float]]:
    """Return the scores by name, of the attacks or baselines that have a score for every text."""
    tables = [dict(row) for row in rows]
    names = [name for name in tables[0] if all(name in table for table in tables)] if tables else []
    return {name: [table[name] for table in tables] for name in names}


def _classes(texts: Texts) -> tuple[list[bool], list[int]]:
    return [text.member for text in texts], [text.cluster for text in texts]


def _or_none(of: Callable[..., Result], *arguments: Any) -> Result | None:
    """Return ``of(*arguments)``; None for too few texts or clusters."""
    try:
        return of(*arguments)
    except ValueError:
        return None


@lru_cache(maxsize=4)
def comparisons(texts: Texts) -> Mapping[str, BlindComparison]:
    """Return the comparison of each attack with the blind baselines; empty if a class or all baselines are missing."""
    attacks, blind = columns([text.scores for text in texts]), columns([text.blind for text in texts])
    return _or_none(compare_with_blind, attacks, blind, *_classes(texts)) or {}


def _primary(texts: Sequence[AllScores]) -> BlindComparison | None:
    """Compare the chosen attack with the blind baselines on the texts that do not choose it."""
    attack = chosen_attack([part(text, "scores") for text in texts])
    reported = tuple(text._replace(scores=_chosen(dict(text.scores), attack)) for text in texts if not text.chooses)
    return None if attack is None else comparisons(reported).get(attack)


_estimate = partial(estimate_of, kind="by-cluster bootstrap")
BLIND_AUC = _estimate(_primary, read=lambda result: result.baselines[result.best])
"""The AUC of the best blind baseline on the texts of the primary figures, and its interval."""
ABOVE_BLIND = _estimate(_primary, read=lambda result: result.difference)
"""The AUC of the chosen attack minus that of the best blind baseline, and its interval."""
ABOVE_BLIND_P = number_of(_primary, lambda result: result.p)
BLIND_P = number_of(_primary, lambda result: result.blind_p)


def auc_of_baseline(name: str) -> Aggregate[AllScores]:
    """Return the aggregation of the AUC of one blind baseline on the texts of the primary figures."""

    def read(texts: list[AllScores]) -> float | None:
        blind = columns([text.blind for text in texts if not text.chooses])
        members = [text.member for text in texts if not text.chooses]
        if name not in blind or len(set(members)) < 2:
            return None
        inside, outside = ([s for s, m in zip(blind[name], members, strict=True) if m is of] for of in (True, False))
        return auc(inside, outside).value

    return of_defined(read)


def p_above_blind(attack: str) -> Aggregate[AllScores]:
    """Return the aggregation of the p-value of one attack not above every blind baseline, on all texts."""
    return number_of(lambda texts: comparisons(tuple(texts)).get(attack), lambda result: result.p)


def _table(texts: Texts, blind: bool) -> list[list[float]]:
    return list(columns([text.blind if blind else text.scores for text in texts]).values())


@lru_cache(maxsize=4)
def _dataset(texts: Texts, blind: bool) -> dataset_inference.DatasetTest | None:
    spread = cross_validation_spread() if blind else 1.0
    return _or_none(partial(dataset_inference.dataset_test, spread=spread), _table(texts, blind), *_classes(texts))


@lru_cache(maxsize=2)
def _null(texts: Texts) -> dataset_inference.NullCheck | None:
    return _or_none(dataset_inference.null_check, _table(texts, False), *_classes(texts))


@lru_cache(maxsize=2)
def _share(texts: Texts) -> Estimate | None:
    return _or_none(dataset_share.least_share_used, _table(texts, False), *_classes(texts))


def _by_attacks(texts: Sequence[AllScores]) -> dataset_inference.DatasetTest | None:
    return _dataset(tuple(texts), False)


DATASET_P = number_of(_by_attacks, lambda result: result.p)
DATASET_WELCH = number_of(_by_attacks, lambda result: result.welch)
DATASET_PERMUTATION = number_of(_by_attacks, lambda result: result.permutation)
DATASET_BLIND = number_of(lambda texts: _dataset(tuple(texts), True), lambda result: result.p)
DATASET_NULL = number_of(lambda texts: _null(tuple(texts)), lambda result: result.p)
FALSE_POSITIVES = number_of(lambda texts: _null(tuple(texts)), lambda result: result.false_positives)
LEAST_SHARE = _estimate(lambda texts: _share(tuple(texts)))
"""The lower bound on the share of the members that the model was trained on, and its interval."""
