"""The fast target: next-token costs of a causal `transformers` model for a whole frontier at once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from leakage_tasks.canaries.context import Context
from leakage_tasks.canaries.spaces import Space
from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets.attack_coroutine import submit
from leakage_tasks.targets.batches import check_fits, padded, row_bits
from leakage_tasks.targets.batching import Capacity
from leakage_tasks.targets.causal.beginnings import continues, fewest_sharing
from leakage_tasks.targets.causal.in_context import lead_of, not_shared, start_token
from leakage_tasks.targets.causal.reader import CausalReader
from leakage_tasks.targets.causal.requests import Reached, Start, Step, Texts, extend_all, score_all, start_all
from leakage_tasks.targets.causal.text_rows import TextRows
from leakage_tasks.targets.devices import moved
from leakage_tasks.targets.memory import LOGIT_BYTES, check_one_row
from leakage_tasks.targets.protocols import Paths
from leakage_tasks.targets.token_ids import token_ids
from leakage_tasks.targets.tokens.token_paths import lay_out
from leakage_tasks.targets.tokens.tries import Tries

ENCODED = 4096
"""Number of single texts whose tokens are cached; an attack encodes the text of its canary several times."""
LONGEST_ENCODED = 1000
"""Maximum number of characters of a cached text. A corpus may hold thousands of long documents."""


class CausalTarget(CausalReader):
    """A causal language model that scores and extends texts.

    Implements ``ScoresSequences`` and ``PredictsNextToken``. Log-perplexity is conditioned on one prefix token (the
    harness's own: BOS, else EOS), never on special tokens that the tokenizer would add; the prefix token is not
    repeated if a text begins with it. A token with characters of both template and secret belongs to the path of the
    filling and is scored in full.

    Costs are computed in float32 for any precision of the model. ``settings`` are the arguments of
    :class:`~leakage_tasks.targets.causal.reader.TextModel`.
    """

    def __init__(self, model: Any, tokenizer: Any, *, prefix_token: int | None = None, **settings: Any) -> None:
        super().__init__(model, tokenizer, **settings)
        self._tries = Tries()
        self._encoded_alone = lru_cache(ENCODED)(lambda text: tuple(self._encoded([text])[0]))
        self.unscored = 1
        self._prefix_token = _prefix_token(tokenizer) if prefix_token is None else prefix_token

    # -- tokens ---------------------------------------------------------------------------------------------

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each text, without special tokens. Raises TargetError if a token has no embedding."""
        if len(texts) == 1 and len(texts[0]) <= LONGEST_ENCODED:
            return [list(self._encoded_alone(texts[0]))]
        return self._encoded(texts)

    def _encoded(self, texts: Sequence[str]) -> list[list[int]]:
        encoded = token_ids(self.tokenizer, texts, special=False)
        self.embedded.check(encoded)
        return encoded

    def plain_rows(self, texts: Sequence[str]) -> list[list[int]]:
        return [[self._prefix_token, *tokens] for tokens in CausalTarget.encode(self, texts)]

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of ``tokens``, special ones included, with its spaces as they are."""
        plain = {"skip_special_tokens": False, "clean_up_tokenization_spaces": False}
        return str(self.tokenizer.decode(list(tokens), **plain))

    def begun(self, tokens: Sequence[int]) -> list[int]:
        """Return ``tokens`` after the prefix token, unless they begin with it."""
        return self._with_prefix_token(tokens)

    def length(self, text: str) -> int:
        """Return the number of tokens of a text, without the prefix token."""
        return len(self._with_prefix_token(self.encode([text])[0])) - 1

    def paths(self, space: Space) -> Paths:
        return lay_out(space, self.encode, self.spelling, self._tries)

    def in_context(self, context: Context, space: Space) -> CausalTarget:
        return CausalInContext(self, context, space)

    def rows(self, length: int) -> int:
        """Return the maximum number of rows of one pass that reads the last of ``length`` tokens of each text."""
        return self.pass_rows.of(self.engine, length)

    def _with_prefix_token(self, tokens: Sequence[int]) -> list[int]:
        tokens = list(tokens)
        if len(tokens) > 0 and tokens[0] == self._prefix_token:
            return tokens
        return [self._prefix_token, *tokens]

    # -- next-token costs -----------------------------------------------------------------------------------

    def start(self, prefix: Sequence[int], columns: IntArray) -> tuple[Any, float, FloatArray]:
        tokens = self._with_prefix_token(prefix)
        request = Start(self, tokens, columns)
        begun = submit(("start", *self.model_key), start_all, request, 1, Capacity(self.read_rows(len(tokens))))
        check_one_row(self.engine.row_bytes + LOGIT_BYTES * self.vocabulary)
        return begun

    @property
    def model_key(self) -> tuple[Hashable, ...]:
        """Key of views of one model whose texts may share a pass."""
        return id(self.engine), self._adapted

    def extend(self, texts: TextRows, tokens: IntArray, columns: IntArray) -> tuple[TextRows, FloatArray]:
        after, costs = self._extended(Step.of_one(self, texts, tokens, columns))
        return after, costs[:, 0]

    def follow(
        self, texts: TextRows, tokens: IntArray, lengths: IntArray, columns: IntArray
    ) -> tuple[list[TextRows], FloatArray] | None:
        if not (continues(self) and self.engine.mixes_lengths and self.engine.mixes_many):
            return None
        after, costs = self._extended(Step(self, texts, tokens, lengths, columns))
        return self.engine.levels(after, lengths), costs

    def _extended(self, step: Step) -> Reached:
        rows, width = step.tokens.shape
        capacity = Capacity(self.step_rows(step.rows, width), width * self.engine.row_bytes, self.states.most)
        # Attacks whose texts share a pass only at equal lengths advance together.
        splits, kind = self.engine.mixes_lengths, ("extend", width > 1, *self.model_key)
        reached: Reached = submit(kind, extend_all, step, rows, capacity, splits)
        return reached

    def step_rows(self, texts: TextRows, tokens: int = 1) -> int:
        """Return the maximum number of rows of one pass that continues ``texts`` by a number of ``tokens``."""
        longest = tokens + int(self.engine.tree.lengths[texts.numbers].max(initial=0))
        if not self.engine.cached:
            return self.read_rows(longest)
        copied = self.engine.copied_tokens(texts.numbers)
        if tokens == 1:
            return self.pass_rows.of(self.engine, longest, copied=copied)
        return self.text_rows(longest, tokens, copied)

    def read_rows(self, length: int) -> int:
        """Return the maximum number of rows of one pass that reads all ``length`` tokens, including a context."""
        return self.pass_rows.of(self.engine, length, length)

    def apart(self, texts: TextRows) -> TextRows:
        """Return texts that are kept independently of the texts that were read in the same call."""
        return self.engine.held(texts.numbers)

    def state_bytes(self, texts: TextRows) -> int:
        return len(texts) * self.engine.row_bytes

    # -- whole texts ----------------------------------------------------------------------------------------

    def log_perplexity(self, texts: Sequence[str]) -> FloatArray:
        """Return costs in bits ``[n]``, with one uncached pass per batch."""
        return self.row_costs(self.token_rows(texts))

    def token_rows(self, texts: Sequence[str]) -> list[list[int]]:
        """Return all tokens that are read for each text, including the prefix token and context."""
        return [self._with_prefix_token(tokens) for tokens in self.encode(texts)]

    def row_costs(self, encoded: Sequence[list[int]]) -> FloatArray:
        """Return costs in bits ``[n]`` of :meth:`token_rows`. Raises TargetError for a row that is too long."""
        longest = max(map(len, encoded), default=1)
        check_fits(longest - 1, self.max_length)
        capacity = Capacity.of_whole_texts(self.text_rows(longest))
        return submit(("texts", *self.model_key), score_all, Texts(self, encoded), len(encoded), capacity)

    def text_rows(self, length: int, own: int | None = None, copied: int | None = None) -> int:
        """Return the maximum number of whole texts of ``length`` tokens in a pass, with logits at every token.

        If they have a prefix in common that is already cached, ``own`` tokens of each remain to be read. ``copied`` is
        the number of tokens whose states are copied for each row, by default all that are not read.
        """
        return self.pass_rows.of_whole_texts(self.engine, length, length if own is None else own, copied)

    def fewest_sharing(self, space: Space, length: int) -> int | None:
        """Return the minimum number of whole texts of a space, with ``length`` tokens each, in a call that reads the
        tokens before the slots once; None if no number does."""
        own = self.paths(space).longest
        return fewest_sharing(self, length, own) if self.source is None and self.engine.cached else None

    @property
    def by_token(self) -> bool:
        """True if the tokens of whole texts after a shared beginning are read one at a time."""
        return self.engine.cached and not continues(self)

    def score(self, encoded: Sequence[list[int]], unscored: Sequence[int], sources: Sequence[Any]) -> FloatArray:
        """Return costs in bits ``[n]`` of texts in one pass, without the first ``unscored`` tokens ``[n]`` of each.

        ``sources`` ``[n]`` are the additional inputs of each text, or None.
        """
        tokens, mask = (moved(part, self.device) for part in padded(encoded, 0))
        width = tokens.shape[1]
        skipped = moved(torch.tensor(unscored), mask.device)[:, None]
        mask = mask.masked_fill(torch.arange(width, device=mask.device) < skipped, 0)
        with self.inference():
            logits = self.read(tokens[:, :-1], width - 1, sources)
        return row_bits(logits, tokens[:, 1:], mask[:, 1:])


class CausalInContext(CausalTarget):
    """A causal model in a context, for the fillings of one space.

    Implements ``ScoresSequences`` and ``PredictsNextToken``. Texts are the canary's own, without the context.
    """

    def __init__(self, plain: CausalTarget, context: Context, space: Space) -> None:
        start = start_token(context, plain._prefix_token, plain.tokenizer)
        vars(self).update(vars(plain))
        self._plain, self._after, self.context = plain, context.after, context
        self._lead = lead_of(context, space, plain.encode, plain.decode, start)
        self.unscored = max(1, len(self._lead.tokens))

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the scored tokens of each text, including tokens that it shares with its context."""
        return self._on([self._lead.rest + text + self._after for text in texts])

    def _on(self, texts: Sequence[str]) -> list[list[int]]:
        return self._lead.after(self._plain.encode([self._lead.text + text for text in texts]))

    def rows(self, length: int) -> int:
        """Return the maximum number of rows of a pass, with the context's tokens counted too."""
        return super().rows(length + len(self._lead.tokens))

    def paths(self, space: Space) -> Paths:
        first, *inner, last = space.pieces
        around = Space((self._lead.rest + first, *inner, last + self._after), space.slots)
        paths = lay_out(around, self._on, self.spelling, self._tries, self._plain.encode)
        if not (self._lead.tokens or paths.prefix):
            raise not_shared()
        return paths

    def _with_prefix_token(self, tokens: Sequence[int]) -> list[int]:
        return self._lead.begin(tokens)


def costs_together(targets: Sequence[CausalInContext], texts: Sequence[Sequence[str]]) -> FloatArray:
    """Return log-perplexities ``[n, k]`` of k texts for each of n targets; views of one model share batches."""
    requests = [Texts(target, target.token_rows(text)) for target, text in zip(targets, texts, strict=True)]
    for request in requests:
        check_fits(max(map(len, request.rows)) - 1, request.target.max_length)
    return np.stack(score_all(requests))


def reads_alike(target: CausalTarget, context: Context) -> bool:
    """Return True if a context equals the model's default context. Raises TargetError for an unsupported context."""
    start = start_token(context, target._prefix_token, target.tokenizer)
    return not (context.before or context.after) and start == target._prefix_token


def _prefix_token(tokenizer: Any) -> int:
    for token in (tokenizer.bos_token_id, tokenizer.eos_token_id):
        if token is not None:
            return int(token)
    raise TargetError("the tokenizer has neither a BOS nor an EOS token: pass prefix_token_id=… with --model_args")
