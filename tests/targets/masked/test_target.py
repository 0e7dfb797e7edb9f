"""Pseudo-log-perplexity of many texts at once against `transformers` used by hand, one mask at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM, ConvBertConfig, FNetConfig, PerceiverConfig

from leakage_tasks.attacks import run_attack
from leakage_tasks.attacks.access import MASKS
from leakage_tasks.canaries import Canary
from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets import FillsMasks, MaskedTarget, ScoresSequences, ScoresUpTo
from tests.encoders import CONFIGS, SHAPE, digits_wordpiece, pseudo_bits, pseudo_bits_of, save_base

KINDS = ("bert", "roberta", "distilbert", "modernbert", "electra", "albert", "deberta-v2")
MERGED = tuple(str(number) for number in range(10, 40))
"""Numbers of one token, where others take two: texts of one space then differ in length."""
TEMPLATE = "the pin is {digits:2}."


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a random model of each kind."""
    folder = tmp_path_factory.mktemp(request.param)
    return save_base(folder, CONFIGS[request.param], digits_wordpiece(MERGED))


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return model_in(save_base(tmp_path_factory.mktemp("bert"), CONFIGS["bert"], digits_wordpiece(MERGED)))


def model_in(folder: Path) -> Any:
    return AutoModelForMaskedLM.from_pretrained(folder).eval()


def fillings(template: str = TEMPLATE) -> list[str]:
    space = Canary("c", template, ("0",) * 2).attack_space
    return [space.fill(filling) for filling in space.enumerate()]


class Counting:
    """Counts the rows a model reads."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.rows = 0
        self.hook = model.register_forward_pre_hook(self.count, with_kwargs=True)

    def count(self, module: Any, arguments: Any, named: dict[str, Any]) -> None:
        self.rows += len(named["input_ids"])

    def __enter__(self) -> Counting:
        return self

    def __exit__(self, *error: Any) -> None:
        self.hook.remove()


# -- costs --------------------------------------------------------------------------------------------------


def test_a_text_costs_what_its_tokens_do_one_mask_at_a_time(kind: Path) -> None:
    model, texts = model_in(kind), [*fillings()[9:14:2], "the river", "7", "of seven 1234 , green horse of the house ."]
    found = MaskedTarget(model, digits_wordpiece(MERGED)).log_perplexity(texts)
    assert found == pytest.approx([pseudo_bits(model, digits_wordpiece(MERGED), text) for text in texts], abs=1e-3)


@pytest.mark.parametrize("config", [FNetConfig, ConvBertConfig])
def test_models_that_read_padding_are_not_given_any(config: Any) -> None:
    torch.manual_seed(0)
    model = AutoModelForMaskedLM.from_config(
        config(**{**SHAPE, "num_attention_heads": 4, "initializer_range": 0.2})
    ).eval()
    texts = ["the pin is 12 .", "the pin is 3 of 4 .", "7", "the river of green horse is 99 : the end"]
    found = MaskedTarget(model, digits_wordpiece()).log_perplexity(texts)
    assert found == pytest.approx([pseudo_bits(model, digits_wordpiece(), text) for text in texts], abs=1e-3)


def test_a_model_with_logits_for_all_positions_it_could_read_is_read_at_the_mask() -> None:
    torch.manual_seed(0)
    size = {"num_latents": 4, "d_latents": 32, "d_model": 32, "num_self_attends_per_block": 1, "num_blocks": 1}
    heads = {"num_self_attention_heads": 2, "num_cross_attention_heads": 2, "qk_channels": 32, "v_channels": 32}
    config = PerceiverConfig(**size, **heads, max_position_embeddings=32, vocab_size=100, initializer_range=0.5)
    model, texts = AutoModelForMaskedLM.from_config(config).eval(), ["the pin is 12 .", "7", "the pin is 3 of 4 ."]
    found = MaskedTarget(model, digits_wordpiece()).log_perplexity(texts)
    assert found == pytest.approx([pseudo_bits(model, digits_wordpiece(), text) for text in texts], abs=1e-3)


@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_batch_size_and_company_change_nothing(bert: Any, batch_size: int) -> None:
    texts = fillings()
    whole = MaskedTarget(bert, digits_wordpiece(MERGED)).log_perplexity(texts)
    found = MaskedTarget(bert, digits_wordpiece(MERGED), batch_size=batch_size).log_perplexity(texts[::-1])
    assert found[::-1] == pytest.approx(whole, abs=1e-3)
    alone = MaskedTarget(bert, digits_wordpiece(MERGED), batch_size=batch_size).log_perplexity(texts[7:8])
    assert alone[0] == pytest.approx(whole[7], abs=1e-3)


def test_texts_that_differ_under_the_mask_alone_share_a_row(bert: Any) -> None:
    target, texts = MaskedTarget(bert, digits_wordpiece()), fillings("the pin is {digits:1} of {digits:1} .")
    with Counting(bert) as counted:
        target.log_perplexity(texts)
    # Five tokens that are the same in all, two whose mask hides which of ten it is.
    assert len(texts) == 100
    assert counted.rows == 5 * 100 + 2 * 10


def test_an_empty_batch_has_no_costs(bert: Any) -> None:
    assert MaskedTarget(bert, digits_wordpiece()).log_perplexity([]).shape == (0,)


# -- costs up to a limit ------------------------------------------------------------------------------------


@pytest.mark.parametrize("cheapest", [0, 4])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.6])
def test_up_to_a_limit_costs_are_exact_and_above_it_too_low_at_most(bert: Any, share: float, cheapest: int) -> None:
    target, texts = MaskedTarget(bert, digits_wordpiece(MERGED)), fillings()
    whole = target.log_perplexity(texts)
    most = float(np.quantile(whole, share)) - 1e-9
    found = target.log_perplexity_up_to(texts, most, cheapest)
    kept = (whole <= most) | (whole <= np.sort(whole)[cheapest - 1] if cheapest else False)
    assert found[kept] == pytest.approx(whole[kept], abs=1e-3)
    assert (found[~kept] > max([most, *whole[kept]])).all()
    assert (found <= whole + 1e-3).all()


# -- attacks ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def known_costs(kind: Path) -> dict[str, float]:
    """The costs of all fillings of TEMPLATE, by `transformers` alone."""
    return costs(model_in(kind), Canary("c", TEMPLATE, ("0", "0")))


def costs(model: Any, canary: Canary) -> dict[str, float]:
    """What each filling costs, by `transformers` alone."""
    texts = [canary.attack_space.fill(filling) for filling in canary.attack_space.enumerate()]
    return dict(zip(texts, pseudo_bits_of(model, digits_wordpiece(MERGED), texts), strict=True))


def rank_among(costs: dict[str, float], canary: Canary) -> int:
    own = costs[canary.attack_space.fill(canary.secret)]
    return sum(cost <= own + 1e-4 for cost in costs.values())


def test_it_offers_scores_and_nothing_more(bert: Any) -> None:
    target = MaskedTarget(bert, digits_wordpiece())
    assert all(isinstance(target, each) for each in (ScoresSequences, ScoresUpTo, FillsMasks))
    canary = Canary("c", "the pin is {digits:3}.", ("1", "2", "3"))
    with pytest.raises(
        TargetError, match="attack=beam needs a model that can extend.*use attack=brute-force for small spaces"
    ):
        run_attack("beam", target, [canary], goal="extraction")


@pytest.mark.parametrize("secret", [("4", "7"), ("1", "2")])
def test_ranks_and_guesses_are_those_of_brute_force(
    kind: Path, known_costs: dict[str, float], secret: tuple[str, ...]
) -> None:
    canary, expected = Canary("c", TEMPLATE, secret), known_costs
    target = MaskedTarget(model_in(kind), digits_wordpiece(MERGED))
    (exposed,) = run_attack("auto", target, [canary])
    (extracted,) = run_attack("auto", target, [canary], goal="extraction")
    assert (exposed.attack, exposed.method, exposed.rank) == ("exposure", "exact", rank_among(expected, canary))
    assert (extracted.attack, extracted.rank, extracted.proven) == ("brute-force", exposed.rank, 10)
    assert [guess.score for guess in extracted.guesses] == pytest.approx(sorted(expected.values())[:10], abs=1e-3)
    assert [expected[guess.text] for guess in extracted.guesses] == pytest.approx(
        sorted(expected.values())[:10], abs=1e-3
    )
    assert exposed.log_perplexity == pytest.approx(expected[canary.attack_space.fill(secret)], abs=1e-3)
    assert exposed.model_calls == extracted.model_calls == 100
    assert exposed.access == extracted.access == MASKS


def test_a_sample_holds_the_rank_where_the_budget_is_small(bert: Any) -> None:
    canary = Canary("c", "pin {digits:3}", ("3", "0", "9"))
    target = MaskedTarget(bert, digits_wordpiece())
    (exact,) = run_attack("auto", target, [canary])
    (found,) = run_attack("auto", target, [canary], budget=400)
    assert found.method == "sampled"
    assert found.rank_low <= exact.rank <= found.rank_high


# -- what it refuses ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["the " * 60], "a text of 62 tokens does not fit the model's maximum of 40: shorten it"),
        (["the [MASK] is 1"], r"holds the model's mask token, '\[MASK\]': remove it"),
        (["pin é", "pin ü"], "two of the texts equal tokens, so they cannot be distinguished"),
    ],
)
def test_texts_that_cannot_be_scored_are_refused(bert: Any, texts: list[str], message: str) -> None:
    with pytest.raises(TargetError, match=message):
        MaskedTarget(bert, digits_wordpiece()).log_perplexity(texts)


def test_a_space_too_large_to_enumerate_is_refused_in_one_line(bert: Any) -> None:
    canary = Canary("c", "pin {digits:5}", tuple("12345"))
    with pytest.raises(TargetError, match=r"'c' has 100000 fillings, more than budget=20000.*attack=brute-force"):
        run_attack("auto", MaskedTarget(bert, digits_wordpiece()), [canary], goal="extraction")
