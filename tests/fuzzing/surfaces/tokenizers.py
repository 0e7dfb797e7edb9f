"""Tokenizers in folders, GPT-2's two files, and those made of a text."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from leakage_tasks.canaries.alphabets import load_tokenizer, tokenizer_words
from leakage_tasks.models.char_tokenizer import char_tokenizer
from leakage_tasks.models.word_tokenizer import word_tokenizer
from leakage_tasks.research.victims.cut_tokenizer import gpt2_tokenizer
from tests.fuzzing import hostile, mutate
from tests.fuzzing.case import Call, ensure
from tests.oracles import merging, wordpiece

_VOCABULARY = {"<|endoftext|>": 0, "a": 1, "b": 2, "ab": 3, "Ġ": 4, "Ġa": 5}
_MERGES = "#version: 0.2\na b\nĠ a\n"


@cache
def _saved(name: str) -> dict[str, bytes]:
    made: dict[str, Callable[[], Any]] = {"merging": merging, "wordpiece": wordpiece}
    tokenizer = made.get(name, lambda: char_tokenizer("abc "))()
    with tempfile.TemporaryDirectory() as place:
        tokenizer.save_pretrained(place)
        return {path.name: path.read_bytes() for path in sorted(Path(place).iterdir()) if path.is_file()}


def make(stream: Random, folder: Path) -> Call:
    """A folder with one file of a tokenizer changed, or a text to make one of."""
    kind = stream.randrange(4)
    if kind == 0:
        text = " ".join(hostile.text(stream)[:200] for _ in range(3)).encode("utf-8", "replace").decode()
        return Call(lambda: _made(text))
    if kind == 1:
        files = {"vocab.json": mutate.written(stream, _VOCABULARY), "merges.txt": _MERGES.encode()}
        if stream.random() < 0.5:
            files["vocab.json"] = mutate.json_file(stream, _VOCABULARY)
        else:
            files["merges.txt"] = mutate.data(stream, _MERGES.encode())
    else:
        files = dict(_saved(stream.choice(("merging", "wordpiece", "characters"))))
        name = stream.choice([name for name in files if name.endswith(".json")])
        files[name] = mutate.json_file(stream, json.loads(files[name]))
    for name, told in files.items():
        (folder / name).write_bytes(told)
    what = stream.choice(("tokens", "whole-words"))
    return Call(lambda: _gpt2(folder) if kind == 1 else _load(folder, what))


def _made(text: str) -> None:
    ids = char_tokenizer(text)
    ensure(ids.decode(ids(text)["input_ids"]) == text, "characters are given back")
    words = word_tokenizer(text)
    said = " ".join(text.split())
    ensure(not said or bool(words(said)["input_ids"]), "words are tokens")


def _gpt2(folder: Path) -> None:
    gpt2_tokenizer(folder)("ab ab")


def _load(folder: Path, what: str) -> None:
    load_tokenizer(str(folder))
    ensure(len(tokenizer_words("words", str(folder), what)) > 0, "an alphabet has values")
