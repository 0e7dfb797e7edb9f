"""A corpus that is the data of a benchmark in the same run is named in one line, once."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lm_eval.tasks import TaskManager

from leakage_tasks.harness.benchmark_corpus import warn_of_benchmark_corpora
from tests.oracles import letters

BENCHMARK = """
task: stand_in
dataset_path: json
dataset_kwargs:
  data_files: {{test: {file}}}
test_split: test
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{{{text}}}}"
metric_list:
  - metric: bits_per_byte
"""


def benchmark(**config: Any) -> SimpleNamespace:
    values = {"task": "arc", "dataset_path": None, "dataset_kwargs": None, **config}
    return SimpleNamespace(config=SimpleNamespace(**values))


def ours(data: str, corpus: bool = True) -> SimpleNamespace:
    return SimpleNamespace(CORPUS=corpus, alone=False, task_name="memorization", metadata={"data": data})


@pytest.mark.parametrize(
    ("data", "config"),
    [
        ("hub:allenai/ai2_arc:ARC-Easy@main", {"dataset_path": "allenai/ai2_arc"}),
        ("a.jsonl", {"dataset_path": "json", "dataset_kwargs": {"data_files": "a.jsonl"}}),
        ("b.jsonl", {"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": ["a.jsonl", "b.jsonl"]}}}),
        ("folder", {"dataset_path": "folder"}),
        ("./folder", {"dataset_path": "text", "dataset_kwargs": {"data_dir": "folder"}}),
    ],
)
def test_data_of_a_benchmark_are_recognised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, data: str, config: dict[str, Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).touch()
    (tmp_path / "folder").mkdir()
    warn_of_benchmark_corpora([benchmark(**config), ours(data)])
    assert f"memorization: data={data} is the data of the benchmark arc in this run" in caplog.text
    caplog.clear()
    warn_of_benchmark_corpora([benchmark(**config), ours(data, corpus=False), ours("other.jsonl")])
    assert not caplog.records


@pytest.mark.slow
def test_the_harness_own_loading_of_tasks_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "seen.jsonl"
    file.write_text("".join(json.dumps({"text": f"{word} text number " * 4}) + "\n" for word in ("one", "two", "six")))
    letters().save_pretrained(tmp_path / "tokenizer")
    (tmp_path / "stand_in.yaml").write_text(BENCHMARK.format(file=file))
    given = {"data": str(file), "tokenizer": str(tmp_path / "tokenizer"), "prefix": 8, "suffix": 8}
    with caplog.at_level(logging.WARNING):
        TaskManager(include_path=str(tmp_path), metadata=given).load(["stand_in", "memorization"])
    assert "is the data of the benchmark stand_in in this run" in caplog.text
