"""What the rows of canary_exposure say of an exposure that is read off a fitted distribution."""

from dataclasses import replace

import pytest

from leakage_tasks.attacks import Finding, finding_from_json
from leakage_tasks.metrics import exposure

FIT = {"extrapolated": 35.0, "ks": 0.02, "p_value": 0.4, "rejected": False, "draws": 2000}
FOUND = Finding("a", "skew-normal", True, 1, "random", 20.0, rank=1.0, method="extrapolated", extra=FIT)
ROWS = {row.name: row for row in exposure.METRICS}


def test_exposure_has_no_upper_bound_and_its_share_has():
    assert ROWS["exposure"].value(FOUND) == 35
    assert ROWS["exposure_max"].value(FOUND) == 35
    assert ROWS["exposure_fraction"].value(FOUND) == 1
    assert ROWS["exposure_fraction"].value(replace(FOUND, extra={**FIT, "extrapolated": 5.0})) == 0.25


def test_only_an_extrapolated_exposure_has_a_fit():
    exact = replace(FOUND, method="exact", extra={})
    assert [ROWS["fit_not_rejected"].applies(each) for each in (FOUND, exact)] == [True, False]
    assert [ROWS["share_with_interval"].applies(each) for each in (FOUND, exact)] == [False, True]


@pytest.mark.parametrize(("rejected", "kept"), [(False, 1.0), (True, 0.0)])
def test_a_rejected_fit_is_not_kept(rejected, kept):
    assert ROWS["fit_not_rejected"].value(replace(FOUND, extra={**FIT, "rejected": rejected})) == kept
    assert ROWS["fit_not_rejected"].value(replace(FOUND, planted=False)) is None


def test_the_alarm_is_raised_even_if_every_fit_holds():
    alarm = ROWS["fit_not_rejected"].check
    assert alarm is not None
    assert alarm.below > 1.0
    assert "extrapolated" in alarm.words


@pytest.mark.parametrize("missing", FIT)
def test_a_finding_without_its_fit_is_none(missing):
    text = FOUND.to_json().replace(f'"{missing}"', '"other"', 1)
    with pytest.raises((KeyError, ValueError)):
        finding_from_json(text)
