"""The fast target: a causal `transformers` model asked for next-token costs, a whole frontier at once."""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leakage_tasks.canaries.context import Context
from leakage_tasks.canaries.spaces import Space
from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.batches import check_fits, padded, row_bits
from leakage_tasks.targets.causal.cache import RowState, after, of_prefix, pick
from leakage_tasks.targets.causal.in_context import lead_of, not_shared, start_token
from leakage_tasks.targets.causal.text_model import TextModel
from leakage_tasks.targets.memory import CPU_BYTES, LOGIT_BYTES, SMALLER
from leakage_tasks.targets.protocols import Paths
from leakage_tasks.targets.tokens.token_paths import lay_out

ROWS = 512
IN_CACHE = 1 << 19
"""Logits normalised at once on a CPU: few enough to stay in its cache."""


class CausalTarget(TextModel):
    """Scores and extends texts with a causal language model.

    Implements ``ScoresSequences`` and ``PredictsNextToken``. What log-perplexity is
    conditioned on: every text is read after one prefix token (the harness' own: BOS, else EOS), never after
    special tokens the tokenizer would add; a text that itself begins with that token is not given another.
    Tokens that straddle template and secret belong to the path of the filling and are scored in full.

    Costs are computed in float32 whatever the model's precision. ``settings`` are those of
    :class:`~leakage_tasks.targets.causal.text_model.TextModel`.
    """

    def __init__(self, model: Any, tokenizer: Any, *, prefix_token: int | None = None, **settings: Any) -> None:
        super().__init__(model, tokenizer, **settings)
        self._row_bytes = self._token_bytes = 1.0
        self.unscored = 1
        self._adapted = True
        self._prefix_token = _prefix_token(tokenizer) if prefix_token is None else prefix_token
        self._cache_name = "past_key_values"
        self._stepper = model
        prompt = getattr(model, "active_peft_config", None)
        if prompt is not None and prompt.is_prompt_learning:
            # A soft prompt prepends itself on every call: it is read once, then the base model goes on.
            self._stepper = model.get_base_model()
            room = getattr(model.config, "max_position_embeddings", self.max_length) - prompt.num_virtual_tokens
            self.max_length = min(self.max_length, room)
        self._keeps_logits = "logits_to_keep" in inspect.signature(self._stepper.forward).parameters

    def before_fine_tuning(self) -> CausalTarget | None:
        """The same model without its adapter, of the same weights in memory; None where there is none to take off."""
        if not hasattr(self.model, "disable_adapter"):
            return None
        found = copy.copy(self)
        found._adapted = False
        return found

    @contextlib.contextmanager
    def inference(self) -> Iterator[None]:
        """See :class:`TextModel`."""
        with super().inference(), contextlib.nullcontext() if self._adapted else self.model.disable_adapter():
            yield

    # -- tokens ---------------------------------------------------------------------------------------------

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokens of each text, without special tokens."""
        return self.tokenizer(list(texts), add_special_tokens=False)["input_ids"]

    def length(self, text: str) -> int:
        """Tokens of a text, the prefix token not counted."""
        return len(self._with_prefix_token(self.encode([text])[0])) - 1

    def paths(self, space: Space) -> Paths:
        """See :class:`~leakage_tasks.targets.protocols.PredictsNextToken`."""
        return lay_out(space, self.encode, self.spelling)

    def in_context(self, context: Context, space: Space) -> CausalTarget:
        """See :class:`~leakage_tasks.targets.protocols.TakesContext`."""
        return CausalInContext(self, context, space)

    def rows(self, length: int) -> int:
        """Texts of ``length`` tokens a batch may hold: no more positions than ``batch_size`` of full length have.

        Where none is given, what memory holds: on a GPU, which says when it is full, as many as are of use; elsewhere
        no more than take a small part of it, or have the positions of one text of full length.
        """
        rows = (self.batch_size or 1) * self.max_length // max(length, 1)
        if self.batch_size is None:
            cheap = CPU_BYTES // (self._row_bytes + self._token_bytes * length)
            rows = ROWS if self.device.type == "cuda" else max(rows, int(cheap))
        return max(1, min(rows, ROWS, self.limit.most))

    def _with_prefix_token(self, tokens: Sequence[int]) -> list[int]:
        tokens = list(tokens)
        if len(tokens) > 0 and tokens[0] == self._prefix_token:
            return tokens
        return [self._prefix_token, *tokens]

    # -- next-token costs -----------------------------------------------------------------------------------

    def start(self, prefix: Sequence[int], columns: IntArray) -> tuple[Any, float, FloatArray]:
        """See :class:`~leakage_tasks.targets.protocols.PredictsNextToken`."""
        tokens = torch.tensor([self._with_prefix_token(prefix)], device=self.device)
        with self.limit.halving(1), self.inference():
            out = self.model(input_ids=tokens, use_cache=self.cached)
            logits = out.logits[:, -tokens.shape[1] :].float()
            own = logits[:, :-1].log_softmax(-1).gather(-1, tokens[:, 1:, None])
            costs = self._costs(logits[:, -1], columns)
            state = of_prefix(self._cache_of(out)) if self.cached else tokens
            self._weigh(state, logits.shape[-1])
            bits = -float(own[:, self.unscored - 1 :].cpu().double().sum()) / LN2
        return state, bits, costs

    def _weigh(self, state: Any, vocabulary: int) -> None:
        """Note what a row takes of memory, and each of its tokens."""
        logits = float(LOGIT_BYTES * vocabulary)
        if not isinstance(state, RowState):
            self._row_bytes, self._token_bytes = 0.0, logits
        elif state.prefix is None:
            self._row_bytes, self._token_bytes = logits + state.nbytes, 0.0
        else:
            held = sum(tensor.numel() * tensor.element_size() for tensor in state.prefix)
            self._row_bytes, self._token_bytes = logits, held / state.length

    def extend(
        self, states: Sequence[Any], which: IntArray, rows: IntArray, tokens: IntArray, columns: IntArray
    ) -> tuple[Any, FloatArray]:
        """See :class:`~leakage_tasks.targets.protocols.PredictsNextToken`."""
        parts = self.limit.parts(
            len(tokens), lambda part: self._extend(states, which[part], rows[part], tokens[part], columns)
        )
        if len(parts) == 1:
            return parts[0]
        counts = [len(part[1]) for part in parts]
        origin, place = np.repeat(np.arange(len(parts)), counts), np.concatenate([np.arange(count) for count in counts])
        remedy = f"pass --batch_size with a small number from 2, or {SMALLER}"
        with self.limit.halving(len(tokens), len(tokens), remedy):
            state = self._gather([part[0] for part in parts], origin, place)
        return state, np.concatenate([part[1] for part in parts])

    def _gather(self, states: Sequence[Any], which: IntArray, rows: IntArray) -> Any:
        if self.cached:
            return pick(states, torch.from_numpy(which), torch.from_numpy(rows))
        return torch.stack([states[n][row] for n, row in zip(which.tolist(), rows.tolist(), strict=True)])

    def _extend(
        self, states: Sequence[Any], which: IntArray, rows: IntArray, tokens: IntArray, columns: IntArray
    ) -> tuple[Any, FloatArray]:
        fed = torch.from_numpy(tokens).to(self.device)[:, None]
        with self.inference():
            picked = self._gather(states, which, rows)
            if not self.cached:
                grown = torch.cat([picked, fed], dim=1)
                return grown, self._costs(self.read(grown, 1, remember=False)[0][:, -1], columns)
            logits, cache = self.read_on(picked.rebuild(), fed)
            return after(picked, cache), self._costs(logits[:, -1], columns)

    def _costs(self, logits: Tensor, columns: IntArray) -> FloatArray:
        """Costs in bits of ``columns``, shape ``[n, A]``, from logits ``[n, V]``."""
        wanted = torch.from_numpy(columns).to(logits.device)
        # A CPU is several times quicker on rows that stay in its cache; other devices want few, large calls.
        size = max(1, IN_CACHE // logits.shape[1]) if logits.device.type == "cpu" else max(1, len(logits))
        parts = [part.float().log_softmax(-1).index_select(1, wanted) for part in logits.split(size)]
        return (torch.cat(parts).cpu().double() / -LN2).numpy()

    def _cache_of(self, out: Any) -> Any:
        """What the model remembers, under the name it gives it (recurrent models have their own)."""
        for name in ("past_key_values", "cache_params", "state"):
            if getattr(out, name, None) is not None:
                self._cache_name = name
                return getattr(out, name)
        raise TargetError("the model returns no cache to continue from")

    def state_bytes(self, state: Any) -> int:
        """See :class:`~leakage_tasks.targets.protocols.PredictsNextToken`."""
        return state.nbytes if isinstance(state, RowState) else state.numel() * state.element_size()

    # -- whole texts ----------------------------------------------------------------------------------------

    def log_perplexity(self, texts: Sequence[str]) -> FloatArray:
        """See :class:`~leakage_tasks.targets.protocols.ScoresSequences`; one uncached pass a batch."""
        return self.row_costs(self.token_rows(texts))

    def token_rows(self, texts: Sequence[str]) -> list[list[int]]:
        """All that is read for each text, its tokens and what stands before them."""
        return [self._with_prefix_token(tokens) for tokens in self.encode(texts)]

    def row_costs(self, encoded: Sequence[list[int]]) -> FloatArray:
        """Costs in bits of :meth:`token_rows`, ``[n]``. Raises TargetError for one that is too long."""
        longest = max(map(len, encoded), default=1)
        check_fits(longest - 1, self.max_length)
        # A whole text needs logits at every position, a frontier row at one only.
        size = max(1, min(self.rows(longest), 4 * ROWS // longest))
        return self.whole_texts.by_length([len(tokens) for tokens in encoded], size, self._score, encoded)

    def _score(self, encoded: Sequence[list[int]]) -> FloatArray:
        tokens, mask = (part.to(self.device) for part in padded(encoded, 0))
        width = tokens.shape[1]
        mask[:, : self.unscored] = 0
        with self.inference():
            logits = self.model(input_ids=tokens[:, :-1], use_cache=False).logits[:, 1 - width :].float()
        return row_bits(logits, tokens[:, 1:], mask[:, 1:])

    def read(self, tokens: Tensor, keep: int, remember: bool = True) -> tuple[Tensor, Any]:
        """Read texts ``[n, P]`` from their first token, behind the soft prompt if there is one.

        Returns logits after each of the last ``keep`` tokens in float32, ``[n, keep, V]``, and the model's cache (None
        for ``cached=False``).
        """
        kept = {"logits_to_keep": keep} if self._keeps_logits else {}
        remember = remember and self.cached
        out = self.model(input_ids=tokens, use_cache=remember, **kept)
        return out.logits[:, -keep:].float(), self._cache_of(out) if remember else None

    def read_on(self, cache: Any, tokens: Tensor) -> tuple[Tensor, Any]:
        """Read ``tokens`` ``[n, k]`` after what ``cache`` remembers: logits ``[n, k, V]`` and the cache after them."""
        out = self._stepper(input_ids=tokens, use_cache=True, **{self._cache_name: cache})
        return out.logits.float(), self._cache_of(out)


class CausalInContext(CausalTarget):
    """A causal model in a context, for the fillings of one space.

    Implements ``ScoresSequences`` and ``PredictsNextToken``. Texts are the canary's own, without the context.
    """

    def __init__(self, plain: CausalTarget, context: Context, space: Space) -> None:
        start = start_token(context, plain._prefix_token, plain.tokenizer)
        vars(self).update(vars(plain))
        self._plain, self._after, self.context = plain, context.after, context
        self._row_bytes = self._token_bytes = 1.0
        plain_text = {"skip_special_tokens": False, "clean_up_tokenization_spaces": False}
        decode = partial(self.tokenizer.decode, **plain_text)
        self._lead = lead_of(context, space, plain.encode, decode, start)
        self.unscored = max(1, len(self._lead.tokens))

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
        found = lay_out(around, self._on, self.spelling)
        if not (self._lead.tokens or found.prefix):
            raise not_shared()
        return found

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


def _prefix_token(tokenizer: Any) -> int:
    for token in (tokenizer.bos_token_id, tokenizer.eos_token_id):
        if token is not None:
            return int(token)
    raise TargetError("the tokenizer has neither a BOS nor an EOS token: pass prefix_token_id=… with --model_args")
