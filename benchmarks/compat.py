"""Compatibility table: attacks on small models of many architectures and tokenizers, compared with the harness.

Prints the outcomes, writes docs/compatibility.md, and exits with code 1 if a cell fails or fewer than 85 % of the cells
use the fast path. Outcomes are stored per cell, so a stopped run can continue; a change of code, of package versions or
of the device discards them. Takes some minutes on one core and needs no network and no data. ``--seconds`` runs one
cell of each architecture first, families in turn, and as many others as the time allows; it writes no page.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import logging
import math
import platform
import sys
import time
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from benchmarks import ROOT
from benchmarks.compatibility.cells import Cell, Outcome, cells, first_of_each, run
from benchmarks.compatibility.table import good_enough, page, summary
from leakage_tasks.core.atomic import replacing

SOURCES = ("leakage_tasks", "adapters", "benchmarks/compatibility")
SECOND_DEVICE = "tests/second_device.py"
PACKAGES = {"lm-eval": "lm_eval", "transformers": "transformers", "tokenizers": "tokenizers", "torch": "torch"}

DEVICE_HELP = (
    "device of the models; the page is written only for cpu. 'second' computes on the CPU, but is an error where "
    "tensors of both meet, as on a GPU"
)


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that the outcomes depend on."""
    return {"Python": platform.python_version(), **{name: version(package) for name, package in PACKAGES.items()}}


def fingerprint(device: str) -> str:
    """Return a hash of the code, versions and device that the outcomes depend on."""
    digest = hashlib.sha256(json.dumps([versions(), device]).encode())
    paths = [path for source in SOURCES for path in sorted((ROOT / source).rglob("*.py"))]
    for path in [*paths, ROOT / SECOND_DEVICE] if device == "second" else paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def outcome_of(cell: Cell, folder: Path, made_by: str, device: str) -> Outcome:
    """Return a cell's outcome, stored in ``folder`` for each device if the code is unchanged, else computed and stored
    there."""
    path = folder / device.replace(":", "-") / f"{cell.name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_file():
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored.pop("made_by") == made_by:
            return Outcome(**stored)
    # Each call of the harness draws a progress bar.
    with contextlib.redirect_stderr(io.StringIO()):
        outcome = run(cell, device)
    _write(path, json.dumps({**asdict(outcome), "made_by": made_by}, indent=1) + "\n")
    return outcome


def _write(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def main() -> None:
    """Run the cells without a stored outcome, print all outcomes and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "runs" / "compat", help="folder of the stored outcomes")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "compatibility.md")
    parser.add_argument("--device", default="cpu", help=DEVICE_HELP)
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no cell after this time")
    arguments = parser.parse_args()
    if arguments.device == "second":
        from tests.second_device import use_second_device

        use_second_device()
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    logging.getLogger("transformers").setLevel(logging.ERROR)
    made_by, outcomes, started = fingerprint(arguments.device), [], time.perf_counter()
    whole = arguments.seconds == math.inf
    for cell in cells() if whole else first_of_each(cells()):
        if outcomes and time.perf_counter() - started > arguments.seconds:
            break
        outcome = outcome_of(cell, arguments.output, made_by, arguments.device)
        outcomes.append(outcome)
        names = f"{outcome.family:15} {outcome.architecture:20} {outcome.tokenizer:15}"
        print(names, outcome.verdict, outcome.words, flush=True)
    if whole and arguments.device == "cpu":
        other = ROOT / "benchmarks" / "llama_cpp.json"
        llama_cpp = json.loads(other.read_text(encoding="utf-8")) if other.is_file() else None
        _write(arguments.page, page(outcomes, versions(), llama_cpp))
    print(summary(outcomes))
    if not good_enough(outcomes):
        sys.exit(1)


if __name__ == "__main__":
    main()
