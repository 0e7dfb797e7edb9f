"""All canaries and restarts of the attack ``inversion`` as one batch, and the findings made of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from leakage_tasks.attacks.causal.search_tree import finite
from leakage_tasks.attacks.classifier.class_beam import guesses_of
from leakage_tasks.attacks.classifier.coordinate_search import Searches
from leakage_tasks.attacks.finding import GUESSES, AttackResult, Extra, Guess, grade_guesses
from leakage_tasks.attacks.inversion.search import InversionSettings, relaxed_search
from leakage_tasks.attacks.redact import about
from leakage_tasks.attacks.registry import AttackRequest
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets.memory import RowLimit

if TYPE_CHECKING:
    from leakage_tasks.targets.relaxation import Relaxation

DOUBLE = "double"
"""The value of the setting ``arithmetic`` that stands for float64."""
CELLS = 1 << 24
"""Numbers ``[n, S, A]`` in one pass of the search, at most: 1 GiB, as it holds some eight such tensors of 8 bytes."""


class InversionBatch:
    """All canaries of a run, relaxed together; ``spent`` rows are read for each before its finish."""

    def __init__(self, orders: Sequence[AttackRequest], spent: int) -> None:
        self.orders, self.settings, self.spent = orders, orders[0].settings, spent
        self.relaxation = _relaxed(orders, self.settings["arithmetic"] == DOUBLE)
        self.plan = InversionSettings(**{each.name: self.settings[each.name] for each in fields(InversionSettings)})
        sizes = self.relaxation.sizes
        self._descents = RowLimit(max(1, min(self.relaxation.batch, CELLS // (sizes.shape[1] * int(sizes.max())))))
        self._scores = RowLimit(self.relaxation.batch)

    def groups(self) -> list[IntArray]:
        """Canaries whose restarts fit into one pass together."""
        number = max(1, self._descents.most // self.settings["restarts"])
        places = np.arange(len(self.orders))
        return [places[first : first + number] for first in range(0, len(places), number)]

    def attacked(self, group: IntArray) -> Iterator[AttackResult]:
        """What is found out of each canary of ``group``."""
        canaries = np.repeat(group, self.settings["restarts"])
        answers, tried = self._answers(canaries)
        losses = self._losses(canaries, answers)
        for canary, loss in zip(canaries.tolist(), losses.tolist(), strict=True):
            with about(self.orders[canary].canary):
                finite(loss)
        searches = self._searches(canaries, answers, losses, tried)
        if self.settings["finish"]:
            searches.descend(self._losses)
        secrets = self._losses(group, self._secrets(group))
        for canary, secret in zip(group, secrets.tolist(), strict=True):
            own, ended = canaries == canary, searches.canaries == canary
            notes: Extra = {"restarts": self.settings["restarts"], "secret_loss": secret, "audit_calls": 1}
            if self.settings["finish"]:
                notes["settled"] = bool(searches.settled[ended].all())
            found = _Answers(answers[own], losses[own], searches.places[ended], searches.losses[ended])
            calls = self.spent + int(searches.calls[canary])
            yield {**found.fields(self.orders[canary].canary, notes), "model_calls": calls}

    def _answers(self, canaries: IntArray) -> tuple[IntArray, IntArray]:
        """Each row's likeliest values ``[n, S]``, and the first ``alternatives`` of every slot ``[n, S, M]``."""
        restarts = self.settings["restarts"]
        seeds = [f"{self.orders[place].seed}:{number % restarts}" for number, place in enumerate(canaries)]
        which = self._tensor(canaries)

        def preferred(rows: slice) -> IntArray:
            likely = relaxed_search(self.relaxation, which[rows], seeds[rows], self.plan)
            self._check(canaries[rows], likely)
            best = likely.topk(min(self.settings["alternatives"], likely.shape[-1]), dim=-1)
            return best.indices.masked_fill(best.values == -torch.inf, -1).cpu().numpy()

        tried = np.concatenate(self._descents.parts(len(canaries), preferred))
        return tried[..., 0], tried

    def _check(self, canaries: IntArray, likely: Tensor) -> None:
        """Raise TargetError if the search for some canary ended in no numbers."""
        lost = canaries[likely.isnan().flatten(1).any(dim=1).cpu().numpy()]
        if len(lost):
            with about(self.orders[lost[0]].canary):
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
        budgets = np.array([order.budget for order in self.orders]) - self.spent
        return Searches(canaries[rows], answers[rows], losses[rows], tried[rows], slots, budgets)

    def _secrets(self, group: IntArray) -> IntArray:
        """The places of the secrets' values, ``[canaries, S]``."""
        found = np.zeros((len(group), self.relaxation.sizes.shape[1]), dtype=np.int64)
        for row, place in enumerate(group):
            secret = _places_of(self.orders[place].canary)
            found[row, : len(secret)] = secret
        return found

    def _tensor(self, values: IntArray) -> Tensor:
        return torch.from_numpy(values).to(self.relaxation.device)


@dataclass(frozen=True)
class _Answers:
    """One canary's fillings as places ``[n, S]``, with their losses in bits: the answers, and where they ended."""

    answers: IntArray
    losses: FloatArray
    ended: IntArray
    ended_losses: FloatArray

    def fields(self, canary: Canary, notes: Extra) -> AttackResult:
        """The fields of a finding."""
        secret, best = _places_of(canary), int(self.losses.argmin())
        guesses = self._guesses(canary)
        extra = {
            **notes,
            "best_loss": guesses[0].score,
            "unfinished": (self.answers[best, : len(secret)] == secret).tolist(),
            "unfinished_loss": float(self.losses[best]),
        }
        return {**grade_guesses(guesses, canary.secret), "extra": extra}

    def _guesses(self, canary: Canary) -> list[Guess]:
        """The distinct fillings, best first."""
        places, first = np.unique(np.concatenate([self.ended, self.answers]), axis=0, return_index=True)
        losses = np.concatenate([self.ended_losses, self.losses])[first]
        order = np.argsort(losses, kind="stable")[:GUESSES]
        slots = len(canary.attack_space.slots)
        return guesses_of(canary.attack_space, places[order, :slots], losses[order])


def _places_of(canary: Canary) -> IntArray:
    """The places of the secret's values in their alphabets."""
    slots = canary.attack_space.slots
    return np.array([slot.position(value) for slot, value in zip(slots, canary.secret, strict=True)], dtype=np.int64)


def _relaxed(orders: Sequence[AttackRequest], double: bool) -> Relaxation:
    """The canaries relaxed together; an error names the first that cannot be."""
    target = orders[0].target
    try:
        return target.relaxed([order.canary for order in orders], double)
    except TargetError:
        for order in orders:
            with about(order.canary):
                target.relaxed([order.canary], double)
        raise
