"""How often the look at other contexts warns on models that know none of the canaries: by chance it should be 1 in 100.

A GPT-2 that has learnt other secrets by heart, each after BOS, the same untrained, and a random one with sharp
distributions. On each, canaries of which none was ever planted are called planted or controls by lot, over and over.
Prints JSON.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.coverage_models import subjects  # noqa: E402
from leakage_tasks.attacks.contexts import LEVEL, clearer_context  # noqa: E402
from leakage_tasks.canaries import make_canaries  # noqa: E402

RUNS, EACH = 100, 12
TEMPLATE = "the number is {digits:9}."


def main() -> None:
    """Count and print."""
    found = {}
    for name in ("GPT-2, overfit", "GPT-2, untrained", "GPT-2, random and sharp"):
        target = subjects()[name]()
        alarms = 0
        for run in range(RUNS):
            canaries = make_canaries(TEMPLATE, EACH, controls=EACH, seed=run)
            alarms += clearer_context(target, canaries) is not None
        found[name] = {"runs": RUNS, "alarms": alarms, "expected_at_most": LEVEL * RUNS}
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
