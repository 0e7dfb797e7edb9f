"""What a harness model is asked in text: how it goes on, and what a continuation costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM

from leakage_tasks.core.errors import TargetError
from leakage_tasks.core.log import first_line
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.harness.sampling import kinds


class HarnessTexts:
    """A harness model's ``generate_until`` and ``loglikelihood``, each asked for everything in one call."""

    def __init__(self, lm: LM) -> None:
        self._lm = lm
        self._name = kinds(lm)[0]
        self._scores = False

    def continuations(self, asked: Sequence[tuple[str, dict[str, Any]]]) -> list[str]:
        """A continuation for each text and its settings; alike ones are separate draws."""
        return [answer or "" for answer in self._ask("generate_until", asked)]

    def check_scores(self, text: str) -> None:
        """Raise TargetError if the model gives no log-likelihoods: better known before it is drawn from.

        Models say so in several ways, some by an assertion.
        """
        if self._scores:
            return
        try:
            self._lm.loglikelihood([_request("loglikelihood", ("", text), 0)])
        except (NotImplementedError, AssertionError, ValueError) as error:
            raise TargetError(
                f"{self._name} gives no log-likelihoods ({first_line(error)}), which suffix extraction needs: choose a "
                "model or API that gives them, such as --model local-completions"
            ) from None
        self._scores = True

    def bits(self, asked: Sequence[tuple[str, str]]) -> list[float]:
        """Cost in bits of each continuation after its context. Raises TargetError for figures that are none.

        The harness moves white space at a context's end over to the continuation: what that costs is asked, too, and
        comes off again.
        """
        parts = [_parts(*each) for each in asked]
        wanted = dict.fromkeys(each for pair in parts for each in pair if each[1])
        found = dict(zip(wanted, self._ask("loglikelihood", list(wanted)), strict=True))
        bits = {each: -float(answer[0]) / LN2 for each, answer in found.items()}
        if not all(map(math.isfinite, bits.values())):
            raise TargetError(f"{self._name} gave a log-likelihood that is not finite: look at the model or its server")
        return [max(bits[whole] - bits.get(space, 0.0), 0.0) for whole, space in parts]

    def _ask(self, kind: Any, asked: Sequence[tuple]) -> list[Any]:
        # An API's answer to no request at all is an error.
        requests = [_request(kind, arguments, place) for place, arguments in enumerate(asked)]
        return list(getattr(self._lm, kind)(requests)) if requests else []


def _parts(context: str, continuation: str) -> tuple[tuple[str, str], tuple[str, str]]:
    """A context without the white space at its end, with that and the continuation; the same with that alone."""
    trimmed = context.rstrip()
    space = context[len(trimmed) :]
    return (trimmed, space + continuation), (trimmed, space)


def _request(kind: Any, arguments: tuple, place: int) -> Instance:
    return Instance(request_type=kind, doc={}, arguments=arguments, idx=place)
