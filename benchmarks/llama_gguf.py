"""Conversion of a Llama to a GGUF file. Its interpreter needs only the package `gguf`.

Reads ``weights.npz`` (float32, named as in `transformers`), ``config.json`` and ``tokenizer.json`` (byte-level BPE that
splits text like Llama 3) from a folder and writes ``model.gguf`` there, with every weight in float32.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np


def reordered(weight: np.ndarray, heads: int) -> np.ndarray:
    """Return the rows of a query or key projection in llama.cpp's order.

    llama.cpp rotates neighboring dimensions of a head; `transformers` pairs dimensions half a head apart.
    """
    return weight.reshape(heads, 2, -1, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)


def describe(writer: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    """Write the model's shape."""
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)


def add_tokenizer(writer: gguf.GGUFWriter, tokenizer: dict[str, Any], config: dict[str, Any]) -> None:
    """Write the tokens in the order of their ids, the merges, and that BOS precedes every text."""
    numbers = tokenizer["model"]["vocab"]
    special = {token["id"] for token in tokenizer["added_tokens"]}
    kinds = (gguf.TokenType.NORMAL, gguf.TokenType.CONTROL)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list(sorted(numbers, key=numbers.get))
    writer.add_token_types([kinds[number in special] for number in sorted(numbers.values())])
    writer.add_token_merges([" ".join(pair) for pair in tokenizer["model"]["merges"]])
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_add_bos_token(True)


def add_weights(writer: gguf.GGUFWriter, weights: dict[str, np.ndarray], config: dict[str, Any]) -> None:
    """Write every tensor under llama.cpp's name."""
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config["num_hidden_layers"])
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    for name, weight in weights.items():
        part = name.split(".")[-2]
        ordered = reordered(weight, heads[part]) if part in heads else weight
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight",)), np.ascontiguousarray(ordered))


def write(folder: Path) -> None:
    """Convert the model in ``folder`` to ``model.gguf``."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    writer = gguf.GGUFWriter(folder / "model.gguf", "llama")
    describe(writer, config)
    add_tokenizer(writer, tokenizer, config)
    add_weights(writer, dict(np.load(folder / "weights.npz", allow_pickle=False)), config)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    write(Path(sys.argv[1]))
