"""The items of benchmarks, as few-shot examples of the harness show them."""

from __future__ import annotations

import json
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from lm_eval.tasks import TaskManager

from leakage_tasks.core.errors import OptionError
from leakage_tasks.harness.benchmark import Benchmark, Item, load_benchmark, loading

HEAD = """
task: quiz
dataset_path: json
dataset_kwargs:
  data_files: {{test: {file}, train: {file}}}
test_split: test
training_split: train
"""
CHOICE = """
output_type: multiple_choice
metric_list: [{metric: acc}]
doc_to_text: "Q: {{question}}\\nA:"
doc_to_choice: ["blue", "red"]
doc_to_target: "{{gold}}"
"""
BLANK = """
output_type: multiple_choice
metric_list: [{metric: acc}]
doc_to_text: "{{gold}}"
doc_to_choice: "{{[question + ' sky', question + ' sea']}}"
doc_to_target: "is near"
"""
SEVERAL = """
output_type: generate_until
metric_list: [{metric: exact_match}]
doc_to_text: question
doc_to_target: "{{['one', 'two']}}"
target_delimiter: " => "
fewshot_delimiter: "##"
generation_kwargs: {until: ["."]}
"""
WHOLE = """
output_type: loglikelihood_rolling
metric_list: [{metric: word_perplexity}]
doc_to_text: ""
doc_to_target: question
"""
if find_spec("lm_eval.scorers"):
    BLANK = """
output_type: multiple_choice
metric_list: [{metric: acc}]
multiple_inputs: true
doc_to_text: "{{[question + ' sky', question + ' sea']}}"
doc_to_choice: ["is near"]
doc_to_target: "{{gold}}"
"""
    SEVERAL += "multiple_targets: true\n"


def quiz(folder: Path, body: str) -> Benchmark:
    docs = [{"question": f"number {number}", "gold": number % 2} for number in range(3)]
    (folder / "quiz.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    (folder / "quiz.yaml").write_text(HEAD.format(file=folder / "quiz.jsonl") + body)
    with loading(TaskManager(include_path=str(folder), include_defaults=False)):
        return load_benchmark("quiz")


def shown(benchmark: Benchmark, split: str | None = None) -> list[str]:
    docs, _ = benchmark.documents(split, None)
    return [benchmark.item(doc, "item").text for doc in docs]


@pytest.mark.parametrize(
    ("body", "expected", "separator"),
    [
        (CHOICE, ["Q: number 0\nA: blue", "Q: number 1\nA: red", "Q: number 2\nA: blue"], "\n\n"),
        (BLANK, [f"number {n} {word} is near" for n, word in enumerate(("sky", "sea", "sky"))], "\n\n"),
        (SEVERAL, [f"number {number} => one" for number in range(3)], "##"),
        (WHOLE, [f"number {number}" for number in range(3)], "\n\n"),
    ],
)
def test_an_item_is_what_a_few_shot_example_shows(tmp_path: Path, body: str, expected: Any, separator: str) -> None:
    benchmark = quiz(tmp_path, body)
    assert shown(benchmark) == expected
    assert benchmark.separator == separator
    assert shown(benchmark, "training") == expected


def test_the_harness_own_example_is_the_item(tmp_path: Path) -> None:
    quiz(tmp_path, SEVERAL + "num_fewshot: 1\n")
    with loading(TaskManager(include_path=str(tmp_path), include_defaults=False)):
        benchmark = load_benchmark("quiz")
    task = benchmark._task
    docs, number = benchmark.documents(None, 2)
    context = task.fewshot_context(docs[0], 1)
    assert context.split("##")[0] in shown(benchmark)
    assert (len(docs), number) == (2, 3)


def test_a_missing_split_names_the_others(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="of_split=validation: quiz has no such documents: use test, training"):
        quiz(tmp_path, CHOICE).documents("validation", None)


def test_an_item_without_text_is_named(tmp_path: Path) -> None:
    benchmark = quiz(tmp_path, CHOICE)
    with pytest.raises(OptionError, match="item 4: quiz cannot show it .*: pass template="):
        benchmark.item({}, "item 4")
    with pytest.raises(OptionError, match="item 4: its question or its answer is no text in quiz"):
        benchmark.item({"question": "x", "gold": "[]"}, "item 4")


def test_parts_are_joined_only_if_both_are_there() -> None:
    assert [Item("", "b", " ").text, Item("a", "", " ").text, Item("a", "b", "-").text] == ["b", "a", "a-b"]


def test_without_a_run_the_harness_own_tasks_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quiz(tmp_path, CHOICE)
    # The name "lm_eval.tasks.TaskManager" would be looked up in the package, which may hold an earlier import.
    monkeypatch.setattr(
        import_module("lm_eval.tasks"),
        "TaskManager",
        lambda: TaskManager(include_path=str(tmp_path), include_defaults=False),
    )
    assert load_benchmark("quiz").name == "quiz"
    with pytest.raises(OptionError, match="of=quis: the harness has no such task; did you mean 'quiz'"):
        load_benchmark("quis")
