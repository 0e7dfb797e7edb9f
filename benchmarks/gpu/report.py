"""Results of the steps of ``benchmarks/on_gpu.sh``, and the table of all of them.

Each step appends its results to ``OUT/STEP.jsonl``. ``python -m benchmarks.gpu.report OUT STEP=CODE …`` prints the
table of the steps with these exit codes, and exits with 1 if a step failed or ran out of time.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

HELD, FAILED, LEFT_OUT = "held", "FAILED", "left out"
TIMEOUT_CODES = (124, 137)
"""Exit codes of ``timeout``."""


class Report:
    """The results of one step. A result is appended to the step's file at once, so that a stopped step keeps it."""

    def __init__(self, step: str, out: Path) -> None:
        self.file, self.failed = out / f"{step}.jsonl", False

    def add(self, check: str, result: str, outcome: str = HELD, **figures: Any) -> None:
        """Append a result.

        Args:
            check: The name of the check.
            result: Its result in words and numbers.
            outcome: :data:`HELD`, :data:`FAILED` or :data:`LEFT_OUT`.
            figures: Values for the JSON file alone.
        """
        self.failed |= outcome == FAILED
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"check": check, "result": result, "outcome": outcome, **figures}) + "\n")
        print(f"{check}: {result} ({outcome})", flush=True)

    def progress(self, check: str, result: str) -> None:
        """Store a result that is shown only if the step is stopped before it ends."""
        self.file.with_suffix(".progress").write_text(json.dumps({"check": check, "result": result}))

    def exit(self) -> None:
        """End the process, with 1 if a check failed."""
        sys.exit(int(self.failed))


def step_options(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options that all steps have."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of all results")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to test the script on a CPU")
    return parser


def device() -> str:
    """Return ``cuda`` if there is a GPU, else ``cpu``."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def rows_of(out: Path, step: str, code: int) -> Iterator[tuple[str, str, str, str]]:
    """Yield step, check, result and outcome of the results of one step that ended with exit code ``code``."""
    file, failed = out / f"{step}.jsonl", False
    for text in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        record = json.loads(text)
        failed |= record["outcome"] == FAILED
        yield step, record["check"], record["result"], record["outcome"]
    progress = file.with_suffix(".progress")
    if code and progress.exists():
        record = json.loads(progress.read_text(encoding="utf-8"))
        yield step, record["check"], f"until then: {record['result']}", "unfinished"
    if code in TIMEOUT_CODES:
        yield step, "time limit", "the step took too long", FAILED
    elif code and not failed:
        yield step, f"exit code {code}", _last_line(out / f"{step}.log"), FAILED


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n") if log.exists() else []
    return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "no output").replace("|", "/")


def machine() -> str:
    """Return a line with the device and the versions."""
    import torch

    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    return f"{name}, torch {torch.__version__}, transformers {version('transformers')}, lm_eval {version('lm_eval')}"


def main() -> None:
    """Print the table; exit with 1 if a step failed."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("steps", nargs="*", metavar="STEP=CODE", help="steps in order, with exit code and seconds")
    options = parser.parse_args()
    lines, failed = [f"{machine()}\n", "| step | seconds | check | result | outcome |", "|---|---:|---|---|---|"], False
    for word in options.steps:
        step, _, figures = word.partition("=")
        code, _, seconds = figures.partition(":")
        failed |= int(code) != 0
        rows = list(rows_of(options.out, step, int(code))) or [(step, "no result", "", FAILED)]
        failed |= any(outcome == FAILED for *_, outcome in rows)
        for number, (name, check, result, outcome) in enumerate(rows):
            lines.append(f"| {name} | {seconds if not number else ''} | {check} | {result} | {outcome} |")
    table = "\n".join(lines)
    (options.out / "table.md").write_text(table + "\n", encoding="utf-8")
    print(table)
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
