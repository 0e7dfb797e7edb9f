"""Coverage of the intervals of estimated ranks, by model, secret length, number of draws and rank. Prints a table.

The models are synthetic (``tests/attacks/made_up.py``), so the true rank is known exactly at any length. A cell has 300
secrets, whose ranks are spread evenly over log2 from 1 to |R|. With 65,536 draws, a secret of 16 digits or more takes
seconds to a minute, so these cells have 30 secrets. ``asked for`` is the attack with its default number of draws
(``method=estimated``, default budget and precision). ``chance`` are random secrets, as controls: their ranks divided
by |R| must be uniform (Kolmogorov-Smirnov test).

Criteria: in no cell significantly fewer than 95 % of the intervals contain the true rank (level 1 % for the whole
grid), and for each model, length and number of draws at least 94 % do. The mean ratio of estimated to true rank is 1,
at 1 % for the grid. The mean error is within 0.05 bits plus two standard errors if the effective sample size is at
least 100. Chance passes.

Finished cells are stored in ``--output`` and not run again. The exit code is 1 if a criterion is not met. All cells
take 90 minutes on 2 idle cores; ``--units`` runs a part.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import math
import os
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy import stats

from benchmarks import ROOT
from leakage_tasks.attacks import run_attack
from leakage_tasks.attacks.causal.rank_draws import summary
from leakage_tasks.attacks.causal.rank_estimate import RankEstimate
from leakage_tasks.attacks.causal.search_tree import SearchTree
from leakage_tasks.attacks.causal.secret_path import SecretPath
from leakage_tasks.canaries import Canary
from tests.attacks.made_up import MODELS, MadeUp, Ranks

LENGTHS = (4, 9, 16, 25, 40)
DRAWS = (256, 1024, 8192, 65_536)
ASKED, CHANCE = "asked for", "chance"
SECRETS, FEW_SECRETS = 300, 30
EFFECTIVE = 100
"""The minimum effective sample size for the criterion of 0.05 bits."""
UNLIMITED = 10**12


Cell = tuple[str, int, int | str]


def units() -> list[list[Cell]]:
    """Return groups of cells that share pilots, the fastest first."""
    kinds: list[list[int | str]] = [[256, 1024], [CHANCE], [ASKED], [8192], [65_536]]
    return [
        [(model, length, kind) for kind in kinds_of_unit]
        for kinds_of_unit in kinds
        for length in LENGTHS
        for model in MODELS
    ]


def secrets_of(length: int, kind: int | str) -> int:
    """Return the number of secrets of a cell."""
    return FEW_SECRETS if kind == 65_536 and length > 9 else SECRETS


@functools.lru_cache(maxsize=2)
def synthetic_model(model: str, length: int) -> tuple[MadeUp, Ranks]:
    """Return a synthetic model and its true ranks."""
    target = MadeUp(model, length)
    return target, Ranks(target)


def run_unit(cells: list[Cell]) -> list[list[dict[str, Any]]]:
    """Return the results of every secret, one list per cell."""
    model, length, kind = cells[0]
    target, ranks = synthetic_model(model, length)
    number = secrets_of(length, kind)
    stream = np.random.default_rng([length, list(MODELS).index(model), [*DRAWS, ASKED, CHANCE].index(kind)])
    results: list[list[dict[str, Any]]] = [[] for _ in cells]
    for n in range(number):
        name = f"{model}-{length}-{kind}-{n}"
        if kind == CHANCE:
            canary, rank = ranks.random(name, stream)
            canary = dataclasses.replace(canary, planted=False, repetitions=0)
        else:
            canary, rank = ranks.near((n + 0.5) / number * length * math.log2(10), name, stream)
        draws = [draws for *_, draws in cells if isinstance(draws, int)]
        answers = with_draws(target, canary, draws) if draws else [with_defaults(target, canary)]
        for cell_results, answer in zip(results, answers, strict=False):
            cell_results.append({"true": rank, **answer})
    return results


def with_draws(target: MadeUp, canary: Canary, draws: list[int]) -> list[dict[str, Any]]:
    """Estimate the rank with each number of draws after one set of pilots, with an unlimited budget."""
    explorer = SearchTree(target, canary.attack_space)
    secret = SecretPath(explorer, explorer.path_of(canary.secret)).ranked()
    estimate = RankEstimate(secret, f"0:{canary.id}", UNLIMITED, 0.25)
    estimate.explore()
    estimate.make_pilots()
    mixture, size = estimate.mixture(), canary.attack_space.size
    drawn = [estimate.make_draws(number, f"fixed:{number}", mixture, teach=False) for number in draws]
    return [_fields(summary(estimates, size)) for estimates in drawn]


def with_defaults(target: MadeUp, canary: Canary) -> dict[str, Any]:
    """Return the rank from the attack with its defaults."""
    finding = run_attack("exposure", target, [canary], values={"method": "estimated"})[0]
    fields = ("rank", "rank_low", "rank_high", "method", "extra")
    return _fields({name: getattr(finding, name) for name in fields}) | {"calls": finding.model_calls}


def _fields(result: dict[str, Any]) -> dict[str, Any]:
    return {
        "rank": result["rank"],
        "low": result["rank_low"],
        "high": result["rank_high"],
        "bound": result["method"] == "lower_bound",
        "draws": result["extra"].get("draws", result["extra"].get("repetitions")),
        "effective": result["extra"].get("effective_draws", 0.0),
    }


GRID = [cell for unit in units() for cell in unit]


def judge(model: str, length: int, kind: int | str, results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a cell's counts, and the criteria that it does not meet."""
    # Ranks are floats up to 10^40, so differences in the last digits do not count.
    below = sum(result["true"] < result["low"] * (1 - 1e-9) for result in results)
    above = sum(result["true"] > result["high"] * (1 + 1e-9) for result in results)
    estimates = [result for result in results if not result["bound"]]
    held = len(results) - below - above
    least = int(stats.binom.ppf(0.01 / len(GRID), len(results), 0.95))
    cell: dict[str, Any] = {
        "model": model,
        "digits": length,
        "draws": kind,
        "secrets": len(results),
        "held": held,
        "true_rank_above": above,
        "true_rank_below": below,
        "bounds": len(results) - len(estimates),
        "missed": [] if held >= least else [f"held {held} of {len(results)}, at least {least} wanted"],
    }
    ratios = np.array([result["rank"] / result["true"] for result in estimates])
    if len(ratios) > 1:
        error = float(ratios.std(ddof=1) / math.sqrt(len(ratios)))
        cell |= {"mean_ratio": float(ratios.mean()), "standard_error": error}
        cell["beyond_99"] = bool(abs(ratios.mean() - 1) > stats.norm.ppf(0.995) * error + 1e-9)
        if abs(ratios.mean() - 1) > stats.norm.ppf(1 - 0.005 / len(GRID)) * error + 1e-9:
            cell["missed"].append(f"mean ratio {ratios.mean():.4f} ± {error:.4f} is not 1")
    bits = np.log2([result["rank"] / result["true"] for result in estimates if result["effective"] >= EFFECTIVE])
    if len(bits) > 1:
        error = float(bits.std(ddof=1) / math.sqrt(len(bits)))
        cell |= {"mean_error_bits": float(bits.mean()), "largest_error_bits": float(np.abs(bits).max())}
        if abs(bits.mean()) > 0.05 + 2 * error:
            cell["missed"].append(f"mean error {bits.mean():.3f} bits")
    if kind == CHANCE:
        size = 10.0**length
        cell["ks_p"] = float(stats.kstest([min(result["rank"] / size, 1.0) for result in results], "uniform").pvalue)
        if cell["ks_p"] < 0.01 / (len(LENGTHS) * len(MODELS)):
            cell["missed"].append(f"controls are not at chance, p {cell['ks_p']:.2g}")
    if kind in (ASKED, CHANCE):
        cell["calls"] = float(np.mean([result["calls"] for result in results]))
    return cell


def pooled(judged: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return counts by model, by length and by draws; at least 94 % of the intervals must hold in each."""
    rows = []
    for name in ("model", "digits", "draws"):
        for value in dict.fromkeys(cell[name] for cell in judged):
            part = [cell for cell in judged if cell[name] == value]
            total, held = (sum(cell[field] for cell in part) for field in ("secrets", "held"))
            above, below = (sum(cell[f"true_rank_{side}"] for cell in part) for side in ("above", "below"))
            row = {name: value, "secrets": total, "held": held, "true_rank_above": above, "true_rank_below": below}
            missed = [] if held >= 0.94 * total else [f"{held / total:.1%} held"]
            rows.append(row | {"share": held / total, "missed": missed})
    return rows


def show(judged: list[dict[str, Any]], totals: list[dict[str, Any]]) -> None:
    """Print the cells and the totals."""
    print("| model | digits | draws | secrets | held | above | below | bounds | mean ratio | mean error, bits |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for cell in judged:
        ratio = f"{cell['mean_ratio']:.4f} ± {cell['standard_error']:.4f}" if "mean_ratio" in cell else ""
        error = f"{cell['mean_error_bits']:+.3f}" if "mean_error_bits" in cell else ""
        counts = [cell[name] for name in ("secrets", "held", "true_rank_above", "true_rank_below", "bounds")]
        print("|", " | ".join(map(str, (cell["model"], cell["digits"], cell["draws"], *counts, ratio, error))), "|")
    beyond = sum(cell.get("beyond_99", False) for cell in judged)
    print(f"mean ratio beyond its 99 % interval: {beyond} of {len(judged)} cells, {len(judged) / 100:.2f} by chance")
    for row in totals:
        name = next(iter(row))
        print(f"{name} {row[name]}: {row['held']} of {row['secrets']} held ({row['share']:.1%}); ", end="")
        print(f"{row['true_rank_above']} above, {row['true_rank_below']} below")


def main() -> None:
    """Run the cells without stored results, evaluate all cells and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "runs" / "coverage", help="folder of finished cells")
    parser.add_argument("--summary", type=Path, default=ROOT / "benchmarks" / "coverage.json")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--units", type=int, help="maximum number of groups of cells to run, the fastest first")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    places = {cell: arguments.output / f"{'-'.join(map(str, cell)).replace(' ', '_')}.json" for cell in GRID}
    with ProcessPoolExecutor(arguments.jobs) as pool:
        wanted = [unit for unit in units()[: arguments.units] if not all(places[cell].exists() for cell in unit)]
        running = {pool.submit(run_unit, unit): unit for unit in wanted}
        for done in as_completed(running):
            for cell, results in zip(running[done], done.result(), strict=True):
                places[cell].with_suffix(".part").write_text(json.dumps(results))
                places[cell].with_suffix(".part").rename(places[cell])
                print(f"{places[cell].stem} done", file=sys.stderr, flush=True)
    judged = [judge(*cell, json.loads(path.read_text())) for cell, path in places.items() if path.exists()]
    totals = pooled(judged)
    parts = {name: ",\n".join(map(json.dumps, rows)) for name, rows in (("cells", judged), ("pooled", totals))}
    arguments.summary.write_text(f'{{"cells": [\n{parts["cells"]}\n], "pooled": [\n{parts["pooled"]}\n]}}\n')
    show(judged, totals)
    missed = [f"{row}" for row in [*judged, *totals] if row["missed"]]
    print(*missed, sep="\n")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
