"""A harness model after what stands before a canary, through its own log-likelihood.

A model that takes token ids gets the same ones as :mod:`leakage_tasks.targets.causal.in_context` reads; one that knows
nothing but text gets the context as text, and splits the two as it does for every task.
"""

from __future__ import annotations

from collections.abc import Sequence

from lm_eval.api.model import LM, TemplateLM

from leakage_tasks.canaries.context import Context
from leakage_tasks.canaries.spaces import Space
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets.causal.in_context import lead_of, start_token
from leakage_tasks.targets.harness.target import HarnessTarget
from leakage_tasks.targets.text_tokens import TextTokens, text_tokens


def harness_in_context(lm: LM, context: Context, space: Space) -> HarnessTarget:
    """The model asked about a space's fillings in ``context``, by token ids where it takes them.

    Raises TargetError for a start that only token ids can give it, on a model that takes none.
    """
    # Some models of this class send text all the same, and what reads it puts tokens of its own before.
    if isinstance(lm, TemplateLM) and getattr(lm, "tokenized_requests", True):
        try:
            tokens = text_tokens(lm)
        except TargetError:
            return TextInContext(lm, context)
        return TokensInContext(lm, context, space, tokens)
    return TextInContext(lm, context)


class TextInContext(HarnessTarget):
    """A model that knows nothing but text; implements ``ScoresSequences`` and ``CompletesText``."""

    def __init__(self, lm: LM, context: Context) -> None:
        super().__init__(lm, lambda text: context.before)
        self._context = context
        if context.start != "auto":
            raise TargetError(
                f"context={context}: {type(lm).__name__} takes text and puts its own tokens before it: use "
                "context=auto or a text"
            )
        if context.before and not context.before.strip():
            raise TargetError(
                f"context={context}: {type(lm).__name__} takes text, and of white space alone the harness makes no "
                "context: use context=auto or a text"
            )

    def length(self, text: str) -> int | None:
        """Tokens of a text and its context, None where the model does not say."""
        return super().length(self._context.before + text + self._context.after)

    def log_perplexity(self, texts: Sequence[str]) -> FloatArray:
        """See :class:`~leakage_tasks.targets.protocols.ScoresSequences`."""
        return super().log_perplexity([text + self._context.after for text in texts])

    def complete(self, text: str, characters: int) -> str:
        """See :class:`~leakage_tasks.targets.protocols.CompletesText`."""
        return super().complete(self._context.before + text, characters)


class TokensInContext(HarnessTarget):
    """A model that takes token ids; implements ``ScoresSequences`` and ``CompletesText``."""

    def __init__(self, lm: TemplateLM, context: Context, space: Space, tokens: TextTokens) -> None:
        super().__init__(lm)
        self._template, self._context, self._tokens = lm, context, tokens
        start = start_token(context, lm.prefix_token_id, lm.tokenizer)
        self._lead = lead_of(context, space, tokens.encode, lambda row: tokens.decode([row])[0], start)

    def length(self, text: str) -> int:
        """Tokens of a text and its context, the first one of all not counted."""
        return len(self._read([text])[0]) - 1

    def _read(self, texts: Sequence[str]) -> list[list[int]]:
        """The lead and each text's tokens after it."""
        around = [self._context.before + text + self._context.after for text in texts]
        return [self._lead.begin(tokens) for tokens in self._lead.after(self._tokens.encode(around))]

    def log_perplexity(self, texts: Sequence[str]) -> FloatArray:
        """See :class:`~leakage_tasks.targets.protocols.ScoresSequences`. Raises TargetError if the model cannot."""
        read = max(1, len(self._lead.tokens))
        # Without a key the harness caches nothing: its keys are texts, which do not tell contexts apart.
        requests = [(None, tokens[:read], tokens[read:]) for tokens in self._read(texts)]
        return self._bits(lambda: self._template._loglikelihood_tokens(requests, disable_tqdm=True))

    def complete(self, text: str, characters: int) -> str:
        """See :class:`~leakage_tasks.targets.protocols.CompletesText`. Raises TargetError for a start of its own."""
        if self._context.start != "auto":
            raise TargetError(
                f"context={self._context}: what a model writes begins with the tokens the harness puts there: use "
                "context=auto or a text"
            )
        return super().complete(self._context.before + text, characters)
