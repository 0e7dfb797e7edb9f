"""The examples of the public functions do what they say."""

from __future__ import annotations

import doctest
import inspect
from pathlib import Path
from typing import Any

import pytest
from transformers import Trainer, TrainingArguments

import leakage_tasks
from leakage_tasks import audit, make_canaries, write_manifest
from tests.oracles import letters, tiny_gpt2

CLASSES_AND_VALUES = {"Audit", "LeakageError", "Pair", "PromptSettings", "__version__"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where examples run: a manifest, and results of an audit by it."""
    made = tmp_path_factory.mktemp("examples")
    write_manifest(make_canaries("the pin of {unique} is {digits:2}.", 2, controls=1, seed=1), made / "canaries.jsonl")
    audit(tiny_gpt2(letters()), letters(), made / "canaries.jsonl", output=made / "results")
    return made


def trainer(folder: Path) -> Trainer:
    arguments = TrainingArguments(output_dir=str(folder / "trained"), use_cpu=True, report_to=[])
    return Trainer(tiny_gpt2(letters()), arguments, train_dataset=[], processing_class=letters())


@pytest.mark.parametrize("name", sorted(set(leakage_tasks.__all__) - CLASSES_AND_VALUES))
def test_an_example_does_what_it_says(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    public: Any = getattr(leakage_tasks, name)
    assert ">>>" in (inspect.getdoc(public) or ""), "what is public has an example"
    given = {"model": tiny_gpt2(letters()), "tokenizer": letters(), "trainer": trainer(folder)}
    (case,) = doctest.DocTestFinder(recurse=False).find(public, name, globs=given)
    said: list[str] = []
    outcome = doctest.DocTestRunner(verbose=False).run(case, out=said.append)
    assert outcome.failed == 0, "".join(said)
