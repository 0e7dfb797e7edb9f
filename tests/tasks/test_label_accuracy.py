"""The task ``label_accuracy`` in the real harness, and the files and options it refuses."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import lm_eval
import pytest
import torch
from lm_eval.api.model import LM
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager
from scipy.stats import binomtest
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from adapters.classifier_scorer import ClassifierScorerLM
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.data.utterances import Utterance, write_folder
from leakage_tasks.harness.run import evaluate as evaluate_tasks
from leakage_tasks.tasks.label_accuracy import LabelAccuracy, documents
from tests.adapters.test_classifier_scorer import LABELS, build
from tests.oracles import letters, tiny_gpt2

THINGS = ["cat", "dog", "tree", "moss", "granite", "basalt"]
ROWS = [(f"{start} {thing} {does} .", LABELS[place // 2]) for start in ("a", "the old") for does in ("lies", "grows")
        for place, thing in enumerate(THINGS)]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("bert", tmp_path_factory.mktemp("label-accuracy"))


@pytest.fixture
def lm(folder: Path) -> ClassifierScorerLM:
    return ClassifierScorerLM(str(folder), device="cpu", batch_size=2)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "data.jsonl", [{"text": text, "label": label} for text, label in ROWS])


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def evaluate(lm: LM, metadata: dict[str, Any], tasks: Any = "label_accuracy", **settings: Any) -> dict[str, Any]:
    found = evaluate_tasks(lm, [tasks], metadata, **settings)
    assert found is not None
    return found  # type: ignore[return-value]


def by_hand(folder: Path) -> tuple[int, float]:
    """Right answers and mean cost of the right label in bits, text by text, by transformers alone."""
    model, tokenizer = AutoModelForSequenceClassification.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    right, bits = 0, 0.0
    for text, label in ROWS:
        with torch.no_grad():
            costs = -model.eval()(**tokenizer(text, return_tensors="pt")).logits[0].double().log_softmax(-1)
        place = LABELS.index(label)
        right += int(costs.argmin()) == place
        bits += float(costs[place]) / math.log(2)
    return right, bits / len(ROWS)


def test_the_numbers_are_those_of_transformers(lm: ClassifierScorerLM, folder: Path, data: Path) -> None:
    results = evaluate(lm, {"data": str(data)})
    row, (right, bits) = results["results"]["label_accuracy"], by_hand(folder)
    assert 0 < right < len(ROWS)
    assert row["acc,none"] == right / len(ROWS)
    ends = binomtest(right, len(ROWS)).proportion_ci(0.95, "exact")
    assert row["acc_ci_low,none"] == pytest.approx(ends.low)
    assert row["acc_ci_high,none"] == pytest.approx(ends.high)
    assert row["label_loss,none"] == pytest.approx(bits, abs=1e-5)
    assert row["n,none"] == len(ROWS)
    better = results["higher_is_better"]["label_accuracy"]
    assert (better["acc"], better["label_loss"], better["n"]) == (True, False, None)
    json.dumps(results["results"], allow_nan=False)


CHOICES = """
task: what_is_it
dataset_path: json
dataset_kwargs: {data_files: {test: "DATA"}, cache_dir: "CACHE"}
test_split: test
output_type: multiple_choice
doc_to_text: text
doc_to_target: label
doc_to_choice: ["rock", "animal", "plant"]
metric_list:
  - metric: acc
"""


def test_a_multiple_choice_task_of_the_harness_agrees(lm: ClassifierScorerLM, data: Path, tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    config = CHOICES.replace("DATA", str(data)).replace("CACHE", str(tmp_path / "cache"))
    (tmp_path / "tasks" / "what_is_it.yaml").write_text(config)
    manager = TaskManager(include_path=str(tmp_path / "tasks"), include_defaults=False)
    found = lm_eval.simple_evaluate(lm, tasks=["what_is_it"], task_manager=manager, bootstrap_iters=0)
    ours = evaluate(lm, {"data": str(data)})["results"]["label_accuracy"]["acc,none"]
    assert found["results"]["what_is_it"]["acc,none"] == ours


def test_a_limit_takes_the_first_rows(lm: ClassifierScorerLM, data: Path) -> None:
    results = evaluate(lm, {"data": str(data)}, limit=5)
    assert results["results"]["label_accuracy"]["n,none"] == 5
    assert [sample["doc"]["text"] for sample in results["samples"]["label_accuracy"]] == [text for text, _ in ROWS[:5]]


def test_models_that_write_are_asked_for_the_label_as_text(data: Path, tmp_path: Path) -> None:
    lm = HFLM(pretrained=tiny_gpt2(letters()), tokenizer=letters(), batch_size=4)
    short = write_jsonl(tmp_path / "short.jsonl", [{"text": "ab", "label": "c"}, {"text": "b", "label": "d"}])
    row = evaluate(lm, {"data": str(short)})["results"]["label_accuracy"]
    ids = [letters()(text, add_special_tokens=False)["input_ids"] for text in ("ab c", "b d")]
    bits, right = [], []
    for row_ids in ids:
        with torch.no_grad():
            scores = -lm.model(torch.tensor([row_ids])).logits[0].double().log_softmax(-1) / math.log(2)
        bits.append(sum(float(scores[place, row_ids[place + 1]]) for place in (-3, -2)))
        right.append(all(int(scores[place].argmin()) == row_ids[place + 1] for place in (-3, -2)))
    assert row["label_loss,none"] == pytest.approx(sum(bits) / 2, abs=1e-4)
    assert row["acc,none"] == sum(right) / 2


def test_models_with_an_answer_of_their_own_give_that(lm: ClassifierScorerLM, data: Path) -> None:
    class Twofold(ClassifierScorerLM):
        """Its log-likelihood is something else."""

        def __init__(self, inner: ClassifierScorerLM) -> None:
            self.__dict__.update(vars(inner))

        def loglikelihood(self, requests: Any, disable_tqdm: bool = False) -> list[tuple[float, bool]]:
            pytest.fail("asked for text")

    assert evaluate(Twofold(lm), {"data": str(data)})["results"] == evaluate(lm, {"data": str(data)})["results"]


# -- files ----------------------------------------------------------------------------------------------------

CLASSES = [{"text": "a cat", "label": "animal"}, {"text": "the moss", "label": "plant"}]


def numbered() -> Any:
    from datasets import ClassLabel, Dataset, Features, Value

    rows = {"text": [row["text"] for row in CLASSES], "label": [0, 1]}
    return Dataset.from_dict(rows, features=Features({"text": Value("string"), "label": ClassLabel(names=LABELS)}))


def save(path: Path) -> Path:
    from datasets import DatasetDict

    if path.suffix == ".jsonl":
        return write_jsonl(path, CLASSES)
    if path.suffix == ".parquet":
        numbered().to_parquet(path)
    elif path.suffix == ".conll":
        lines = [f"# intent = {row['label']}\n{row['text'].replace(' ', ' O%s')} O%s" for row in CLASSES]
        path.write_text("\n".join(lines).replace("%s", "\n"))
    elif path.suffix:
        with path.open("w", newline="") as file:
            writer = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writerows([["label", "text"], *([row["label"], row["text"]] for row in CLASSES)])
    elif path.name == "nlu":
        write_folder([Utterance(tuple(row["text"].split()), ("O", "B-x"), row["label"]) for row in CLASSES], path)
    elif path.name == "splits":
        DatasetDict({"train": numbered().select([1]), "test": numbered()}).save_to_disk(path)
    else:
        numbered().save_to_disk(path)
    return path


@pytest.mark.parametrize("name", ["d.jsonl", "d.csv", "d.tsv", "d.parquet", "d.conll", "one", "splits", "nlu"])
def test_every_kind_of_file_gives_the_same_rows(tmp_path: Path, name: str) -> None:
    assert documents({"data": str(save(tmp_path / name))}) == CLASSES


def test_columns_and_split_can_be_named(tmp_path: Path) -> None:
    rows = [{"body": "a cat", "1": 3, "text": "x", "label": "y"}]
    path = write_jsonl(tmp_path / "d.jsonl", rows)
    metadata = {"data": str(path), "text_column": "body", "label_column": 1, "pretrained": "x", "batch_size": 3}
    assert documents(metadata) == [{"text": "a cat", "label": "3"}]
    assert documents({"data": str(save(tmp_path / "splits")), "split": "train"}) == CLASSES[1:]
    own = {"data": str(path), "label_accuracy": {"text_column": "body", "label_column": "1"}}
    assert documents(own) == [{"text": "a cat", "label": "3"}]


def test_labels_that_are_no_text_are_named_as_they_are_written(tmp_path: Path) -> None:
    values = [0, 1, 2.5, "x"]
    path = write_jsonl(tmp_path / "d.jsonl", [{"text": "a", "label": value} for value in values])
    assert [row["label"] for row in documents({"data": str(path)})] == ["0", "1", "2.5", "x"]


@pytest.mark.parametrize(
    ("name", "content", "metadata", "message"),
    [
        ("d.jsonl", '{"text": "a", "label": "b"}\nx\n', {}, r"d\.jsonl:2: not JSON"),
        ("d.jsonl", '{"body": "a", "label": "b"}\n', {}, "no column 'text' .*--metadata text_column=…"),
        ("d.csv", "text,kind\na,b\n", {}, "no column 'label' .*--metadata label_column=…"),
        ("d.csv", "text,label\na,b\nc\n", {}, "row 2 has nothing in column 'label'"),
        ("d.jsonl", '{"text": "a", "label": "b"}\n{"text": "a"}\n', {}, "row 2 has nothing in column 'label'"),
        ("d.csv", "text,label\n", {}, "holds no rows"),
        ("d.txt", "a\n", {}, "a text file holds no labels"),
        ("d.conll", "a O\n", {}, r"d\.conll:1: an utterance without an intent"),
        ("d.conll", "# intent = A\na O\n", {"label_column": "kind"}, "leave out --metadata label_column=…"),
        ("d.doc", "a\n", {}, "unknown kind of file '.doc'"),
        ("d.jsonl", "{}", {"text_colum": "x"}, "did you mean 'text_column'"),
        ("d.jsonl", "{}", {"label_accuracy": {"file": "x"}}, "label_accuracy has no option 'file': use data, label_"),
        ("d.jsonl", "{}", {"label_accuracy": "x"}, "expected options by name, as in"),
        ("d.jsonl", "{}", {"data": "nowhere.jsonl"}, "nowhere.jsonl: no such file"),
    ],
)
def test_bad_input_is_one_clear_line(
    tmp_path: Path, name: str, content: str, metadata: dict[str, Any], message: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(OptionError, match=message):
        documents({"data": str(tmp_path / name), **metadata})


def test_a_split_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="no split 'dev' .it has train, test.: name one with --metadata split=…"):
        documents({"data": str(save(tmp_path / "splits")), "split": "dev"})


def test_without_data_it_says_what_to_pass() -> None:
    with pytest.raises(OptionError, match="label_accuracy needs labelled text: pass --metadata data=FILE"):
        LabelAccuracy({"task": "label_accuracy"})


def test_a_text_whose_label_the_model_does_not_know_is_wrong_and_has_no_loss(
    lm: ClassifierScorerLM, tmp_path: Path
) -> None:
    more = write_jsonl(tmp_path / "more.jsonl", [*CLASSES, {"text": "a", "label": "fungus"}])
    known, found = (
        evaluate(lm, {"data": str(path)})["results"]["label_accuracy"]
        for path in (write_jsonl(tmp_path / "known.jsonl", CLASSES), more)
    )
    assert found["n,none"] == known["n,none"] + 1
    assert found["acc,none"] == pytest.approx(known["acc,none"] * known["n,none"] / found["n,none"])
    assert found["label_loss,none"] == pytest.approx(known["label_loss,none"], abs=1e-5)
    json.dumps(found, allow_nan=False)


def test_labels_none_of_which_the_model_knows_are_one_line(lm: ClassifierScorerLM, tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "d.jsonl", [{"text": "a", "label": "fungus"}])
    with pytest.raises(TargetError, match="no label 'fungus' .it has animal, plant, rock"):
        evaluate(lm, {"data": str(path)})


def test_more_processes_than_texts_are_refused_on_every_one(data: Path) -> None:
    task = LabelAccuracy({"task": "label_accuracy", "metadata": {"data": str(data)}})
    for rank in (0, 24):
        with pytest.raises(OptionError, match="24 texts for 25 processes"):
            task.build_all_requests(rank=rank, world_size=25)


def test_the_harness_request_cache_does_not_bring_back_another_file(
    lm: ClassifierScorerLM, data: Path, tmp_path: Path
) -> None:
    evaluate(lm, {"data": str(data)}, cache_requests=True)
    other = write_jsonl(tmp_path / "other.jsonl", CLASSES)
    found = evaluate(lm, {"data": str(other)}, cache_requests=True)
    assert found["results"]["label_accuracy"]["n,none"] == len(CLASSES)
