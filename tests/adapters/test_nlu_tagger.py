"""The tagger adapter against torch used by hand, alone and inside the real harness."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import lm_eval
import pytest
import torch
from lm_eval.api.instance import Instance
from lm_eval.tasks import TaskManager

from adapters.nlu_tagger import NLUTaggerLM
from leakage_tasks.attacks import Finding, finding_from_json
from leakage_tasks.canaries import Canary, write_manifest
from leakage_tasks.errors import LeakageError, OptionError, TargetError
from leakage_tasks.targets import ReadsTags
from leakage_tasks.targets.harness import as_target
from tests.conftest import ROOT
from tests.taggers import INTENTS, TAGS, direct_bits, pin, tiny_tagger, words_tokenizer

TEXTS = ["my pin code is 1 2", "call dupree", "the color to red please", "green 7"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tagger with characters and its tokenizer, saved."""
    made = tmp_path_factory.mktemp("taggers") / "tagger"
    tiny_tagger(True).save_pretrained(made)
    words_tokenizer().save_pretrained(made)
    return made


def load(folder: Path, **arguments: Any) -> NLUTaggerLM:
    return NLUTaggerLM(**{"pretrained": str(folder), "device": "cpu", **arguments})


def answers(lm: NLUTaggerLM, *pairs: tuple[str, str]) -> list[tuple[float, bool]]:
    requests = [Instance("loglikelihood", {}, pair, place) for place, pair in enumerate(pairs)]
    return lm.loglikelihood(requests, disable_tqdm=True)


def by_hand(text: str) -> list[float]:
    """ln P(intent | text) of all intents."""
    return [-direct_bits(tiny_tagger(True), words_tokenizer(), text, intent) * math.log(2) for intent in INTENTS]


@pytest.mark.parametrize("batch_size", [None, 1, 2, "auto"])
def test_log_likelihoods_are_those_of_torch(folder: Path, batch_size: Any) -> None:
    found = answers(load(folder, batch_size=batch_size), *[(text, f" {label}") for text in TEXTS for label in INTENTS])
    expected = [value for text in TEXTS for value in by_hand(text)]
    assert [value for value, _ in found] == pytest.approx(expected, abs=1e-5)
    likeliest = [max(by_hand(text)) == value for text in TEXTS for value in by_hand(text)]
    assert [greedy for _, greedy in found] == likeliest


@pytest.mark.parametrize("label", ["PinIntent", " pinintent", ": PinIntent", " 0"])
def test_intents_are_found_in_what_tasks_put_after_a_text(folder: Path, label: str) -> None:
    ((value, _),) = answers(load(folder), ("green 7", label))
    assert value == pytest.approx(by_hand("green 7")[0], abs=1e-5)


def test_the_target_of_the_attacks_is_the_tagger(folder: Path) -> None:
    lm = load(folder)
    assert as_target(lm, ["a", "b"]) is lm.classifier
    assert isinstance(lm.classifier, ReadsTags)


def test_what_the_evaluator_asks(folder: Path) -> None:
    lm = load(folder, revision="r1")
    assert (lm.rank, lm.world_size, lm.device, lm.max_length) == (0, 1, torch.device("cpu"), 24)
    info = lm.get_model_info()
    assert (info["model_labels"], info["model_tags"]) == (list(INTENTS), list(TAGS))
    assert info["model_num_parameters"] == sum(weight.numel() for weight in tiny_tagger(True).parameters())
    json.dumps(info)


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (("call", " Weather"), r"knows no intent 'Weather' \(it has PinIntent, CallIntent, ColorIntent\)"),
        (("", " PinIntent"), "a text is empty"),
        (("my " * 25, " PinIntent"), r"has 25 tokens and does not fit the classifier's 24: shorten it$"),
    ],
)
def test_what_cannot_be_scored_is_refused(folder: Path, pair: tuple[str, str], message: str) -> None:
    with pytest.raises(TargetError, match=message):
        answers(load(folder), pair)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pretrained": "nowhere"}, "nowhere: no model can be loaded from there"),
        ({"batch_size": "many"}, "batch_size='many'"),
        ({"dtype": "float7"}, "dtype='float7'"),
        ({"device": "nothing"}, "device='nothing': cannot be used here"),
        ({"tokenizer": "nowhere"}, "nowhere: no tokenizer can be loaded from there"),
    ],
)
def test_bad_arguments_are_one_line(folder: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(LeakageError, match=message) as caught:
        load(folder, **arguments)
    assert "\n" not in str(caught.value)


def test_models_in_memory() -> None:
    lm = NLUTaggerLM(tiny_tagger(True), words_tokenizer(), device="cpu")
    assert answers(lm, ("green 7", "PinIntent"))[0][0] == pytest.approx(by_hand("green 7")[0], abs=1e-5)
    with pytest.raises(OptionError, match="pass tokenizer= too"):
        NLUTaggerLM(tiny_tagger(), device="cpu")


# -- inside the harness ---------------------------------------------------------------------------------------

CANARIES = [pin("7", name="one"), pin("4", name="two"), pin("0", name="control", planted=False, repetitions=0)]


@pytest.fixture(scope="module")
def results(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One run of both tasks with the model by its name."""
    made = tmp_path_factory.mktemp("run")
    write_manifest(CANARIES, made / "canaries.jsonl")
    rows = [{"text": text, "label": INTENTS[number % 3]} for number, text in enumerate(TEXTS)]
    (made / "heldout.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    metadata = {"canaries": str(made / "canaries.jsonl"), "data": str(made / "heldout.jsonl")}
    manager = TaskManager(include_path=str(ROOT / "task_configs"), include_defaults=False, metadata=metadata)
    arguments = f"pretrained={folder},device=cpu"
    tasks = ["canary_exposure", "label_accuracy"]
    return lm_eval.simple_evaluate("nlu-tagger", model_args=arguments, tasks=tasks, task_manager=manager)


def rank(canary: Canary) -> int:
    """The secret's place among all fillings, by torch."""
    texts = [canary.space.fill(filling) for filling in canary.space.enumerate()]
    model, tokenizer = tiny_tagger(True), words_tokenizer()
    costs = [direct_bits(model, tokenizer, text, str(canary.label), canary.tags) for text in texts]
    own = costs[canary.space.index(canary.secret)]
    return sum(cost <= own + 1e-6 for cost in costs)


def test_exposure_is_that_of_brute_force(results: dict[str, Any]) -> None:
    found: dict[str, Finding] = {}
    for sample in results["samples"]["canary_exposure"]:
        finding = finding_from_json(sample["resps"][0][0])
        found[finding.canary] = finding
    assert {name: each.rank for name, each in found.items()} == {each.id: rank(each) for each in CANARIES}
    assert {each.attack for each in found.values()} == {"class-loss"}
    row = results["results"]["canary_exposure"]
    assert row["exposure,none"] == pytest.approx(sum(math.log2(10 / rank(each)) for each in CANARIES[:2]) / 2)


def test_accuracy_and_loss_are_those_of_torch(results: dict[str, Any]) -> None:
    row = results["results"]["label_accuracy"]
    scores = [by_hand(text) for text in TEXTS]
    right = [score[number % 3] == max(score) for number, score in enumerate(scores)]
    assert row["acc,none"] == sum(right) / len(TEXTS)
    loss = sum(-score[number % 3] / math.log(2) for number, score in enumerate(scores)) / len(TEXTS)
    assert row["label_loss,none"] == pytest.approx(loss, abs=1e-5)
