"""The most rows, forward passes and tokens that an attack takes for one canary, from its number of calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from leakage_tasks.attacks.causal.whole_texts import CHUNK
from leakage_tasks.attacks.registry import Attack, AttackRequest
from leakage_tasks.canaries.spaces import Filling, Space
from leakage_tasks.planning.pace import rows_at_once
from leakage_tasks.targets.causal.first_passes import CHECKED
from leakage_tasks.targets.protocols import FillsMasks, PredictsNextToken
from leakage_tasks.targets.rounding import PERTURBED, in_half_precision

SMALL_CALLS = 3
"""Maximum number of calls with fewer whole texts, which may be too few to share a beginning: of the secret, of the last
other fillings, and of a histogram."""
ALL_VALUES, LONGEST = 1000, 32
"""Number of values of a slot up to which the value of the most tokens is looked for among all of them, and number of
values with the most characters among which it is looked for otherwise."""


@dataclass(frozen=True)
class AttackLimits:
    """The most rows, forward passes and tokens for one canary; a pass has up to ``at_once`` rows."""

    rows: float
    passes: float
    tokens: float
    at_once: int


def limits_of(attack: Attack, request: AttackRequest, canaries: int = 1) -> AttackLimits:
    """Return the limits of an attack on one canary, in a run over a number of ``canaries``.

    A step is a row of one token, or of all tokens so far on a model without a cache. A whole text is a row of all its
    tokens, or of the tokens after a beginning that many texts share. A masked language model reads a text once for each
    of its tokens, and a recurrent model reads the tokens after a shared beginning one at a time.
    """
    target, space = request.target, request.canary.attack_space
    calls, own, proof = attack.most_calls(request), 1, 0
    if isinstance(target, PredictsNextToken):
        paths = target.paths(space)
        length, own = len(paths.prefix) + paths.longest + 1, paths.longest
        # In 16 bits, the rows that verify a pass may be read again to measure their rounding.
        proof = CHECKED * (1 + PERTURBED * in_half_precision(getattr(target, "model", None)))
    else:
        length = longest_filling(target, space, request.canary.secret) + 1
    fewest = target.fewest_sharing(space, length) if calls.texts and hasattr(target, "fewest_sharing") else None
    shared, text_rows = 0, length if isinstance(target, FillsMasks) else 1
    whole_tokens = length * text_rows
    # Texts that are too few to share a beginning may share it with texts of other canaries.
    if fewest is not None and fewest <= canaries * min(calls.texts, CHUNK):
        text_rows = own if target.by_token else 1
        if fewest <= min(calls.texts, CHUNK):
            shared = max(0, calls.texts - SMALL_CALLS * (fewest - 1))
    # A shared beginning is read once per call. The first texts are also read whole, to verify this method.
    beginnings = (calls.texts // CHUNK + 1 if shared else 0) + proof
    own_rows = calls.texts * text_rows
    rows = 1 + beginnings + calls.steps + own_rows
    step_tokens = 1 if isinstance(target, PredictsNextToken) and getattr(target, "cached", True) else length
    tokens = length * (1 + beginnings) + calls.steps * step_tokens
    tokens += (calls.texts - shared) * whole_tokens + shared * own
    at_once = rows_at_once(target, length)
    texts_at_once = rows_at_once(target, length, own if shared else length) if text_rows == 1 else at_once
    # The beginning, a proof, and for each further call of texts a pass per token that is read. Up to two thirds of the
    # passes may stay empty, since texts of several lengths share few of them.
    calls_of_texts = text_rows * (calls.texts // CHUNK + 2) if calls.texts else 2
    full = (rows - own_rows) / min(at_once, CHUNK) + own_rows / min(texts_at_once, CHUNK)
    passes = calls.rounds + calls_of_texts + 3 * full
    if fewest is not None and text_rows == 1:
        texts_at_once = rows_at_once(target, length, own)
    return AttackLimits(rows, min(rows, passes), tokens, at_once if calls.steps else texts_at_once)


def longest_filling(target: Any, space: Space, secret: Filling) -> int:
    """Estimate the number of tokens of the longest filling, or of its characters if the target counts no tokens.

    Each slot adds the tokens by which its longest value exceeds the secret's value in the secret's text. Of a large
    alphabet only the values with the most characters are looked at.
    """

    def length(filling: Filling) -> int:
        text = space.fill(filling)
        return target.length(text) or len(text)

    longest = of_secret = length(secret)
    for index, alphabet in enumerate(space.slots):
        most = len(alphabet) if len(alphabet) <= ALL_VALUES else LONGEST
        values = {secret[index], *sorted(alphabet.values, key=len)[-most:]}
        longest += max(length((*secret[:index], value, *secret[index + 1 :])) for value in values) - of_secret
    return longest
