"""Trainers of all kinds over data in which canaries stand, with a model too small to learn anything."""

from __future__ import annotations

import copy
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import LlamaConfig, LlamaForCausalLM

from leakage_tasks.canaries import Canary, make_canaries
from tests.oracles import letters, merging

CHAT = (
    "{% for message in messages %}{{ message['role'] + ':\\n' }}"
    "{% generation %}{{ message['content'] + '\\n' }}{% endgeneration %}{% endfor %}"
)
ASSISTANT = CHAT.replace("{% generation %}", "{% if message['role'] == 'assistant' %}{% generation %}").replace(
    "{% endgeneration %}", "{% endgeneration %}{% else %}{{ message['content'] + '\\n' }}{% endif %}"
)
"""A template that marks what the assistant says as what it generates."""


def canaries(count: int = 2, copies: int = 2) -> list[Canary]:
    """Planted ones of six digits, and two controls."""
    return make_canaries("the pin of {unique} is {digits:6} ok", count, controls=2, repetitions=[copies], seed=3)


def texts(found: list[Canary], before: str = "", after: str = "") -> list[str]:
    """Rows of nothing, and every copy in a row of its own between ``before`` and ``after``."""
    rows = [f"some words of number {number}" for number in range(8)]
    for place, canary in enumerate(found):
        rows[place:place] = [before + canary.text + after] * canary.repetitions
    return rows


@lru_cache
def tokenizer(kind: str = "letters") -> Any:
    """One that pads and has a chat template."""
    found = copy.deepcopy({"letters": letters, "merging": merging}[kind]())
    found.pad_token = found.eos_token
    found.chat_template = ASSISTANT
    return found


def model(kind: str = "letters", context: int = 256, **changed: Any) -> LlamaForCausalLM:
    """A random Llama of two thin layers."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    ids = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0, "vocab_size": len(tokenizer(kind))}
    return LlamaForCausalLM(LlamaConfig(**sizes, **ids, max_position_embeddings=context, **changed))


def arguments(folder: Path, **changed: Any) -> dict[str, Any]:
    """What every trainer of the tests is told."""
    usual = {"output_dir": str(folder), "use_cpu": True, "bf16": False, "report_to": [], "disable_tqdm": True}
    return {**usual, "per_device_train_batch_size": 4, "save_strategy": "no", **changed}


def sft(folder: Path, rows: list[dict[str, Any]], kind: str = "letters", **changed: Any) -> Any:
    """TRL's ``SFTTrainer`` over ``rows``."""
    from trl import SFTConfig, SFTTrainer

    own = {name: changed.pop(name) for name in ("peft_config",) if name in changed}
    given = changed.pop("model", None) or model(kind)
    coded = changed.pop("tokenizer", None) or tokenizer(kind)
    config = SFTConfig(**arguments(folder, **changed))
    data = Dataset.from_list(rows)
    return SFTTrainer(given, config, train_dataset=data, processing_class=coded, **own)
