"""Time saved and recall of a shortlist by gradient, for several lengths. Prints JSON.

Canaries are planted in a small classifier, and every value of the unknown word is scored exactly. ``kept_top_10`` is
the share of the exact ten best among the first m values by gradient, and ``kept_secret`` the share of secrets among
them, for gradients at 64 of the values, at the mean of the values' embeddings and at the mask's. ``time_saved`` is the
relative reduction of the exact search's time by that shortlist (from 64 points); times are minima over the rounds.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from leakage_tasks.attacks import run_attack
from leakage_tasks.attacks.classifier.class_scores import ClassScores
from leakage_tasks.attacks.classifier.shortlist import first_order
from leakage_tasks.attacks.registry import AttackRequest
from leakage_tasks.canaries import Canary, elmahdy_canaries
from leakage_tasks.research.classifiers.experiment import corpus
from leakage_tasks.research.classifiers.victims import alphabet_of, classes_by_rows, trained_victim
from leakage_tasks.research.elmahdy.trials import SMALL

LENGTHS = (50, 100, 200, 500, 1_000, 2_000, 5_000)
TOP = 10
NO_HEAD = np.zeros((1, 0), dtype=np.int64)


def places(target: Any, canary: Canary, at: str) -> tuple[list[int], int]:
    """Return the ranks of the exact ten best, and of the secret, in the gradient's order, from 1."""
    scores = ClassScores(AttackRequest(target, canary, 0, ""))
    losses = scores.of(np.arange(len(canary.attack_space.slots[0]))[:, None])
    best = np.argsort(losses, kind="stable")[:TOP]
    ranks = np.argsort(np.argsort(first_order(scores, NO_HEAD, at)[0], kind="stable")) + 1
    return ranks[best].tolist(), int(ranks[scores.places([canary.secret])[0, 0]])


def seconds(target: Any, canaries: list[Canary], rounds: int, **settings: Any) -> float:
    """Return the minimum time of a search for all canaries."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        run_attack("label-search", target, canaries, goal="extraction", values=settings)
        times.append(time.perf_counter() - started)
    return min(times)


def curve(target: Any, canaries: list[Canary], rounds: int) -> list[dict[str, Any]]:
    """Return an entry for each length of the shortlist."""
    ranks_by_point = {at: [places(target, canary, at) for canary in canaries] for at in ("points", "mean", "mask")}
    exact = seconds(target, canaries, rounds)
    lines = []
    for length in LENGTHS:
        line: dict[str, Any] = {"m": length}
        for at, ranks in ranks_by_point.items():
            line[f"kept_top_10_{at}"] = round(float(np.mean([np.mean(np.array(top) <= length) for top, _ in ranks])), 3)
            line[f"kept_secret_{at}"] = round(float(np.mean([secret_rank <= length for _, secret_rank in ranks])), 3)
        line["time_saved"] = round(1 - seconds(target, canaries, rounds, shortlist=length) / exact, 3)
        lines.append(line)
    return lines


def main() -> None:
    """Train the classifier, measure the shortlists and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--canaries", type=int, default=12)
    parser.add_argument("--repetitions", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--shared", type=Path, help="folder of the pre-trained encoder")
    options = parser.parse_args()
    with TemporaryDirectory() as name:
        shared = options.shared or Path(name)
        rows = corpus(SMALL)
        words = alphabet_of(SMALL, shared, "whole-words", "words")
        canaries = []
        for index, label in enumerate(classes_by_rows(rows)[: options.canaries]):
            canaries += elmahdy_canaries(
                words, 1, label=label, classes=rows.labels, repetitions=(options.repetitions,), id_prefix=f"{index}-"
            )
        attacked = [canary for canary in canaries if canary.kind != "supporting"]
        with trained_victim(SMALL, rows, canaries, shared, 0) as victim:
            findings = run_attack("label-search", victim.target, attacked, goal="extraction")
            lines = curve(victim.target, attacked, options.rounds)
    ranks = sorted(finding.place or 0 for finding in findings)
    print(json.dumps({"alphabet": len(words), "canaries": len(attacked), "ranks": ranks, "curve": lines}, indent=1))


if __name__ == "__main__":
    main()
