"""The membership attacks on texts: one pass over each text, and one for each further figure that an attack needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from leakage_tasks.attacks.membership.neighbours import Similar
from leakage_tasks.attacks.membership.registry import MembershipAttack
from leakage_tasks.attacks.membership.request import MembershipRequest
from leakage_tasks.attacks.membership.text_record import TextRecord, lowest_tokens
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.targets.protocols import CutText, ReadsTexts

AT_ONCE = 256
"""Number of texts whose findings become known together."""


@dataclass(frozen=True)
class Inputs:
    """The figures' sources besides the model: each is None or empty if it is not available.

    ``frequencies`` ``[V]`` are probabilities of tokens in the reference corpus. ``context`` are non-members that are
    read before a text.
    """

    references: Sequence[ReadsTexts] = ()
    context: CutText | None = None
    frequencies: FloatArray | None = None
    similar: Similar | None = None


def is_long_enough(tokens: int, attacks: Sequence[MembershipAttack], request: MembershipRequest) -> bool:
    """Return True if a text of ``tokens`` tokens has a score of every attack."""
    needed = any("tokens" in attack.needs for attack in attacks)
    return tokens >= 1 and (not needed or lowest_tokens(tokens, request.share) >= 1)


def score_texts(
    reader: ReadsTexts,
    texts: Sequence[CutText],
    attacks: Sequence[MembershipAttack],
    request: MembershipRequest,
    inputs: Inputs,
    done: Callable[[Mapping[int, dict[str, float]]], None] = lambda scores: None,
) -> list[dict[str, float]]:
    """Return the scores of each text by attack; empty for a text that is too short or that the model excludes.

    Args:
        reader: The model.
        texts: The texts, each cut to the tokens that are read.
        attacks: The attacks; the model and ``inputs`` serve all of them.
        request: The options of the attacks.
        inputs: The sources of further figures.
        done: Is called with the scores of the texts that become known together, by index.
    """
    usable = [index for index, text in enumerate(texts) if is_long_enough(len(text.tokens), attacks, request)]
    scores: dict[int, dict[str, float]] = {index: {} for index in sorted(set(range(len(texts))).difference(usable))}
    done(scores)
    for first in range(0, len(usable), AT_ONCE):
        part = usable[first : first + AT_ONCE]
        records = _records(reader, [texts[index] for index in part], attacks, request, inputs)
        known = {index: _scores(record, attacks) for index, record in zip(part, records, strict=True)}
        done(known)
        scores |= known
    return [scores[index] for index in range(len(texts))]


def _scores(record: TextRecord, attacks: Sequence[MembershipAttack]) -> dict[str, float]:
    """Return the score of a text by attack; empty if one of them is not finite."""
    scores = {attack.name: attack.score(record) for attack in attacks}
    return scores if all(map(math.isfinite, scores.values())) else {}


def _records(
    reader: ReadsTexts,
    texts: Sequence[CutText],
    attacks: Sequence[MembershipAttack],
    request: MembershipRequest,
    inputs: Inputs,
) -> list[TextRecord]:
    needs = {need for attack in attacks for need in attack.needs}
    plain = [text.text for text in texts]
    nothing = [None] * len(texts)
    figures = reader.read(texts)
    lowered = _per_token(reader, [text.lower() for text in plain]) if "lowercase" in needs else nothing
    reference = _mean_totals(inputs.references, plain) if inputs.references and "reference" in needs else nothing
    after = nothing
    if inputs.context is not None and "context" in needs:
        after = reader.totals_after(inputs.context, texts).tolist()
    similar: list[Sequence[float]] = [()] * len(texts)
    if inputs.similar is not None and "neighbours" in needs:
        similar = _neighbours(reader, plain, request, inputs.similar)
    frequencies = inputs.frequencies if "frequencies" in needs else None
    return [
        TextRecord(
            text,
            figures[index],
            request.share,
            request.clip,
            lowered[index],
            reference[index],
            after[index],
            None if frequencies is None else frequencies[list(text.tokens)],
            similar[index],
        )
        for index, text in enumerate(texts)
    ]


def _whole(reader: ReadsTexts, texts: Sequence[str]) -> list[CutText]:
    """Return texts with as many tokens as the model can read."""
    return reader.cut(texts, reader.max_length or 1 << 30)


def _mean_totals(readers: Sequence[ReadsTexts], texts: Sequence[str]) -> list[float]:
    """Return the log-likelihood in nats of each text, mean over the models."""
    totals = [[figures.total for figures in reader.read(_whole(reader, texts))] for reader in readers]
    return [float(mean) for mean in np.mean(totals, axis=0)]


def _per_token(reader: ReadsTexts, texts: Sequence[str]) -> list[float]:
    cut = _whole(reader, texts)
    return [figures.total / max(1, len(text.tokens)) for text, figures in zip(cut, reader.read(cut), strict=True)]


def _neighbours(
    reader: ReadsTexts, texts: Sequence[str], request: MembershipRequest, similar: Similar
) -> list[Sequence[float]]:
    number = request.neighbour_number
    several = [copy for text in texts for copy in similar(text, number, request.seed)]
    costs = np.array(_per_token(reader, several)).reshape(len(texts), number)
    return [row.tolist() for row in costs]
