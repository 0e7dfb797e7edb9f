"""Random models from configurations, with a fixed seed and output distributions that are far from uniform."""

from __future__ import annotations

from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
)

from benchmarks.compatibility.architectures import Architecture

LABELS = ("low", "mid", "high")
SPREAD = 0.2
"""Standard deviation of the noise added to every parameter, so that no norm or gate keeps its neutral initial value."""
EXTRA_TOKENS = 3
"""Tokens of the model that the tokenizer lacks, as in a vocabulary padded to a round number."""
_CLASSES: dict[str, Any] = {
    "causal": AutoModelForCausalLM,
    "encoder": AutoModelForSequenceClassification,
    "encoder-decoder": AutoModelForSeq2SeqLM,
}


def build(family: str, architecture: Architecture, tokenizer: Any, seed: int = 0) -> Any:
    """Build a random model of an architecture for a tokenizer's vocabulary and special tokens."""
    torch.manual_seed(seed)
    options: dict[str, Any] = {"vocab_size": len(tokenizer) + EXTRA_TOKENS, "pad_token_id": 0}
    options |= {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    if family == "encoder":
        options |= {"id2label": dict(enumerate(LABELS)), "label2id": {label: n for n, label in enumerate(LABELS)}}
    config = AutoConfig.for_model(architecture.model_type, **{**options, **architecture.options})
    model = _CLASSES[family].from_config(config, dtype=torch.float32, trust_remote_code=False).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(SPREAD * torch.randn_like(parameter))
    return model
