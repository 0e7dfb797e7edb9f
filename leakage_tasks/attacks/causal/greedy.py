"""One guess by the likeliest token each time."""

from __future__ import annotations

from leakage_tasks.attacks.causal.beam import BEAM, beam_search
from leakage_tasks.attacks.causal.search_result import search_result
from leakage_tasks.attacks.causal.search_tree import SearchTree
from leakage_tasks.attacks.finding import AttackResult, Guess, grade_guesses
from leakage_tasks.attacks.registry import AttackRequest, register
from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets.protocols import CompletesText, PredictsNextToken


@register(
    "greedy",
    "extraction",
    PredictsNextToken,
    CompletesText,
    auto=3,
    remedy="choose a model that generates text or has logits",
)
def greedy(order: AttackRequest) -> AttackResult:
    """The likeliest allowed token each time, or what the model writes where only that can be asked."""
    if not isinstance(order.target, PredictsNextToken):
        return _written(order)
    explorer = SearchTree(order.target, order.canary.attack_space)
    limit, width = explorer.calls + order.budget, 1
    best: list[Guess] = []
    # Where the likeliest tokens spell no filling (they are not its canonical ones), look a little wider.
    while not best and width <= BEAM:
        best = beam_search(explorer, width, limit)[:1]
        width *= 4
    return search_result(order, explorer, best)


def _written(order: AttackRequest) -> AttackResult:
    """The model's own continuation of the text before the first slot, read slot by slot.

    A slot the continuation leaves out or fills with what its alphabet lacks is wrong.
    """
    space, secret = order.canary.attack_space, order.canary.secret
    if not space.prefix.strip():
        raise TargetError(
            "attack=greedy needs text before the first slot on a model that only writes: leave known=all, or put some "
            "into the template"
        )
    longest = sum(max(map(len, slot.values)) for slot in space.slots) + sum(map(len, space.pieces[1:]))
    text = order.target.complete(space.prefix.rstrip(), longest + 1)
    text = text.removeprefix(space.prefix[len(space.prefix.rstrip()) :])
    values: list[str] = []
    for slot, piece in zip(space.slots, space.pieces[1:], strict=True):
        values.append(max((value for value in slot.values if text.startswith(value)), key=len, default=""))
        text = text[len(values[-1]) :].removeprefix(piece)
    right = tuple(left == true for left, true in zip(values, secret, strict=True))
    written: AttackResult = {"correct": right, "place": 1 if all(right) else None, "model_calls": 1}
    written["extra"] = {"nodes": 0, "written": values}
    if not all(values):
        return written
    try:
        score = float(order.target.log_perplexity([space.fill(values)])[0])
    except TargetError:
        # A model that only writes: its guess has no score.
        return written
    guess = Guess(tuple(values), space.fill(values), score)
    return {**grade_guesses([guess], secret), "model_calls": 2, "extra": {"nodes": 1}}
