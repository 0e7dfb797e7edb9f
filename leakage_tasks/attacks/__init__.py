"""How secrets are got out: one file an attack; they know targets, never the harness."""

from leakage_tasks.attacks import exposure, greedy, scoring, shortest_path  # noqa: F401 - importing registers them
from leakage_tasks.attacks.finding import Finding, Guess, finding_from_json
from leakage_tasks.attacks.registry import ATTACKS, run_attack

__all__ = ["ATTACKS", "Finding", "Guess", "finding_from_json", "run_attack"]
