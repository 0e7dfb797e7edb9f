"""Forward passes of a causal `transformers` model: over whole prefixes, and over one more token."""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache

from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.core.log import log
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.causal.asked import Step
from leakage_tasks.targets.causal.cache import looked_at, of_prefixes
from leakage_tasks.targets.causal.passes import Passes
from leakage_tasks.targets.causal.picked import pick, pick_to_read
from leakage_tasks.targets.causal.text_model import TextModel
from leakage_tasks.targets.causal.windows import turns_of, windows_of
from leakage_tasks.targets.memory import out_of_memory
from leakage_tasks.targets.noise import Noise, warn_of_slower
from leakage_tasks.targets.rounding import measure, text_rows

IN_CACHE = 1 << 19
"""Number of logits normalised at once on a CPU, small enough for its cache."""


class CausalReader(TextModel):
    """A causal language model with a KV cache or another state.

    ``settings`` are the arguments of :class:`~leakage_tasks.targets.causal.text_model.TextModel`.
    """

    def __init__(self, model: Any, tokenizer: Any, **settings: Any) -> None:
        super().__init__(model, tokenizer, **settings)
        self._passes: dict[bool, Passes] = {}
        self._noises: dict[bool, Noise] = {}
        self._cache_name = "past_key_values"
        self._stepper = model
        # The encoder of a translation model has a cache of its own.
        self._windows = () if getattr(model.config, "is_encoder_decoder", False) else windows_of(model.config)
        prompt = getattr(model, "active_peft_config", None)
        if prompt is not None and prompt.is_prompt_learning:
            self._windows = ()
            # A soft prompt is prepended on every call: it is read once, and the base model continues after it.
            self._stepper = model.get_base_model()
            room = getattr(model.config, "max_position_embeddings", self.max_length) - prompt.num_virtual_tokens
            self.max_length = min(self.max_length, room)
        self._keeps_logits = "logits_to_keep" in inspect.signature(self._stepper.forward).parameters

    def before_fine_tuning(self) -> Self | None:
        """Return the model without its adapter, sharing its weights, or None if it has no adapter to disable."""
        if not hasattr(self.model, "disable_adapter"):
            return None
        plain = copy.copy(self)
        plain._adapted = False
        return plain

    @contextlib.contextmanager
    def inference(self) -> Iterator[None]:
        with super().inference(), contextlib.nullcontext() if self._adapted else self.model.disable_adapter():
            yield

    @property
    def source(self) -> Any:
        """Additional input of all texts, such as a translation model's source sentence, or None."""
        return None

    def read_first(
        self, rows: Sequence[Sequence[int]], sources: Sequence[Any] = (None,)
    ) -> tuple[list[Any], list[Tensor], Tensor]:
        """Read texts from their first token and return their states, costs in bits, and last logits ``[n, V]``.

        The costs of a text are ``[length − 1]``, for each token after the first. ``sources`` are the
        :attr:`source` of each text, if any. Texts of several lengths are padded on the right, unless this changes the
        logits of the shortest text.
        """
        if len(set(map(len, rows))) == 1:
            return self.read_together(rows, sources)
        taking = self.passes
        if self.cached and taking.pads is not False:
            result = self._padded_first(rows, sources)
            if result is not None:
                return result
        return self._first_by_length(rows, sources)

    @property
    def padding_first(self) -> float:
        """Maximum padding as a share of the own tokens when prefixes share a pass."""
        return 0.0 if not self.cached or self.passes.pads is False else self.most_padding

    def _padded_first(
        self, rows: Sequence[Sequence[int]], sources: Sequence[Any]
    ) -> tuple[list[Any], list[Tensor], Tensor] | None:
        """Read texts of several lengths in one padded pass; return None if the result is wrong on first use."""
        taking = self.passes
        try:
            result = self.read_together(rows, sources)
            if taking.pads is None:
                shortest = min(range(len(rows)), key=lambda index: len(rows[index]))
                own_sources = sources[shortest : shortest + 1] if len(sources) == len(rows) else sources
                alone = self.read_together([rows[shortest]], own_sources)
                taking.pads = taking.agree([result[2][shortest : shortest + 1]], [alone[2]])
        except Exception as error:
            if taking.pads or out_of_memory(error):
                raise
            log.debug("prefixes of several lengths cannot share a pass: %s", error)
            taking.pads = False
        if taking.pads:
            return result
        lengths = len(set(map(len, rows)))
        warn_of_slower(self._stepper, "texts of different lengths cannot share a forward pass", lengths)
        return None

    def _first_by_length(
        self, rows: Sequence[Sequence[int]], sources: Sequence[Any]
    ) -> tuple[list[Any], list[Tensor], Tensor]:
        results: dict[int, tuple[Any, Tensor, Tensor]] = {}
        for length in sorted(set(map(len, rows))):
            same = [index for index, row in enumerate(rows) if len(row) == length]
            own_sources = [sources[n] for n in same] if len(sources) == len(rows) else sources
            results |= zip(
                same, zip(*self.read_together([rows[n] for n in same], own_sources), strict=True), strict=True
            )
        states, costs, logits = zip(*(results[index] for index in range(len(rows))), strict=True)
        return list(states), list(costs), torch.stack(logits)

    def read_together(
        self, rows: Sequence[Sequence[int]], sources: Sequence[Any] = (None,)
    ) -> tuple[list[Any], list[Tensor], Tensor]:
        """Read texts in one pass, without verification.

        Raises ValueError if the texts differ in length and their states cannot be separated from padding.
        """
        lengths = [len(row) for row in rows]
        longest = max(lengths)
        # A causal model's logits do not depend on later tokens, so any token can serve as padding.
        tokens = torch.tensor([[*row, *[row[-1]] * (longest - len(row))] for row in rows], device=self.device)
        with self.inference():
            arguments = {**looked_at(sources, [1] * len(sources)), **self._empty_cache()}
            out = self.model(input_ids=tokens, use_cache=self.cached, **arguments)
            logits = out.logits[:, -longest:].float()
            row_costs = logits[:, :-1].log_softmax(-1).gather(-1, tokens[:, 1:, None])[..., 0].cpu().double() / -LN2
            states: Any
            states = of_prefixes(self._cache_of(out), lengths, sources) if self.cached else list(tokens.split(1))
            last = logits[torch.arange(len(rows)), torch.tensor(lengths) - 1]
        if self.cached and states[0].prefix is None:
            self.passes.continues.works = False
        return states, [costs[: length - 1] for costs, length in zip(row_costs, lengths, strict=True)], last

    def _empty_cache(self) -> dict[str, Any]:
        """Return a cache that keeps every token, if the model's own cache would drop tokens outside a sliding window.

        The shared prefix can then be separated from each text's own tokens and is stored once.
        """
        return {self._cache_name: DynamicCache()} if self.cached and self._windows else {}

    def gather(self, states: Sequence[Any], which: IntArray, rows: IntArray) -> Any:
        """Return the state whose row i is row ``rows[i]`` of ``states[which[i]]``."""
        if self.cached:
            return pick(states, torch.from_numpy(which), torch.from_numpy(rows))
        return torch.stack([states[n][row] for n, row in zip(which.tolist(), rows.tolist(), strict=True)])

    def _to_read(self, part: Step) -> Any:
        """Return the rows that a step continues, assembled layer by layer if the pass supports that."""
        if not self.cached or part.states[0].prefix is None:
            return self.gather(part.states, part.which, part.rows)
        return pick_to_read(part.states, torch.from_numpy(part.which), torch.from_numpy(part.rows))

    def one_pass(self, parts: Sequence[Step]) -> list[tuple[Any, FloatArray]]:
        """Read one token after each row of ``parts``, which are steps of views of this model."""
        with self.inference():
            fed = [torch.from_numpy(part.tokens).to(self.device)[:, None] for part in parts]
            picked = [self._to_read(part) for part in parts]
            states: Sequence[Any]
            if self.cached:
                logits, states = self.passes.step(picked, fed)
            else:
                logits, states = self._read_anew(picked, fed, [part.target.source for part in parts])
            return list(zip(states, self._costs_of_each(logits, [part.columns for part in parts]), strict=True))

    @property
    def passes(self) -> Passes:
        """Batching strategies of this model and the results of their verification."""
        if self._adapted not in self._passes:
            turns = turns_of(self.model.config, self._windows)
            self._passes[self._adapted] = Passes(
                self.read_on, self._stepper, lambda: self.noise, lambda: self.states.copies, self._windows, turns
            )
        return self._passes[self._adapted]

    @property
    def noise(self) -> Noise:
        """Rounding noise of this model's costs, measured on first use."""
        if self._adapted not in self._noises:
            vocabulary = int(self.model.config.get_text_config().vocab_size)
            rows = text_rows(self.plain_rows, vocabulary, self.max_length).to(self.device)
            with self.inference():
                self._noises[self._adapted] = measure(self.model, self._plain_logits, rows, vocabulary)
        return self._noises[self._adapted]

    def plain_rows(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of texts without a context, after the prefix token."""
        raise NotImplementedError

    def _plain_logits(self, tokens: Tensor, keep: int) -> Tensor:
        arguments = looked_at([self.source], [len(tokens)])
        return self.read(tokens, keep, remember=False, **arguments)[0]

    def _read_anew(
        self, texts: Sequence[Tensor], fed: Sequence[Tensor], sources: Sequence[Any]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Read texts with one more token from their beginning, one pass per length; return logits and texts."""
        grown = [torch.cat([text, more], dim=1) for text, more in zip(texts, fed, strict=True)]
        logits: dict[int, Tensor] = {}
        for length in {text.shape[1] for text in grown}:
            same = [index for index, text in enumerate(grown) if text.shape[1] == length]
            counts = [len(grown[number]) for number in same]
            arguments = looked_at([sources[number] for number in same], counts)
            output, _ = self.read(torch.cat([grown[number] for number in same]), 1, remember=False, **arguments)
            logits |= dict(zip(same, output[:, -1].split(counts), strict=True))
        return [logits[index] for index in range(len(grown))], grown

    def _costs_of_each(self, logits: Sequence[Tensor], columns: Sequence[IntArray]) -> list[FloatArray]:
        """Compute the costs of each part's own columns, with one transfer from the device for all parts."""
        if len(logits) == 1:
            return [self.costs(logits[0], columns[0])]
        wanted = np.unique(np.concatenate(columns))
        costs = np.split(self.costs(torch.cat(list(logits)), wanted), np.cumsum([len(part) for part in logits])[:-1])
        return [part[:, np.searchsorted(wanted, column)] for part, column in zip(costs, columns, strict=True)]

    def costs(self, logits: Tensor, columns: IntArray) -> FloatArray:
        """Return costs in bits of ``columns``, shape ``[n, A]``, from logits ``[n, V]``."""
        wanted = torch.from_numpy(columns).to(logits.device)
        # A CPU is several times faster on rows that fit in its cache; other devices need few, large calls.
        size = max(1, IN_CACHE // logits.shape[1]) if logits.device.type == "cpu" else max(1, len(logits))
        parts = [part.float().log_softmax(-1).index_select(1, wanted) for part in logits.split(size)]
        return (torch.cat(parts).cpu().double() / -LN2).numpy()

    def _cache_of(self, out: Any) -> Any:
        """Return the model's cache; recurrent models use other names for it."""
        for name in ("past_key_values", "cache_params", "state"):
            if getattr(out, name, None) is not None:
                self._cache_name = name
                return getattr(out, name)
        raise TargetError("the model returns no cache to continue from")

    def read(self, tokens: Tensor, keep: int, remember: bool = True, **arguments: Any) -> tuple[Tensor, Any]:
        """Read texts ``[n, P]`` from their first token, after the soft prompt if there is one.

        Args:
            tokens: token ids ``[n, P]``.
            keep: number of last tokens whose logits are returned.
            remember: return the cache too.
            arguments: more arguments of the forward pass.

        Returns:
            Logits in float32 ``[n, keep, V]``, and the model's cache (None if not requested, or for ``cached=False``).
        """
        logits_to_keep = {"logits_to_keep": keep} if self._keeps_logits else {}
        remember = remember and self.cached
        out = self.model(input_ids=tokens, use_cache=remember, **logits_to_keep, **arguments)
        return out.logits[:, -keep:].float(), self._cache_of(out) if remember else None

    def read_on(self, cache: Any, tokens: Tensor, **arguments: Any) -> tuple[Tensor, Any]:
        """Read ``tokens`` ``[n, k]`` after ``cache`` and return logits ``[n, k, V]`` and the new cache.

        ``arguments`` are more arguments of the forward pass.
        """
        out = self._stepper(input_ids=tokens, use_cache=True, **{self._cache_name: cache}, **arguments)
        return out.logits.float(), self._cache_of(out)
