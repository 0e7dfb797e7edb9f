"""The classifier adapter against transformers used by hand, and the models, labels and texts it refuses."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from lm_eval.api.model import CachingLM
from safetensors.torch import load_file, save_file
from tokenizers import normalizers
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    DebertaConfig,
    DebertaForSequenceClassification,
    DebertaV2Config,
    DebertaV2ForSequenceClassification,
    GPT2Config,
    GPT2ForSequenceClassification,
    ModernBertConfig,
    ModernBertForSequenceClassification,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForSequenceClassification,
)

from adapters.classifier_scorer import ClassifierScorerLM
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.models import register
from leakage_tasks.targets.harness.target import as_target
from tests.encoders import requests, wordpiece_of
from tests.oracles import merging
from tests.taggers import tiny_tagger, words_tokenizer

LABELS = ["animal", "plant", "rock"]
_VOCABULARY = "a the cat dog tree moss granite basalt sleeps grows lies is old ##s ."
WORDS = _VOCABULARY.split()
ROOM = 32
TEXTS = [
    "the cat sleeps .",
    "a tree grows",
    "granite",
    "the old dogs sleeps a granite tree is old moss grows .",
    "the moss is old . the moss is old . basalt lies",
    "cat",
]


def wordpiece() -> PreTrainedTokenizerFast:
    return wordpiece_of(WORDS, normalizers.BertNormalizer(), eos_token="[SEP]", model_max_length=ROOM)


SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
ROOMY = {**SMALL, "max_position_embeddings": ROOM}
KINDS: dict[str, tuple[type[PreTrainedModel], type[PreTrainedConfig], dict[str, Any]]] = {
    "bert": (BertForSequenceClassification, BertConfig, ROOMY),
    "roberta": (RobertaForSequenceClassification, RobertaConfig, {**SMALL, "max_position_embeddings": ROOM + 1}),
    "deberta": (DebertaForSequenceClassification, DebertaConfig, ROOMY),
    "deberta-v2": (DebertaV2ForSequenceClassification, DebertaV2Config, {**ROOMY, "relative_attention": True}),
    "modernbert": (
        ModernBertForSequenceClassification,
        ModernBertConfig,
        {**ROOMY, "cls_token_id": 2, "sep_token_id": 3},
    ),
    "gpt2": (
        GPT2ForSequenceClassification,
        GPT2Config,
        {"n_positions": 2 * ROOM, "n_embd": 32, "n_layer": 2, "n_head": 2},
    ),
}
NAMES = {"id2label": dict(enumerate(LABELS)), "label2id": {name: place for place, name in enumerate(LABELS)}}


def build(kind: str, folder: Path, **changes: Any) -> Path:
    """Save a small random classifier and its tokenizer, with outputs far from uniform."""
    tokenizer = merging() if kind == "gpt2" else wordpiece()
    ends = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    common = {"vocab_size": len(tokenizer), **NAMES, **ends, "pad_token_id": tokenizer.pad_token_id, **changes}
    torch.manual_seed(7)
    model_class, config_class, sizes = KINDS[kind]
    model = model_class(config_class(**sizes, **common))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.25)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    top = tmp_path_factory.mktemp("classifiers")
    return {kind: build(kind, top / kind) for kind in KINDS}


@pytest.fixture(scope="module")
def bert(folders: dict[str, Path]) -> Path:
    return folders["bert"]


def load(folder: Path, **arguments: Any) -> ClassifierScorerLM:
    return ClassifierScorerLM(**{"pretrained": str(folder), "device": "cpu", "batch_size": 2, **arguments})


def answers(lm: ClassifierScorerLM, *pairs: tuple[str, str]) -> list[tuple[float, bool]]:
    return lm.loglikelihood(requests("loglikelihood", *pairs), disable_tqdm=True)


def near(expected: list[tuple[float, bool]]) -> list[Any]:
    return [pytest.approx(answer, abs=1e-5) for answer in expected]


def by_hand(folder: Path, text: str) -> torch.Tensor:
    """Log-probabilities of the labels for one unpadded text, by transformers alone."""
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        logits = model(**AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")).logits
    return logits[0].double().log_softmax(-1)


@pytest.mark.parametrize("kind", KINDS)
def test_log_likelihoods_are_those_of_transformers(folders: dict[str, Path], kind: str) -> None:
    pairs = [(text, f" {label}") for text in TEXTS for label in LABELS]
    found = answers(load(folders[kind]), *pairs)
    expected = torch.stack([by_hand(folders[kind], text) for text in TEXTS])
    assert [value for value, _ in found] == pytest.approx(expected.flatten().tolist(), abs=1e-5)
    best = torch.nn.functional.one_hot(expected.argmax(-1), len(LABELS)).flatten().bool().tolist()
    assert [greedy for _, greedy in found] == best
    assert expected.std(0).min() > 0.01  # the texts differ, or nothing is tested


@pytest.mark.parametrize("kind", KINDS)
def test_the_batch_size_changes_no_number(folders: dict[str, Path], kind: str) -> None:
    pairs = [(text, " rock") for text in TEXTS]
    alone, together, chosen = (
        [value for value, _ in answers(load(folders[kind], batch_size=size), *pairs)] for size in (1, 64, "auto")
    )
    assert alone == pytest.approx(together, abs=1e-5)
    assert alone == pytest.approx(chosen, abs=1e-5)


def test_half_precision_is_the_users_choice(bert: Path) -> None:
    lm = load(bert, dtype="bfloat16")
    assert {parameter.dtype for parameter in lm.classifier.model.parameters()} == {torch.bfloat16}
    pairs = [("cat", f" {label}") for label in LABELS]
    assert sum(math.exp(value) for value, _ in answers(lm, *pairs)) == pytest.approx(1, abs=1e-9)


def test_a_text_is_read_once_for_all_its_labels(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lm = load(bert)
    seen: list[Any] = []
    scored = lm.classifier.label_costs
    monkeypatch.setattr(lm.classifier, "label_costs", lambda rows: seen.extend(map(tuple, rows)) or scored(rows))
    answers(lm, *[(text, label) for label in LABELS for text in TEXTS])
    assert len(seen) == len(set(seen)) == len(TEXTS)
    assert sorted(map(len, seen), reverse=True) == [len(row) for row in seen]


def test_most_rows_of_an_automatic_batch(bert: Path) -> None:
    lm = load(bert, batch_size="auto", max_batch_size=3)
    assert lm.classifier.batch(ROOM) == 3
    assert load(bert, batch_size="auto:4").classifier.batch(ROOM) > 3
    assert load(bert, batch_size=8, max_batch_size=3).classifier.batch(ROOM) == 3


def test_the_target_of_the_attacks_is_the_classifier(bert: Path) -> None:
    lm = load(bert)
    assert as_target(lm, ["a", "b"]) is lm.classifier
    assert lm.classifier.labels == tuple(LABELS)


def test_what_the_evaluator_asks(bert: Path) -> None:
    lm = load(bert)
    assert (lm.rank, lm.world_size, lm.device, lm.max_length) == (0, 1, torch.device("cpu"), ROOM)
    assert "/" not in lm.tokenizer_name
    info = lm.get_model_info()
    assert info["model_num_parameters"] == sum(p.numel() for p in lm.classifier.model.parameters())
    assert info["model_labels"] == LABELS
    json.dumps(info)


def test_the_harness_cache_is_filled_and_read(bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lm = load(bert)
    cached = CachingLM(lm, str(tmp_path / "cache.db"))
    first = cached.loglikelihood(requests("loglikelihood", ("cat", " rock")))
    monkeypatch.setattr(lm, "_label_costs", lambda *_: pytest.fail("asked again"))
    assert cached.loglikelihood(requests("loglikelihood", ("cat", " rock"))) == first


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
@pytest.mark.parametrize(("name", "value"), [("device", "cpu"), ("batch_size", 4)])
def test_an_option_that_the_command_passes_itself_is_refused_in_one_line(bert: Path, name: str, value: Any) -> None:
    passed = {"batch_size": 1, "max_batch_size": None, "device": "cuda:0"}
    message = f"--model_args {name}={value}: lm_eval passes {name} itself: give --{name} {value} in its place"
    with pytest.raises(OptionError, match=re.escape(message)):
        ClassifierScorerLM.create_from_arg_obj({"pretrained": str(bert), name: value}, passed)
    made = ClassifierScorerLM.create_from_arg_obj({"pretrained": str(bert), "max_batch_size": 8}, passed)
    assert isinstance(made, ClassifierScorerLM)


def test_the_command_lines_default_device_is_the_cpu_where_there_is_no_gpu(bert: Path) -> None:
    assert load(bert, device="cuda:0").device == load(bert, device=None).device == torch.device("cpu")


# -- labels ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [["x", "y", "z"], {"0": "x", "2": "z", "1": "y"}, {"z": 2, "x": 0, "y": 1}],
    ids=["list", "number to name", "name to number"],
)
def test_label_files(bert: Path, tmp_path: Path, content: Any) -> None:
    (tmp_path / "labels.json").write_text(json.dumps(content))
    lm = load(bert, labels=str(tmp_path / "labels.json"))
    assert lm.classifier.labels == ("x", "y", "z")
    assert answers(lm, ("cat", " y")) == answers(load(bert), ("cat", " plant"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[", "labels.json: not JSON"),
        (b"\xff", "labels.json: not JSON in UTF-8 (byte 0 is not UTF-8): write the names in the order of"),
        (b"good\nbad\n", "labels.json: not JSON in UTF-8 (Expecting value at line 1, column 1): write the names"),
        (
            b'["good", "bad"',
            "the text breaks off at line 1, column 15): write the names in the order of the classes as a",
        ),
        (b'"abc"', "holds no label names"),
        (b"[1, 2, 3]", "holds no label names"),
        (b'["a", "b"]', "names 2 labels, the model has 3 classes"),
        (b'["a", "b", "a"]', "the name 'a' is empty or repeated"),
        (b'["a", "b", " "]', "the name '' is empty or repeated"),
        (b'{"0": "a", "1": "b", "3": "c"}', "the class numbers are not 0 to 2"),
        (b'{"a": 0, "b": 0, "c": 1}', "the class numbers are not 0 to 2"),
        (b'{"a": "0", "b": "1", "c": "2"}', "expected class numbers on one side"),
    ],
)
def test_bad_label_files_are_one_line(bert: Path, tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "labels.json").write_bytes(content)
    with pytest.raises(OptionError, match=re.escape(message)):
        load(bert, labels=str(tmp_path / "labels.json"))


def test_a_missing_label_file_is_named(bert: Path) -> None:
    with pytest.raises(OptionError, match=r"labels=nowhere\.json: cannot be read"):
        load(bert, labels="nowhere.json")


def test_an_unknown_label_names_the_known_ones(bert: Path) -> None:
    with pytest.raises(TargetError, match="no label 'fungus' .it has animal, plant, rock"):
        answers(load(bert), ("cat", ": fungus"))


# -- texts ----------------------------------------------------------------------------------------------------


def test_a_text_too_long_is_refused_with_both_lengths(bert: Path) -> None:
    with pytest.raises(
        TargetError, match="distinct text 2 has 42 tokens and does not fit the classifier's 32: .* truncate=True"
    ):
        answers(load(bert), ("cat", " rock"), ("cat " * 40, " rock"))


@pytest.mark.parametrize("kind", ["bert", "roberta", "gpt2"])
def test_truncation_keeps_the_beginning(folders: dict[str, Path], kind: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folders[kind])
    room = 2 * ROOM if kind == "gpt2" else ROOM
    ids = tokenizer("granite " * 40, truncation=True, max_length=room)["input_ids"]
    model = AutoModelForSequenceClassification.from_pretrained(folders[kind]).eval()
    with torch.no_grad():
        expected = model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
    pairs = [("granite " * 40, label) for label in LABELS]
    found = answers(load(folders[kind], truncate=True), *pairs)
    assert len(ids) == room
    assert [value for value, _ in found] == pytest.approx(expected.tolist(), abs=1e-5)


def test_a_shorter_limit_of_the_users_own(bert: Path) -> None:
    lm = load(bert, max_length=4, truncate=True)
    assert answers(lm, ("cat dog tree moss", "rock")) == near(answers(load(bert), ("cat dog", "rock")))
    with pytest.raises(OptionError, match="max_length=33: expected a number of tokens up to the model's 32"):
        load(bert, max_length=33)


def test_an_empty_text_is_classified_or_refused(folders: dict[str, Path]) -> None:
    ((value, _),) = answers(load(folders["bert"]), ("", " rock"))
    assert value == pytest.approx(by_hand(folders["bert"], "")[2].item(), abs=1e-5)
    with pytest.raises(TargetError, match="a text is empty"):
        answers(load(folders["gpt2"]), ("", " rock"))


def test_a_classifier_writes_nothing(bert: Path) -> None:
    lm = load(bert)
    with pytest.raises(TargetError, match="computes probabilities of labels, not of texts"):
        lm.loglikelihood_rolling(requests("loglikelihood_rolling", ("cat",)))
    with pytest.raises(TargetError, match="does not generate text"):
        lm.generate_until([])
    with pytest.raises(TargetError, match="no chat template"):
        lm.apply_chat_template([])


# -- models ---------------------------------------------------------------------------------------------------


def refused(folder: Path, message: str, **arguments: Any) -> None:
    with pytest.raises((TargetError, OptionError), match=message):
        load(folder, **arguments)


def test_a_model_without_a_trained_head_is_refused(bert: Path, tmp_path: Path) -> None:
    config = BertConfig.from_pretrained(bert)
    BertForMaskedLM(config).save_pretrained(tmp_path)
    wordpiece().save_pretrained(tmp_path)
    refused(tmp_path, "no trained sequence classifier .* fine-tune it")


def test_half_a_head_is_refused(bert: Path, tmp_path: Path) -> None:
    build("bert", tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["classifier.bias"]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    refused(tmp_path, r"no trained sequence classifier \(classifier\.bias is not in its weights\)")


def test_other_heads_are_refused(tmp_path: Path) -> None:
    one = {"id2label": {0: "score"}, "label2id": {"score": 0}}
    refused(build("bert", tmp_path / "one", **one), "single output, a regression head")
    refused(build("bert", tmp_path / "numbers", problem_type="regression"), r"numbers, not classes \(regression\)")
    several = {"problem_type": "multi_label_classification"}
    refused(build("bert", tmp_path / "several", **several), "multi-label")


def test_an_architecture_without_a_classifier_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "vit"}))
    wordpiece().save_pretrained(tmp_path)
    refused(tmp_path, "a vit model, for which transformers has no sequence classifier")


def test_a_tagger_is_sent_to_its_own_model(tmp_path: Path) -> None:
    register()
    tiny_tagger().save_pretrained(tmp_path)
    words_tokenizer().save_pretrained(tmp_path)
    refused(tmp_path, "an NLU tagger, not a text classifier: use --model nlu-tagger$")


def test_unreadable_folders_are_refused(bert: Path, tmp_path: Path) -> None:
    refused(tmp_path / "nowhere", "nowhere: no model can be loaded from there")
    refused(tmp_path, "no model can be loaded from there")
    AutoModelForSequenceClassification.from_pretrained(bert).save_pretrained(tmp_path)
    refused(tmp_path, "no tokenizer can be loaded from there .* tokenizer=")
    assert load(tmp_path, tokenizer=str(bert)).classifier.labels == tuple(LABELS)
    (tmp_path / "model.safetensors").write_bytes(b"12345678 not a header")
    refused(tmp_path, "no model can be loaded from there", tokenizer=str(bert))


def test_a_pickle_that_is_more_than_weights_is_not_run(bert: Path, tmp_path: Path) -> None:
    import os
    import pickle

    build("bert", tmp_path)
    (tmp_path / "model.safetensors").unlink()

    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(tmp_path / "sprung"),)

    with (tmp_path / "pytorch_model.bin").open("wb") as file:
        pickle.dump({"classifier.bias": Trap()}, file, protocol=2)
    refused(tmp_path, "no model can be loaded from there")
    assert not (tmp_path / "sprung").exists()


def test_a_tokenizer_of_another_model_is_refused(folders: dict[str, Path]) -> None:
    refused(folders["bert"], "the tokenizer has 400 tokens, but the model has 20", tokenizer=str(folders["gpt2"]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"trunkate": True}, r"--model_args trunkate=…: no such option: use pretrained, .*; did you mean 'truncate'\?"),
        ({"truncate": "yes"}, "--model_args truncate='yes': expected bool"),
        ({"batch_size": "many"}, "batch_size='many': expected a number from 1, or auto"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"dtype": "float7"}, "dtype='float7'"),
        ({"device": "nothing"}, "device='nothing': cannot be used here"),
        ({"max_length": 0}, "max_length=0"),
    ],
)
def test_bad_arguments_are_one_line(bert: Path, arguments: dict[str, Any], message: str) -> None:
    refused(bert, message, **arguments)


def test_models_in_memory(bert: Path) -> None:
    model = AutoModelForSequenceClassification.from_pretrained(bert)
    lm = ClassifierScorerLM(model, AutoTokenizer.from_pretrained(bert), device="cpu")
    assert answers(lm, ("cat", "rock")) == near(answers(load(bert), ("cat", "rock")))
    with pytest.raises(OptionError, match="pass tokenizer= too"):
        ClassifierScorerLM(model, device="cpu")


def test_a_padding_token_of_the_tokenizers_own_is_the_models_too(folders: dict[str, Path], tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folders["gpt2"])
    tokenizer.pad_token = "x"
    tokenizer.save_pretrained(tmp_path)
    pairs = [(text, " rock") for text in TEXTS]
    found = answers(load(folders["gpt2"], tokenizer=str(tmp_path), batch_size=64), *pairs)
    assert found == near(answers(load(folders["gpt2"]), *pairs))


def test_the_reference_is_another_classifier_of_the_same_labels(folders: dict[str, Path], tmp_path: Path) -> None:
    lm = load(folders["bert"], reference=str(folders["roberta"]))
    assert lm.classifier.reference is not None
    assert lm.classifier.reference.model.config.model_type == "roberta"
    other = {"id2label": {0: "animal", 1: "plant", 2: "stone"}, "label2id": {"animal": 0, "plant": 1, "stone": 2}}
    strange = str(build("bert", tmp_path, **other))
    refused(folders["bert"], "reference classifier has other labels .*'rock'", reference=strange)


def test_a_classifier_takes_a_generator_of_candidates(bert: Path) -> None:
    assert as_target(load(bert, generator="exhaustive")).generator_name == "exhaustive"


@pytest.mark.parametrize("size", [None, 1, "1", "auto", "auto:4"])
def test_the_harness_default_batch_size_leaves_the_choice_to_the_target(bert: Path, size: Any) -> None:
    assert load(bert, batch_size=size).classifier.batch(8) > load(bert, batch_size=2).classifier.batch(8)
