"""The tagger adapter against torch used by hand, alone and inside the real harness."""

from __future__ import annotations

import json
import math
from functools import lru_cache
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
import torch

from adapters.nlu_tagger import NLUTaggerLM
from leakage_tasks.attacks import Finding, finding_from_json
from leakage_tasks.canaries import Canary, write_manifest
from leakage_tasks.core.errors import LeakageError, OptionError, TargetError
from leakage_tasks.harness.generation import request
from leakage_tasks.harness.run import evaluate as evaluate_tasks
from leakage_tasks.models import loading
from leakage_tasks.targets import ReadsTags
from leakage_tasks.targets.harness.target import as_target
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
    requests = [request("loglikelihood", {}, pair, place) for place, pair in enumerate(pairs)]
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


@pytest.mark.parametrize(("asked", "expected"), [("auto", 4), (8, 4), (3, 3)])
def test_a_batch_holds_no_more_than_the_largest_allowed(folder: Path, asked: Any, expected: int) -> None:
    assert load(folder, batch_size=asked, max_batch_size=4).classifier.batch(24) == expected
    assert load(folder, max_batch_size=1 << 20).classifier.batch(24) == load(folder).classifier.batch(24)


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


def test_labels_it_does_not_know_count_as_wrong_in_files_of_labels(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lm, texts = load(folder), [("call 7", " Weather"), ("call 7", " PinIntent"), ("green 7", " Weather")]
    requests = [request("classify", {}, pair, 0) for pair in texts]
    found = lm.classify(requests)
    assert (found[0], found[2]) == ((-math.inf, False), (-math.inf, False))
    ((alone, right),) = lm.classify(requests[1:2])
    assert found[1] == (pytest.approx(alone, abs=1e-5), right)
    (told,) = [each.getMessage() for each in caplog.records if "does not know" in each.getMessage()]
    assert told.startswith(
        "2 of 3 texts have a label that the model does not know, such as 'Weather': they count as wrong"
    )
    with pytest.raises(TargetError, match="knows no intent 'Weather'"):
        lm.classify([requests[0], requests[2]])


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
        ({"max_batch_size": "abc"}, "max_batch_size='abc': expected int"),
        ({"max_batch_size": 0}, "max_batch_size=0 must be 1 or more"),
        ({"dtype": "float7"}, "dtype='float7'"),
        ({"device": "nothing"}, "device='nothing': cannot be used here"),
        ({"tokenizer": "nowhere"}, "nowhere: no tokenizer can be loaded from there"),
    ],
)
def test_bad_arguments_are_one_line(folder: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(LeakageError, match=message):
        load(folder, **arguments)


def test_models_in_memory() -> None:
    lm = NLUTaggerLM(tiny_tagger(True), words_tokenizer(), device="cpu")
    assert answers(lm, ("green 7", "PinIntent"))[0][0] == pytest.approx(by_hand("green 7")[0], abs=1e-5)
    with pytest.raises(OptionError, match="pass tokenizer= too"):
        NLUTaggerLM(tiny_tagger(), device="cpu")


def test_a_device_without_double_precision_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "WITHOUT_DOUBLE", {"cpu"})
    with pytest.raises(OptionError, match="double precision, in which a tagger computes: use --device cpu or cuda"):
        load(folder)


# -- inside the harness ---------------------------------------------------------------------------------------

CANARIES = [pin("6", name="one"), pin("2", "4", name="two"), pin("0", name="control", planted=False, repetitions=0)]


@pytest.fixture(scope="module")
def results(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One run of all tasks with the model by its name."""
    made = tmp_path_factory.mktemp("run")
    write_manifest(CANARIES, made / "canaries.jsonl")
    rows = [{"text": text, "label": INTENTS[number % 3]} for number, text in enumerate(TEXTS)]
    (made / "heldout.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = {"canaries": str(made / "canaries.jsonl"), "data": str(made / "heldout.jsonl")}
    metadata = {**files, "steps": 5, "restarts": 2, "rows": "all"}
    arguments = f"pretrained={folder},device=cpu"
    tasks = ["canary_exposure", "canary_extraction", "label_accuracy"]
    return evaluate_tasks("nlu-tagger", tasks, metadata, model_args=arguments)


@lru_cache
def bits(canary: str) -> dict[tuple[str, ...], float]:
    """What every filling of a canary costs, by torch."""
    one = next(each for each in CANARIES if each.id == canary)
    model, tokenizer = tiny_tagger(True), words_tokenizer()
    return {
        filling: direct_bits(model, tokenizer, one.space.fill(filling), str(one.label), one.tags)
        for filling in one.space.enumerate()
    }


def rank(canary: Canary) -> int:
    """The secret's place among all fillings."""
    costs = bits(canary.id)
    return sum(cost <= costs[canary.secret] + 1e-6 for cost in costs.values())


def findings(results: dict[str, Any], task: str) -> dict[str, Finding]:
    answered = [finding_from_json(sample["resps"][0][0]) for sample in results["samples"][task]]
    return {finding.canary: finding for finding in answered}


def test_exposure_is_that_of_brute_force(results: dict[str, Any]) -> None:
    found = findings(results, "canary_exposure")
    assert {name: each.rank for name, each in found.items()} == {each.id: rank(each) for each in CANARIES}
    assert {each.attack for each in found.values()} == {"class-loss"}
    row = results["results"]["canary_exposure"]
    assert row["exposure,none"] == pytest.approx(mean(math.log2(each.space.size / rank(each)) for each in CANARIES[:2]))


def test_extraction_by_gradient_is_that_of_brute_force(results: dict[str, Any]) -> None:
    found, row = findings(results, "canary_extraction"), results["results"]["canary_extraction"]
    assert {each.attack for each in found.values()} == {"inversion"}
    best = {each.id: min(bits(each.id), key=bits(each.id).__getitem__) for each in CANARIES}
    assert {name: each.guesses[0].filling for name, each in found.items()} == best
    before = {name: filling_of(each.extra["unfinished_loss"], name) for name, each in found.items()}
    assert before["one"] != best["one"]
    for suffix, answers in (("", best), ("_unfinished", before)):
        wrong = [wrong_share(answers[each.id], each.secret) for each in CANARIES[:2]]
        assert row[f"extracted{suffix},none"] == wrong.count(0) / 2
        assert row[f"hdt{suffix},none"] == mean(wrong)
    assert row["extracted,none"] == 0.5
    assert row["overlooked,none"] == 0


def filling_of(cost: float, canary: str) -> tuple[str, ...]:
    """The filling that costs so many bits."""
    (found,) = (filling for filling, own in bits(canary).items() if own == pytest.approx(cost, abs=1e-4))
    return found


def wrong_share(filling: tuple[str, ...], secret: tuple[str, ...]) -> float:
    return mean(float(left != right) for left, right in zip(filling, secret, strict=True))


def test_accuracy_and_loss_are_those_of_torch(results: dict[str, Any]) -> None:
    row = results["results"]["label_accuracy"]
    scores = [by_hand(text) for text in TEXTS]
    right = [score[number % 3] == max(score) for number, score in enumerate(scores)]
    assert row["acc,none"] == sum(right) / len(TEXTS)
    loss = sum(-score[number % 3] / math.log(2) for number, score in enumerate(scores)) / len(TEXTS)
    assert row["label_loss,none"] == pytest.approx(loss, abs=1e-5)
