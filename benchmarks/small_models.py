"""Small random models of several families, as the harness loads them, and a small tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from lm_eval.models.huggingface import HFLM
from tokenizers import ByteLevelBPETokenizer
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, PreTrainedTokenizerFast

from leakage_tasks.models import register
from leakage_tasks.models.char_tokenizer import char_tokenizer

ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .,:-"
LAYERS, WIDTH, HEADS, POSITIONS = 4, 64, 4, 256
ENDS = {"bos_token_id": 0, "eos_token_id": 0}
SIZE: dict[str, Any] = {
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": 2,
    "intermediate_size": 2 * WIDTH,
    "max_position_embeddings": POSITIONS,
}
"""Sizes of a Llama and of a Gemma."""
MODELS: dict[str, dict[str, Any]] = {
    "llama": {"model_type": "llama", **SIZE},
    # The sliding window of three of four layers is shorter than the texts.
    "gemma3": {
        "model_type": "gemma3_text",
        "head_dim": WIDTH // HEADS,
        "sliding_window": 16,
        "layer_types": ["sliding_attention"] * (LAYERS - 1) + ["full_attention"],
        **SIZE,
    },
    "gpt2": {
        "model_type": "gpt2",
        "n_embd": WIDTH,
        "n_layer": LAYERS,
        "n_head": HEADS,
        "n_positions": POSITIONS,
        **ENDS,
    },
    "mamba": {"model_type": "mamba", "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "state_size": 8, **ENDS},
    # The LSTM of the demo.
    "lstm": {"model_type": "char_lstm"},
    "t5": {
        "model_type": "t5",
        "auto": AutoModelForSeq2SeqLM,
        "d_model": WIDTH,
        "d_ff": 2 * WIDTH,
        "d_kv": WIDTH // HEADS,
        "num_layers": LAYERS,
        "num_heads": HEADS,
        "decoder_start_token_id": 0,
        "pad_token_id": 0,
        "eos_token_id": 0,
    },
}
"""Arguments of :func:`random_model` without the vocabulary."""


def random_model(model_type: str, auto: Any = AutoModelForCausalLM, **sizes: Any) -> Any:
    """Build a model with random weights, in evaluation mode.

    Args:
        model_type: The architecture's name in `transformers`, or of a model of this package.
        auto: The Auto class of `transformers` for the model's head.
        sizes: Values of its configuration.
    """
    register()
    return auto.from_config(AutoConfig.for_model(model_type, **sizes), trust_remote_code=False).eval()


def harness_model(name: str, rows: int, device: str) -> HFLM:
    """Return a model in the harness' class, with one token per character.

    Args:
        name: A name in :data:`MODELS`.
        rows: The harness' batch size.
        device: The device, as for ``lm_eval --device``.
    """
    torch.manual_seed(0)
    tokenizer = char_tokenizer(ALPHABET, max_length=POSITIONS)
    model = random_model(**MODELS[name], vocab_size=len(tokenizer)).to(device)
    options = {"backend": "seq2seq"} if model.config.is_encoder_decoder else {}
    return HFLM(pretrained=model, tokenizer=tokenizer, batch_size=rows, device=device, **options)


def fix_rows(target: Any, rows: int) -> None:
    """Fix the rows of a full pass. On a CPU passes would stay small; a GPU fills passes of thousands of rows."""
    tuned = target.pass_rows.tuned
    tuned.rows, tuned.note = rows, lambda rows, seconds: None


def byte_level(text: str, vocabulary: int, special: Sequence[str] = ("<|endoftext|>",)) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE; the first special token is BOS and padding, the last is EOS."""
    made = ByteLevelBPETokenizer()
    made.train_from_iterator(text.splitlines(), vocabulary, special_tokens=list(special), show_progress=False)
    ends = {"bos_token": special[0], "eos_token": special[-1], "pad_token": special[0]}
    return PreTrainedTokenizerFast(tokenizer_object=made._tokenizer, **ends)
