"""The text that a causal model reads before a canary, and the tokens that have a cost.

A text is tokenized together with its context. The *lead* is read but not scored: the start token, then the tokens that
hold only characters of the context and are common to all fillings. All later tokens have a cost. A token that holds
characters of both context and text counts in full, like a token that straddles template and secret. So every filling is
scored after one lead, and ranks refer to the whole text. If nothing precedes a text, its first token has no cost,
because nothing predicts it.
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
"""Maximum number of tokens of one character: the bytes of its UTF-8 encoding."""
MOST_CUTS = 100
"""Number of characters at the end of a context that are searched for the end of its last own token."""
BREAK = "end the context with a line break, or leave context=auto"


@dataclass(frozen=True)
class Lead:
    """The token sequence that precedes every filled text of one space.

    ``tokens`` have no cost; the last ``kept`` of them belong to the context and spell ``text``. ``rest`` is the part of
    the context that shares tokens with the canary. If the lead is empty, ``first`` is the token that all texts begin
    with.
    """

    tokens: tuple[int, ...]
    kept: int
    text: str
    rest: str
    first: int | None = None

    def after(self, encoded: Sequence[list[int]]) -> list[list[int]]:
        """Return the tokens after the lead, for texts tokenized with :attr:`text` before them.

        Raises TargetError for a text that does not begin like the others.
        """
        context_tokens = self.tokens[len(self.tokens) - self.kept :]
        for tokens in encoded:
            if tuple(tokens[: self.kept]) != context_tokens:
                raise TargetError(f"the tokenizer joins the context to some fillings and not to others: {BREAK}")
            if self.first is not None and tokens[:1] != [self.first]:
                raise not_shared()
        return [tokens[self.kept :] for tokens in encoded]

    def begin(self, tokens: Sequence[int]) -> list[int]:
        """Return the lead and a text's ``tokens``; a lead of one token is not repeated if the text begins with it."""
        doubled = self.kept == 0 and tuple(tokens[:1]) == self.tokens
        return list(tokens) if doubled else [*self.tokens, *tokens]


def lead_of(context: Context, space: Space, encode: Encode, decode: Decode, start: int | None) -> Lead:
    """Return the lead of a space's texts in ``context``; ``start`` is the start token, if any.

    ``encode`` and ``decode`` are the tokenizer's, without special tokens. Raises TargetError if the fillings would not
    all be scored after one lead.
    """
    texts = [context.before + space.fill(filling) + context.after for filling in _beginnings(space)]
    encoded = encode(texts)
    context_tokens, text = tokens_of(context.before, os.path.commonprefix(encoded), encode, decode)
    if text is None:
        raise TargetError(f"the tokenizer joins the end of the context to the canary: {BREAK}")
    count = len(context_tokens)
    before = [] if start is None or context_tokens[:1] == [start] else [start]
    lead = Lead((*before, *context_tokens), count, text, context.before.removeprefix(text))
    if lead.tokens:
        return lead
    if len({tokens[0] for tokens in encoded}) > 1:
        raise not_shared()
    return Lead((), 0, "", lead.rest, encoded[0][0])


def tokens_of(before: str, shared: Sequence[int], encode: Encode, decode: Decode) -> tuple[list[int], str | None]:
    """Return the tokens that hold only characters of the context ``before``, and these characters.

    ``shared`` are the first tokens of all texts in the context. White space at the end of a text has other tokens than
    white space before a word, so the tokens of the context by itself may differ from ``shared`` before they end. The
    characters are None if they cannot be found.
    """
    alone = encode([before])[0] if before else []
    count = len(os.path.commonprefix([alone, list(shared)]))
    text = before if count == len(alone) else _text_of(alone[:count], before, encode, decode)
    while text is not None and (more := _next_piece(before.removeprefix(text), shared, count, decode)):
        count, text = count + more[0], text + more[1]
    return list(shared[:count]), text


def _text_of(tokens: list[int], before: str, encode: Encode, decode: Decode) -> str | None:
    """Return the beginning of ``before`` that has the ``tokens``; added tokens may have taken white space from it."""
    spelled = decode(tokens) if tokens else ""
    if before.startswith(spelled):
        return spelled
    ends = range(len(before), max(0, len(before) - MOST_CUTS), -1)
    return next((before[:end] for end in ends if encode([before[:end]])[0] == tokens), None)


def _next_piece(rest: str, shared: Sequence[int], start: int, decode: Decode) -> tuple[int, str] | None:
    """Return the number of next tokens that spell a beginning of ``rest``, and these characters.

    The first ``start`` tokens of ``shared`` precede them. Return None if no such tokens are found.
    """
    last = list(shared[max(start - 1, 0) : start])
    skip = len(decode(last)) if last else 0
    for count in range(1, min(MOST_PARTS, len(shared) - start) + 1):
        piece = decode([*last, *shared[start : start + count]])[skip:]
        if piece and rest.startswith(piece):
            return count, piece
    return None


def _beginnings(space: Space) -> list[Filling]:
    """Return random fillings, and fillings for all values of the first slot (about 1,000 if there are more)."""
    rest = tuple(slot.values[0] for slot in space.slots[1:])
    values = space.slots[0].values
    first = values[:: max(1, len(values) // MOST_VALUES)]
    return [*((value, *rest) for value in first), *space.sample(PROBES, "context")]


def not_shared() -> TargetError:
    """Return the error for fillings whose first token nothing predicts."""
    return TargetError(
        "the first token holds some of the secret but has no cost, because no context precedes it, so the rank would "
        "miss it: leave the text before the first slot to the attacker (known=all), or use context=auto"
    )


def start_token(context: Context, prefix_token: int, tokenizer: Any) -> int | None:
    """Return the start token of all texts. Raises TargetError for BOS if the tokenizer has no such token."""
    if context.start != "bos":
        return prefix_token if context.start == "auto" else None
    token = getattr(tokenizer, "bos_token_id", None)
    if token is None:
        raise TargetError(
            "context=bos: the model's tokenizer has no BOS token: use another context, such as context=auto"
        )
    return int(token)
