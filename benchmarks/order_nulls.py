"""False positives of ``contamination_test`` on a real model: files that the model cannot have seen in their order.

``python -m benchmarks.order_nulls MODEL OUTPUT`` makes files of random sums and of invented facts from fixed seeds,
runs the task on each file with the model in bfloat16, and writes one JSON line per file to ``OUTPUT``. A second call
measures only the missing files. At the end it prints the p-values' distribution: Kolmogorov and Smirnov's test against
the uniform distribution, and the number of p-values of at most 5 %. All items of a file are drawn independently, so
each order of a file is equally likely, and p is uniform for a correct test.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import lm_eval
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager
from scipy import stats

from benchmarks import ROOT
from leakage_tasks.core.atomic import write_text
from leakage_tasks.stats.intervals import clopper_pearson

TASK, LEVEL = "contamination_test", 0.05
PROTOCOL = ("items", "shards", "permutations")
CONFIGS = ROOT / "task_configs"
BENCHMARK = """
task: null_file
dataset_path: json
dataset_kwargs:
  data_files: {{test: {file}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{answer}}}}"
metric_list: [{{metric: exact_match, aggregation: mean, higher_is_better: true}}]
"""
Row = dict[str, str]
STARTS, ENDS = ("Mor", "Tel", "Ash", "Quin", "Bre", "Ul", "Sant", "Ker"), ("vane", "dor", "mith", "ella", "holm", "ora")
BUILDINGS, UNITS = ("lighthouse", "mill", "bridge", "library", "harbour"), ("metres", "steps", "windows", "rooms")


def sum_of(stream: random.Random) -> Row:
    """Return a question for a sum of two random numbers."""
    first, second = stream.randrange(100, 1000), stream.randrange(100, 1000)
    return {"question": f"What is {first} plus {second}?", "answer": str(first + second)}


def fact_of(stream: random.Random) -> Row:
    """Return a question on an invented building."""
    name = stream.choice(STARTS) + stream.choice(ENDS) + " " + stream.choice(STARTS) + stream.choice(ENDS)
    thing, unit = stream.choice(BUILDINGS), stream.choice(UNITS)
    return {"question": f"How many {unit} has the {thing} of {name}?", "answer": str(stream.randrange(10, 500))}


KINDS: dict[str, Callable[[random.Random], Row]] = {"sums": sum_of, "facts": fact_of}


def null_file(number: int, items: int) -> tuple[str, list[Row]]:
    """Return the kind and the rows of a file; kinds alternate, and the number is the seed."""
    kind = list(KINDS)[number % len(KINDS)]
    stream = random.Random(number)
    rows: dict[str, Row] = {}
    while len(rows) < items:
        row = KINDS[kind](stream)
        rows.setdefault(row["question"], row)
    return kind, list(rows.values())


def measure(model: Any, rows: Sequence[Row], options: argparse.Namespace) -> dict[str, Any]:
    """Return the task's figures on one file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "null.jsonl")
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        benchmark = Path(folder, "null_file.yaml")
        benchmark.write_text(BENCHMARK.format(file=file), encoding="utf-8")
        given = {"of": "null_file", "rows": "all", **{name: getattr(options, name) for name in PROTOCOL}}
        manager = TaskManager(include_path=[folder, str(CONFIGS)], include_defaults=False, metadata=given)
        results = lm_eval.simple_evaluate(model, tasks=[TASK], task_manager=manager, bootstrap_iters=0)
    values = results["results"][TASK]
    return {name: values[f"{name},none"] for name in ("order_p", "order_t_p", "order_preferred", "order_gain")}


def read(output: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the files that are already measured. Exits if another protocol measured them."""
    lines = [json.loads(line) for line in output.read_text().splitlines()] if output.is_file() else []
    if any(line[name] != getattr(options, name) for line in lines for name in PROTOCOL):
        raise SystemExit(f"{output}: measured with other options: name another file")
    return lines


def summary(lines: Sequence[dict[str, Any]], name: str) -> Iterator[str]:
    """Yield the distribution of one p-value over all files and over each kind."""
    for kind in ("all", *KINDS):
        p_values = [line[name] for line in lines if kind in ("all", line["kind"])]
        if p_values:
            below, test = sum(p <= LEVEL for p in p_values), stats.kstest(p_values, "uniform")
            low, high = clopper_pearson(below, len(p_values))
            yield (
                f"{name}, {kind}: {below} of {len(p_values)} at most {LEVEL:.0%} [{low:.3f}, {high:.3f}], smallest "
                f"{min(p_values):.4f}, Kolmogorov-Smirnov D = {test.statistic:.3f}, p = {test.pvalue:.3f}"
            )


def main() -> None:
    """Measure the files that are missing, and print the distributions."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("model", help="folder of a causal model")
    parser.add_argument("output", type=Path, help="JSON lines of the files measured so far")
    parser.add_argument("--files", type=int, default=30)
    parser.add_argument("--items", type=int, default=48)
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--permutations", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=8)
    options = parser.parse_args()
    lines = read(options.output, options)
    missing = sorted(set(range(options.files)) - {line["file"] for line in lines})
    model = missing and HFLM(options.model, device="cpu", dtype="bfloat16", batch_size=options.batch_size)
    for number in missing:
        kind, rows = null_file(number, options.items)
        protocol = {name: getattr(options, name) for name in PROTOCOL}
        lines.append({"file": number, "kind": kind, **protocol, **measure(model, rows, options)})
        write_text(options.output, "".join(json.dumps(line) + "\n" for line in lines))
        print(lines[-1], flush=True)
    for name in ("order_p", "order_t_p"):
        print(*summary(lines, name), sep="\n")


if __name__ == "__main__":
    main()
