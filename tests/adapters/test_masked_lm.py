"""The masked-lm adapter against transformers used by hand, alone and inside the real harness, and what it refuses."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForMaskedLM, ElectraForPreTraining

from adapters.masked_lm import MaskedLM
from leakage_tasks.canaries import Canary, write_manifest
from leakage_tasks.core.errors import LeakageError, OptionError, TargetError
from leakage_tasks.harness.run import evaluate as evaluate_tasks
from leakage_tasks.research.victims.masked_lm import pretrain_masked_lm
from leakage_tasks.targets import MaskedTarget
from leakage_tasks.targets.harness.target import as_target
from leakage_tasks.training.masked_lm import MaskedRecipe
from tests.encoders import (
    CONFIGS,
    WORDS,
    continuation_nats,
    digits_wordpiece,
    pseudo_bits,
    requests,
    save_base,
    save_classifier,
    wordpiece,
)
from tests.oracles import merging, tiny_gpt2


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_base(tmp_path_factory.mktemp("masked") / "base")


def load(folder: Path, **arguments: Any) -> MaskedLM:
    return MaskedLM(**{"pretrained": str(folder), "device": "cpu", **arguments})


# -- answers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [None, 1, 2, "auto"])
def test_loglikelihood_is_the_pseudo_log_likelihood_of_the_continuation(base: Path, batch_size: Any) -> None:
    pairs = [("the pin", " is seven."), ("", "the river"), ("the house of money is", " green"), ("of", " zzz ab")]
    found = load(base, batch_size=batch_size).loglikelihood(requests("loglikelihood", *pairs), disable_tqdm=True)
    model, tokenizer = AutoModelForMaskedLM.from_pretrained(base).eval(), wordpiece()
    expected = [continuation_nats(model, tokenizer, *pair) for pair in pairs]
    assert found == [(pytest.approx(nats, abs=1e-4), greedy) for nats, greedy in expected]


def test_a_whole_text_costs_the_same_as_in_the_attacks(base: Path) -> None:
    lm = load(base)
    ((value, _),) = lm.loglikelihood(requests("loglikelihood", ("", "the pin is seven.")), disable_tqdm=True)
    assert -value / math.log(2) == pytest.approx(float(as_target(lm).log_perplexity(["the pin is seven."])[0]))


def test_the_target_of_the_attacks_is_the_masked_model(base: Path) -> None:
    assert isinstance(as_target(load(base), ["a", "b"]), MaskedTarget)


def test_what_the_evaluator_asks(base: Path) -> None:
    lm = load(base, max_length=24)
    assert (lm.max_length, lm.rank, lm.world_size) == (24, 0, 1)
    assert lm.get_model_info()["model_num_parameters"] == lm.masked.model.num_parameters()
    assert "/" not in lm.tokenizer_name


# -- what it refuses ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda lm: lm.generate_until(requests("generate_until", ("the", {}))),
            "does not generate text, it fills masks",
        ),
        (
            lambda lm: lm.loglikelihood_rolling(requests("loglikelihood_rolling", ("the",))),
            "has no probability for running text.*leave out heldout_bits_per_byte",
        ),
        (lambda lm: lm.apply_chat_template([]), "has no chat template"),
        (
            lambda lm: lm.loglikelihood(requests("loglikelihood", ("the " * 60, "pin"))),
            "a text of 63 tokens does not fit the model's maximum of 40",
        ),
    ],
)
def test_what_it_cannot_do_is_declined_in_one_line(base: Path, ask: Any, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        ask(load(base))


def classifier(folder: Path) -> None:
    save_classifier(folder, save_base(folder.parent / "base"))


def discriminator(folder: Path) -> None:
    ElectraForPreTraining(CONFIGS["electra"]).save_pretrained(folder)
    wordpiece().save_pretrained(folder)


def causal(folder: Path) -> None:
    tiny_gpt2(merging()).save_pretrained(folder)
    merging().save_pretrained(folder)


def maskless(folder: Path) -> None:
    save_base(folder, tokenizer=merging())


def small(folder: Path) -> None:
    save_base(folder)
    tokenizer = wordpiece().__class__.from_pretrained(folder)
    tokenizer.add_tokens([f"more{n}" for n in range(40)])
    tokenizer.save_pretrained(folder)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (classifier, "no trained masked-language head.*classifier-scorer"),
        (discriminator, "no trained masked-language head.*for ELECTRA the generator"),
        (causal, "a gpt2 model, for which transformers has no masked language model: use --model hf"),
        (maskless, "the tokenizer has no mask token: set its mask_token"),
        (small, "the tokenizer has 119 tokens, but the model has 96"),
        (lambda folder: None, "no model can be loaded from there"),
    ],
)
def test_models_that_cannot_be_scored_are_refused_in_one_line(tmp_path: Path, make: Any, message: str) -> None:
    make(tmp_path / "model")
    with pytest.raises(TargetError, match=message):
        load(tmp_path / "model")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_length": 41}, "max_length=41: expected a number of tokens up to the model's 40"),
        ({"batch_size": "many"}, "batch_size='many': expected a number"),
        ({"max_batch_size": 0}, "max_batch_size=0"),
        ({"dtype": "float31"}, "dtype='float31'"),
    ],
)
def test_arguments_are_checked(base: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        load(base, **arguments)


def test_a_model_in_memory_needs_its_tokenizer(base: Path) -> None:
    model = AutoModelForMaskedLM.from_pretrained(base)
    with pytest.raises(OptionError, match="comes without its tokenizer"):
        load(base, pretrained=model)
    assert load(base, pretrained=model, tokenizer=wordpiece()).masked.model is model


# -- the tasks ----------------------------------------------------------------------------------------------

SECRETS = {"planted-0": ("4", "7"), "planted-1": ("0", "9")}
CONTROLS = {"control-0": ("1", "3"), "control-1": ("7", "2"), "control-2": ("6", "6")}


def manifest(folder: Path) -> list[Canary]:
    made = [
        Canary(name, f"the pin of {WORDS[n]} is {{digits:2}}.", secret, planted=name in SECRETS, repetitions=20)
        if name in SECRETS
        else Canary(name, f"the pin of {WORDS[n]} is {{digits:2}}.", secret, planted=False, repetitions=0)
        for n, (name, secret) in enumerate({**SECRETS, **CONTROLS}.items())
    ]
    write_manifest(made, folder / "canaries.jsonl")
    return made


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``canaries.jsonl`` and a tiny BERT that met the planted ones, in ``mine``."""
    folder = tmp_path_factory.mktemp("trained")
    texts = [f"the {one} of {other} is {17 * n % 100:02d}." for n, one in enumerate(WORDS) for other in WORDS[::4]]
    texts += [one.space.fill(one.secret) for one in manifest(folder) if one.planted] * 30
    how = MaskedRecipe(epochs=40, learning_rate=5e-3, device="cpu", max_length=24)
    made = pretrain_masked_lm(texts, digits_wordpiece(), how, hidden=32)
    made.model.save_pretrained(folder / "mine")
    digits_wordpiece().save_pretrained(folder / "mine")
    return folder


def evaluate(folder: Path, *tasks: str, **metadata: Any) -> dict[str, Any]:
    metadata = {"canaries": str(folder / "canaries.jsonl"), "rows": "all", **metadata}
    return evaluate_tasks(load(folder / "mine"), tasks, metadata)


@pytest.mark.slow
def test_a_planted_secret_shows_and_controls_are_at_chance(trained: Path) -> None:
    results = evaluate(trained, "canary_exposure", "canary_extraction")["results"]
    exposure, extraction = results["canary_exposure"], results["canary_extraction"]
    assert exposure["exposure,none"] > 5
    assert exposure["control_exposure,none"] < 3
    assert exposure["control_p,none"] > 0.01
    assert extraction["success_at_10,none"] == 1
    assert extraction["control_extracted,none"] == 0
    model = AutoModelForMaskedLM.from_pretrained(trained / "mine").eval()
    texts = [one.space.fill(one.secret) for one in manifest(trained) if one.planted]
    expected = sum(pseudo_bits(model, digits_wordpiece(), text) for text in texts) / len(texts)
    assert exposure["pseudo_log_perplexity,none"] == pytest.approx(expected, abs=1e-3)
    assert "log_perplexity,none" not in exposure


def test_memorized_secrets_take_few_rows(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, canary, rows = load(trained / "mine").masked, manifest(trained)[0], 0
    read = target._read

    def counting(ids: torch.Tensor, *more: torch.Tensor) -> torch.Tensor:
        nonlocal rows
        rows += len(ids)
        return read(ids, *more)

    monkeypatch.setattr(target, "_read", counting)
    texts = [canary.space.fill(filling) for filling in canary.space.enumerate()]
    own = float(target.log_perplexity([canary.space.fill(canary.secret)])[0])
    rows = 0
    target.log_perplexity_up_to(texts, own, 10)
    # Eight tokens a text: 20 rows for the two digits, shared, and 100 for each of the others if all texts are read on.
    assert 20 < rows < 0.7 * (20 + 6 * 100)


def test_a_space_beyond_the_budget_is_null_in_the_group_and_an_error_by_itself(trained: Path) -> None:
    with pytest.raises(LeakageError, match="has 100 fillings, more than budget=60"):
        evaluate(trained, "canary_extraction", budget=60)
    results = evaluate(trained, "leakage", budget=60)["results"]
    assert results["canary_extraction"]["control_extracted,none"] is None
    assert results["canary_exposure"]["exposure,none"] > 3
