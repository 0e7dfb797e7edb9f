"""Runs of the harness on tiny models, saved with its own tracker as ``lm_eval --log_samples`` saves them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lm_eval
import numpy as np
from lm_eval.api.model import LM
from lm_eval.loggers import EvaluationTracker
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager

from leakage_tasks.canaries import make_canaries, write_manifest
from tests.conftest import ROOT
from tests.oracles import letters, merging, tiny_gpt2
from tests.targets.text_models import Limited

EXPOSURE, EXTRACTION, SUFFIXES = "canary_exposure", "canary_extraction", "suffix_extraction"


class Writer(Limited):
    """Text is all it gives, as with many an API."""

    def generate_until(self, requests: Any) -> list[str]:
        return [" 42." for _ in requests]


def save(
    lm: LM, tasks: Sequence[str], folder: Path, metadata: dict[str, Any], more: Sequence[Path] = (), **settings: Any
) -> Path:
    """Run tasks, those of ``more`` folders among them, and save results and samples in ``folder``; the results file."""
    places = [str(ROOT / "task_configs"), *map(str, more)]
    manager = TaskManager(include_path=places, include_defaults=False, metadata=metadata)
    tracker = EvaluationTracker(output_path=str(folder))
    before = set(folder.rglob("results_*.json"))
    results: Any = lm_eval.simple_evaluate(
        lm, tasks=list(tasks), task_manager=manager, evaluation_tracker=tracker, **settings
    )
    samples = results.pop("samples")
    tracker.save_results_aggregated(results=results, samples=samples)
    for task in results["configs"]:
        tracker.save_results_samples(task_name=task, samples=samples[task])
    (new,) = set(folder.rglob("results_*.json")) - before
    return new


def canary_run(folder: Path, **metadata: Any) -> Path:
    """Both canary tasks on a model that saw nothing: six planted canaries, five controls."""
    items = make_canaries("pin {unique} is {digits:2}", 6, repetitions=(1, 3), controls=5)
    write_manifest(items, folder / "canaries.jsonl")
    lm = HFLM(pretrained=tiny_gpt2(letters()), tokenizer=letters(), batch_size=4)
    return save(lm, [EXPOSURE, EXTRACTION], folder, {"canaries": str(folder / "canaries.jsonl"), **metadata})


def pairs_file(folder: Path, number: int = 12) -> Path:
    """Pairs of six and three tokens that the small model of :func:`suffix_model` knows."""
    generator = np.random.default_rng(3)
    rows = generator.integers(1, 200, size=(number, 9)).tolist()
    lines = (json.dumps({"prefix": row[:6], "suffix": row[6:]}) for row in rows)
    (folder / "pairs.jsonl").write_text("\n".join(lines) + "\n")
    return folder / "pairs.jsonl"


def suffix_model() -> HFLM:
    """A tiny GPT-2 with a vocabulary of merged letters."""
    return HFLM(pretrained=tiny_gpt2(merging()), tokenizer=merging(), batch_size=4)


def suffix_run(folder: Path, lm: LM | None = None, **metadata: Any) -> Path:
    """Suffix extraction with few draws."""
    settings = {"data": str(pairs_file(folder)), "split": "all", "samples": 8, "temperature": 0.3, **metadata}
    return save(lm or suffix_model(), [SUFFIXES], folder, settings)
