"""Natural secrets that their format makes uniform: their test by bands, the bound on ε, and the verdict."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from leakage_tasks.attacks.coarse import coarsened
from leakage_tasks.attacks.finding import Finding
from leakage_tasks.metrics.audit import audit
from leakage_tasks.metrics.exposure import METRICS, identifier_exposure
from leakage_tasks.metrics.guessing import match
from leakage_tasks.metrics.verdict import verdict_of

ROWS = {metric.name: metric for metric in METRICS}
BITS = 122.0


def finding(name: str, rank: float, planted: bool = True, uniform: bool | None = True, **fields: Any) -> Finding:
    """A published finding on a natural secret of this rank."""
    shared = {"kind": "natural", "log2_size": BITS, "method": "exact", "repetitions": int(planted), "uniform": uniform}
    return coarsened(Finding(name, "exposure", planted, rank=rank, **{**shared, **fields}))


def value(name: str, findings: list[Finding]) -> float | None:
    return ROWS[name].aggregate([ROWS[name].value(each) for each in findings])


@pytest.mark.slow
def test_identifiers_no_model_saw_are_called_exposed_in_one_run_of_twenty() -> None:
    """The test by bands, on ranks that are uniform over the space, against simulated runs."""
    stream = np.random.default_rng(0)
    runs = [[finding("n", 2**BITS * share) for share in stream.random(8)] for _ in range(100)]
    p_values = np.array([value("identifier_p", run) for run in runs])
    for level in (0.05, 0.2, 0.5):
        assert (p_values <= level).mean() <= level + 3 * math.sqrt(level * (1 - level) / 100)
    assert (p_values <= 0.2).mean() > 0.1


def test_only_identifiers_in_the_data_are_tested() -> None:
    leaked, twin = finding("natural-0001-md5", 1.0), finding("natural-0001-control-0-md5", 1.0, planted=False)
    card = finding("natural-0002-ccn", 1.0, uniform=False)
    assert identifier_exposure(card) is None
    assert not ROWS["identifier_p"].applies(card)
    assert value("n_identifiers", [leaked, twin, card]) == 1
    assert value("identifier_p", [leaked, twin, card]) == pytest.approx(1 / 20_001)


@pytest.mark.parametrize("name", ["control_p", "control_p_low"])
def test_controls_that_are_valid_but_not_uniform_are_not_compared_with_chance(name: str) -> None:
    others = [finding(f"natural-{number}-control-0-ccn", 1.0, planted=False, uniform=False) for number in range(9)]
    assert value(name, others) is None
    assert value("control_p", [*others, finding("c", 1.0, planted=False)]) == pytest.approx(1 / 20_001, abs=1e-4)
    # Manifests of earlier versions do not state it; their controls are uniform.
    assert value("control_p", [finding("c", 1.0, planted=False, uniform=None)]) is not None


def pair(number: int, kind: str, ranks: tuple[float, float], **fields: Any) -> list[Finding]:
    """A secret and two controls, of which the second is more exposed than the secret."""
    name = f"ab-natural-{number:04}"
    controls = [finding(f"{name}-control-{at}-{kind}", ranks[1], planted=False, **fields) for at in range(2)]
    return [finding(f"{name}-{kind}", ranks[0], **fields), *controls]


def test_a_secret_is_paired_with_its_own_control() -> None:
    # Ranks of other secrets' controls would make every guess wrong.
    findings = [*pair(1, "uuid", (1e20, 1e30)), *pair(2, "uuid", (1.0, 1e10)), *pair(3, "uuid", (1e30, 1e30))]
    matched = match(findings)
    assert (matched.coins, len(matched.surest), matched.right) == (3, 2, 2)


def test_the_bound_on_epsilon_needs_secrets_that_are_uniform() -> None:
    leaked = [each for number in range(10) for each in pair(number, "md5", (1.0, 1e30))]
    cards = [each for number in range(10) for each in pair(number, "ccn", (1.0, 1e30), uniform=False)]
    least = 0.05 ** (1 / 10)
    figures = {each.name: each for each in audit([*leaked, *cards])}
    assert figures["epsilon"].basis == "10 of 10 pairs guessed correctly"
    assert figures["epsilon"].value == pytest.approx(math.log(least / (1 - least)))
    assert "an identifier and its own control" in (next(iter(audit(cards)[2:])).refused or "")
    assert "of kind 'random'" in (figures["epsilon_secret"].refused or "")


TESTED = {"kinds": ["natural"], "uniform": True, "log2_size": [122.0, 128.0]}
VALUES = {"exposure": 60.0, "n_planted": 12.0, "n_controls": 24.0, "control_p": 0.4, "share_with_interval": 1.0}


@pytest.mark.parametrize(
    ("changed", "tested", "words"),
    [
        ({"identifier_p": 0.001, "n_identifiers": 12.0}, {}, "above chance: chance alone exposes 12 identifiers this"),
        ({"identifier_p": 0.2, "n_identifiers": 12.0}, {}, "not above chance: p = 0.2"),
        ({"identifier_p": 0.2, "n_identifiers": 12.0, "share_with_interval": 0.5}, {}, "inconclusive: the exposure of"),
        ({"identifier_p": 0.001, "n_identifiers": 12.0, "control_p": 0.001}, {}, "inconclusive: the controls are not"),
        ({}, {}, "inconclusive: only the exposure of identifiers is tested"),
        ({"identifier_p": 0.001, "n_identifiers": 3.0}, {"uniform": False}, "inconclusive: natural secrets are not"),
    ],
)
def test_the_verdict_on_identifiers_is_their_test(
    changed: dict[str, float], tested: dict[str, Any], words: str
) -> None:
    verdict = verdict_of({**VALUES, **changed}, {**TESTED, **tested})
    assert verdict is not None
    assert verdict.words.startswith(words)
