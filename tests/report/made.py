"""Results files as the harness writes them, made by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leakage_tasks.metrics import exposure, extraction

STAMP = "2026-01-02T03-04-05.678901"
MANIFEST = "ab" * 32
EXPOSURE = {"exposure": 9.0, "exposure_ci_low": 7.5, "exposure_ci_high": 10.5, "exposure_max": 12.0}
CONTROLS = {"control_exposure": 1.5, "control_exposure_max": 4.0, "control_p": 0.4, "n_planted": 20, "n_controls": 20}
EXTRACTED = {"extracted": 0.25, "extracted_ci_low": 0.09, "extracted_ci_high": 0.49, "control_extracted": 0.0}
PROOF = {"planted_data": "planted.txt", "planted_sha256": "cd" * 32}
COUNTS = {"control_p": 1.0, "n_planted": 20, "n_controls": 20}


def declaration(task: str, copies: Mapping[int, int] | None = None, **changed: Any) -> dict[str, Any]:
    """What a canary task of ours declares in a results file; ``copies`` by how often canaries were planted."""
    rows = {"canary_exposure": exposure.metrics, "canary_extraction": extraction.metrics}[task](copies or {})
    told = {"repetitions": {str(times): number for times, number in copies.items()}} if copies else {}
    usual = {
        "schema": 2,
        "measures": "leakage",
        "protocol": {"canaries": MANIFEST},
        "tested": {"planted": 20, "planting": "proven", **PROOF, "controls": 20, **told},
        "attacks": [{"attack": "exposure", "access": "black box"}],
        "rows": {row.name: row.declaration() for row in rows},
    }
    return {**usual, **changed}


def results(
    tasks: Mapping[str, Mapping[str, float | str | None]],
    *,
    model: str = "models/one",
    declared: Mapping[str, Mapping[str, Any]] | None = None,
    samples: int = 40,
    **rest: Any,
) -> dict[str, Any]:
    """A results file's content: values by task and metric (``metric,filter`` for filters other than none)."""
    given = {task: declaration(task) for task in tasks if task in ("canary_exposure", "canary_extraction")}
    given |= dict(declared or {})
    return {
        "results": {
            task: {"alias": task, "sample_len": samples}
            | {name if "," in name else f"{name},none": value for name, value in values.items()}
            for task, values in tasks.items()
        },
        "group_subtasks": {},
        "configs": {task: {"task": task} | ({"leakage": given[task]} if task in given else {}) for task in tasks},
        "higher_is_better": {task: {"acc": True, "acc_norm": True, "bits_per_byte": False} for task in tasks},
        "n-samples": {task: {"original": samples, "effective": samples} for task in tasks},
        "n-shot": dict.fromkeys(tasks, 0),
        "config": {"model": "hf", "model_args": {"pretrained": model}},
        "date": 1.0,
        "model_name": model,
        "lm_eval_version": "0.4.13",
        **rest,
    }


def leaking(**changed: float | None) -> dict[str, dict[str, float | None]]:
    """Values of both canary tasks, those of ``changed`` in each that has them."""
    tasks: dict[str, dict[str, float | None]] = {
        "canary_exposure": {**EXPOSURE, **CONTROLS},
        "canary_extraction": {**EXTRACTED, **COUNTS},
    }
    return {task: {**row, **{n: v for n, v in changed.items() if n in row}} for task, row in tasks.items()}


TIERS = {1: 12, 16: 8}


def tiered(**changed: float) -> dict[str, Any]:
    """Content of a run with canaries planted once and 16 times, values in ``changed`` in each task that has them."""
    values = {
        "canary_exposure": {
            "exposure_x1": 1.5,
            "exposure_x1_ci_low": 0.8,
            "exposure_x1_ci_high": 2.6,
            "exposure_x16": 19.0,
            "n_x16": 8,
            **CONTROLS,
        },
        "canary_extraction": {
            "extracted_x1": 0.0,
            "extracted_x1_ci_low": 0.0,
            "extracted_x1_ci_high": 0.26,
            "extracted_x16": 0.75,
            "n_x16": 8,
            **COUNTS,
        },
    }
    more = {
        "canary_exposure": {"n_x1": 12, **EXPOSURE, "share_with_interval": 1.0},
        "canary_extraction": {"n_x1": 12, **EXTRACTED},
    }
    for rows in (*values.values(), *more.values()):
        rows.update({name: value for name, value in changed.items() if name in rows})
    space = {"log2_size": [19.93, 19.93], "kinds": ["random"]}
    declared = {}
    for task, rows in more.items():
        usual = declaration(task, TIERS)
        declared[task] = {**usual, "tested": {**usual["tested"], **space}, "hidden_metrics": rows}
        values[task]["hidden_metrics"] = len(rows)
    return results(values, declared=declared)


def write(folder: Path, content: Mapping[str, Any], stamp: str = STAMP) -> Path:
    """Write a results file under the harness' name for it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"results_{stamp}.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path
