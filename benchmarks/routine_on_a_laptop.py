"""The audit of the size ``routine`` on a real pretrained model and a few CPU cores. Prints a table.

``LEAKAGE_MODEL=FOLDER python -m benchmarks.routine_on_a_laptop [--dtypes float32 bfloat16] [--threads 2]`` runs
``canary_extraction`` and ``canary_exposure`` on 32 canaries and 100 controls of nine digits. The model has learned
none of them, so that all of them are as hard as controls. Prints for each data type:

* the rows, passes and seconds of the run, and the rows per second of processor time (over all threads);
* the same for plain cached passes of 256 rows through `transformers`, in this process, and the share that is reached;
* the prediction of ``leakage plan`` from a pilot of five, with its range, and the ratio of the time taken to the likely
  time. The pilot is not part of the time of the run.

``--planted 1 --controls 2 --budget 500`` tests the script in some minutes.
"""

from __future__ import annotations

import argparse
import io
import os
import tempfile
import time
from contextlib import redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.plain_passes import PlainSpeed, plain_speed
from benchmarks.plan_against_run import TASKS, range_and_cost
from leakage_tasks import audit
from leakage_tasks.canaries import make_canaries, write_manifest
from leakage_tasks.canaries.profiles import ROUTINE, profile_of
from leakage_tasks.planning.estimate import Plan
from leakage_tasks.planning.meter import metered, modules_of
from leakage_tasks.planning.plan import make_plan, planned_tasks
from leakage_tasks.planning.watch import LIMIT, PilotWatch
from leakage_tasks.selftest.run import load_model

TEMPLATE = "The access code of {unique} is {digits:9}."
PLAIN_ROWS = 256
PILOT = 5


@dataclass(frozen=True)
class Taken:
    """The actual cost of the run."""

    rows: int
    passes: int
    seconds: float
    cpu_seconds: float


def run(lm: Any, manifest: Path, metadata: dict[str, Any]) -> Taken:
    """Run both tasks as ``lm_eval`` does and measure them."""
    before, started = time.process_time(), time.perf_counter()
    with metered(modules_of(lm)) as count:
        audit(lm, canaries=manifest, tasks=TASKS, **metadata)
    return Taken(count.rows, count.passes, time.perf_counter() - started, time.process_time() - before)


def line(dtype: str, taken: Taken, plain: PlainSpeed, plan: Plan | None) -> str:
    """Return a row of the table in Markdown."""
    ours = taken.rows / taken.cpu_seconds
    cells = [dtype, f"{taken.rows:,}", f"{taken.passes:,}", f"{taken.seconds:,.0f}", f"{ours:,.0f}"]
    cells += [f"{plain.rows_per_cpu_second:,.0f}", f"{ours / plain.rows_per_cpu_second:.2f}"]
    if plan is None:
        return f"| {' | '.join([*cells, 'not planned', ''])} |"
    seconds = plan.total("seconds")
    cells += [f"{seconds.likely:,.0f} ({range_and_cost(seconds.low, seconds.high, taken.seconds, 0)})"]
    return f"| {' | '.join([*cells, f'{taken.seconds / max(seconds.likely, 1e-9):.2f}'])} |"


HEAD = (
    "| dtype | rows | passes | seconds | rows per CPU second | plain | share | seconds planned | taken / planned |\n"
    "|---|" + "---:|" * 6 + "---|---:|"
)


def main() -> None:
    """Plan and run the audit in each data type."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    routine = profile_of(ROUTINE)
    parser.add_argument("--model", default=os.environ.get("LEAKAGE_MODEL"), help="folder (default: LEAKAGE_MODEL)")
    parser.add_argument("--dtypes", nargs="+", choices=["float32", "bfloat16"], default=["float32", "bfloat16"])
    parser.add_argument("--planted", type=int, default=routine.count)
    parser.add_argument("--controls", type=int, default=routine.controls)
    parser.add_argument("--budget", type=int, help="maximum number of sequences per canary (default: the tasks')")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--pilot-seconds", type=float, default=LIMIT, help="0 for no plan")
    options = parser.parse_args()
    if options.model is None:
        parser.error("give the folder of a model with --model or LEAKAGE_MODEL")
    torch.set_num_threads(options.threads)
    metadata = {} if options.budget is None else {"budget": options.budget}
    canaries = make_canaries(TEMPLATE, options.planted, controls=options.controls, seed=0)
    print(HEAD, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        manifest = Path(folder) / "canaries.jsonl"
        write_manifest(canaries, manifest)
        for dtype in options.dtypes:
            lm = load_model("hf", f"pretrained={options.model},dtype={dtype}", "64", device="cpu")
            # Hides the harness' progress bars, one for each request.
            with redirect_stderr(io.StringIO()):
                plan = _plan(lm, manifest, metadata, options.pilot_seconds)
                taken = run(lm, manifest, metadata)
            print(line(dtype, taken, plain_speed(lm.model, PLAIN_ROWS, 20), plan), flush=True)


def _plan(lm: Any, manifest: Path, metadata: dict[str, Any], seconds: float) -> Plan | None:
    if not seconds:
        return None
    return make_plan(lm, planned_tasks(TASKS, str(manifest), metadata), PILOT, PilotWatch(seconds))


if __name__ == "__main__":
    main()
