"""Training a translation model: it learns, repeats, saves a folder the harness takes, and translates."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, configuration_utils

from leakage_tasks.canaries import Canary, write_manifest
from leakage_tasks.core.errors import OptionError
from leakage_tasks.harness.run import evaluate as evaluate_tasks
from leakage_tasks.research.victims.translation import (
    TranslationRecipe,
    exact_share,
    train_translator,
    translate,
)
from leakage_tasks.targets import Seq2SeqTarget
from leakage_tasks.training.fitting import TrainedLM

SECRET = Canary("canary-0", "the pin is {digits:2}.", ("4", "7"), source="la pin")
PAIRS = [(f"uno {word}", f"one {word}.") for word in "abcdefgh"] + [("la pin", SECRET.text)] * 4
RECIPE = TranslationRecipe(
    layers=1, hidden=32, heads=2, positions=16, dropout=0.0, epochs=40, batch_size=4, learning_rate=3e-3
)


@pytest.fixture(scope="module")
def trained() -> TrainedLM:
    """A model that knows its dozen pairs by heart."""
    return train_translator(PAIRS, RECIPE, validation=PAIRS[:2])


def test_it_learns_its_pairs_by_heart(trained: TrainedLM) -> None:
    assert trained.losses[-1].training < 0.2 < 2 < trained.losses[0].training
    assert translate(trained.model, trained.tokenizer, ["la pin", "uno c"], batch_size=1) == [SECRET.text, "one c."]
    assert exact_share(trained.model, trained.tokenizer, [PAIRS[0], ("uno b", "else")]) == 0.5
    assert Seq2SeqTarget(trained.model, trained.tokenizer).given(SECRET).log_perplexity([SECRET.text])[0] < 1


def test_losses_are_bits_a_target_token_with_the_end(trained: TrainedLM) -> None:
    nats = tokens = 0.0
    for source, target in PAIRS[:2]:
        labels = trained.tokenizer(target, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            loss = trained.model(**trained.tokenizer(source, return_tensors="pt"), labels=labels).loss
        nats, tokens = nats + float(loss) * labels.shape[1], tokens + labels.shape[1]
    assert trained.losses[-1].validation == pytest.approx(nats / tokens / math.log(2), rel=1e-4)


def test_the_same_arguments_give_the_same_model_and_leave_the_random_state_alone() -> None:
    before = torch.random.get_rng_state()
    few = TranslationRecipe(layers=1, hidden=16, heads=2, positions=16, epochs=2, batch_size=4)
    one, two, other = (train_translator(PAIRS, few, seed=seed) for seed in (0, 0, 1))
    weights = [torch.cat([each.flatten() for each in done.model.parameters()]) for done in (one, two, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert torch.equal(torch.random.get_rng_state(), before)
    assert not one.model.training
    assert one.losses[-1].validation is None


def test_its_configuration_warns_of_no_token_outside_the_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(configuration_utils.logger, "warning_once", lambda message, *more: warnings.append(message))
    train_translator(PAIRS, TranslationRecipe(layers=1, hidden=16, heads=2, positions=16, epochs=1))
    assert warnings == []


def test_the_usual_recipe_has_half_a_million_to_a_million_parameters() -> None:
    words = [(f"a{chr(97 + n % 26)}{chr(97 + n // 26)}", "b") for n in range(600)]
    done = train_translator(words, TranslationRecipe(epochs=1, batch_size=600))
    assert 500_000 < sum(parameter.numel() for parameter in done.model.parameters()) < 1_000_000


def test_the_harness_takes_the_folder(trained: TrainedLM, tmp_path: Path) -> None:
    folder, manifest = tmp_path / "model", tmp_path / "canaries.jsonl"
    trained.save(folder)
    write_manifest([SECRET], manifest)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert translate(AutoModelForSeq2SeqLM.from_pretrained(folder), tokenizer, ["la pin"]) == [SECRET.text]
    given = {"canaries": str(manifest), "rows": "all"}
    model = {"model_args": {"pretrained": str(folder), "backend": "seq2seq"}, "device": "cpu", "batch_size": 8}
    results = evaluate_tasks("hf", ["canary_exposure", "canary_extraction"], given, **model)["results"]
    assert results["canary_exposure"]["exposure,none"] == pytest.approx(math.log2(100))
    assert results["canary_extraction"]["extracted,none"] == 1


@pytest.mark.parametrize(
    ("pairs", "recipe", "message"),
    [
        ([], RECIPE, "pairs is 0"),
        ([("a " * 20, "b")], RECIPE, "positions is 16: the longest sentence has 22 tokens"),
        (PAIRS, TranslationRecipe(epochs=0), "epochs is 0"),
        (PAIRS, TranslationRecipe(layers=0), "layers is 0"),
        (PAIRS, TranslationRecipe(hidden=0), "hidden is 0"),
        (PAIRS, TranslationRecipe(heads=0), "heads is 0"),
        (PAIRS, TranslationRecipe(heads=3), "heads is 3: use a divisor of hidden, which is 128"),
    ],
)
def test_what_cannot_be_learnt_is_refused(pairs: list, recipe: TranslationRecipe, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        train_translator(pairs, recipe)
