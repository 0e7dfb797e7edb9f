"""False-alarm rate of the check of other contexts, which should warn in 1 of 100 runs. Prints JSON.

The models are a GPT-2 that memorized other secrets after BOS, an untrained GPT-2, and a random GPT-2 with sharp
distributions. Each run labels canaries that no model was trained on as planted or control at random.
"""

from __future__ import annotations

import argparse
import json

from benchmarks.coverage_models import subjects
from leakage_tasks.attacks.contexts import LEVEL, clearer_context
from leakage_tasks.canaries import make_canaries

RUNS, CANARIES = 100, 12
TEMPLATE = "the number is {digits:9}."


def main() -> None:
    """Count the alarms on each model and print them."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    results = {}
    for name in ("GPT-2, overfit", "GPT-2, untrained", "GPT-2, random and sharp"):
        target = subjects()[name]()
        alarms = 0
        for run in range(RUNS):
            canaries = make_canaries(TEMPLATE, CANARIES, controls=CANARIES, seed=run)
            alarms += clearer_context(target, canaries) is not None
        results[name] = {"runs": RUNS, "alarms": alarms, "expected_at_most": LEVEL * RUNS}
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
