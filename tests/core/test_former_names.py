"""Former names of public things and the names that replaced them."""

from __future__ import annotations

import pickle
from dataclasses import asdict, dataclass, replace

import pytest

from leakage_tasks.core.former_names import (
    accept_former_arguments,
    accept_former_names,
    current_attack,
    current_fields,
    current_metric,
    current_option,
    with_former_attacks,
)


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


@accept_former_names(old="new")
@dataclass(frozen=True)
class Named:
    other: int
    new: str = ""


def test_a_field_is_given_shown_and_replaced_by_either_name() -> None:
    assert Named(1, old="a") == Named(1, new="a") == Named(1, "a")
    assert (Named(1, "a").old, Named(1, "a").new) == ("a", "a")
    assert replace(Named(1, "a"), old="b") == Named(1, "b")


def test_records_have_the_new_name_alone() -> None:
    assert asdict(Named(1, old="a")) == {"other": 1, "new": "a"}
    assert pickle.loads(pickle.dumps(Named(1, old="a"))) == Named(1, "a")


@accept_former_arguments(old="new")
def pair(number: int, *, new: int = 0) -> tuple[int, int]:
    return number, new


def test_an_argument_is_accepted_by_either_name() -> None:
    assert pair(1, old=3) == pair(1, new=3) == (1, 3)
    assert pair(1) == (1, 0)


def test_an_argument_by_both_names_is_refused() -> None:
    with pytest.raises(TypeError, match="pair\\(\\) got both 'new' and its old name 'old'"):
        pair(1, old=3, new=3)


def test_settings_have_the_former_names_of_attacks() -> None:
    settings = {"attack": "rank-sample", "seed": 0, "settings": {"rank-sample.histogram": 5, "draws": 3}}
    former = {"attack": "sampled", "seed": 0, "settings": {"sampled.histogram": 5, "draws": 3}}
    assert with_former_attacks(settings) == with_former_attacks(former) == former
    assert with_former_attacks({"attack": "beam", "known": None}) == {"attack": "beam", "known": None}
