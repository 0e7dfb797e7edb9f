"""How secrets are got out: one file an attack; they know targets, never the harness."""

from typing import TYPE_CHECKING

from leakage_tasks.attacks.finding import Finding, Guess, finding_from_json

if TYPE_CHECKING:
    from leakage_tasks.attacks.registry import ATTACKS
    from leakage_tasks.attacks.run import run_attack

__all__ = ["ATTACKS", "Finding", "Guess", "finding_from_json", "run_attack"]


def __getattr__(name: str) -> object:
    """Import the attacks when they are asked for: what only reads findings does without torch."""
    if name not in ("ATTACKS", "run_attack"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from leakage_tasks.attacks import run

    return getattr(run, name)
