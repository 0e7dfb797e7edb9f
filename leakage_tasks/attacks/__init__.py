"""Attacks that extract secrets: one file per attack. They use targets and do not depend on the harness."""

from typing import TYPE_CHECKING

from leakage_tasks.attacks.finding import Finding, Guess, finding_from_json

if TYPE_CHECKING:
    from leakage_tasks.attacks.registry import ATTACKS
    from leakage_tasks.attacks.run import run_attack

__all__ = ["ATTACKS", "Finding", "Guess", "finding_from_json", "run_attack"]


def __getattr__(name: str) -> object:
    """Import the attacks on first use, so that code that only reads findings does not import torch."""
    if name not in ("ATTACKS", "run_attack"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from leakage_tasks.attacks import registry, run

    return getattr(registry if name == "ATTACKS" else run, name)
