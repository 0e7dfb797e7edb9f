"""A text classifier as a target: how likely a class is, for many token rows at once."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.spaces import Space
from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.batches import RowBatches
from leakage_tasks.targets.classifier.config import check_labels, config_names, padding_of, reads_token_types, room_of
from leakage_tasks.targets.classifier.label_names import place_of
from leakage_tasks.targets.tagger.relaxation import Relaxation, frozen, open_row
from leakage_tasks.targets.tokens.slot_tokens import Cut, Segments, SpaceRows

LESS_WITH_GRADIENTS = 8
"""How many times fewer rows one pass holds when it keeps all it computes, for gradients."""


class ClassifierTarget:
    """Scores labels with a `transformers` sequence classifier, on token rows, with gradients where asked.

    Implements ``ScoresLabels``, ``DifferentiableInputs`` and ``RelaxesTokens``. ``labels`` are the classes' names by
    number (default: the model's ``id2label``); ``reference`` is another classifier to calibrate scores by. Logits are
    normalised in float64 whatever the model's precision. ``batch_size`` counts texts of full length; shorter ones make
    larger batches.
    Raises TargetError for a model or tokenizer that cannot be used this way.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        labels: Sequence[str] | None = None,
        *,
        device: torch.device | str | None = None,
        batch_size: int | None = None,
        max_length: int | None = None,
        reference: ClassifierTarget | None = None,
    ) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.device = torch.device(device if device is not None else model.device)
        self.labels = tuple(labels or config_names(model.config))
        self.max_length = max_length or room_of(model, tokenizer)
        self.reference = reference
        self._batch_size = batch_size
        self._segments: dict[Any, Segments | None] = {}
        self._places = {label: place for place, label in enumerate(self.labels)}
        self._pad = padding_of(model, tokenizer)
        self._batches = RowBatches(self.device, batch_size, self.max_length, self._pad, dtype=model.dtype)
        self._typed = reads_token_types(model, tokenizer)
        check_labels(self.labels, model.config)

    def length(self, text: str) -> int:
        """Tokens of a text, special ones included."""
        return len(self.encode([text])[0])

    def place_of(self, label: str | None) -> int:
        """See :class:`~leakage_tasks.targets.protocols.ScoresLabels`."""
        remedy = "name its classes with labels=FILE in --model_args, or use one of these"
        return place_of(label, self._places, "label", remedy)

    def rename(self, labels: Sequence[str]) -> None:
        """Give the classes other names, in the model's order. Raises TargetError unless there is one for each."""
        check_labels(labels, self.model.config)
        self.labels = tuple(labels)
        self._places = {label: place for place, label in enumerate(self.labels)}

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokens of each text, with the special tokens the model was trained with."""
        if not texts:
            return []
        only = {"return_attention_mask": False, "return_token_type_ids": False, "verbose": False}
        return self.tokenizer(list(texts), **only)["input_ids"]

    def rows(self, space: Space) -> SpaceRows:
        """See :class:`~leakage_tasks.targets.protocols.ScoresLabels`."""
        return SpaceRows(space, self.encode, self._spans, self._segments)

    def _spans(self, text: str) -> Cut | None:
        if not self.tokenizer.is_fast:
            return None
        cut = self.tokenizer(text, return_offsets_mapping=True, verbose=False)
        return cut["input_ids"], cut["offset_mapping"]

    # -- scores ---------------------------------------------------------------------------------------------

    def label_costs(self, rows: IntArray | Sequence[Sequence[int]]) -> FloatArray:
        """See :class:`~leakage_tasks.targets.protocols.ScoresLabels`. Raises TargetError for a row too long."""
        return self._batches.costs(rows, len(self.labels), lambda ids, mask: label_bits(self._logits(ids, mask)))

    def batch(self, length: int) -> int:
        """How many rows of ``length`` tokens one forward pass takes."""
        return self._batches.size(length)

    def _logits(self, ids: Tensor, mask: Tensor) -> Tensor:
        inputs = {"input_ids": ids.to(self.device), "attention_mask": mask.to(self.device)}
        if self._typed:
            inputs["token_type_ids"] = torch.zeros_like(inputs["input_ids"])
        return self.model(**inputs).logits

    # -- gradients ------------------------------------------------------------------------------------------

    def embeddings(self) -> Tensor:
        """See :class:`~leakage_tasks.targets.protocols.DifferentiableInputs`."""
        module = self.model.get_input_embeddings()
        with torch.no_grad():
            # Asked for by number, since some models scale what they look up.
            return module(torch.arange(len(module.weight), device=module.weight.device))

    def label_costs_of(self, rows: IntArray, embedded: Tensor) -> Tensor:
        """See :class:`~leakage_tasks.targets.protocols.DifferentiableInputs`; float64, on the model's device."""
        ids = torch.from_numpy(np.ascontiguousarray(rows)).to(self.device)
        with _reading(self.model, ids, embedded):
            return label_bits(self._logits(ids, torch.ones_like(ids)))

    def relaxed(self, canaries: Sequence[Canary], double: bool) -> Relaxation:
        """See :class:`~leakage_tasks.targets.protocols.RelaxesTokens`."""
        if self.model.config.is_encoder_decoder:
            raise TargetError(
                f"this {self.model.config.model_type} model reads a text twice, so its tokens cannot be mixed: use a "
                "classifier of BERT's or GPT's kind"
            )
        remedy = "leave them out of the alphabet, or take another model"
        rows = [open_row(canary, self.rows(canary.attack_space), self._knows, remedy) for canary in canaries]
        labels = [self.place_of(canary.label) for canary in canaries]
        return Relaxation(rows, _Classifying(self, labels, double))

    def _knows(self, token: int) -> bool:
        return token != self.tokenizer.unk_token_id


class _Classifying:
    """A classifier as a relaxation reads it, with the number of each canary's label."""

    def __init__(self, target: ClassifierTarget, labels: Sequence[int], double: bool) -> None:
        self._target = copy.copy(target)
        self._target.model = frozen(target.model, double)
        self._embedding = self._target.model.get_input_embeddings()
        self._labels = torch.tensor(labels, device=target.device)
        self.device, self.dtype, self.padding = target.device, self._target.model.dtype, target._pad
        self.soft = self.embed(torch.tensor([target._pad], device=target.device)).shape[-1]

    def batch(self, length: int) -> int:
        """See :class:`~leakage_tasks.targets.tagger.relaxation.Reader`."""
        return max(1, self._target.batch(length) // LESS_WITH_GRADIENTS)

    def embed(self, tokens: Tensor) -> Tensor:
        """See :class:`~leakage_tasks.targets.tagger.relaxation.Reader`."""
        return self._embedding(tokens)

    def costs(self, which: Tensor, tokens: Tensor, mask: Tensor, embedded: Tensor) -> Tensor:
        """See :class:`~leakage_tasks.targets.tagger.relaxation.Reader`."""
        lengths, bits = mask.sum(dim=1), embedded.new_empty(len(which), dtype=torch.double)
        # Rows of one length need no padding, which some models (FNet, ConvBERT) read like any other token.
        for length in lengths.unique().tolist():
            rows = lengths == length
            ids, labels = tokens[rows, :length], self._labels[which[rows]]
            with _reading(self._target.model, ids, embedded[rows, :length]):
                bits[rows] = label_bits(self._target._logits(ids, mask[rows, :length])).gather(1, labels[:, None])[:, 0]
        return bits


def label_bits(logits: Tensor) -> Tensor:
    """−log2 of the probabilities that ``logits`` ``[n, labels]`` give, float64."""
    return logits.double().log_softmax(-1) / -LN2


@contextlib.contextmanager
def _reading(model: Any, ids: Tensor, embedded: Tensor) -> Iterator[None]:
    """Have the model read ``embedded`` where it would look the tokens ``ids`` up.

    ``inputs_embeds`` would do for some models; others need the tokens as well, to find padding or positions.
    """

    def read(module: Any, inputs: tuple[Tensor], output: Tensor) -> Tensor | None:
        # GPT-2 looks its token types up in the same table.
        return embedded.to(output.dtype) if torch.equal(inputs[0].flatten(), ids.flatten()) else None

    hook = model.get_input_embeddings().register_forward_hook(read)
    try:
        yield
    finally:
        hook.remove()
