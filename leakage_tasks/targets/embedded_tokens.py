"""Tokens that a model has an embedding of: a token without one fails in the forward pass, on CUDA for good."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import nn

from leakage_tasks.core.errors import MissingEmbeddingError

SOMEWHERE = "a text"


class EmbeddedTokens:
    """The tokens of a tokenizer that a model has an embedding of.

    A tokenizer may have more tokens than its model, as long as no text uses them. ``complete`` says that it has not, or
    that the model does not say how many embeddings it has; then nothing is checked.
    """

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._embedding = _embedding_of(model)
        self.number: int | None = None if self._embedding is None else _rows_of(self._embedding)
        self.complete = self.number is None or _highest_id(tokenizer) < self.number

    def check(self, rows: Iterable[Sequence[int]], where: str = SOMEWHERE) -> None:
        """Raise MissingEmbeddingError for the first id in the ``rows`` that has no embedding."""
        if self.complete or self.number is None:
            return
        for row in rows:
            missing = next((int(number) for number in row if number >= self.number), None)
            if missing is not None:
                token = str(self._tokenizer.convert_ids_to_tokens(missing))
                raise MissingEmbeddingError.of(token, missing, self.number, where)

    def check_texts(self, texts: Sequence[str], where: str = SOMEWHERE, special: bool = False) -> None:
        """Do as :meth:`check` for the tokens of ``texts``, with the ``special`` ones around a text or without."""
        if not self.complete and texts:
            self.check(self._tokenizer(list(texts), add_special_tokens=special, verbose=False)["input_ids"], where)

    def watch(self) -> None:
        """Check the ids of every later pass before it is made, such as those of padding; once a model."""
        if not self.complete and self._embedding is not None and not hasattr(self._embedding, _WATCHED):
            self._embedding.register_forward_pre_hook(self._before_a_pass)
            setattr(self._embedding, _WATCHED, True)

    def _before_a_pass(self, module: nn.Module, arguments: tuple[Any, ...]) -> None:
        ids = arguments[0] if arguments else None
        if isinstance(ids, torch.Tensor) and ids.numel() and int(ids.max()) >= (self.number or 0):
            self.check([ids.flatten().tolist()])


_WATCHED = "checked_by_lm_eval_leakage"


def embedded_tokens(lm: Any) -> EmbeddedTokens:
    """Return what is known of a harness model's embeddings; from then on every pass of the model is checked."""
    model = getattr(lm, "model", None)
    found = EmbeddedTokens(model if isinstance(model, nn.Module) else None, getattr(lm, "tokenizer", None))
    found.watch()
    return found


def _embedding_of(model: Any) -> nn.Module | None:
    """Return the module that looks up input tokens; None where a model has another way to read them."""
    try:
        found = model.get_input_embeddings()
    except (AttributeError, NotImplementedError):
        return None
    return found if isinstance(found, nn.Module) and _rows_of(found) is not None else None


def _rows_of(embedding: nn.Module) -> int | None:
    number = getattr(embedding, "num_embeddings", None)
    if isinstance(number, int):
        return number
    weight = getattr(embedding, "weight", None)
    return int(weight.shape[0]) if isinstance(weight, torch.Tensor) and weight.ndim == 2 else None


def _highest_id(tokenizer: Any) -> int:
    """Return the highest id that a tokenizer gives; −1 where it does not say."""
    added = getattr(tokenizer, "added_tokens_decoder", None) or ()
    own = getattr(tokenizer, "vocab_size", None)
    return max([*added, (own if isinstance(own, int) else 0) - 1], default=-1)
