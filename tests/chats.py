"""Chat models in the styles of four families, each with a template and a kind of tokenizer of its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from benchmarks.compatibility import tokenizers as kinds

NUMBERS = [f"The pin of kalo{n % 97} is {n * 7919 % 10000:04d}. Please continue. All right." for n in range(400)]
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAMA_3 = (
    "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n"
    "{{ m.content | trim }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
GEMMA = (
    "{{ bos_token }}{% for m in messages %}"
    "{% if m.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}\n{{ m.content | trim }}<end_of_turn>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
MISTRAL = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]"
    "{% elif m.role == 'assistant' %} {{ m.content }}{{ eos_token }}"
    "{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}"
)
PHI_3 = (
    "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% else %}{{ eos_token }}{% endif %}"
)
ZEPHYR = (
    "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}{{ eos_token }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)


def _bytes(digits: bool, special: list[str]) -> Tokenizer:
    """Byte-level BPE; with ``digits``, of numbers in groups of up to three digits."""
    found = Tokenizer(models.BPE())
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not digits)
    groups = pre_tokenizers.Split(Regex(r"\p{N}{1,3}| ?[^\s\p{N}]+|\s+"), "isolated")
    found.pre_tokenizer = pre_tokenizers.Sequence([groups, bytes_]) if digits else bytes_
    found.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    how: Any = {"special_tokens": special, "initial_alphabet": alphabet, "show_progress": False}
    found.train_from_iterator(NUMBERS, trainers.BpeTrainer(vocab_size=420, **how))
    return found


def _pieces(unigram: bool, special: list[str]) -> Tokenizer:
    """Pieces that carry the space before them: unigram without one at the beginning of a text, or BPE with."""
    how = "never" if unigram else "first"
    letters = sorted({letter for text in NUMBERS for letter in text} | {"▁", "\n", "[", "]", "I", "N", "S", "T", "/"})
    words = [f"▁{word}" for text in NUMBERS for word in text.split()]
    found = Tokenizer(
        kinds.unigram_model([*words, *letters], ["<unk>", *special]) if unigram else models.BPE(unk_token="<unk>")
    )
    found.pre_tokenizer, found.decoder = pre_tokenizers.Metaspace(prepend_scheme=how), decoders.Metaspace("▁", how)
    if unigram:
        found.add_special_tokens([AddedToken(token, special=True) for token in ("<unk>", *special)])
    else:
        names = {"special_tokens": ["<unk>", *special], "initial_alphabet": letters}
        found.train_from_iterator(NUMBERS, trainers.BpeTrainer(vocab_size=200, show_progress=False, **names))
    return found


def _wrapped(backend: Tokenizer, template: str, **special: str) -> PreTrainedTokenizerFast:
    found = PreTrainedTokenizerFast(tokenizer_object=backend, **special)
    found.chat_template = template
    return found


def _phi_3() -> PreTrainedTokenizerFast:
    """Pieces without a space put before a text, and turns whose tokens take the line break after them."""
    found = kinds.tokenizer("Gemma")
    names = ("<|system|>", "<|user|>", "<|assistant|>", "<|end|>")
    found.add_tokens([AddedToken(name, special=True, rstrip=True) for name in names], special_tokens=True)
    found.chat_template = PHI_3
    return found


def _zephyr() -> PreTrainedTokenizerFast:
    """Pieces with a space put before a text, after every special token too."""
    found = kinds.tokenizer("byte fallback")
    found.chat_template = ZEPHYR
    return found


@lru_cache
def chat_tokenizer(style: str) -> PreTrainedTokenizerFast:
    """The tokenizer of a style, with its chat template."""
    make: dict[str, Callable[[], PreTrainedTokenizerFast]] = {
        "chatml": lambda: _wrapped(
            _bytes(False, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]), CHATML, eos_token="<|im_end|>"
        ),
        "llama-3": lambda: _wrapped(
            _bytes(True, ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]),
            LLAMA_3,
            bos_token="<|begin_of_text|>",
            eos_token="<|eot_id|>",
        ),
        "gemma": lambda: _wrapped(
            _pieces(True, ["<bos>", "<start_of_turn>", "<end_of_turn>"]),
            GEMMA,
            bos_token="<bos>",
            eos_token="<end_of_turn>",
        ),
        "mistral": lambda: _wrapped(_pieces(False, ["<s>", "</s>"]), MISTRAL, bos_token="<s>", eos_token="</s>"),
        "phi-3": _phi_3,
        "zephyr": _zephyr,
    }
    return make[style]()


STYLES = ("chatml", "llama-3", "gemma", "mistral")


@lru_cache
def chat_model(style: str, seed: int = 0) -> LlamaForCausalLM:
    """A random Llama of two layers whose next-token distributions are far from uniform."""
    torch.manual_seed(seed)
    tokenizer = chat_tokenizer(style)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=256,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        model.lm_head.weight.mul_(40)
    return model
