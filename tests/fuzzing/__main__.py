"""``python -m tests.fuzzing --count N``: N hostile inputs to everything that reads what others wrote.

Called again with the same ``--state`` it goes on where it was stopped; with more inputs wanted, it adds them. Input
number i of a surface depends on ``--seed``, the surface and i alone: ``--only SURFACE --case I`` feeds it again.

An input may be read, or declined by one error of ours in one line that a terminal can show. Anything else is a
finding: another exception, ten seconds of computing, a minute of silence, 2 GiB more memory, a file left behind or
changed, a promise of the surface not kept. Findings stand in the state folder, with their inputs; exit code 1 if any.

``surfaces/__init__.py`` says how inputs are dealt out. 100,000 take about a quarter of an hour of computing, so some
eight minutes on two idle cores.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tests.fuzzing.driving import drive, outcomes, shares
from tests.fuzzing.surfaces import SHARES
from tests.fuzzing.table import findings, table
from tests.fuzzing.work import write_input


def main() -> int:
    """Exit code 1 if there is any finding."""
    asked = _asked()
    if asked.only is not None and asked.case is not None:
        return _again(asked.only, asked.seed, asked.case, asked.inputs)
    wanted = {asked.only: asked.count} if asked.only is not None else shares(asked.count)
    states = drive(wanted, asked.seed, asked.state, asked.jobs)
    print(table(states))
    print(findings(states, asked.state), end="")
    return int(any(state.findings for state in states))


def _again(surface: str, seed: int, number: int, folder: Path | None) -> int:
    """Feed one input again, and tell what comes of it; its files are written to ``folder``."""
    place = folder or Path(tempfile.mkdtemp(prefix="fuzzing-"))
    [(_, outcome, _)] = outcomes(surface, seed, range(number, number + 1), place)
    print(f"{outcome.kind}: {outcome.where}\n{outcome.detail}".rstrip())
    write_input(surface, seed, number, place)
    print(f"the input: {place / f'{surface}-{number}' / 'input'}")
    return int(outcome.kind not in ("success", "declined"))


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzing", description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="inputs in all, or of --only")
    parser.add_argument("--seed", type=int, default=0, help="the same seed, the same inputs")
    parser.add_argument("--state", type=Path, default=Path("runs/fuzzing"), help="folder to go on from")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="surfaces fed at once")
    parser.add_argument("--only", choices=SHARES, help="this surface alone")
    parser.add_argument("--case", type=int, help="with --only: this input again")
    parser.add_argument("--inputs", type=Path, help="with --case: where its files are written")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
