"""A causal model after what stands before a canary: which tokens have a cost, and the model asked for those alone.

A text is tokenized together with what stands around it. The *lead* is what is only read: the token everything begins
with, then the tokens that the context has by itself and keeps whatever filling follows. All tokens after the lead have
a cost: those of the text, and one that holds characters of context and text alike counts in full, as one that straddles
template and secret does. So every filling is scored after one and the same lead, and ranks are those of the whole.
Where nothing at all is before a text, its first token has no cost: nothing predicts it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from leakage_tasks.canaries.context import Context
from leakage_tasks.canaries.spaces import Filling, Space
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets.causal.target import CausalTarget
from leakage_tasks.targets.protocols import Paths
from leakage_tasks.targets.tokens.automaton import Encode
from leakage_tasks.targets.tokens.token_paths import PROBES, Pieces

Decode = Callable[[list[int]], str]
MOST_VALUES = 1000
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
                raise _not_shared()
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
    alone = encode([context.before])[0] if context.before else []
    kept = min(_common(alone, tokens) for tokens in encoded)
    own = alone[:kept]
    text = context.before if kept == len(alone) else decode(own) if kept else ""
    if not context.before.startswith(text):
        raise TargetError(f"the tokenizer joins the end of the context to the canary: {BREAK}")
    before = [] if start is None or own[:1] == [start] else [start]
    lead = Lead((*before, *own), kept, text, context.before.removeprefix(text))
    if lead.tokens:
        return lead
    if len({tokens[0] for tokens in encoded}) > 1:
        raise _not_shared()
    return Lead((), 0, "", lead.rest, encoded[0][0])


def _beginnings(space: Space) -> list[Filling]:
    """Fillings that begin in many ways: all values of the first slot, or a thousand of many, and random ones."""
    rest = tuple(slot.values[0] for slot in space.slots[1:])
    values = space.slots[0].values
    first = values[:: max(1, len(values) // MOST_VALUES)]
    return [*((value, *rest) for value in first), *space.sample(PROBES, "context")]


def _common(alone: Sequence[int], tokens: Sequence[int]) -> int:
    pairs = enumerate(zip(alone, tokens, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(alone), len(tokens)))


def _not_shared() -> TargetError:
    return TargetError(
        "the first token holds some of the secret, and with nothing before it (context=none) it has no cost, so the "
        "rank would miss it: leave the text before the first slot to the attacker (known=all), or use context=auto"
    )


class CausalInContext(CausalTarget):
    """A causal model in a context, for the fillings of one space.

    Implements ``ScoresSequences`` and ``PredictsNextToken``. Texts are the canary's own, without the context.
    """

    def __init__(self, plain: CausalTarget, context: Context, space: Space) -> None:
        start = start_token(context, plain._prefix_token, plain.tokenizer)
        super().__init__(
            plain.model,
            plain.tokenizer,
            device=plain.device,
            batch_size=plain.batch_size,
            prefix_token=plain._prefix_token if start is None else start,
            max_length=plain.max_length,
            autocast=plain._autocast,
            cached=plain.cached,
        )
        self._plain, self._after = plain, context.after
        self.limit, self.whole_texts = plain.limit, plain.whole_texts
        self._lead = lead_of(context, space, plain.encode, self._decode, start)
        self.unscored = max(1, len(self._lead.tokens))

    def _decode(self, tokens: list[int]) -> str:
        return self.tokenizer.decode(tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokens that each text has a cost for, those that it shares with its context included."""
        return self._on([self._lead.rest + text + self._after for text in texts])

    def _on(self, texts: Sequence[str]) -> list[list[int]]:
        return self._lead.after(self._plain.encode([self._lead.text + text for text in texts]))

    def rows(self, length: int) -> int:
        """See :class:`CausalTarget`; the lead is in memory too."""
        return super().rows(length + len(self._lead.tokens))

    def paths(self, space: Space) -> Paths:
        """See :class:`~leakage_tasks.targets.protocols.PredictsNextToken`."""
        first, *inner, last = space.pieces
        around = Space((self._lead.rest + first, *inner, last + self._after), space.slots)
        found = self._laid_out(around, self._on)
        if not (self._lead.tokens or found.prefix):
            raise _not_shared()
        return found

    def _spelling(self) -> Pieces:
        return self._plain._spelling()

    def _with_prefix_token(self, tokens: Sequence[int]) -> list[int]:
        return self._lead.begin(tokens)


def costs_together(targets: Sequence[CausalInContext], texts: Sequence[Sequence[str]]) -> FloatArray:
    """Log-perplexities of each target's texts, as many for each ``[n, k]``; views of one model share their batches."""
    rows = [target.token_rows(own) for target, own in zip(targets, texts, strict=True)]
    found = np.zeros((len(rows), len(rows[0])))
    for unscored in {target.unscored for target in targets}:
        same = [place for place, target in enumerate(targets) if target.unscored == unscored]
        costs = targets[same[0]].row_costs([row for place in same for row in rows[place]])
        found[same] = costs.reshape(len(same), -1)
    return found


def reads_alike(target: CausalTarget, context: Context) -> bool:
    """Whether a context is the usual one under another name. Raises TargetError for one the model does not have."""
    start = start_token(context, target._prefix_token, target.tokenizer)
    return not (context.before or context.after) and start == target._prefix_token


def start_token(context: Context, prefix_token: int, tokenizer: Any) -> int | None:
    """The token everything begins with. Raises TargetError where BOS is asked for and the tokenizer has none."""
    if context.start != "bos":
        return prefix_token if context.start == "auto" else None
    token = getattr(tokenizer, "bos_token_id", None)
    if token is None:
        raise TargetError("context=bos: the model's tokenizer has no BOS token: use context=auto, none or a text")
    return int(token)
