"""A text classifier as a target: how likely a class is, for many token rows at once."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leakage_tasks.canaries.spaces import Space
from leakage_tasks.errors import TargetError
from leakage_tasks.targets.batches import padded, rows_at_once
from leakage_tasks.targets.protocols import FloatArray, IntArray
from leakage_tasks.targets.slots import Cut, Segments, SpaceRows

LN2 = float(np.log(2))
SHOWN = 8


class ClassifierTarget:
    """Scores labels with a `transformers` sequence classifier, on token rows, with gradients where asked.

    Implements ``ScoresLabels`` and ``DifferentiableInputs``. ``labels`` are the classes' names by number (default: the
    model's ``id2label``); ``reference`` is another classifier to calibrate scores by. Logits are normalised in float64
    whatever the model's precision. ``batch_size`` counts texts of full length; shorter ones make larger batches.
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
        self._most_rows = 1 << 16
        self._segments: dict[Any, Segments | None] = {}
        self._places = {label: place for place, label in enumerate(self.labels)}
        self._pad = _padding(model, tokenizer)
        self._typed = _reads_token_types(model, tokenizer)
        _check_labels(self.labels, model.config)

    def length(self, text: str) -> int:
        """Tokens of a text, special ones included."""
        return len(self.encode([text])[0])

    def place_of(self, label: str | None) -> int:
        """See :class:`~leakage_tasks.targets.protocols.ScoresLabels`."""
        if label is None:
            raise TargetError(
                "has no label, which attacks on classifiers need: make canaries with --label and pass canaries=FILE"
            )
        if label not in self._places:
            some = ", ".join(self.labels[:SHOWN]) + (", …" if len(self.labels) > SHOWN else "")
            raise TargetError(
                f"the model knows no label {label!r} (it has {some}): name its classes with labels=FILE in "
                "--model_args, or use one of these"
            )
        return self._places[label]

    def rename(self, labels: Sequence[str]) -> None:
        """Give the classes other names, in the model's order. Raises TargetError unless there is one for each."""
        _check_labels(labels, self.model.config)
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
        if isinstance(rows, np.ndarray):
            return self._equally_long(rows)
        found = np.zeros((len(rows), len(self.labels)))
        order = sorted(range(len(rows)), key=lambda place: len(rows[place]))
        first = 0
        while first < len(order):
            # A batch is as wide as its last row, so it is sized by a row it may not reach: never too large.
            ahead = order[min(first + self.batch(len(rows[order[first]])), len(order)) - 1]
            chosen = order[first : first + self.batch(len(rows[ahead]))]
            found[chosen] = self._padded([rows[place] for place in chosen])
            first += len(chosen)
        return found

    def batch(self, length: int) -> int:
        """How many rows of ``length`` tokens one forward pass takes."""
        return rows_at_once(self.device, length, self._batch_size, self.max_length, self._most_rows)

    def _equally_long(self, rows: IntArray) -> FloatArray:
        if not len(rows):
            return np.zeros((0, len(self.labels)))
        self._check_length(rows.shape[1])
        ids = torch.from_numpy(np.ascontiguousarray(rows))
        size = self.batch(rows.shape[1])
        return np.concatenate([self._costs(part, torch.ones_like(part)) for part in ids.split(size)])

    def _padded(self, rows: Sequence[Sequence[int]]) -> FloatArray:
        self._check_length(max(map(len, rows)))
        return self._costs(*padded(rows, self._pad))

    def _check_length(self, length: int) -> None:
        if self.max_length is not None and length > self.max_length:
            raise TargetError(f"a text of {length} tokens does not fit the model's {self.max_length}: shorten it")

    def _costs(self, ids: Tensor, mask: Tensor) -> FloatArray:
        try:
            with torch.inference_mode():
                return _bits(self._logits(ids, mask)).cpu().numpy()
        except torch.OutOfMemoryError:
            half = len(ids) // 2
            if not half:
                raise
            self._most_rows = half
        parts = [self._costs(ids[part], mask[part]) for part in (slice(half), slice(half, None))]
        return np.concatenate(parts)

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
        ids = torch.from_numpy(np.ascontiguousarray(rows))
        with _reading(self.model, embedded):
            return _bits(self._logits(ids, torch.ones_like(ids)))


def _bits(logits: Tensor) -> Tensor:
    return logits.double().log_softmax(-1) / -LN2


@contextlib.contextmanager
def _reading(model: Any, embedded: Tensor) -> Iterator[None]:
    """Have the model read ``embedded`` where it would look its tokens up.

    ``inputs_embeds`` would do for some models; others need the tokens as well, to find padding or positions.
    """
    hook = model.get_input_embeddings().register_forward_hook(lambda module, inputs, output: embedded.to(output.dtype))
    try:
        yield
    finally:
        hook.remove()


def room_of(model: Any, tokenizer: Any) -> int | None:
    """Tokens a model can read, special ones included; None where neither it nor its tokenizer says."""
    embeddings = getattr(model.config, "max_position_embeddings", None) or getattr(model.config, "n_positions", None)
    # RoBERTa's kind counts positions from after the padding token's number.
    table = next((m for name, m in model.named_modules() if name.endswith("position_embeddings")), None)
    unused = getattr(table, "padding_idx", None)
    lost = 0 if unused is None else int(unused) + 1
    room = embeddings - lost if embeddings else None
    own = getattr(tokenizer, "model_max_length", None)
    known = [size for size in (room, own) if size and size < 10**9]
    return min(known) if known else None


def config_names(config: Any) -> list[str]:
    """The classes' names in a model's config, in order."""
    return [str(config.id2label[place]) for place in range(config.num_labels)]


def _check_labels(labels: Sequence[str], config: Any) -> None:
    if config.num_labels < 2:
        raise TargetError("the model has a single output, a regression head: use a classifier with two labels or more")
    if getattr(config, "problem_type", None) == "multi_label_classification":
        raise TargetError(
            "the model gives each label a probability of its own (multi-label): use one with one label a text"
        )
    if len(labels) != config.num_labels or len(set(labels)) < len(labels):
        raise TargetError(
            f"{len(labels)} label names, {len(set(labels))} distinct, for a model of {config.num_labels} classes: "
            "name each class once, in the model's order"
        )


def _reads_token_types(model: Any, tokenizer: Any) -> bool:
    """Whether the model was trained on the token types its tokenizer gives, which of a single text must all be 0."""
    types = tokenizer(["a"]).get("token_type_ids", [[]])[0]
    if any(types):
        raise TargetError(
            f"the tokenizer ({type(tokenizer).__name__}) marks single texts with several token types, which is not "
            "supported: use a model of BERT's or GPT's kind"
        )
    return bool(types) and "token_type_ids" in inspect.signature(model.forward).parameters


def _padding(model: Any, tokenizer: Any) -> int:
    """The padding token; a model that has none (GPT-2's kind) pads with the token that ends a text."""
    for token in (tokenizer.pad_token_id, model.config.pad_token_id, tokenizer.eos_token_id):
        if token is not None:
            if model.config.pad_token_id is None:
                model.config.pad_token_id = token
            return int(token)
    return 0
