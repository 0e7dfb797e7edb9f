"""Limitations of Ethicist as studies: random prefixes, and prompts carried over to other models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from leakage_tasks.core.errors import LeakageError
from leakage_tasks.research.ethicist import limits
from leakage_tasks.research.ethicist.limit_trials import (
    TRANSFERRED,
    family,
    prefix_trials,
    random_pairs,
    run,
    transfer_trials,
    ways,
)
from leakage_tasks.research.ethicist.prompt_transfer import transfer_prompt, with_prompt
from leakage_tasks.research.ethicist.victims import suffixes_of
from leakage_tasks.research.framework.registry import Config, StudyPlan, StudyTrial
from leakage_tasks.research.victims.pair_lm import SMOKE as RECIPE
from tests.research.stored import verdicts

SMALL, SMOKE = StudyPlan("small"), StudyPlan("smoke")
PAIRS = 200


def trial(config: Config, share: float) -> StudyTrial:
    """A trial with this share of its pairs right, the first ones, and of these guesses it is surest."""
    right = [int(n < share * PAIRS) for n in range(PAIRS)]
    columns = {"right": right, "confidence": [-n for n in range(PAIRS)], "bits": [1.0] * PAIRS}
    found = {"views": {"none": {"calibrated": columns}}, "p_z_bits": [1.0] * PAIRS, "bits": [8.0] * PAIRS}
    return StudyTrial(config, found, 1.0)


def random_report(benchmark: float, random: float) -> Any:
    shares = {"benchmark": benchmark, "random": random}
    return limits.random_prefixes([trial(each, shares[each["prefixes"]]) for each in prefix_trials(SMALL)], SMALL)


@pytest.mark.parametrize(("shares", "verdict"), [((0.5, 0.1), True), ((0.1, 0.5), False), ((0.3, 0.3), None)])
def test_a_fall_is_told_by_its_interval(shares: tuple[float, float], verdict: bool | None) -> None:
    assert verdicts(random_report(*shares))["recall is higher on the benchmark: Ethicist"] is verdict


def test_the_fall_has_the_interval_of_two_groups_of_pairs() -> None:
    """Wald's: the benchmark's pairs and the random ones are others, so that their variances add up."""
    row = random_report(0.5, 0.1).rows[2]
    assert row["prefixes"] == "fall"
    reach = 1.96 * np.sqrt(0.5 * 0.5 / PAIRS + 0.1 * 0.9 / PAIRS)
    found = row["recall"]
    assert found.value == pytest.approx(0.4)
    assert (found.low, found.high) == (pytest.approx(0.4 - reach, abs=0.01), pytest.approx(0.4 + reach, abs=0.01))


def test_random_pairs_are_as_many_and_as_long_as_the_benchmarks_and_none_of_them() -> None:
    config = prefix_trials(SMOKE)[0]
    found, corpus = random_pairs(config), RECIPE.corpus(0)
    assert len(found) == config["test"]
    assert {(len(pair.prefix), len(pair.suffix)) for pair in found} == {(12, 8)}
    assert not {pair.prefix for pair in found} & {tuple(row) for row in corpus.prefixes.tolist()}


def test_random_pairs_of_a_public_model_are_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LEAKAGE_DATA", str(tmp_path))
    with pytest.raises(LeakageError, match="random_pairs: no such folder: save prefixes and suffixes from random"):
        random_pairs(prefix_trials(StudyPlan("paper"))[0])


def test_a_prompt_goes_over_as_it_is_between_models_of_one_width_alone() -> None:
    victims = family(SMALL)
    assert list(victims) == ["3 × 128", "2 × 128", "3 × 192"]
    source, twin, main = victims.values()
    assert ways(source, twin)[2:] == TRANSFERRED
    assert "as it is" not in ways(source, main)
    assert list(family(StudyPlan("paper"))) == ["125M", "1.3B", "2.7B", "6B"]


def test_prompts_carried_over_share_the_sources_tuning() -> None:
    configs = [each for each in transfer_trials(SMALL) if each["way"] == "linear map"]
    assert {each["source"]["recipe"]["hidden"] for each in configs} == {128}
    assert len({str(each["tuning"]) for each in configs}) == 1


@pytest.mark.parametrize(("carried", "verdict"), [(0.5, True), (0.2, False), (0.3, None)])
def test_what_is_carried_over_is_set_against_no_prompt(carried: float, verdict: bool | None) -> None:
    shares = {"no prompt": 0.3, "its own prompt": 0.6}
    trials = [trial(each, shares.get(each["way"], carried)) for each in transfer_trials(SMALL)]
    report = limits.transfer(trials, SMALL)
    found = verdicts(report)
    assert found["3 × 192: a transferred prompt (linear map) lifts recall"] is verdict
    assert found["3 × 192: its own prompt has more recall than a transferred one (linear map)"] is True
    row = next(row for row in report.rows if (row["model"], row["prompt"]) == ("3 × 192", "linear map"))
    assert row["recall gained"].value == pytest.approx(carried - 0.3)


def test_the_linear_map_is_the_one_of_least_squares() -> None:
    """Where a map gives one table of the other, it gives the prompt; else its error is at right angles to the table."""
    stream = torch.Generator().manual_seed(0)
    source, mapped = torch.randn(50, 6, generator=stream), torch.randn(6, 9, generator=stream)
    prompt = torch.randn(4, 6, generator=stream)
    assert torch.allclose(transfer_prompt(prompt, source, source @ mapped, "linear map"), prompt @ mapped, atol=1e-4)
    target = torch.randn(50, 9, generator=stream)
    found = transfer_prompt(torch.eye(6), source, target, "linear map")
    assert (source.T @ (source @ found - target)).abs().max() < 1e-3


def test_nearest_tokens_are_those_of_highest_cosine() -> None:
    source, target = torch.tensor([[1.0, 0.0], [0.0, 5.0], [-1.0, -1.0]]), torch.arange(9.0).reshape(3, 3)
    prompt = torch.tensor([[0.1, 0.2], [-3.0, -2.0], [9.0, 3.0]])
    assert transfer_prompt(prompt, source, target, "nearest tokens").tolist() == target[[1, 2, 0]].tolist()


def test_tables_of_unequal_length_share_their_first_tokens() -> None:
    source, target = torch.eye(3), torch.cat([2 * torch.eye(3), torch.full((2, 3), 9.0)])
    assert torch.allclose(transfer_prompt(torch.ones(1, 3), source, target, "linear map"), torch.full((1, 3), 2.0))


def test_another_way_is_refused() -> None:
    with pytest.raises(ValueError, match="not a way to transfer"):
        transfer_prompt(torch.ones(1, 2), torch.eye(2), torch.eye(2), "by hand")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shared")


@pytest.mark.slow
def test_a_model_behind_a_prompt_costs_what_it_does_after_the_prompts_vectors(shared: Path) -> None:
    """The oracle: transformers given the vectors as embeddings; a prompt of tokens is those tokens read first."""
    from leakage_tasks.targets.suffix.decoding_config import DecodingConfig

    config = transfer_trials(SMOKE)[0]
    target = suffixes_of(config["victim"], config["data"], shared)
    table = target.sampler.target.model.get_input_embeddings().weight.detach()
    tokens, prefix, suffix = [3, 4, 5], [6, 7], [8, 9, 10]
    ids = torch.tensor([[*tokens, *prefix, *suffix]])
    logits = target.sampler.target.model(input_ids=ids).logits[0, -4:-1].double()
    expected = -logits.log_softmax(-1)[range(3), suffix] / np.log(2)
    (found,) = with_prompt(target, table[tokens]).score([prefix], [suffix], DecodingConfig())
    assert found.own == pytest.approx(expected.detach().numpy(), abs=1e-3)


def test_a_models_own_prompt_carried_over_as_it_is_is_its_own(shared: Path) -> None:
    own = next(each for each in transfer_trials(SMOKE) if each["way"] == "its own prompt")
    carried = {**own, "way": "as it is", "source": own["victim"]}
    assert run(carried, shared) == run(own, shared)
