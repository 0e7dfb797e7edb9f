"""Random models from configs, seeded, with next-token distributions and classes that are far from uniform."""

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
"""Standard deviation of what every parameter is moved by, norms and gates too, so that none is at its neutral value."""
SPARE = 3
"""Tokens that the model has and the tokenizer has not, as where a vocabulary is padded to a round number."""
_CLASSES: dict[str, Any] = {
    "causal": AutoModelForCausalLM,
    "encoder": AutoModelForSequenceClassification,
    "encoder-decoder": AutoModelForSeq2SeqLM,
}


def build(family: str, architecture: Architecture, tokenizer: Any, seed: int = 0) -> Any:
    """A model of the architecture for the tokenizer's vocabulary and special tokens."""
    torch.manual_seed(seed)
    options: dict[str, Any] = {"vocab_size": len(tokenizer) + SPARE, "pad_token_id": 0}
    options |= {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    if family == "encoder":
        options |= {"id2label": dict(enumerate(LABELS)), "label2id": {label: n for n, label in enumerate(LABELS)}}
    config = AutoConfig.for_model(architecture.model_type, **{**options, **architecture.options})
    model = _CLASSES[family].from_config(config, dtype=torch.float32, trust_remote_code=False).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(SPREAD * torch.randn_like(parameter))
    return model
