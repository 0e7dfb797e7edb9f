"""Check that a model has an embedding for every token id.

An id without an embedding fails in the forward pass; on CUDA the process cannot use the device any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import nn

from leakage_tasks.core.errors import MissingEmbeddingError

SOMEWHERE = "a text"


class EmbeddedTokens:
    """The token ids of a tokenizer for which a model has an embedding.

    A tokenizer may have more tokens than its model, as long as no text uses them. ``complete`` is true if every token
    has an embedding, or if the model does not report the number of its embeddings; then nothing is checked.
    """

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._embedding = embedding_of(model)
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
        """Apply :meth:`check` to the tokens of ``texts``; ``special`` adds the tokenizer's special tokens."""
        if not self.complete and texts:
            self.check(self._tokenizer(list(texts), add_special_tokens=special, verbose=False)["input_ids"], where)

    def watch(self) -> None:
        """Check the ids of every later forward pass, padding included; has no effect if called again for a model."""
        if not self.complete and self._embedding is not None and not hasattr(self._embedding, _WATCHED):
            self._embedding.register_forward_pre_hook(self._before_a_pass)
            setattr(self._embedding, _WATCHED, True)

    def _before_a_pass(self, module: nn.Module, arguments: tuple[Any, ...]) -> None:
        ids = arguments[0] if arguments else None
        if isinstance(ids, torch.Tensor) and ids.numel() and int(ids.max()) >= (self.number or 0):
            self.check([ids.flatten().tolist()])


_WATCHED = "checked_by_lm_eval_leakage"


def embedded_tokens(lm: Any) -> EmbeddedTokens:
    """Return the embedded tokens of a harness model, and check the ids of every later forward pass of the model."""
    model = getattr(lm, "model", None)
    if not isinstance(model, nn.Module):
        # The tokenizer is not read: some harness models load it from the network at first use.
        return EmbeddedTokens(None, None)
    tokens = EmbeddedTokens(model, getattr(lm, "tokenizer", None))
    tokens.watch()
    return tokens


def embedding_of(model: Any) -> nn.Module | None:
    """Return the module that looks up input tokens, or None if a model reads them in another way."""
    try:
        embedding = model.get_input_embeddings()
    except (AttributeError, NotImplementedError):
        return None
    return embedding if isinstance(embedding, nn.Module) and _rows_of(embedding) is not None else None


def _rows_of(embedding: nn.Module) -> int | None:
    number = getattr(embedding, "num_embeddings", None)
    if isinstance(number, int):
        return number
    weight = getattr(embedding, "weight", None)
    return int(weight.shape[0]) if isinstance(weight, torch.Tensor) and weight.ndim == 2 else None


def _highest_id(tokenizer: Any) -> int:
    """Return the highest id of a tokenizer, or −1 if it does not report its size."""
    added = getattr(tokenizer, "added_tokens_decoder", None) or ()
    size = getattr(tokenizer, "vocab_size", None)
    return max([*added, (size if isinstance(size, int) else 0) - 1], default=-1)
