"""A small manifest, tokenizers, and the command line in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from leakage_tasks.canaries import make_canaries, write_manifest

TEMPLATE = "The random number of {unique} is {digits:9}."


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """4 planted canaries (22 copies) of class joy, 4 controls."""
    path = tmp_path / "canaries.jsonl"
    write_manifest(make_canaries(TEMPLATE, 4, repetitions=(1, 10), controls=4, label="joy"), path)
    return path


@pytest.fixture(scope="session")
def byte_level(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved byte-level BPE tokenizer with ``Ġ`` words, pieces and a special token."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    pieces = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("Ġ", "r"), ("Ġr", "e"), ("Ġre", "d"), ("e", "d"), ("Ġ", "7"), ("Ġ", "b"), ("1", "2")]
    vocabulary = {piece: at for at, piece in enumerate(["<|end|>", *pieces, *("".join(pair) for pair in merges)])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    folder = tmp_path_factory.mktemp("byte-level")
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>").save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def word_pieces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved WordPiece tokenizer with ``##`` pieces, punctuation and unused entries."""
    entries = ["[UNK]", "[unused0]", "a", "red", "blue", "##ing", "##s", ".", "42", "green"]
    return save_word_pieces(entries, tmp_path_factory.mktemp("word-pieces"))


@pytest.fixture(scope="session")
def table_words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved WordPiece tokenizer with the words that the canaries of Mix and Match ask for."""
    from leakage_tasks.canaries.presets import TABLE_1
    from leakage_tasks.canaries.presets.mix_and_match import LABELLED
    from leakage_tasks.canaries.presets.sentences import words_of

    texts = [*(row.text for row in TABLE_1), *LABELLED]
    entries = ["[UNK]", ".", "##s", *sorted({word for text in texts for word in words_of(text)})]
    return save_word_pieces(entries, tmp_path_factory.mktemp("table-words"))


def save_word_pieces(entries: list[str], folder: Path) -> Path:
    """A WordPiece tokenizer with these entries, ``[UNK]`` among them."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    model = models.WordPiece(vocab={entry: at for at, entry in enumerate(entries)}, unk_token="[UNK]")
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]").save_pretrained(folder)
    return folder
