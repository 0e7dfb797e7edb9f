"""Former names of public things and the names that replaced them."""

from __future__ import annotations

import pytest

from leakage_tasks.core.former_names import current_attack, current_fields, current_metric, current_option


@pytest.mark.parametrize(
    ("former", "headline", "current"),
    [
        ("missed_below", "exposure", "min_detectable_exposure"),
        ("missed_below", "extracted", "min_detectable_rate"),
        ("missed_below", "", "missed_below"),
        ("exposure_known_x16", "exposure", "share_with_interval_x16"),
        ("exposure_known_context", "exposure", "share_with_interval_context"),
        ("control_p_less", "", "control_p_low"),
        ("fit_kept", "exposure", "fit_not_rejected"),
        ("more_rows", "", "hidden_metrics"),
        ("exposure_x1", "exposure", "exposure_x1"),
        ("not_fit_kept", "", "not_fit_kept"),
    ],
)
def test_a_metric_has_its_current_name(former: str, headline: str, current: str):
    assert current_metric(former, headline) == current
    assert current_metric(current, headline) == current


def test_a_field_under_its_former_name_replaces_the_current_one():
    # dataclasses.replace(row, words="new") passes both.
    assert current_fields({"words": "new", "description": "old", "unit": "bits"}) == {
        "description": "new",
        "unit": "bits",
    }


def test_attacks_and_their_options_have_their_current_names():
    assert [current_attack(name) for name in ("sampled", "sampling", "text-sampling", "beam")] == [
        *("rank-sample", "sample-tokens", "sample-text"),
        "beam",
    ]
    assert current_option("sampling.draws") == "sample-tokens.draws"
    assert current_option("sampled") == "sampled"
