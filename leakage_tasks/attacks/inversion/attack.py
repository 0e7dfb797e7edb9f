"""Extraction by gradient: the filling that makes a canary's label and tags likeliest (Parikh, Dupuy and Gupta 2022).

Each unknown token is relaxed to a mixture of its alphabet, the model's loss minimised over the mixtures, and the
likeliest values taken. All canaries and restarts of a run are rows of one batch.
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
from leakage_tasks.attacks.redact import about
from leakage_tasks.attacks.registry import AttackRequest, register
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.core.log import log
from leakage_tasks.core.option import Option
from leakage_tasks.targets.memory import RowLimit
from leakage_tasks.targets.protocols import RelaxesTokens

if TYPE_CHECKING:
    from leakage_tasks.targets.relaxation import Relaxation

MODEL, DOUBLE = "model", "double"
CELLS = 1 << 24
"""Numbers ``[n, S, A]`` in one pass of the search, at most: 1 GiB, as it holds some eight such tensors of 8 bytes."""
OPTIONS = (
    Option("restarts", int, 5, "how many random starts there are for a canary", minimum=1),
    Option("steps", int, 250, "how many steps the gradient takes from each start", minimum=1),
    Option(
        "relaxation",
        str,
        "softmax",
        "what is optimised: logits of a softmax over a slot's values, with Gumbel noise, or read as the likeliest "
        "value (straight-through); or the embeddings themselves",
        tuple(search.FORMS),
    ),
    Option(
        "characters",
        str,
        search.ADAPTIVE,
        "where a model reads characters: those of all values, mixed like their embeddings, or (published) those of the "
        "likeliest value",
        (search.ADAPTIVE, search.PUBLISHED),
    ),
    Option("finish", bool, True, "whether a coordinate search over whole fillings goes on from what was found"),
    Option("alternatives", int, 32, "how many values a slot the finish tries, those the relaxation prefers", minimum=1),
    Option("spread", float, 0.1, "the standard deviation of the logits that a search starts from", minimum=0.0),
    Option(
        "learning_rate", float, 6.5e-3, "Adam's first learning rate, 0.995 times as much after each step", minimum=1e-9
    ),
    Option("start_temperature", float, 0.1, "the softmax's temperature at the first step", minimum=search.COLDEST),
    Option(
        "cooling",
        float,
        0.997,
        "what the temperature is multiplied by after each step, at most 1",
        minimum=0.0,
        maximum=1,
    ),
    Option("arithmetic", str, DOUBLE, "the precision a model computes in: double, or its own", (DOUBLE, MODEL)),
)
NO_MIXTURES = "use --model nlu-tagger or classifier-scorer, another attack for other models"


@register(
    "inversion",
    "extraction",
    RelaxesTokens,
    auto=0,
    # For a text classifier's label alone there are attacks that need no gradient.
    affordable=lambda request: reads_tags(request.target),
    remedy=NO_MIXTURES,
    options=OPTIONS,
    batched=True,
)
def inversion(requests: Sequence[AttackRequest]) -> Iterator[AttackResult]:
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
    restarts, steps = (requests[0].values[name] for name in ("restarts", "steps"))
    # Rows read for a canary before the finish: each step forward and back, then the answers.
    calls = restarts * (2 * steps + 1)
    for request in requests:
        if calls > request.budget:
            raise OptionError(
                f"budget={request.budget} does not pay for restarts={restarts} of steps={steps}, which read {calls} "
                f"sequences a canary: lower one of them, raise budget to {calls}, or use attack=label-search"
            )
    batch = InversionBatch(requests, calls)
    groups = batch.groups()
    log.info(
        f"inversion: {len(requests)} canaries × {restarts} restarts of {steps} steps; the first {len(groups[0])} "
        f"canaries ({len(groups[0]) * restarts} rows) are done together"
    )
    for group in groups:
        yield from batch.attacked(group)


class InversionBatch:
    """All canaries of a run, relaxed together; ``spent`` rows are read for each before its finish."""

    def __init__(self, requests: Sequence[AttackRequest], spent: int) -> None:
        self.requests, self.values, self.spent = requests, requests[0].values, spent
        self.relaxation = _relaxed(requests, self.values["arithmetic"] == DOUBLE)
        settings = search.InversionSettings
        self.plan = settings(**{field.name: self.values[field.name] for field in fields(settings)})
        sizes = self.relaxation.sizes
        self._descents = RowLimit(max(1, min(self.relaxation.batch, CELLS // (sizes.shape[1] * int(sizes.max())))))
        self._scores = RowLimit(self.relaxation.batch)

    def groups(self) -> list[IntArray]:
        """Canaries whose restarts fit into one pass together."""
        number = max(1, self._descents.most // self.values["restarts"])
        places = np.arange(len(self.requests))
        return [places[first : first + number] for first in range(0, len(places), number)]

    def attacked(self, group: IntArray) -> Iterator[AttackResult]:
        """What is found out of each canary of ``group``."""
        canaries = np.repeat(group, self.values["restarts"])
        answers, tried = self._answers(canaries)
        losses = self._losses(canaries, answers)
        for canary, loss in zip(canaries.tolist(), losses.tolist(), strict=True):
            with about(self.requests[canary].canary):
                finite(loss)
        searches = self._searches(canaries, answers, losses, tried)
        if self.values["finish"]:
            searches.descend(self._losses)
        secrets = self._losses(group, self._secrets(group))
        for number, loss in zip(group, secrets.tolist(), strict=True):
            canary, own, ended = self.requests[number].canary, canaries == number, searches.canaries == number
            guesses = _guesses(
                canary,
                np.concatenate([searches.places[ended], answers[own]]),
                np.concatenate([searches.losses[ended], losses[own]]),
            )
            (secret,), best = places_of(canary.attack_space, [canary.secret]), int(losses[own].argmin())
            extra: Extra = {
                "restarts": self.values["restarts"],
                "secret_loss": loss,
                "audit_calls": 1,
                **({"settled": bool(searches.settled[ended].all())} if self.values["finish"] else {}),
                "best_loss": guesses[0].score,
                "unfinished": (answers[own][best, : len(secret)] == secret).tolist(),
                "unfinished_loss": float(losses[own][best]),
            }
            calls = self.spent + int(searches.calls[number])
            yield {**grade_guesses(guesses, canary.secret), "extra": extra, "model_calls": calls}

    def _answers(self, canaries: IntArray) -> tuple[IntArray, IntArray]:
        """Each row's likeliest values ``[n, S]``, and the first ``alternatives`` of every slot ``[n, S, M]``."""
        restarts = self.values["restarts"]
        seeds = [f"{self.requests[place].seed}:{number % restarts}" for number, place in enumerate(canaries)]
        which = self._tensor(canaries)

        def preferred(rows: slice) -> IntArray:
            likely = search.relaxed_search(self.relaxation, which[rows], seeds[rows], self.plan)
            self._check(canaries[rows], likely)
            best = likely.topk(min(self.values["alternatives"], likely.shape[-1]), dim=-1)
            return best.indices.masked_fill(best.values == -torch.inf, -1).cpu().numpy()

        tried = np.concatenate(self._descents.parts(len(canaries), preferred))
        return tried[..., 0], tried

    def _check(self, canaries: IntArray, likely: Tensor) -> None:
        """Raise TargetError if the search for some canary ended in no numbers."""
        lost = canaries[likely.isnan().flatten(1).any(dim=1).cpu().numpy()]
        if len(lost):
            with about(self.requests[lost[0]].canary):
                raise TargetError(
                    "its loss or the gradient of that is no number on the way: look for damaged weights, or lower "
                    "learning_rate=… or spread=…"
                )

    def _losses(self, canaries: IntArray, places: IntArray) -> FloatArray:
        """Losses in bits of whole fillings ``[n, S]``, shape ``[n]``."""
        which, values = self._tensor(canaries), self._tensor(places)

        def bits(rows: slice) -> FloatArray:
            read = self.relaxation.chosen(which[rows], values[rows])
            return self.relaxation.costs(which[rows], read).double().cpu().numpy()

        with torch.inference_mode():
            return np.concatenate(self._scores.parts(len(canaries), bits))

    def _searches(self, canaries: IntArray, answers: IntArray, losses: FloatArray, tried: IntArray) -> Searches:
        """Coordinate searches from the answers, from equal ones of a canary once."""
        _, first = np.unique(np.column_stack([canaries, answers]), axis=0, return_index=True)
        rows = np.sort(first)
        slots = (self.relaxation.sizes > 0).sum(axis=1)[canaries[rows]]
        budgets = np.array([request.budget for request in self.requests]) - self.spent
        return Searches(canaries[rows], answers[rows], losses[rows], tried[rows], slots, budgets)

    def _secrets(self, group: IntArray) -> IntArray:
        """The places of the secrets' values, ``[canaries, S]``."""
        found = np.zeros((len(group), self.relaxation.sizes.shape[1]), dtype=np.int64)
        for row, place in enumerate(group):
            canary = self.requests[place].canary
            found[row, : len(canary.secret)] = places_of(canary.attack_space, [canary.secret])[0]
        return found

    def _tensor(self, values: IntArray) -> Tensor:
        return torch.from_numpy(values).to(self.relaxation.device)


def _guesses(canary: Canary, places: IntArray, losses: FloatArray) -> list[Guess]:
    """The distinct ones of a canary's fillings, as places ``[n, S]``, best first."""
    distinct, first = np.unique(places, axis=0, return_index=True)
    order = np.argsort(losses[first], kind="stable")[:GUESSES]
    slots = len(canary.attack_space.slots)
    return guesses_of(canary.attack_space, distinct[order, :slots], losses[first][order])


def _relaxed(requests: Sequence[AttackRequest], double: bool) -> Relaxation:
    """The canaries relaxed together; an error names the first that cannot be."""
    target = requests[0].target
    try:
        return target.relaxed([request.canary for request in requests], double)
    except TargetError:
        for request in requests:
            with about(request.canary):
                target.relaxed([request.canary], double)
        raise
