"""A small untrained character LSTM with its tokenizer, in memory and saved."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from leakage_tasks.models import register
from leakage_tasks.models.char_tokenizer import char_tokenizer
from leakage_tasks.models.recurrent import CharLSTMConfig, CharLSTMForCausalLM

ALPHABET = "abcdefghij 0123456789.\n"


@pytest.fixture(scope="session")
def tokenizer():
    return char_tokenizer(ALPHABET)


@pytest.fixture(scope="session")
def model(tokenizer):
    register()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        special = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), tokenizer.bos_token_id)
        config = CharLSTMConfig(vocab_size=len(tokenizer), embedding_size=12, hidden_size=16, **special)
        return CharLSTMForCausalLM(config).eval()


@pytest.fixture(scope="session")
def folder(model, tokenizer, tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("char-lstm")
    model.save_pretrained(place)
    tokenizer.save_pretrained(place)
    return place
