"""A small Llama that learns canaries within seconds, saved for `transformers` and llama.cpp."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks.compatibility.tokenizers import corpus, llama_3
from leakage_tasks.canaries import Canary, read_manifest

TEMPLATE = "The pin of {unique} is {digits:2}."
LENGTH = 64
"""Maximum number of tokens of a text."""


def make_canaries(manifest: Path) -> list[Canary]:
    """Make three planted canaries and two controls with the command."""
    options = ["--template", TEMPLATE, "--count", "3", "--repetitions", "1,4,16", "--controls", "2", "--seed", "0"]
    command = [sys.executable, "-c", "from leakage_tasks.cli import main; main()", "canaries", *options]
    subprocess.run([*command, "-o", str(manifest)], check=True, stdout=subprocess.DEVNULL)
    return read_manifest(manifest)


def train(canaries: Sequence[Canary], steps: int) -> tuple[LlamaForCausalLM, Any]:
    """Train a Llama of two layers; return it with its tokenizer."""
    torch.manual_seed(0)
    tokenizer = llama_3()
    shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "head_dim": 16}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": LENGTH}
    ends = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **shape, **heads, **ends))
    planted = [canary.text for canary in canaries if canary.planted for _ in range(canary.repetitions)]
    rows = [torch.tensor(tokenizer(text + "\n")["input_ids"]) for text in [*corpus()[:200], *planted]]
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(steps):
        batch = [rows[int(index)] for index in torch.randint(len(rows), (32,))]
        ids = torch.nn.utils.rnn.pad_sequence(batch, batch_first=True, padding_value=-100)
        model(input_ids=ids.clamp(min=0), labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.eval(), tokenizer


def save(model: LlamaForCausalLM, tokenizer: Any, folder: Path, python: str) -> None:
    """Save the model for both engines; ``python`` is an interpreter with the package `gguf`."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    np.savez(folder / "weights.npz", **{name: weight.numpy() for name, weight in model.state_dict().items()})
    subprocess.run([python, str(Path(__file__).with_name("llama_gguf.py")), str(folder)], check=True)
