"""The most rows, forward passes and tokens that an attack takes for one canary, from its number of calls."""

from __future__ import annotations

from dataclasses import dataclass

from leakage_tasks.attacks.registry import Attack, AttackRequest
from leakage_tasks.planning.pace import rows_at_once
from leakage_tasks.targets.causal.first_passes import CHECKED
from leakage_tasks.targets.protocols import FillsMasks, PredictsNextToken

CHUNK = 1024
"""Number of whole texts passed to a target in one call."""


@dataclass(frozen=True)
class Limits:
    """The most rows, forward passes and tokens for one canary; a pass has up to ``at_once`` rows."""

    rows: float
    passes: float
    tokens: float
    at_once: int


def limits_of(attack: Attack, request: AttackRequest) -> Limits:
    """Return the limits of an attack on one canary.

    A step is a row of one token, or of all tokens so far on a model without a cache. A whole text is a row of all its
    tokens, or of the tokens after a beginning that many texts share. A masked language model reads a text once for each
    of its tokens, and a recurrent model reads the tokens after a shared beginning one at a time.
    """
    target, space = request.target, request.canary.attack_space
    text, calls = space.fill(request.canary.secret), attack.most_calls(request)
    length = (target.length(text) or len(text)) + 1
    read, turns = length, 1
    text_rows = length if isinstance(target, FillsMasks) else 1
    if calls.texts and hasattr(target, "tokens_read"):
        read = target.tokens_read(space, length, min(calls.texts, CHUNK))
        text_rows = turns = read if target.by_token else 1
    # A shared beginning is read once per chunk, and the first texts also whole, to verify this method.
    whole = calls.texts // CHUNK + 1 + CHECKED if read < length else 0
    rows = 1 + whole + calls.steps + calls.texts * text_rows
    step_tokens = 1 if isinstance(target, PredictsNextToken) and getattr(target, "cached", True) else length
    text_tokens = text_rows * length if read == length else read
    tokens = length * (1 + whole) + calls.steps * step_tokens + calls.texts * text_tokens
    at_once = rows_at_once(target, length, read if text_rows == 1 and not calls.steps else None)
    passes = calls.rounds + turns * (calls.texts // CHUNK + 2) + 2 * rows / min(at_once, CHUNK)
    return Limits(rows, min(rows, passes), tokens, at_once)
