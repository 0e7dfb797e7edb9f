"""The verdict on membership: what is refused, what is shown, and why."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.metrics.membership_conclusion import on_membership
from leakage_tasks.metrics.verdict import verdict_of

SHOWN = {
    "membership_auc": 0.8,
    "membership_auc_ci_low": 0.7,
    "membership_above_blind_p": 0.001,
    "blind_auc": 0.55,
    "blind_auc_words": 0.52,
    "blind_auc_word_ngrams": 0.55,
    "blind_p": 0.4,
    "dataset_p": 0.002,
    "dataset_p_blind": 0.6,
    "dataset_p_null": 0.9,
}
AT_CHANCE = {"membership_auc": 0.52, "membership_auc_ci_low": 0.45, "membership_above_blind_p": 0.6, "dataset_p": 0.8}


@pytest.mark.parametrize(
    ("changed", "label", "because"),
    [
        (
            {},
            "above the best blind baseline",
            "AUC 0.80, the best blind baseline, word-ngrams, has AUC 0.55, p = 0.001",
        ),
        ({"blind_p": 0.001}, "above the best blind baseline", "dataset inference: p = 0.002"),
        (AT_CHANCE, "not above chance", "dataset inference: p = 0.8"),
        (
            {"membership_above_blind_p": 0.3, "blind_p": 0.01},
            "inconclusive",
            "the texts differ without the model: AUC 0.80, the best blind baseline, word-ngrams, has AUC 0.55, p = 0.3",
        ),
        (AT_CHANCE | {"blind_p": 0.01}, "inconclusive", "the texts differ without the model"),
        (
            {"membership_above_blind_p": 0.3, "dataset_p": 0.02},
            "inconclusive",
            "the AUC is not above that of the texts alone",
        ),
        (
            {"membership_above_blind_p": 0.3},
            "above the best blind baseline, for the data set as a whole, not text by text",
            "dataset inference: p = 0.002",
        ),
        (
            {"membership_above_blind_p": 0.3, "dataset_p_blind": 0.01},
            "inconclusive",
            "the AUC is not above that of the texts alone",
        ),
        (
            {"dataset_p_null": 0.01},
            "above the best blind baseline",
            "dataset inference: inconclusive, it separates halves of the non-members, p = 0.01",
        ),
        (
            {"dataset_p_blind": 0.01},
            "above the best blind baseline",
            "dataset inference: inconclusive, the texts differ without the model, p = 0.01",
        ),
        (
            {"dataset_p_blind": None},
            "above the best blind baseline",
            "dataset inference: inconclusive, no blind control",
        ),
        (
            {"membership_auc": 0.2, "membership_auc_ci_low": 0.1, "membership_above_blind_p": 1.0},
            "not above chance",
            "dataset inference: p = 0.002",
        ),
        ({"membership_above_blind_p": None}, "inconclusive", "no blind baseline shows if the texts differ"),
    ],
)
def test_the_verdict_follows_from_the_rows(changed: dict[str, Any], label: str, because: str) -> None:
    found = verdict_of({**SHOWN, **changed}, {})
    assert found is not None
    assert found.label == label
    assert because in found.because


def test_without_an_auc_there_is_no_conclusion() -> None:
    assert on_membership({**SHOWN, "membership_auc": None}).short == "inconclusive"


def test_attacks_above_every_baseline_are_counted_after_holm_s_correction() -> None:
    attacks = {"above_blind_p_loss": 0.01, "above_blind_p_zlib": 0.02, "above_blind_p_ratio": 0.04}
    assert "3 of 3 attacks are above every baseline" in on_membership({**SHOWN, **attacks}).because
    attacks["above_blind_p_ratio"] = 0.06
    assert "2 of 3 attacks are above every baseline" in on_membership({**SHOWN, **attacks}).because
    attacks["above_blind_p_zlib"] = 0.03
    assert "1 of 3 attacks are above every baseline" in on_membership({**SHOWN, **attacks}).because


SHARES = st.floats(0, 1)


@given(st.fixed_dictionaries({name: st.none() | SHARES for name in SHOWN}))
def test_a_leak_is_stated_only_with_a_significant_test_and_only_without_a_difference_of_texts(
    values: dict[str, float | None],
) -> None:
    found = on_membership(values)
    tests = [values["membership_above_blind_p"], values["dataset_p"]]
    if found.short == "above the best blind baseline":
        assert any(p is not None and p <= 0.05 for p in tests)
        if found.where:
            assert values["blind_p"] is None or values["blind_p"] > 0.05
            assert (values["dataset_p_blind"] or 0) > 0.05
    if found.short == "not above chance":
        assert (values["membership_auc_ci_low"] or 0) <= 0.5
        assert values["blind_p"] is None or values["blind_p"] > 0.05
