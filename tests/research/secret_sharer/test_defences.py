"""What the studies of The Secret Sharer's defences make of trials that are known, without a model."""

from __future__ import annotations

from typing import Any

import pytest

from leakage_tasks.research.framework.registry import Config, StudyPlan, StudyTrial
from leakage_tasks.research.secret_sharer import defences
from tests.research.stored import verdicts

SMALL = StudyPlan("small", trials=4)


def look(exposure: float, loss: float = 2.0) -> dict[str, Any]:
    return {"name": "", "loss": loss, "exposure": exposure, "controls": [1.0, 0.5]}


def done(configs: list[Config], found: Any) -> list[StudyTrial]:
    """The trials, each with the result that ``found`` makes of its config."""
    return [StudyTrial(config, found(config), 1.0) for config in configs]


def by_epsilon(with_dp: float, without: float, slope: float) -> Any:
    """A result with these exposures; the loss moves by ``slope`` from ε to ε."""

    def found(config: Config) -> dict[str, Any]:
        if config["defence"] == "none":
            return {"models": [look(without)], "sizes": {}}
        loss = 2.0 + slope * sum(epsilon < (config["epsilon"] or 0) for epsilon in defences.FEWER)
        promise = {"epsilon_by_copies": {"1": config["epsilon"], "10": None}}
        return {"models": [look(with_dp, loss)], "promise": promise, "rows": 600}

    return found


@pytest.mark.parametrize(
    ("with_dp", "without", "slope", "expected"),
    [
        (1.0, 20.0, -0.1, [True, True, True]),
        (9.0, 20.0, -0.1, [False, True, True]),
        (1.0, 0.5, 0.1, [True, False, False]),
        (1.0, 1.0, 0.0, [True, None, None]),
    ],
)
def test_table_7_s_claims_follow_the_figures(with_dp, without, slope, expected):
    report = defences.table_7(done(defences.table_7_trials(SMALL), by_epsilon(with_dp, without, slope)), SMALL)
    assert list(verdicts(report).values()) == expected
    assert report.claims[1].words == "without DP-SGD the secret is far more exposed: RMSProp"
    assert [row["training"] for row in report.rows] == [
        "rmsprop, ε = 0.65",
        "rmsprop, ε = 89",
        "rmsprop, ε = 2e+08",
        "sgd, clipped alone",
        "sgd, no DP",
        "rmsprop, no DP",
    ]
    assert [row["exposure, published"].value for row in report.rows] == [1.1, 2.1, 3.2, 3.6, 9.5, 31.0]
    assert [row.get("ε for all copies") for row in report.rows] == ["∞"] * 4 + [None] * 2


@pytest.mark.parametrize("scale", ["small", "paper"])
def test_table_7_says_that_its_losses_do_not_compare(scale):
    plan = StudyPlan(scale, trials=1)
    report = defences.table_7(done(defences.table_7_trials(plan), by_epsilon(1.0, 20.0, 0.0)), plan)
    assert any("unit of the published losses is not in the source" in each for each in report.differences)
    assert report.claims[2].holds is None


@pytest.mark.parametrize(
    ("exposure", "loss", "expected"),
    [(20.2, 2.01, [True, True]), (18.0, 2.01, [False, True]), (20.0, 2.1, [True, False])],
)
def test_quantization_s_claims_compare_256_values_with_the_model_before(exposure, loss, expected):
    models = [look(20.0), look(exposure, loss), look(5.0), look(1.0)]
    sizes = {str(levels): {"packed": levels, "zlib": levels, "stored": 4} for levels in (256, 16, 4)}
    trials = done(defences.undefended(SMALL), lambda _: {"models": models, "sizes": sizes})
    assert list(verdicts(defences.quantization(trials, SMALL)).values()) == expected


@pytest.mark.parametrize(
    ("place", "exposure", "loss", "expected"),
    [
        (50, 1.0, 2.02, [True, True, True]),
        (51, 20.0, 2.02, [False, False, True]),
        (1, 1.0, 2.2, [True, True, False]),
    ],
)
def test_sanitization_s_claims_ask_for_place_exposure_and_loss(place, exposure, loss, expected):
    def found(config: Config) -> dict[str, Any]:
        if config["defence"] == "none":
            return {"models": [look(20.0)], "sizes": {}}
        places = {"character": place, "sample": 300}
        return {"models": [look(exposure, loss)], "places": places, "samples": 1800, "drop": 50}

    report = defences.sanitization(done(defences.sanitization_trials(SMALL), found), SMALL)
    assert list(verdicts(report).values()) == expected


def test_studies_of_the_same_model_share_its_trials():
    shared = [config for config in defences.sanitization_trials(SMALL) if config["defence"] == "none"]
    assert shared == defences.undefended(SMALL)
