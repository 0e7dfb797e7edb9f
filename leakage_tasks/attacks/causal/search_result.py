"""What every search over partial fillings makes of the guesses it found."""

from __future__ import annotations

from collections.abc import Sequence

from leakage_tasks.attacks.causal.search_tree import SearchTree
from leakage_tasks.attacks.finding import GUESSES, AttackResult, Guess, grade_guesses
from leakage_tasks.attacks.registry import AttackRequest

NO_LOGITS = "use attack=brute-force on small spaces, else attack=greedy, which need no logits"


def search_result(
    order: AttackRequest, explorer: SearchTree, best: Sequence[Guess], proven: int = 0, **extra: int | None
) -> AttackResult:
    """The fields of a finding: guesses, cheapest first and given without their texts, and what they took."""
    fill = order.canary.attack_space.fill
    guesses = [Guess(guess.filling, fill(guess.filling), guess.score) for guess in best]
    told = grade_guesses(guesses, order.canary.secret)
    return {**told, "proven": proven, "model_calls": explorer.calls, "extra": {"nodes": explorer.nodes, **extra}}


def distinct(known: Sequence[Guess], more: Sequence[Guess]) -> list[Guess]:
    """The ten cheapest of both, each filling once and at the cost it was first known by."""
    merged = {guess.filling: guess for guess in [*more, *known]}
    return sorted(merged.values(), key=lambda guess: (guess.score, guess.filling))[:GUESSES]
