"""Untrained models: initialized from a seed, or a classifier on a pre-trained encoder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from leakage_tasks.core.errors import LeakageError, OptionError
from leakage_tasks.core.signal_cleanup import temporary_folder
from leakage_tasks.models.loading import read_model, read_tokenizer
from leakage_tasks.training.rows import seeded

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase


def initialize(kind: Any, config: PretrainedConfig, tokenizer: PreTrainedTokenizerBase, seed: int) -> PreTrainedModel:
    """Return a model of ``kind``, one of transformers' Auto classes, with random weights and the tokenizer's ids.

    The caller's random state does not change.
    """
    for token in ("bos_token_id", "eos_token_id", "pad_token_id"):
        setattr(config, token, getattr(tokenizer, token))
    with seeded(seed, torch.device("cpu")):
        return kind.from_config(config, trust_remote_code=False)


def load_base(
    base: str | Path | PreTrainedModel, labels: Sequence[str], tokenizer: PreTrainedTokenizerBase | None = None
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return a classifier over ``labels`` on ``base``'s encoder, with its tokenizer.

    The head is new unless ``base``'s fits. Code that comes with a model is never run. A model given as ``base`` is
    copied and needs its ``tokenizer``. Raises OptionError without a tokenizer, LeakageError if ``base`` cannot be
    loaded.
    """
    from transformers import AutoModelForSequenceClassification

    if not isinstance(base, str | Path):
        if tokenizer is None:
            raise OptionError("base is a model: pass its tokenizer too")
        with temporary_folder() as folder:
            with _quiet():
                base.save_pretrained(folder)
            return load_base(folder, labels, tokenizer)
    numbered = dict(enumerate(labels))

    def failure(reason: str) -> LeakageError:
        return LeakageError(
            f"{base}: no encoder to fine-tune ({reason}): use a folder or hub name with tokenizer and safetensors"
        )

    tokenizer = tokenizer or read_tokenizer(base, failure=failure)
    with _quiet():
        model, missing = read_model(
            AutoModelForSequenceClassification,
            base,
            failure=failure,
            num_labels=len(labels),
            id2label=numbered,
            label2id={label: number for number, label in numbered.items()},
            ignore_mismatched_sizes=True,
        )
    _check_encoder(base, model, missing)
    if model.config.pad_token_id is None:
        model.config.pad_token_id = tokenizer.pad_token_id
    return model, tokenizer


def _check_encoder(base: str | Path, model: PreTrainedModel, missing: Iterable[str]) -> None:
    # Masked language models are saved without a pooler, so it counts as part of the head.
    lost = sorted(name for name in missing if name.startswith(f"{model.base_model_prefix}.") and ".pooler." not in name)
    if lost:
        raise LeakageError(f"{base}: has no weights for {lost[0]} and {len(lost) - 1} more: use a complete encoder")


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress transformers' progress bars and its report about a new head; other weights are checked separately."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
