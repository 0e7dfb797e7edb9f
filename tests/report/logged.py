"""Runs as ``lm_eval --log_samples`` leaves them: a results file and files of samples, made by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leakage_tasks.attacks.finding import Finding
from leakage_tasks.attacks.suffix.finding import HEADLINE, Choice, SuffixFinding, SuffixView
from leakage_tasks.attacks.untargeted.finding import Hits, UntargetedFinding
from tests.report.made import STAMP, results, write

SIZE = 10**6
UNSAID = {"measures": "leakage", "protocol": {}, "tested": {}, "attacks": [], "rows": {}}
"""A task of ours that declares no row."""


def finding(canary: str, rank: float = 1.0, repetitions: int = 1, **fields: Any) -> Finding:
    """One of a canary in a space of 10^6; ``repetitions`` 0 makes it a control."""
    usual = {"attack": "exposure", "kind": "random", "method": "exact", "log_perplexity": 20.0, "correct": (rank == 1,)}
    named = {"canary": canary, "planted": repetitions > 0, "repetitions": repetitions, "log2_size": math.log2(SIZE)}
    return Finding(**{**usual, **named, "rank": rank, **fields})


def suffix(pair: int, choices: Mapping[str, Choice], chosen_by: str = "calibrated") -> SuffixFinding:
    """One of a pair, with what each confidence picks."""
    view = SuffixView(8, 6, 20, 3, 4.0, 3.0, True, dict(choices))
    return SuffixFinding(pair, "sample", 20, chosen_by, {HEADLINE: view} if choices else {})


def choice(right: bool, confidence: float, bits: float = 1.0) -> Choice:
    """A guess that is right or wrong, as sure as told."""
    return Choice(confidence, confidence, 1 if right else None, 0.0 if right else 0.5, 5, bits)


def text(
    kind: str, number: int, run: int | None, control_run: int | None = 0, *, least: int = 20, unseen: bool = False
) -> UntargetedFinding:
    """Text ``number`` after an own prompt, with one run of the corpus and one of the controls; 0 for no run."""
    hits, control_hits = (
        None if length is None else Hits(((0, length, 0, 0),) if length else ()) for length in (run, control_run)
    )
    return UntargetedFinding(kind, number, 0, unseen, "top-k 40", least, 80, False, hits, control_hits)


def log(
    folder: Path,
    tasks: Mapping[str, Sequence[Any]],
    *,
    stamp: str = STAMP,
    model: str | None = None,
    columns: Sequence[str] = (HEADLINE,),
    task_settings: Mapping[str, Any] | None = None,
) -> Path:
    """Write a run of ``tasks`` to ``folder``; returns the results file."""
    undeclared = ("suffix_extraction", "memorization", "untargeted_extraction", "membership", "contamination_test")
    declared = {task: UNSAID for task in tasks if task in undeclared}
    values = {task: {"n": 1.0} for task in tasks}
    content = results(values, model=model or folder.name, declared=declared)
    content["n-samples"] = {task: {"original": len(each), "effective": len(each)} for task, each in tasks.items()}
    path = write(folder, content, stamp)
    for task, findings in tasks.items():
        lines = [
            {
                "doc_id": place,
                "filter": column,
                "resps": [[each.to_json()]],
                "arguments": {"gen_args_0": {"arg_0": "", "arg_1": {"attack": "auto", **(task_settings or {})}}},
            }
            for column in columns
            for place, each in enumerate(findings)
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"samples_{task}_{stamp}.jsonl").write_text(text, encoding="utf-8")
    return path
