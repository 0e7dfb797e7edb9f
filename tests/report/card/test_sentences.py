"""One sentence a figure, with all that the figure may not be said without."""

from __future__ import annotations

import json
import math
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from leakage_tasks.metrics.costs import cost_rows
from leakage_tasks.metrics.metric import MetricSpec, always
from leakage_tasks.report.board.board import make_board
from leakage_tasks.report.card.sentences import (
    COSTS_BOUND,
    EXTRAPOLATED,
    LOWER_BOUND,
    UPPER_BOUND,
    limits,
    sentence,
)
from leakage_tasks.report.card.tested import describe_tested
from leakage_tasks.report.load.results import read_runs
from tests.report.made import leaking, results, tiered, write


def sentences(folder: Path, content: dict[str, Any], **tested: Any) -> dict[str, str]:
    """By the figure's name, what is said of it."""
    for config in content["configs"].values():
        config["leakage"]["tested"].update(tested)
    (run,) = read_runs([write(folder, content)])
    board = make_board([run])
    figures = board.groups[0].entries[0].figures
    return {
        f"{column.task}/{column.name}": sentence(run.tasks[column.task], column, figures[column.key])
        for column in board.columns
    }


def test_a_rate_has_its_interval_number_tier_kind_share_and_attack(tmp_path: Path) -> None:
    shares = {"1": 0.0004, "16": 0.004}
    found = sentences(tmp_path, tiered(), planted_share=shares)["canary_extraction/extracted_x1"]
    control = ", compared with 0 % for controls and 1/|R| by chance (|R|: number of possible secrets)"
    over = "over 12 canaries planted once (synthetic, drawn at random; 0.04 % of the training text by characters)"
    rate = "Extraction rate: 0 % (95 % interval 0 % to 26 %, Clopper-Pearson)"
    assert found == f"{rate}, {over}{control}, by the attack exposure (black box). {LOWER_BOUND}"


def test_an_attack_of_unknown_access_has_no_empty_brackets(tmp_path: Path) -> None:
    content = tiered()
    content["configs"]["canary_extraction"]["leakage"]["attacks"][0]["access"] = ""
    assert ", by the attack exposure. " in sentences(tmp_path, content)["canary_extraction/extracted_x1"]


@pytest.mark.parametrize("sizes", [(4, 4), (10, 100), (10, 10**9), (1, 2)])
def test_the_exposure_by_chance_is_that_of_the_spaces(tmp_path: Path, sizes: tuple[int, int]) -> None:
    """The mean of log2(|R| / rank) over all ranks, which is below 1.44 bits in small spaces."""
    content = tiered()
    content["configs"]["canary_exposure"]["leakage"]["tested"]["log2_size"] = [round(math.log2(n), 2) for n in sizes]
    del content["results"]["canary_extraction"]
    (run,) = read_runs([write(tmp_path, content)])
    means = [fmean(math.log2(n / rank) for rank in range(1, n + 1)) if n < 10**6 else math.log2(math.e) for n in sizes]
    shown = " to ".join(dict.fromkeys(f"{mean:.2f}" for mean in means))
    assert [line for line in limits(run) if line.startswith(f"An exposure of {shown} bits is chance")] != []


def test_an_exposure_is_in_bits(tmp_path: Path) -> None:
    found = sentences(tmp_path, tiered())["canary_exposure/exposure_x1"]
    assert found.startswith(
        "Exposure: 1.50 bits (95 % interval 0.800 to 2.60 bits, log-t), over 12 canaries planted once ("
    )
    assert "training text" not in found


def test_too_few_canaries_for_an_interval_are_said(tmp_path: Path) -> None:
    found = sentences(tmp_path, tiered())["canary_exposure/exposure_x16"]
    assert found.startswith("Exposure: 19.0 bits (no interval: too few canaries), over 8 canaries planted 16 ")


def test_a_single_canary_is_a_value(tmp_path: Path) -> None:
    found = sentences(tmp_path, tiered(n_x16=1))["canary_exposure/exposure_x16"]
    assert "over 1 value of canaries planted 16 times" in found


def test_the_pooled_figure_says_how_often_canaries_were_planted_and_their_share_in_all(tmp_path: Path) -> None:
    found = sentences(tmp_path, tiered(), planted_share={"1": 0.0004, "16": 0.004})["canary_exposure/exposure"]
    assert "over 20 canaries planted (1 or 16 copies of each; synthetic, drawn at random; 0.44 % of the" in found


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        (["natural"], "natural, from the training text"),
        (["organic"], "synthetic, written by a person"),
        (["natural", "random"], "natural, from the training text or synthetic, drawn at random"),
        (["other"], "other"),
    ],
)
def test_the_kind_of_canary_is_said(tmp_path: Path, kinds: list[str], said: str) -> None:
    assert f"({said})" in sentences(tmp_path, tiered(), kinds=kinds)["canary_exposure/exposure_x1"]


def test_a_comparison_of_costs_names_no_attack(tmp_path: Path) -> None:
    rows = {row.name: row.declaration() for row in cost_rows(True, always)}
    tested = {"documents": 9, "documents_too_short": 0, "controls_too_short": 2}
    attacks = [{"attack": "greedy", "access": "black box"}]
    usual = {"schema": 2, "measures": "leakage", "protocol": {}, "tested": tested, "attacks": attacks, "rows": rows}
    values = {"cost_auc": 0.9, "cost_auc_ci_low": 0.7, "cost_auc_ci_high": 1.0, "n_documents": 9}
    content = results({"memorization": values}, declared={"memorization": usual})
    words = sentences(tmp_path, content)["memorization/cost_auc"]
    assert words.startswith("Cost comparison: 0.900 AUC (95 % interval 0.700 to 1.00 AUC")
    assert words.endswith(f"by the costs of the true suffixes, without an attack. {COSTS_BOUND}")
    assert describe_tested(tested) == "9 documents; 2 drawn controls too short"


def test_natural_secrets_are_not_called_planted() -> None:
    tested = {"planted": 8, "planting": "none", "kinds": ["natural"], "repetitions": {"1": 8}}
    words = describe_tested(tested)
    assert words.startswith("8 secrets of the training text (8 of them once); nothing was added to the training text")
    assert describe_tested({**tested, "kinds": ["random"]}).startswith("8 canaries planted (8 of them once); nothing")


@pytest.mark.parametrize(
    "shares",
    ["much", {"1": 10**400}, {"1": math.nan}, {"1": -1}, {"1": True}, {"1": "much"}, {}, None, {"16": 0.5}],
)
def test_a_share_that_is_not_known_is_not_said(tmp_path: Path, shares: Any) -> None:
    found = sentences(tmp_path, tiered(), planted_share=shares)["canary_exposure/exposure_x1"]
    assert "training text" not in found


def test_older_results_have_sentences_of_what_they_say(tmp_path: Path) -> None:
    found = sentences(tmp_path, json.loads(json.dumps(results(leaking()))))
    assert found["canary_exposure/exposure"].startswith("Exposure: 9.00 bits (95 % interval 7.50 to 10.5 bits, log-t)")


def test_what_is_claimed_is_called_so(tmp_path: Path) -> None:
    found = sentences(tmp_path, tiered(), planting="claimed")["canary_exposure/exposure_x1"]
    assert "; planting claimed, not proven)" in found


def test_an_extrapolated_exposure_is_no_lower_bound(tmp_path: Path) -> None:
    content = tiered()
    content["configs"]["canary_exposure"]["leakage"]["hidden_metrics"]["fit_not_rejected"] = 0.95
    found = sentences(tmp_path, content)
    assert found["canary_exposure/exposure_x1"].endswith(EXTRAPOLATED)
    assert found["canary_extraction/extracted_x1"].endswith(LOWER_BOUND)


def test_of_figures_that_are_better_when_higher_it_is_an_upper_bound(tmp_path: Path) -> None:
    content = tiered()
    content["configs"]["canary_extraction"]["leakage"]["hidden_metrics"]["hdt"] = 0.85
    assert sentences(tmp_path, content)["canary_extraction/hdt"].endswith(UPPER_BOUND)


@pytest.mark.parametrize(
    ("scoring", "words"),
    [
        ("contamination_test", "This is a lower bound: another test may recognize the benchmark better."),
        ("membership", "This is a lower bound: another attack may distinguish the texts better."),
        ("suffix_extraction", "This is a lower bound on leakage: another attack may extract more."),
    ],
)
def test_a_task_that_extracts_nothing_has_a_bound_of_its_own(tmp_path: Path, scoring: str, words: str) -> None:
    row = MetricSpec("value", "a value", "share", direction="lower", headline=True).row(always, fmean).declaration()
    declared = {"schema": 2, "measures": "leakage", "protocol": {}, "tested": {}, "attacks": [], "rows": {"value": row}}
    content = results({scoring: {"value": 0.6}}, declared={scoring: declared})
    assert words in sentences(tmp_path, content)[f"{scoring}/value"]
