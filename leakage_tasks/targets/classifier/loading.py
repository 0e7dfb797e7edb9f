"""Classifiers from folders and hubs: what cannot be scored is refused in one line, before anything is scored."""

from __future__ import annotations

from typing import Any

from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets.batches import room_of
from leakage_tasks.targets.classifier.target import ClassifierTarget
from leakage_tasks.targets.label_names import Labels, config_names, read_labels
from leakage_tasks.targets.loading import ModelSource, check_max_length


def load_classifier(
    pretrained: Any,
    *,
    labels: Labels | None = None,
    max_length: int | None = None,
    reference: ClassifierTarget | None = None,
    **loading: Any,
) -> ClassifierTarget:
    """A sequence classifier and its tokenizer, by folder, hub name or as objects, as a target.

    ``labels`` is for :func:`~leakage_tasks.targets.label_names.read_labels`, ``loading`` for
    :class:`~leakage_tasks.targets.loading.ModelSource`. Raises TargetError for a model that is no trained classifier
    with one label a text, or that cannot be loaded, and OptionError for an argument that does not fit it.
    """
    from transformers import AutoModelForSequenceClassification

    source = ModelSource(pretrained, **loading)
    names = None if labels is None else read_labels(labels, source.config.num_labels)
    tokenizer = source.read_tokenizer()
    if source.is_named and source.config.model_type == "nlu-tagger":
        raise TargetError(f"{pretrained}: an nlu-tagger, no text classifier: use --model nlu-tagger")
    unfit = "sequence classifier: give a model fine-tuned with AutoModelForSequenceClassification"
    model, missing = source.read_model(AutoModelForSequenceClassification, unfit)
    if missing:
        remedy = (
            "fine-tune it with AutoModelForSequenceClassification first, or give the folder that was saved after that"
        )
        raise source.untrained("sequence classifier", missing[-1], remedy)
    source.check_vocabulary(model, tokenizer)
    _settle_padding(model, tokenizer, source.tokenizer_name)
    check_max_length(max_length, room_of(model, None))
    if reference is not None and names is not None and reference.labels == tuple(config_names(model.config)):
        reference.rename(names)
    settings: dict[str, Any] = {"device": source.device, "max_length": max_length, "reference": reference}
    target = source.target_of(
        model, lambda size: ClassifierTarget(model, tokenizer, names, batch_size=size, **settings)
    )
    _check_reference(target)
    return target


def _settle_padding(model: Any, tokenizer: Any, name: str) -> None:
    """One padding token for both: models that read a text's last token find it by the padding after it."""
    config = model.config.get_text_config()
    if tokenizer.pad_token_id is None:
        number = config.pad_token_id if config.pad_token_id is not None else tokenizer.eos_token_id
        if number is None:
            raise TargetError(
                f"{name}: the tokenizer has no padding token and none that ends a text: give it a pad_token"
            )
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(number)
    model.config.pad_token_id = config.pad_token_id = tokenizer.pad_token_id


def _check_reference(target: ClassifierTarget) -> None:
    other = target.reference
    if other is not None and set(other.labels) != set(target.labels):
        strange = sorted(set(other.labels) ^ set(target.labels))[0]
        raise TargetError(
            f"the reference classifier has other labels than the model ({strange!r} is known to one of them only): use "
            "one trained on the same classes, with the same names in its config"
        )
