"""Extraction by gradient descent: find the filling that makes a canary's label and tags likeliest.

The attack of Parikh, Dupuy and Gupta 2022. Each unknown token is relaxed to a mixture of its alphabet, the model's loss
is minimised over the mixtures, and the likeliest values are the answer. All canaries and restarts of a run are rows of
one batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from leakage_tasks.attacks.access import reads_tags
from leakage_tasks.attacks.causal.search_tree import finite
from leakage_tasks.attacks.classifier.class_scores import guesses_of, places_of
from leakage_tasks.attacks.classifier.coordinate_search import Searches
from leakage_tasks.attacks.finding import GUESSES, AttackResult, Extra, Guess, grade_guesses
from leakage_tasks.attacks.inversion import search
from leakage_tasks.attacks.redact import NamingCanary
from leakage_tasks.attacks.registry import AttackRequest, register
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.core.log import log
from leakage_tasks.core.option import Option
from leakage_tasks.targets.calls import Calls
from leakage_tasks.targets.pass_rows import RowLimit
from leakage_tasks.targets.protocols import RelaxesTokens

if TYPE_CHECKING:
    from leakage_tasks.targets.relaxation import Relaxation

MODEL, DOUBLE = "model", "double"
CELLS = 1 << 24
"""Maximum number of elements ``[n, S, A]`` in one pass of the search. The search needs about eight such tensors of
8-byte numbers, 1 GiB in total."""
OPTIONS = (
    Option("restarts", int, 5, "number of random starts per canary", minimum=1),
    Option("steps", int, 250, "number of gradient steps from each start", minimum=1),
    Option(
        "relaxation",
        str,
        "softmax",
        "the parameters to optimise: softmax logits of a slot's values, logits with Gumbel noise, logits read as the "
        "likeliest value (straight-through), or the embeddings themselves",
        tuple(search.FORMS),
    ),
    Option(
        "characters",
        str,
        search.ADAPTIVE,
        "for models that read characters: mix the characters' features of all values like their embeddings (adaptive), "
        "or use the likeliest value's features (published)",
        (search.ADAPTIVE, search.PUBLISHED),
    ),
    Option("finish", bool, True, "improve the guesses by a coordinate search over whole fillings"),
    Option(
        "alternatives", int, 32, "number of the relaxation's preferred values that finish tries per slot", minimum=1
    ),
    Option("spread", float, 0.1, "the standard deviation of the logits that a search starts from", minimum=0.0),
    Option(
        "learning_rate", float, 6.5e-3, "Adam's first learning rate, multiplied by 0.995 after each step", minimum=1e-9
    ),
    Option("start_temperature", float, 0.1, "the softmax's temperature at the first step", minimum=search.COLDEST),
    Option(
        "cooling",
        float,
        0.997,
        "the factor on the temperature after each step, at most 1",
        minimum=0.0,
        maximum=1,
    ),
    Option(
        "arithmetic",
        str,
        DOUBLE,
        "the precision of the model's arithmetic: double, or the model's own",
        (DOUBLE, MODEL),
    ),
)
NO_MIXTURES = "use --model nlu-tagger or classifier-scorer, or another attack for other models"


def _most_calls(request: AttackRequest) -> Calls:
    most = max(request.budget, _descent_calls(request)) + 1
    return Calls(texts=most, rounds=most)


def _descent_calls(request: AttackRequest) -> int:
    """Return the rows read for a canary before the finish: each step forward and backward, then the answers."""
    return int(request.values["restarts"] * (2 * request.values["steps"] + 1))


@register(
    "inversion",
    "extraction",
    RelaxesTokens,
    auto=0,
    # If only a label is known, as with text classifiers, there are attacks that need no gradient.
    affordable=lambda request: reads_tags(request.target),
    remedy=NO_MIXTURES,
    options=OPTIONS,
    batched=True,
    classes=["model inversion"],
    most_calls=_most_calls,
)
def inversion(requests: Sequence[AttackRequest]) -> Iterator[AttackResult]:
    """Minimise the loss over mixtures of each slot's values (section 3.1), then search over whole fillings.

    The schedule is that of appendix B: Adam, with temperature ``start_temperature`` · ``cooling``^t at step t. A
    restart's answer is the likeliest value of each slot; the best answer has the lowest loss. With ``finish``, a
    coordinate search improves every answer one slot at a time, among the ``alternatives`` values that its relaxation
    prefers, until no change lowers the loss or ``budget`` is spent. Guesses are all answers, before and after the
    finish, with their losses in bits. ``model_calls`` counts rows; a row read forward and backward counts twice.

    In ``extra``, ``unfinished`` marks the right slots of the best answer before the finish, and ``unfinished_loss`` is
    its loss. ``best_loss`` and ``secret_loss`` are the losses of the best guess and of the secret. ``settled`` is true
    if the finish ended before the budget. Raises OptionError if ``budget`` does not pay for the restarts, and
    TargetError for values that the model cannot mix and for losses that are not finite.
    """
    restarts, steps = (requests[0].values[name] for name in ("restarts", "steps"))
    calls = _descent_calls(requests[0])
    for request in requests:
        if calls > request.budget:
            raise OptionError(
                f"budget={request.budget} is too small for restarts={restarts} of steps={steps}, which read {calls} "
                f"sequences per canary: lower restarts or steps, raise budget to {calls}, or use attack=label-search"
            )
    batch = InversionBatch(requests, calls)
    groups = batch.groups()
    log.info(
        f"inversion: {len(requests)} canaries × {restarts} restarts of {steps} steps; the first {len(groups[0])} "
        f"canaries ({len(groups[0]) * restarts} rows) run together"
    )
    for group in groups:
        yield from batch.attack(group)


class InversionBatch:
    """All canaries of a run, relaxed together; ``spent`` rows are read for each canary before its coordinate search."""

    def __init__(self, requests: Sequence[AttackRequest], spent: int) -> None:
        self.requests, self.values, self.spent = requests, requests[0].values, spent
        self.relaxation = _relaxed(requests, self.values["arithmetic"] == DOUBLE)
        settings = search.InversionSettings
        self.plan = settings(**{field.name: self.values[field.name] for field in fields(settings)})
        sizes = self.relaxation.sizes
        self._descents = RowLimit(max(1, min(self.relaxation.batch, CELLS // (sizes.shape[1] * int(sizes.max())))))
        self._scores = RowLimit(self.relaxation.batch)

    def groups(self) -> list[IntArray]:
        """Split the canaries into groups whose restarts fit into one forward pass."""
        number = max(1, self._descents.most // self.values["restarts"])
        places = np.arange(len(self.requests))
        return [places[first : first + number] for first in range(0, len(places), number)]

    def attack(self, group: IntArray) -> Iterator[AttackResult]:
        """Attack the canaries of ``group``; yield a result for each."""
        canaries = np.repeat(group, self.values["restarts"])
        answers, tried = self._answers(canaries)
        losses = self._losses(canaries, answers)
        for canary, loss in zip(canaries.tolist(), losses.tolist(), strict=True):
            with NamingCanary(self.requests[canary].canary):
                finite(loss)
        searches = self._searches(canaries, answers, losses, tried)
        if self.values["finish"]:
            searches.descend(self._losses)
        secrets = self._losses(group, self._secrets(group))
        for number, loss in zip(group, secrets.tolist(), strict=True):
            canary, own_rows, ended = self.requests[number].canary, canaries == number, searches.canaries == number
            guesses = _guesses(
                canary,
                np.concatenate([searches.places[ended], answers[own_rows]]),
                np.concatenate([searches.losses[ended], losses[own_rows]]),
            )
            (secret,), best = places_of(canary.attack_space, [canary.secret]), int(losses[own_rows].argmin())
            extra: Extra = {
                "restarts": self.values["restarts"],
                "secret_loss": loss,
                "audit_calls": 1,
                **({"settled": bool(searches.settled[ended].all())} if self.values["finish"] else {}),
                "best_loss": guesses[0].score,
                "unfinished": (answers[own_rows][best, : len(secret)] == secret).tolist(),
                "unfinished_loss": float(losses[own_rows][best]),
            }
            calls = self.spent + int(searches.calls[number])
            yield {**grade_guesses(guesses, canary.secret), "extra": extra, "model_calls": calls}

    def _answers(self, canaries: IntArray) -> tuple[IntArray, IntArray]:
        """Return each row's likeliest values ``[n, S]``, and the first ``alternatives`` of every slot ``[n, S, M]``."""
        restarts = self.values["restarts"]
        seeds = [f"{self.requests[canary].seed}:{number % restarts}" for number, canary in enumerate(canaries)]
        which = self._tensor(canaries)

        def preferred(rows: slice) -> IntArray:
            likely = search.relaxed_search(self.relaxation, which[rows], seeds[rows], self.plan)
            self._check(canaries[rows], likely)
            best = likely.topk(min(self.values["alternatives"], likely.shape[-1]), dim=-1)
            return best.indices.masked_fill(best.values == -torch.inf, -1).cpu().numpy()

        tried = np.concatenate(self._descents.parts(len(canaries), preferred))
        return tried[..., 0], tried

    def _check(self, canaries: IntArray, likely: Tensor) -> None:
        """Raise TargetError if the search for some canary ended in NaN."""
        lost = canaries[likely.isnan().flatten(1).any(dim=1).cpu().numpy()]
        if len(lost):
            with NamingCanary(self.requests[lost[0]].canary):
                raise TargetError(
                    "its loss or gradient became NaN during the search: look for damaged weights, or lower "
                    "learning_rate=… or spread=…"
                )

    def _losses(self, canaries: IntArray, places: IntArray) -> FloatArray:
        """Return the losses in bits of whole fillings ``[n, S]``, shape ``[n]``."""
        which, values = self._tensor(canaries), self._tensor(places)

        def bits(rows: slice) -> FloatArray:
            read = self.relaxation.chosen(which[rows], values[rows])
            return self.relaxation.costs(which[rows], read).double().cpu().numpy()

        with torch.inference_mode():
            return np.concatenate(self._scores.parts(len(canaries), bits))

    def _searches(self, canaries: IntArray, answers: IntArray, losses: FloatArray, tried: IntArray) -> Searches:
        """Prepare one coordinate search from each distinct answer of a canary."""
        _, first = np.unique(np.column_stack([canaries, answers]), axis=0, return_index=True)
        rows = np.sort(first)
        slots = (self.relaxation.sizes > 0).sum(axis=1)[canaries[rows]]
        budgets = np.array([request.budget for request in self.requests]) - self.spent
        return Searches(canaries[rows], answers[rows], losses[rows], tried[rows], slots, budgets)

    def _secrets(self, group: IntArray) -> IntArray:
        """Return the indices of the secrets' values, ``[canaries, S]``."""
        indices = np.zeros((len(group), self.relaxation.sizes.shape[1]), dtype=np.int64)
        for row, index in enumerate(group):
            canary = self.requests[index].canary
            indices[row, : len(canary.secret)] = places_of(canary.attack_space, [canary.secret])[0]
        return indices

    def _tensor(self, values: IntArray) -> Tensor:
        return torch.from_numpy(values).to(self.relaxation.device)


def _guesses(canary: Canary, places: IntArray, losses: FloatArray) -> list[Guess]:
    """Return the distinct fillings of a canary as guesses, best first; ``places`` ``[n, S]`` are indices of values."""
    distinct, first = np.unique(places, axis=0, return_index=True)
    order = np.argsort(losses[first], kind="stable")[:GUESSES]
    slots = len(canary.attack_space.slots)
    return guesses_of(canary.attack_space, distinct[order, :slots], losses[first][order])


def _relaxed(requests: Sequence[AttackRequest], double: bool) -> Relaxation:
    """Relax the canaries together; an error names the first canary that cannot be relaxed."""
    target = requests[0].target
    try:
        return target.relaxed([request.canary for request in requests], double)
    except TargetError:
        for request in requests:
            with NamingCanary(request.canary):
                target.relaxed([request.canary], double)
        raise
