"""Figures 6 and 7 of Ethicist: which cases are shown, what is claimed of them, and that nobody's text is."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakage_tasks.research.ethicist import cases
from leakage_tasks.research.ethicist.case_trials import case_trials, run
from leakage_tasks.research.framework.registry import StudyPlan, StudyTrial
from tests.research.stored import verdicts

SMALL = StudyPlan("small")
PAIRS = 50


def suffix(place: int, count: int, nats: float, least: float, marks: str = "11") -> dict[str, Any]:
    chances = [0.9, least]
    return {"place": place, "count": count, "nats": nats, "confidence": 0.5, "marks": marks, "chances": chances}


def case(number: int, draws: tuple[int, int], nats: tuple[float, float], least: tuple[float, float]) -> dict[str, Any]:
    """A pair whose right suffix comes first where it is drawn more often; tuples are of the right, then the wrong."""
    first = draws[0] > draws[1]
    right = suffix(1 if first else 2, draws[0], nats[0], least[0])
    wrong = suffix(2 if first else 1, draws[1], nats[1], least[1], "10")
    return {"pair": 100 + number, "number": number, "right": right, "wrong": wrong}


def trial(seed: int, found: list[dict[str, Any]], right: tuple[int, int] = (20, 20)) -> StudyTrial:
    """A trial with these cases; ``right`` guesses by calibrated confidence and by loss, of 50."""
    columns = [{"right": [int(n < hits) for n in range(PAIRS)]} for hits in right]
    views = {"none": dict(zip(("calibrated", "perplexity"), columns, strict=True))}
    config = case_trials(StudyPlan("small", seed, 1))[0]
    return StudyTrial(config, {"views": views, "cases": found, "p_z_bits": [1.0] * PAIRS}, 1.0)


MISLEADING = case(3, (74, 10), (0.2, 0.1), (0.45, 0.1))
"""The paper's: the right suffix costs more, and is drawn more often."""
PLAIN = case(5, (99, 1), (0.1, 0.2), (0.8, 0.3))
"""Both say the same."""


def test_the_case_shown_is_the_papers_kind_with_most_draws_between() -> None:
    other = case(4, (60, 30), (0.3, 0.1), (0.4, 0.2))
    assert cases.shown_case(trial(0, [PLAIN, other, MISLEADING])) == MISLEADING


def test_without_such_a_case_one_that_is_chosen_is_shown() -> None:
    chosen_wrongly = case(6, (1, 90), (0.3, 0.2), (0.1, 0.9))
    assert cases.shown_case(trial(0, [chosen_wrongly, PLAIN])) == PLAIN
    assert cases.shown_case(trial(0, [chosen_wrongly])) is None


def test_figure_6_has_both_suffixes_side_by_side() -> None:
    report = cases.figure_6([trial(0, [MISLEADING]), trial(1, [])], SMALL)
    right, wrong, none = report.rows[2:]
    assert [row["drawn"].value for row in report.rows[:2]] == [74, None]  # type: ignore[union-attr]
    assert (right["suffix"], right["drawn"], right["tokens"]) == ("right", 74, "==")
    assert (wrong["suffix"], wrong["drawn"], wrong["tokens"]) == ("wrong", 10, "=x")
    assert none["suffix"] == "no such case"


def test_a_text_that_is_shown_stays_on_its_line() -> None:
    shown = {**MISLEADING, "prefix": "who\nis", "right": {**MISLEADING["right"], "text": "a\tb\x1b"}}
    report = cases.figure_6([trial(0, [{**shown, "wrong": {**MISLEADING["wrong"], "text": "c"}}])], SMALL)
    assert [(row["prefix"], row["text"]) for row in report.rows[2:]] == [
        (r"'who\nis'", r"'a\tb\x1b'"),
        (r"'who\nis'", "'c'"),
    ]
    assert "text" not in cases.figure_6([trial(0, [MISLEADING])], SMALL).columns


@pytest.mark.parametrize(
    ("found", "verdict"), [([[MISLEADING]] * 3, True), ([[PLAIN]] * 3, False), ([[MISLEADING], [PLAIN]], None)]
)
def test_the_papers_case_has_to_occur_in_every_seed(found: list[list[Any]], verdict: bool | None) -> None:
    report = cases.figure_6([trial(seed, own) for seed, own in enumerate(found)], SMALL)
    assert list(verdicts(report).values())[0] is verdict


@pytest.mark.parametrize(("right", "verdict"), [((30, 15), True), ((15, 30), False), ((20, 20), None)])
def test_confidence_is_set_against_loss(right: tuple[int, int], verdict: bool | None) -> None:
    report = cases.figure_6([trial(seed, [MISLEADING], right) for seed in range(3)], SMALL)
    assert list(verdicts(report).values())[1] is verdict


def test_figure_7_compares_the_lowest_probabilities() -> None:
    found = [case(n, (74, 10), (0.2, 0.1), (0.4 + n / 100, 0.1 + n / 200)) for n in range(20)]
    report = cases.figure_7([trial(seed, found) for seed in range(3)], SMALL)
    assert list(verdicts(report).values()) == [True, True]
    lowest, first, second = report.rows
    assert (lowest["position"], first["position"], second["position"]) == ("lowest", 1, 2)
    assert lowest["right"].value == pytest.approx(np.mean([0.4 + n / 100 for n in range(20)]))  # type: ignore[union-attr]
    assert first["wrong"].value == pytest.approx(0.9)  # type: ignore[union-attr]
    assert second["right, one case"] == pytest.approx(0.4)


def test_figure_7_tells_the_other_way_round_and_cases_of_the_papers_kind_apart() -> None:
    """Where loss and draws agree the right one's lowest is higher here, where they do not it is lower."""
    found = [case(n, (99, 1), (0.1, 0.2), (0.9, 0.1)) for n in range(20)]
    found += [case(20 + n, (74, 10), (0.2, 0.1), (0.2, 0.4)) for n in range(10)]
    assert list(verdicts(cases.figure_7([trial(seed, found) for seed in range(3)], SMALL)).values()) == [True, False]


@pytest.mark.parametrize(("pairs", "verdict"), [(4, None), (5, True)])
def test_few_pairs_bear_no_verdict(pairs: int, verdict: bool | None) -> None:
    """Whatever the seeds: drawn anew, a single case would have an interval of no width."""
    found = [case(n, (74, 10), (0.2, 0.1), (0.5, 0.1)) for n in range(pairs)]
    assert list(verdicts(cases.figure_7([trial(seed, found) for seed in range(3)], SMALL)).values()) == [
        verdict,
        verdict,
    ]


def test_without_a_case_nothing_is_told() -> None:
    trials = [trial(seed, []) for seed in range(3)]
    assert list(verdicts(cases.figure_7(trials, SMALL)).values()) == [None, None]


@pytest.mark.parametrize("draw", [cases.plot_6, cases.plot_7])
@pytest.mark.parametrize("found", [[MISLEADING], []])
def test_pictures_are_written_whole(tmp_path: Path, draw: Any, found: list[Any]) -> None:
    report = (cases.figure_6 if draw is cases.plot_6 else cases.figure_7)([trial(0, found)], SMALL)
    draw(report, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_texts_of_people_are_asked_for() -> None:
    """They are no part of what a trial depends on unless they are to be shown."""
    plain, shown = (case_trials(StudyPlan("small", 0, 1, reveal))[0] for reveal in (False, True))
    assert plain == {name: value for name, value in shown.items() if name != "reveal"}
    assert shown["reveal"] is True


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="module")
def config() -> dict[str, Any]:
    """A lab of seconds, with more draws than usual so that counts can be held against probabilities."""
    return {**case_trials(StudyPlan("smoke"))[0], "samples": 200}


@pytest.fixture(scope="module")
def found(config: dict[str, Any], shared: Path) -> dict[str, Any]:
    return run(config, shared)


@pytest.mark.slow
def test_counts_of_draws_are_those_that_the_token_probabilities_give(found: dict[str, Any]) -> None:
    """The oracle: a suffix is drawn with the product of its tokens' probabilities."""
    sides = [case[side] for case in found["cases"] for side in ("right", "wrong")]
    assert sides
    for side in sides:
        chance = math.prod(side["chances"])
        reach = 5 * math.sqrt(200 * chance * (1 - chance)) + 1
        assert abs(side["count"] - 200 * chance) <= reach


def test_marks_and_loss_are_those_of_the_suffix(config: dict[str, Any], found: dict[str, Any], shared: Path) -> None:
    """The oracle: the model of transformers asked for the text that was told."""
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from leakage_tasks.research.ethicist.victims import pairs_of, tuned_prompt

    pairs = {pair.id: pair for pair in pairs_of(config, shared).test}
    lab = next(shared.glob(f"lab-*x{config['victim']['recipe']['hidden']}-*"))
    base = AutoModelForCausalLM.from_pretrained(lab / "model")
    prompt = tuned_prompt(config, pairs_of(config, shared), shared)
    model, tokenizer = PeftModel.from_pretrained(base, str(prompt)).eval(), AutoTokenizer.from_pretrained(lab / "model")
    for case in found["cases"][:3]:
        pair = pairs[case["pair"]]
        assert case["right"]["marks"] == "1" * len(pair.suffix)
        assert "0" in case["wrong"]["marks"]
        assert case["right"]["text"] == tokenizer.decode(pair.suffix, clean_up_tokenization_spaces=False)
        ids = torch.tensor([[*pair.prefix, *pair.suffix]])
        logits = model(input_ids=ids).logits[:, -len(pair.suffix) - 1 : -1]
        loss = torch.nn.functional.cross_entropy(logits[0], ids[0, -len(pair.suffix) :])
        assert case["right"]["nats"] == pytest.approx(float(loss.detach()), abs=1e-4)


def test_text_that_people_wrote_is_in_no_result(
    config: dict[str, Any], found: dict[str, Any], shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from leakage_tasks.research.ethicist import case_trials as module

    monkeypatch.setattr(module, "natural", lambda config: True)
    hidden = run(config, shared)
    assert "text" not in json.dumps(hidden)
    assert "prefix" not in json.dumps(hidden)
    assert run({**config, "reveal": True}, shared) == found
