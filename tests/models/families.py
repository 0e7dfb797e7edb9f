"""One tiny untrained model of each of the package's architectures."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from leakage_tasks.models import register

FAMILIES: dict[str, dict[str, Any]] = {
    "char_lstm": {},
    "char_gru": {},
    "char_cnn": {"kernel_size": 4},
    "char_wavenet": {"kernel_size": 3, "dilation_base": 2},
}


def tiny(family: str, vocabulary: int = 25, **sizes: Any) -> Any:
    """A model of ``family`` with 2 layers of 16 units unless ``sizes`` say otherwise, in evaluation mode."""
    register()
    special = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), 0)
    usual = {"vocab_size": vocabulary, "embedding_size": 12, "hidden_size": 16, **FAMILIES[family], **special}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = AutoConfig.for_model(family, **usual | sizes)
        return AutoModelForCausalLM.from_config(config, trust_remote_code=False).eval()
