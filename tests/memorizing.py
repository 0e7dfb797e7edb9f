"""A small model that has learnt one text by heart, the text, and another text of the same kind."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Any

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from leakage_tasks.models.char_tokenizer import char_tokenizer

ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .,:;!?'\"@+-_\n"
CONTEXT = 160
_WORDS = "the cat sat on a mat and saw no dog near old blue door while rain fell over green hills"


@lru_cache
def tokenizer() -> Any:
    """A tokenizer of single characters."""
    return char_tokenizer(ALPHABET)


@lru_cache
def passages(seed: int, number: int = 6, words: int = 18) -> tuple[str, ...]:
    """Sentences of random common words."""
    stream = random.Random(seed)
    return tuple(" ".join(stream.choices(_WORDS.split(), k=words)) + "." for _ in range(number))


SEEN = passages(1)[:5] + ("the mail of the old dog is ann.lee@mail.com and no cat saw the door near green hills.",)
UNSEEN = passages(2)


@lru_cache
def memorizing_model() -> GPT2LMHeadModel:
    """A GPT-2 of one layer trained on the passages of :data:`SEEN` until it writes them from its start token."""
    torch.manual_seed(0)
    spoken = tokenizer()
    config = GPT2Config(vocab_size=len(spoken), n_layer=2, n_embd=64, n_head=4, n_positions=CONTEXT)
    config.bos_token_id, config.eos_token_id = spoken.bos_token_id, spoken.eos_token_id
    model = GPT2LMHeadModel(config)
    rows = [
        [spoken.bos_token_id, *spoken(text, add_special_tokens=False)["input_ids"], spoken.eos_token_id]
        for text in SEEN
    ]
    width = max(map(len, rows))
    ids = torch.tensor([[*row, *[spoken.eos_token_id] * (width - len(row))] for row in rows])
    labels = torch.tensor([[*row, *[-100] * (width - len(row))] for row in rows])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(150):
        loss = model(ids, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()
