"""Extraction by gradient: the filling that makes a canary's label and tags likeliest (Parikh, Dupuy and Gupta 2022).

Each unknown token is relaxed to a mixture of its alphabet, the model's loss minimised over the mixtures, and the
likeliest values taken. All canaries and restarts of a run are rows of one batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from leakage_tasks.attacks.access import reads_tags
from leakage_tasks.attacks.finding import AttackResult
from leakage_tasks.attacks.inversion.batch import DOUBLE, InversionBatch
from leakage_tasks.attacks.inversion.search import ADAPTIVE, COLDEST, FORMS, PUBLISHED
from leakage_tasks.attacks.registry import AttackOption, AttackRequest, register
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.log import log
from leakage_tasks.targets.protocols import RelaxesTokens

MODEL = "model"
RESTARTS = AttackOption("restarts", int, 5, "how many random starts there are for a canary", least=1)
STEPS = AttackOption("steps", int, 250, "how many steps the gradient takes from each start", least=1)
RELAXATION = AttackOption(
    "relaxation",
    str,
    "softmax",
    "what is optimised: logits of a softmax over a slot's values, with Gumbel noise, or read as the likeliest value "
    "(straight-through); or the embeddings themselves",
    tuple(FORMS),
)
CHARACTERS = AttackOption(
    "characters",
    str,
    ADAPTIVE,
    "where a model reads characters: those of all values, mixed like their embeddings, or (published) those of the "
    "likeliest value",
    (ADAPTIVE, PUBLISHED),
)
FINISH = AttackOption(
    "finish", bool, True, "whether a coordinate search over whole fillings goes on from what was found"
)
ALTERNATIVES = AttackOption(
    "alternatives", int, 32, "how many values a slot the finish tries, those the relaxation prefers", least=1
)
SPREAD = AttackOption("spread", float, 0.1, "the standard deviation of the logits that a search starts from", least=0.0)
RATE = AttackOption(
    "learning_rate", float, 6.5e-3, "Adam's first learning rate, 0.995 times as much after each step", least=1e-9
)
START = AttackOption("start_temperature", float, 0.1, "the softmax's temperature at the first step", least=COLDEST)
COOLING = AttackOption(
    "cooling", float, 0.997, "what the temperature is multiplied by after each step, at most 1", least=0.0
)
ARITHMETIC = AttackOption(
    "arithmetic", str, DOUBLE, "the precision a model computes in: double, or its own", (DOUBLE, MODEL)
)
NO_MIXTURES = "use --model nlu-tagger or classifier-scorer, another attack for other models"


@register(
    "inversion",
    "extraction",
    RelaxesTokens,
    auto=0,
    # For a text classifier's label alone there are attacks that need no gradient.
    affordable=lambda order: reads_tags(order.target),
    remedy=NO_MIXTURES,
    settings=(
        RESTARTS,
        STEPS,
        RELAXATION,
        CHARACTERS,
        FINISH,
        ALTERNATIVES,
        SPREAD,
        RATE,
        START,
        COOLING,
        ARITHMETIC,
    ),
    together=True,
)
def inversion(orders: Sequence[AttackRequest]) -> Iterator[AttackResult]:
    """Gradient descent on mixtures of each slot's values (section 3.1), then a coordinate search over fillings.

    The schedule is that of appendix B: Adam, and at step t the temperature ``start_temperature`` · ``cooling``^t. A
    restart's answer is the likeliest value of each slot; the best is that of the lowest loss. With ``finish`` every
    answer is then improved a slot at a time, among the ``alternatives`` values its relaxation prefers, until nothing
    improves it or ``budget`` is spent: no loss rises. Guesses are all answers, before and after, with their losses in
    bits. ``model_calls`` counts rows, one read forward and back as two. ``extra``: ``unfinished`` marks the right slots
    of the best answer before the finish, ``unfinished_loss`` is its loss; ``best_loss`` and ``secret_loss`` are those
    of the best guess and of the secret; ``settled`` tells whether the finish came to its own end.
    Raises OptionError where ``budget`` does not pay for the restarts, TargetError for values the model cannot mix and
    for losses that are no numbers.
    """
    for order in orders:
        _check(order)
    batch = InversionBatch(orders, _calls(orders[0]))
    groups, restarts = batch.groups(), orders[0].settings[RESTARTS.name]
    log.info(
        f"inversion: {len(orders)} canaries × {restarts} restarts of {orders[0].settings[STEPS.name]} steps; the first "
        f"{len(groups[0])} canaries ({len(groups[0]) * restarts} rows) are done together"
    )
    for group in groups:
        yield from batch.attacked(group)


def _check(order: AttackRequest) -> None:
    restarts, steps, cooling = (order.settings[each.name] for each in (RESTARTS, STEPS, COOLING))
    if cooling > 1:
        raise OptionError(f"{COOLING.name}={cooling} must be 1 or less: it is {COOLING.words}")
    if _calls(order) > order.budget:
        raise OptionError(
            f"budget={order.budget} does not pay for restarts={restarts} of steps={steps}, which read {_calls(order)} "
            f"sequences a canary: lower one of them, raise budget to {_calls(order)}, or use attack=label-search"
        )


def _calls(order: AttackRequest) -> int:
    """Rows read for a canary before the finish: each step forward and back, then the answers."""
    return order.settings["restarts"] * (2 * order.settings["steps"] + 1)
