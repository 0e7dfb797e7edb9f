"""A text classifier as a target: costs of labels for batches of token rows."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets.batches import room_of
from leakage_tasks.targets.devices import moved
from leakage_tasks.targets.embedded_tokens import embedding_of
from leakage_tasks.targets.label_model import LabelModel, label_bits
from leakage_tasks.targets.label_names import Labels, config_names, read_labels
from leakage_tasks.targets.loading import ModelSource, check_max_length
from leakage_tasks.targets.relaxation import Reader, Relaxation, open_row

LESS_WITH_GRADIENTS = 8
"""Factor by which a pass has fewer rows if it stores its intermediate results for gradients."""


class ClassifierTarget(LabelModel):
    """A `transformers` sequence classifier that scores labels on token rows, optionally with gradients.

    Implements ``ScoresLabels``, ``DifferentiableInputs`` and ``RelaxesTokens``. ``labels`` are the classes' names by
    number (default: the model's ``id2label``); ``reference`` is another classifier for the calibration of scores.
    Logits are normalised in float64 for every precision of the model. ``settings`` are arguments of
    :class:`~leakage_tasks.targets.batches.RowModel`.

    Raises TargetError for a model or tokenizer that cannot be used this way.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        labels: Sequence[str] | None = None,
        *,
        reference: ClassifierTarget | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(model, tokenizer, _padding_of(model, tokenizer), **settings)
        self.reference = reference
        self._typed = _reads_token_types(model, tokenizer)
        self.rename(labels or config_names(model.config))

    def rename(self, labels: Sequence[str]) -> None:
        """Give the classes other names, in the model's order. Raises TargetError unless each class gets one name."""
        _check_labels(labels, self.model.config)
        self.labels = tuple(labels)

    # -- scores ---------------------------------------------------------------------------------------------

    def label_costs(self, rows: IntArray | Sequence[Sequence[int]]) -> FloatArray:
        """Return −log2 P(label | row) in bits, shape ``[n, labels]``. Raises TargetError for a row that is too long."""
        return self.row_costs(rows, len(self.labels), self._label_bits)

    def _label_bits(self, ids: Tensor, mask: Tensor) -> Tensor:
        return label_bits(self._logits(ids, mask))

    def _logits(self, ids: Tensor, mask: Tensor) -> Tensor:
        inputs = {"input_ids": moved(ids, self.device), "attention_mask": moved(mask, self.device)}
        if self._typed:
            inputs["token_type_ids"] = torch.zeros_like(inputs["input_ids"])
        return self.model(**inputs).logits

    # -- gradients ------------------------------------------------------------------------------------------

    def embeddings(self) -> Tensor:
        module = _embedding(self.model)
        with torch.no_grad():
            # Looked up by id, since some models scale their embeddings.
            return module(torch.arange(len(module.weight), device=module.weight.device))

    def label_costs_of(self, rows: IntArray, embedded: Tensor) -> Tensor:
        """Return costs in bits ``[n, labels]`` of rows with given embeddings, in double precision."""
        ids = torch.from_numpy(np.ascontiguousarray(rows)).to(self.device)
        with _reading(self.model, ids, embedded):
            return label_bits(self._logits(ids, torch.ones_like(ids)))

    def relaxed(self, canaries: Sequence[Canary], double: bool) -> Relaxation:
        if self.model.config.is_encoder_decoder:
            raise TargetError(
                f"this {self.model.config.model_type} model reads a text twice, so its tokens cannot be mixed: use a "
                "classifier like BERT or GPT"
            )
        remedy = "leave them out of the alphabet, or use another model"
        rows = [open_row(canary, self.rows(canary.attack_space), self._knows, remedy) for canary in canaries]
        return Relaxation(rows, _ClassifierReader(self, canaries, double))

    def _knows(self, token: int) -> bool:
        return token != self.tokenizer.unk_token_id


class _ClassifierReader(Reader[ClassifierTarget]):
    """The reader of a relaxation for a classifier."""

    def __init__(self, target: ClassifierTarget, canaries: Sequence[Canary], double: bool) -> None:
        super().__init__(target, canaries, double)
        self._embedding = _embedding(self._target.model)
        self.soft = self.embed(torch.tensor([self.padding], device=self.device)).shape[-1]

    def batch(self, length: int) -> int:
        return max(1, self._target.batch(length) // LESS_WITH_GRADIENTS)

    def embed(self, tokens: Tensor) -> Tensor:
        return self._embedding(tokens)

    def costs(self, which: Tensor, tokens: Tensor, mask: Tensor, embedded: Tensor) -> Tensor:
        lengths, bits = mask.sum(dim=1), embedded.new_empty(len(which), dtype=torch.double)
        # Rows of equal length need no padding, which some models (FNet, ConvBERT) read like any other token.
        for length in lengths.unique().tolist():
            rows = lengths == length
            ids, labels = tokens[rows, :length], self._labels[which[rows]]
            with _reading(self._target.model, ids, embedded[rows, :length]):
                bits[rows] = label_bits(self._target._logits(ids, mask[rows, :length])).gather(1, labels[:, None])[:, 0]
        return bits


def _reading(model: Any, ids: Tensor, embedded: Tensor) -> RemovableHandle:
    """Make the model read ``embedded`` in place of the embeddings of the tokens ``ids``, within the returned context.

    ``inputs_embeds`` would suffice for some models; others need the tokens as well, to find padding or positions.
    """

    def read(module: Any, inputs: tuple[Tensor], output: Tensor) -> Tensor | None:
        # GPT-2 also looks up its token types in this table.
        return embedded.to(output.dtype) if torch.equal(inputs[0].flatten(), ids.flatten()) else None

    return _embedding(model).register_forward_hook(read)


def _embedding(model: Any) -> Any:
    """Return the module that looks up input tokens, or raise TargetError."""
    module = embedding_of(model)
    if module is None:
        raise TargetError(
            f"this {model.config.model_type} model looks up no embeddings of tokens, so its tokens cannot be mixed: "
            "leave shortlist=… out, or use another attack or a classifier like BERT or GPT"
        )
    return module


def _check_labels(labels: Sequence[str], config: Any) -> None:
    """Raise TargetError unless ``labels`` name the classes of a single-label classifier."""
    problem = getattr(config, "problem_type", None)
    if config.num_labels < 2:
        raise TargetError("the model has a single output, a regression head: use a classifier with two labels or more")
    if problem == "regression":
        raise TargetError("the model's outputs are numbers, not classes (regression): use one with one label per text")
    if problem == "multi_label_classification":
        raise TargetError(
            "the model gives each label an independent probability (multi-label): use one with one label per text"
        )
    if len(labels) != config.num_labels or len(set(labels)) < len(labels):
        raise TargetError(
            f"{len(labels)} label names, {len(set(labels))} distinct, for a model of {config.num_labels} classes: "
            "name each class once, in the model's order"
        )


def _reads_token_types(model: Any, tokenizer: Any) -> bool:
    """Return True if the model was trained on the tokenizer's token types, which must all be 0 for a single text."""
    types = tokenizer(["a"]).get("token_type_ids", [[]])[0]
    if any(types):
        raise TargetError(
            f"the tokenizer ({type(tokenizer).__name__}) marks single texts with several token types, which is not "
            "supported: use a model like BERT or GPT"
        )
    return bool(types) and "token_type_ids" in inspect.signature(model.forward).parameters


def _padding_of(model: Any, tokenizer: Any) -> int:
    """Return the padding token; a model without one (such as GPT-2) pads with the token that ends a text."""
    known = getattr(model.config, "pad_token_id", None)
    for token in (tokenizer.pad_token_id, known, tokenizer.eos_token_id):
        if token is not None:
            if known is None:
                model.config.pad_token_id = token
            return int(token)
    return 0


def load_classifier(
    pretrained: Any,
    *,
    labels: Labels | None = None,
    max_length: int | None = None,
    reference: ClassifierTarget | None = None,
    **loading: Any,
) -> ClassifierTarget:
    """Load a sequence classifier and its tokenizer, by folder, hub name or as objects, as a target.

    Args:
        pretrained: the model.
        labels: names for :func:`~leakage_tasks.targets.label_names.read_labels`.
        max_length: maximum number of tokens of a text; None for the model's.
        reference: a classifier for the calibration of scores.
        **loading: arguments of :class:`~leakage_tasks.targets.loading.ModelSource`.

    Raises:
        TargetError: the model cannot be loaded, or is no trained classifier with one label per text.
        OptionError: an argument does not fit the model.
    """
    from transformers import AutoModelForSequenceClassification

    source = ModelSource(pretrained, **loading)
    names = None if labels is None else read_labels(labels, source.config.num_labels)
    tokenizer = source.read_tokenizer()
    if source.is_named and source.config.model_type == "nlu-tagger":
        raise TargetError(f"{pretrained}: an NLU tagger, not a text classifier: use --model nlu-tagger")
    unfit = "sequence classifier: give a model fine-tuned with AutoModelForSequenceClassification"
    model, missing = source.read_model(AutoModelForSequenceClassification, unfit)
    if missing:
        remedy = (
            "fine-tune it with AutoModelForSequenceClassification first, or give the folder that was saved afterwards"
        )
        raise source.untrained("sequence classifier", missing[-1], remedy)
    source.check_vocabulary(model, tokenizer)
    _settle_padding(model, tokenizer, source.tokenizer_name)
    check_max_length(max_length, room_of(model, None))
    if reference is not None and names is not None and reference.labels == tuple(config_names(model.config)):
        reference.rename(names)
    target = source.target_of(ClassifierTarget, model, tokenizer, names, max_length=max_length, reference=reference)
    _check_reference(target)
    return target


def _settle_padding(model: Any, tokenizer: Any, name: str) -> None:
    """Set one padding token for both: models that read a text's last token find it by the padding after it."""
    config = model.config.get_text_config()
    if tokenizer.pad_token_id is None:
        known = getattr(config, "pad_token_id", None)
        number = tokenizer.eos_token_id if known is None else known
        if number is None:
            raise TargetError(
                f"{name}: the tokenizer has neither a padding token nor an end-of-text token: give it a pad_token"
            )
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(number)
    model.config.pad_token_id = config.pad_token_id = tokenizer.pad_token_id


def _check_reference(target: ClassifierTarget) -> None:
    other = target.reference
    if other is not None and set(other.labels) != set(target.labels):
        strange = sorted(set(other.labels) ^ set(target.labels))[0]
        raise TargetError(
            f"the reference classifier has other labels than the model (only one of them knows {strange!r}): use a "
            "reference trained on equal classes, with equal names in its config"
        )
