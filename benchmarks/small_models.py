"""Small random models of several families, as the harness loads them, and a small tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from lm_eval.models.huggingface import HFLM
from tokenizers import ByteLevelBPETokenizer
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

from leakage_tasks.models.char_tokenizer import char_tokenizer
from leakage_tasks.models.recurrent import CharLSTMConfig, CharLSTMForCausalLM

ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .,:-"
LAYERS, WIDTH, HEADS, POSITIONS = 4, 64, 4, 256
SIZE: dict[str, Any] = {
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": 2,
    "intermediate_size": 2 * WIDTH,
    "max_position_embeddings": POSITIONS,
}
"""Sizes of a Llama and of a Gemma."""


def llama(vocabulary: int) -> Any:
    """Build a Llama."""
    return LlamaForCausalLM(LlamaConfig(vocab_size=vocabulary, **SIZE))


def gemma3(vocabulary: int) -> Any:
    """Build a Gemma 3 with a sliding window shorter than the texts in three of four layers."""
    layers = ["sliding_attention"] * (LAYERS - 1) + ["full_attention"]
    more = {"head_dim": WIDTH // HEADS, "sliding_window": 16, "layer_types": layers}
    return Gemma3ForCausalLM(Gemma3TextConfig(vocab_size=vocabulary, **SIZE, **more))


def gpt2(vocabulary: int) -> Any:
    """Build a GPT-2."""
    size = {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_positions": POSITIONS}
    return GPT2LMHeadModel(GPT2Config(vocab_size=vocabulary, bos_token_id=0, eos_token_id=0, **size))


def mamba(vocabulary: int) -> Any:
    """Build a Mamba."""
    size = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "state_size": 8}
    return MambaForCausalLM(MambaConfig(vocab_size=vocabulary, bos_token_id=0, eos_token_id=0, **size))


def lstm(vocabulary: int) -> Any:
    """Build the LSTM of the demo."""
    return CharLSTMForCausalLM(CharLSTMConfig(vocab_size=vocabulary))


def t5(vocabulary: int) -> Any:
    """Build a T5."""
    size = {"d_model": WIDTH, "d_ff": 2 * WIDTH, "d_kv": WIDTH // HEADS, "num_layers": LAYERS, "num_heads": HEADS}
    ends = {"decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 0}
    return T5ForConditionalGeneration(T5Config(vocab_size=vocabulary, **size, **ends))


MODELS: dict[str, Callable[[int], Any]] = {
    "llama": llama,
    "gemma3": gemma3,
    "gpt2": gpt2,
    "mamba": mamba,
    "lstm": lstm,
    "t5": t5,
}


def harness_model(name: str, rows: int, device: str) -> HFLM:
    """Return a model in the harness' class, with one token per character.

    Args:
        name: A name in :data:`MODELS`.
        rows: The harness' batch size.
        device: The device, as for ``lm_eval --device``.
    """
    torch.manual_seed(0)
    tokenizer = char_tokenizer(ALPHABET, max_length=POSITIONS)
    model = MODELS[name](len(tokenizer)).eval().to(device)
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
