"""Rows of the guard: equal to the pure functions on the right texts, and the rates of verdicts in simulations."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from leakage_tasks.attacks.membership.finding import MembershipFinding
from leakage_tasks.metrics.membership import membership_metrics
from leakage_tasks.metrics.membership_conclusion import on_membership
from leakage_tasks.stats import auc_comparison, dataset_inference
from leakage_tasks.stats.auc_comparison import compare_with_blind
from leakage_tasks.stats.dataset_inference import dataset_test, null_check

NUMBER = 40


def made(seed: int, gap: float = 0.0, shift: float = 0.0, number: int = NUMBER) -> list[MembershipFinding]:
    """Findings with correlated scores. Members differ by ``gap`` for the model, and by ``shift`` in their dates, which
    the attacks see as well."""
    stream, findings = np.random.default_rng(seed), []
    for place in range(2 * number):
        member, own, date = place % 2 == 0, stream.normal(), stream.normal()
        date += shift * member
        scores = {name: float(own + 0.3 * stream.normal() + gap * member + shift * date) for name in ("loss", "min-k")}
        blind = {"dates": float(date), "words": float(stream.normal())}
        number_of = place // 2 if member else -1 - place // 2
        findings.append(MembershipFinding(number_of, member, place, place % 4 < 2, 50, scores, blind))
    return findings


def rows(findings: list[MembershipFinding]) -> dict[str, Any]:
    return {
        row.name: row.aggregate([row.value(finding) for finding in findings])
        for row in membership_metrics()
        if any(row.applies(finding) for finding in findings)
    }


@lru_cache
def found(gap: float = 0.0, shift: float = 0.0) -> dict[str, Any]:
    return rows(made(0, gap, shift))


def columns(findings: list[MembershipFinding], which: str) -> dict[str, list[float]]:
    return {name: [getattr(of, which)[name] for of in findings] for name in getattr(findings[0], which)}


def test_the_primary_rows_are_of_the_texts_that_do_not_choose() -> None:
    every = made(0, 1.5)
    reported = [finding for finding in every if not finding.chooses]
    members = [finding.member for finding in reported]
    values = found(1.5)
    areas = {name: roc_auc_score(members, scores) for name, scores in columns(reported, "blind").items()}
    assert values["blind_auc"] == pytest.approx(max(areas.values()))
    assert {name: values[f"blind_auc_{name}"] for name in areas} == pytest.approx(areas)
    choosing = [finding for finding in every if finding.chooses]
    chosen = max(
        ("loss", "min-k"),
        key=lambda name: roc_auc_score([of.member for of in choosing], [of.scores[name] for of in choosing]),
    )
    expected = compare_with_blind(
        {chosen: columns(reported, "scores")[chosen]},
        columns(reported, "blind"),
        members,
        [finding.cluster for finding in reported],
    )[chosen]
    assert values["membership_above_blind"] == pytest.approx(values["membership_auc"] - values["blind_auc"])
    assert values["membership_above_blind_p"] == expected.p
    assert values["blind_p"] == expected.blind_p
    ends = values["membership_above_blind_ci_low"], values["membership_above_blind_ci_high"]
    assert ends == pytest.approx(expected.difference[1:])


def test_the_rows_of_the_data_set_are_of_all_texts() -> None:
    every, values = made(0, 1.5), found(1.5)
    members, clusters = [finding.member for finding in every], [finding.cluster for finding in every]
    scores = [*columns(every, "scores").values()]
    by_attacks = dataset_test(scores, members, clusters)
    assert (values["dataset_p_welch"], values["dataset_p_permutation"]) == tuple(by_attacks)
    assert values["dataset_p"] == max(by_attacks)
    blind = dataset_test([*columns(every, "blind").values()], members, clusters, spread=1.5)
    assert values["dataset_p_blind"] == pytest.approx(blind.p)
    assert values["dataset_p_null"] == null_check(scores, members, clusters).p
    assert 0 < values["dataset_share_least_ci_low"] < values["dataset_share_least"] <= 1


def test_attacks_have_p_values_of_all_texts() -> None:
    every = made(0, 1.5)
    expected = compare_with_blind(
        columns(every, "scores"),
        columns(every, "blind"),
        [finding.member for finding in every],
        [finding.cluster for finding in every],
    )
    assert found(1.5)["above_blind_p_loss"] == expected["loss"].p
    assert found(1.5)["above_blind_p_min_k"] == expected["min-k"].p


def test_a_real_signal_is_above_and_may_be_quoted() -> None:
    values = found(1.5)
    assert on_membership(values).short == "above the best blind baseline"
    assert values["conclusive"] == 1


def test_a_shift_of_dates_that_every_attack_sees_is_refused() -> None:
    values = found(0.0, 1.5)
    assert values["membership_auc_ci_low"] > 0.6
    assert on_membership(values).because.startswith("the texts differ without the model")
    assert values["conclusive"] == 0


def test_texts_without_blind_scores_have_no_rows_of_the_guard() -> None:
    findings = [MembershipFinding(n, n % 2 == 0, n, n % 4 < 2, 5, {"loss": float(n)}) for n in range(40)]
    values = rows(findings)
    assert not {"blind_auc", "dataset_p"} & set(values)
    assert on_membership(values).because == "no blind baseline shows if the texts differ without the model"


def test_few_texts_have_no_dataset_inference_but_a_verdict() -> None:
    values = rows(made(0, 9.0, number=3))
    assert values["dataset_p"] is None
    assert values["dataset_share_least"] is None
    assert values["membership_above_blind_p"] is not None


@pytest.mark.slow
def test_without_a_signal_no_verdict_errs_in_more_than_5_percent_of_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """200 runs in which neither the model nor the texts differ."""
    monkeypatch.setattr(auc_comparison, "RESAMPLES", 400)
    monkeypatch.setattr(dataset_inference, "PERMUTATIONS", 199)
    needed = ("membership_auc", "membership_auc_ci_low", "membership_above_blind_p", "blind_p", "dataset_p")
    chosen = [row for row in membership_metrics() if row.name in (*needed, "dataset_p_blind")]
    verdicts, small = Counter[str](), Counter[str]()
    for seed in range(200):
        findings = made(seed)
        values = {row.name: row.aggregate([row.value(finding) for finding in findings]) for row in chosen}
        verdicts[on_membership(values).short] += 1
        small.update(name for name, value in values.items() if name != "membership_auc_ci_low" and value <= 0.05)
    most = 0.05 + 2 * (0.05 * 0.95 / 200) ** 0.5
    assert verdicts["above the best blind baseline"] / 200 <= most
    assert verdicts["not above chance"] / 200 >= 0.85
    for name in ("membership_above_blind_p", "dataset_p", "dataset_p_blind"):
        assert small[name] / 200 <= most
