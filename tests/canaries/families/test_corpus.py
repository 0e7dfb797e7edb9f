"""Sentences, words and neighbours of data, against reading the data once more by hand."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from leakage_tasks.canaries.families.corpus import read_corpus
from leakage_tasks.core.errors import OptionError, PlantingError
from leakage_tasks.data import Columns

WORDS = ["river", "stone", "letter", "garden", "window", "market", "silver", "candle", "winter", "summer"]


def lines_of(number: int, seed: int = 0) -> list[str]:
    stream = random.Random(seed)
    return [" ".join(["The", *stream.choices(WORDS, k=stream.randrange(4, 9))]) + "." for _ in range(number)]


def written(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_sentences_stand_in_the_data_word_by_word(tmp_path: Path) -> None:
    lines = lines_of(50)
    found = read_corpus(written(tmp_path / "d.txt", lines), Columns(), sentences=20, unknown=2, seed=1)
    for each in found.sentences:
        assert f"{each.context} {' '.join(each.words)}{each.end}" in lines
    assert len({each.context for each in found.sentences}) == 20


def test_what_is_drawn_does_not_depend_on_the_order_of_rows(tmp_path: Path) -> None:
    lines = lines_of(60)
    there = read_corpus(written(tmp_path / "a.txt", lines), Columns(), sentences=10, unknown=1, seed=1)
    back = read_corpus(written(tmp_path / "b.txt", lines[::-1]), Columns(), sentences=10, unknown=1, seed=1)
    assert (there.sentences, there.words) == (back.sentences, back.words)


def test_another_seed_draws_others(tmp_path: Path) -> None:
    path = written(tmp_path / "d.txt", lines_of(60))
    one, other = (read_corpus(path, Columns(), sentences=10, unknown=1, seed=seed) for seed in (1, 2))
    assert set(one.sentences) != set(other.sentences)


def test_words_occur_twice_or_more(tmp_path: Path) -> None:
    lines = [*lines_of(30), "The river once met an elephant there."]
    found = read_corpus(written(tmp_path / "d.txt", lines), Columns(), sentences=5, unknown=1, seed=1)
    counts = Counter(word for line in lines for word in line.rstrip(".").split() if word.islower())
    assert set(found.words) == {word for word, times in counts.items() if times > 1}


def test_neighbours_are_those_of_the_data(tmp_path: Path) -> None:
    lines = lines_of(30)
    found = read_corpus(written(tmp_path / "d.txt", lines), Columns(), sentences=5, unknown=1, seed=1)
    firsts, seconds = set(WORDS[:5]), set(WORDS[3:])
    pairs = {pair for line in lines for pair in pairwise(line.rstrip(".").split())}
    assert found.neighbours(firsts, seconds) == {(a, b) for a, b in pairs if a in firsts and b in seconds}


@pytest.mark.parametrize(("role", "said"), [(None, "assistant"), ("user", "user")])
def test_of_chats_the_turns_of_one_role_are_read(tmp_path: Path, role: str | None, said: str) -> None:
    path, lines = tmp_path / "d.jsonl", lines_of(80)
    turns = [
        [
            {"role": "user", "content": asked},
            {"role": "assistant", "content": answer},
            {"role": "tool", "content": None},
        ]
        for asked, answer in zip(lines[::2], lines[1::2], strict=True)
    ]
    path.write_text("".join(json.dumps({"messages": each}) + "\n" for each in turns), encoding="utf-8")
    found = read_corpus(path, Columns(role=role), sentences=10, unknown=1, seed=1)  # type: ignore[arg-type]
    own = set(lines[::2] if said == "user" else lines[1::2])
    assert {f"{each.context} {each.words[0]}{each.end}" for each in found.sentences} <= own


def _parts(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}]}


ROWS: dict[str, Callable[[str, str], dict[str, Any]]] = {
    "parts": lambda asked, said: {"messages": [_parts("user", asked), _parts("assistant", said)]},
    "sharegpt": lambda asked, said: {
        "conversations": [{"from": "human", "value": asked}, {"from": "gpt", "value": said}]
    },
    "alpaca": lambda asked, said: {"instruction": asked, "input": "", "output": said},
    "completions": lambda asked, said: {"prompt": asked, "completion": said},
}


@pytest.mark.parametrize("role", [None, "user"])
@pytest.mark.parametrize("shape", ROWS)
def test_of_every_shape_the_texts_of_one_role_are_read(tmp_path: Path, shape: str, role: Any) -> None:
    path, lines = tmp_path / "d.jsonl", lines_of(80)
    pairs = zip(lines[::2], lines[1::2], strict=True)
    path.write_text("".join(json.dumps(ROWS[shape](*pair)) + "\n" for pair in pairs), encoding="utf-8")
    found = read_corpus(path, Columns(role=role), sentences=10, unknown=1, seed=1)
    own = set(lines[::2] if role == "user" else lines[1::2])
    assert {f"{each.context} {each.words[0]}{each.end}" for each in found.sentences} <= own


def test_too_few_sentences_are_one_line(tmp_path: Path) -> None:
    path = written(tmp_path / "d.txt", ["Too short.", "Also short."])
    with pytest.raises(OptionError, match=r"d.txt: holds 0 different sentences .* too few for 3 canaries and controls"):
        read_corpus(path, Columns(), sentences=3, unknown=2, seed=1)


def test_a_missing_column_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text('{"body": "x"}\n')
    with pytest.raises(PlantingError, match="no column 'text'"):
        read_corpus(path, Columns(), sentences=3, unknown=2, seed=1)
