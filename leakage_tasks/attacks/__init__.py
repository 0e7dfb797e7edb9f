"""How secrets are got out: one file an attack; they know targets, never the harness."""

from leakage_tasks.attacks import (  # noqa: F401 - importing registers them
    beam,
    brute_force,
    class_loss,
    exposure,
    greedy,
    inversion,
    label_search,
    mix_and_match,
    sampling,
    scoring,
    shortest_path,
    skew_normal,
)
from leakage_tasks.attacks.finding import Finding, Guess, finding_from_json
from leakage_tasks.attacks.registry import ATTACKS
from leakage_tasks.attacks.running import run_attack

__all__ = ["ATTACKS", "Finding", "Guess", "finding_from_json", "run_attack"]
