"""What every search over partial fillings makes of the guesses it found."""

from __future__ import annotations

from collections.abc import Sequence

from leakage_tasks.attacks.causal.explorer import Explorer
from leakage_tasks.attacks.finding import GUESSES, AttackResult, Guess, marked
from leakage_tasks.attacks.registry import Order

NO_LOGITS = "use attack=brute-force on small spaces, else attack=greedy, which need no logits"


def searched(
    order: Order, explorer: Explorer, best: Sequence[Guess], proven: int = 0, **extra: int | None
) -> AttackResult:
    """The fields of a finding: guesses, cheapest first and given without their texts, and what they took."""
    fill = order.canary.attack_space.fill
    guesses = [Guess(guess.filling, fill(guess.filling), guess.score) for guess in best]
    told = marked(guesses, order.canary.secret)
    return {**told, "proven": proven, "model_calls": explorer.calls, "extra": {"nodes": explorer.nodes, **extra}}


def distinct(known: Sequence[Guess], more: Sequence[Guess]) -> list[Guess]:
    """The ten cheapest of both, each filling once and at the cost it was first known by."""
    merged = {guess.filling: guess for guess in [*more, *known]}
    return sorted(merged.values(), key=lambda guess: (guess.score, guess.filling))[:GUESSES]
