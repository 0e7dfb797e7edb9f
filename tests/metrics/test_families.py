"""Rows by family: what they hold, which runs have them, and that no family is judged by another's controls."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import pytest
from scipy import stats

from leakage_tasks.attacks.finding import Finding
from leakage_tasks.metrics import exposure, extraction
from leakage_tasks.metrics.audit import audit
from leakage_tasks.metrics.tiers import copies_of
from tests.metrics.test_tiers import rows

BITS = 8.0


def finding(name: str, family: str, bits: float, planted: bool = True) -> Finding:
    rank = 2 ** (BITS - bits)
    known: dict[str, Any] = {
        "rank": rank,
        "method": "exact",
        "correct": (rank == 1,),
        "place": 1 if rank == 1 else None,
    }
    return Finding(name, "exposure", planted, int(planted), "random", BITS, family=family, **known)


def run(**families: tuple[Sequence[float], Sequence[float]]) -> list[Finding]:
    """Planted canaries and controls of these exposures, by family."""
    found = []
    for name, sides in families.items():
        family = name.replace("_", "-")
        for planted, bits in zip((True, False), sides, strict=True):
            found += [finding(f"{name}-{planted}-{at}", family, each, planted) for at, each in enumerate(bits)]
    return found


RUN = run(typical=([1.0, 2.0, 3.0, 8.0], [0.5, 1.0]), new_token=([8.0, 8.0, 7.0, 8.0, 8.0], [1.5, 0.0, 3.0]))


def test_each_family_has_the_mean_exposure_of_its_own_canaries_and_controls() -> None:
    found = rows(exposure.metrics, RUN)
    assert found["exposure_typical"] == pytest.approx(statistics.fmean([1, 2, 3, 8]))
    assert found["exposure_new_token"] == pytest.approx(statistics.fmean([8, 8, 7, 8, 8]))
    assert found["control_exposure_typical"] == pytest.approx(0.75)
    assert found["control_exposure_new_token"] == pytest.approx(1.5)
    assert (found["n_typical"], found["n_new_token"]) == (4, 5)


def test_each_family_has_the_share_extracted_with_its_exact_interval() -> None:
    found = rows(extraction.metrics, RUN)
    assert (found["extracted_typical"], found["extracted_new_token"]) == (0.25, 0.8)
    exact = stats.binomtest(4, 5).proportion_ci(method="exact")
    ends = found["extracted_new_token_ci_low"], found["extracted_new_token_ci_high"]
    assert ends == pytest.approx((exact.low, exact.high))
    assert found["control_extracted_new_token"] == 0


def test_every_document_has_a_value_for_every_row_of_its_run() -> None:
    listed = exposure.metrics(copies_of((each.planted, each.kind, each.tier, each.family) for each in RUN))
    names = [{row.name for row in listed if row.applies(found)} for found in RUN]
    assert all(each == names[0] for each in names)


def test_a_run_without_families_has_no_such_rows() -> None:
    found = rows(exposure.metrics, [finding("a", "", 3.0), finding("b", "", 1.0, planted=False)])
    assert not [name for name in found if "typical" in name or "new_token" in name]


def test_the_audit_of_each_family_is_that_of_a_run_of_its_own() -> None:
    members, others = [8.0 - at / 20 for at in range(20)], [at / 50 for at in range(100)]
    both = run(typical=([at / 10 for at in range(20)], others), bigram=(members, others))
    told = {each.name: each.value for each in audit(both)}
    for family in ("typical", "bigram"):
        alone = {each.name: each.value for each in audit([each for each in both if each.family == family])}
        assert {name: told[f"{name}_{family}"] for name in alone} == alone
    assert told["auc_bigram"] == 1.0


def test_canaries_are_paired_with_controls_of_their_own_family() -> None:
    strange = run(typical=([5.0] * 20, []), bigram=([], [1.0] * 200))
    assert all(each.value is None for each in audit(strange) if each.name in ("auc", "tpr_at_1_fpr", "epsilon"))


def test_one_family_alone_is_the_whole() -> None:
    assert [each.name for each in audit(run(typical=([5.0] * 9, [1.0] * 9)))] == [
        "auc",
        "tpr_at_1_fpr",
        "epsilon",
        "epsilon_surest",
        "epsilon_gaussian",
        "epsilon_row",
        "epsilon_secret",
        "epsilon_independent",
    ]
