"""What a causal model reads before a canary, and which tokens have a cost.

A text is tokenized together with what stands around it. The *lead* is what is only read: the token everything begins
with, then the tokens that hold the context's characters alone and are the same for every filling. All tokens after the
lead have a cost: those of the text, and one that holds characters of context and text alike counts in full, as one that
straddles template and secret does. So every filling is scored after one and the same lead, and ranks are those of the
whole. Where nothing at all is before a text, its first token has no cost: nothing predicts it.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from leakage_tasks.canaries.context import Context
from leakage_tasks.canaries.spaces import Filling, Space
from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets.tokens.fixed_ends import Encode
from leakage_tasks.targets.tokens.tries import PROBES

Decode = Callable[[list[int]], str]
MOST_VALUES = 1000
MOST_PARTS = 4
"""The tokens that a character has at most: the bytes of its UTF-8."""
MOST_CUTS = 100
"""Characters at the end of a context among which its last own token is looked for."""
BREAK = "end the context with a line break, or leave context=auto"


@dataclass(frozen=True)
class Lead:
    """What every filled text of one space is read after.

    ``tokens`` have no cost; the last ``kept`` of them are the context's, which spell ``text``. ``rest`` is what of the
    context shares tokens with the canary. ``first`` is the token all texts begin with where there is no lead.
    """

    tokens: tuple[int, ...]
    kept: int
    text: str
    rest: str
    first: int | None = None

    def after(self, encoded: Sequence[list[int]]) -> list[list[int]]:
        """The tokens after the lead of texts tokenized with :attr:`text` before them.

        Raises TargetError for a text that does not begin as the others do.
        """
        own = self.tokens[len(self.tokens) - self.kept :]
        for tokens in encoded:
            if tuple(tokens[: self.kept]) != own:
                raise TargetError(f"the tokenizer joins the context to some fillings and not to others: {BREAK}")
            if self.first is not None and tokens[:1] != [self.first]:
                raise not_shared()
        return [tokens[self.kept :] for tokens in encoded]

    def begin(self, tokens: Sequence[int]) -> list[int]:
        """The lead and a text's ``tokens`` after it; a text that begins with its one token is not given another."""
        doubled = self.kept == 0 and tuple(tokens[:1]) == self.tokens
        return list(tokens) if doubled else [*self.tokens, *tokens]


def lead_of(context: Context, space: Space, encode: Encode, decode: Decode, start: int | None) -> Lead:
    """The lead of a space's texts in ``context``; ``start`` is the token everything begins with, None for none.

    ``encode`` and ``decode`` are the tokenizer's, without special tokens. Raises TargetError where some fillings would
    be scored after another lead than others.
    """
    texts = [context.before + space.fill(filling) + context.after for filling in _beginnings(space)]
    encoded = encode(texts)
    own, text = tokens_of(context.before, os.path.commonprefix(encoded), encode, decode)
    if text is None:
        raise TargetError(f"the tokenizer joins the end of the context to the canary: {BREAK}")
    kept = len(own)
    before = [] if start is None or own[:1] == [start] else [start]
    lead = Lead((*before, *own), kept, text, context.before.removeprefix(text))
    if lead.tokens:
        return lead
    if len({tokens[0] for tokens in encoded}) > 1:
        raise not_shared()
    return Lead((), 0, "", lead.rest, encoded[0][0])


def tokens_of(before: str, shared: Sequence[int], encode: Encode, decode: Decode) -> tuple[list[int], str | None]:
    """Return the tokens that hold characters of the context ``before`` alone, and these characters.

    ``shared`` are the first tokens of all texts in the context. White space at the end of a text has other tokens than
    white space before a word, so the tokens of the context by itself may differ from ``shared`` before they end. None
    for the characters if they cannot be found.
    """
    alone = encode([before])[0] if before else []
    kept = len(os.path.commonprefix([alone, list(shared)]))
    text = before if kept == len(alone) else _text_of(alone[:kept], before, encode, decode)
    while text is not None and (more := _next_piece(before.removeprefix(text), shared, kept, decode)):
        kept, text = kept + more[0], text + more[1]
    return list(shared[:kept]), text


def _text_of(tokens: list[int], before: str, encode: Encode, decode: Decode) -> str | None:
    """Return the beginning of ``before`` that has the ``tokens``; added tokens may have taken white space from it."""
    spelled = decode(tokens) if tokens else ""
    if before.startswith(spelled):
        return spelled
    ends = range(len(before), max(0, len(before) - MOST_CUTS), -1)
    return next((before[:end] for end in ends if encode([before[:end]])[0] == tokens), None)


def _next_piece(rest: str, shared: Sequence[int], kept: int, decode: Decode) -> tuple[int, str] | None:
    """Return how many tokens after the first ``kept`` hold the first characters of ``rest``, and these characters."""
    last = list(shared[max(kept - 1, 0) : kept])
    skip = len(decode(last)) if last else 0
    for count in range(1, min(MOST_PARTS, len(shared) - kept) + 1):
        piece = decode([*last, *shared[kept : kept + count]])[skip:]
        if piece and rest.startswith(piece):
            return count, piece
    return None


def _beginnings(space: Space) -> list[Filling]:
    """Fillings that begin in many ways: all values of the first slot, or a thousand of many, and random ones."""
    rest = tuple(slot.values[0] for slot in space.slots[1:])
    values = space.slots[0].values
    first = values[:: max(1, len(values) // MOST_VALUES)]
    return [*((value, *rest) for value in first), *space.sample(PROBES, "context")]


def not_shared() -> TargetError:
    """The error for fillings of which nothing predicts the first token."""
    return TargetError(
        "the first token holds some of the secret, and with nothing before it (context=none) it has no cost, so the "
        "rank would miss it: leave the text before the first slot to the attacker (known=all), or use context=auto"
    )


def start_token(context: Context, prefix_token: int, tokenizer: Any) -> int | None:
    """The token everything begins with. Raises TargetError where BOS is asked for and the tokenizer has none."""
    if context.start != "bos":
        return prefix_token if context.start == "auto" else None
    token = getattr(tokenizer, "bos_token_id", None)
    if token is None:
        raise TargetError("context=bos: the model's tokenizer has no BOS token: use context=auto, none or a text")
    return int(token)
