"""The generated NLU set: its size, its tags, its splits, and that a seed gives it again."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from leakage_tasks.canaries.presets.nlu import COLORS
from leakage_tasks.core.errors import LeakageError, OptionError
from leakage_tasks.data.utterances import Utterance, is_tag, read_utterances
from leakage_tasks.research.victims.nlu_grammar import nlu_rows, write_nlu_data
from leakage_tasks.research.victims.nlu_phrases import PATTERNS, SLOTS


@pytest.fixture(scope="module")
def rows() -> list[Utterance]:
    return nlu_rows(5_000, seed=1)


def expression(pattern: str) -> str:
    """A pattern of the grammar as a regular expression, in which any space may be missing."""
    for own, regular in (("(", "(?:"), ("[", "(?:"), ("]", ")?"), ("{", r"\{"), (" ", " *")):
        pattern = pattern.replace(own, regular)
    return pattern


def parted(row: Utterance) -> tuple[str, list[tuple[str, str]]]:
    """The words outside the slots with each slot's name where it stands; names and values of the slots."""
    frame: list[str] = []
    values: list[tuple[str, str]] = []
    for word, tag in zip(row.words, row.tags, strict=True):
        name = tag[2:]
        if tag.startswith("I-"):
            values[-1] = (name, f"{values[-1][1]} {word}")
        else:
            frame.append(f"{{{name}}}" if name else word)
            values += [(name, word)] if name else []
    return " ".join(frame), values


def test_thousands_of_different_utterances_of_every_intent_and_slot(rows: list[Utterance]) -> None:
    assert len({row.text for row in rows}) == len(rows) == 5_000
    intents = Counter(row.intent for row in rows)
    assert set(intents) == set(PATTERNS)
    assert len(intents) >= 8
    assert min(intents.values()) > 250
    names = Counter(tag[2:] for row in rows for tag in row.tags if tag != "O")
    assert set(names) == set(SLOTS)
    assert len(names) >= 20
    assert min(names.values()) > 50


def test_tags_are_gold(rows: list[Utterance]) -> None:
    for row in rows:
        assert len(row.words) == len(row.tags)
        assert all(map(is_tag, row.tags))
        assert all(before[2:] == after[2:] for before, after in pairwise(("O", *row.tags)) if after.startswith("I-")), (
            row
        )


def test_a_slots_words_are_tagged_alike_wherever_it_stands(rows: list[Utterance]) -> None:
    for row in rows:
        frame, values = parted(row)
        assert any(re.fullmatch(expression(pattern), frame) for pattern in PATTERNS[row.intent]), row
        assert all(re.fullmatch(expression(SLOTS[name]), value) for name, value in values), row


def test_words_are_plain(rows: list[Utterance]) -> None:
    assert {letter for row in rows for letter in row.text} <= set("abcdefghijklmnopqrstuvwxyz0123456789 ")


def test_what_the_canaries_say_is_left_to_them(rows: list[Utterance]) -> None:
    words = Counter(word for row in rows for word in row.words)
    assert sum(words[color] for color in COLORS.values) == 0
    assert not any("my pin code is" in row.text for row in rows)
    assert all(0 < words[digit] < 500 for digit in "0123456789")


def test_the_seed_decides_and_fewer_are_the_first_of_more(rows: list[Utterance]) -> None:
    assert nlu_rows(200, seed=1) == rows[:200]
    assert nlu_rows(200, seed=2) != rows[:200]


def test_three_splits_without_a_common_utterance(tmp_path: Path) -> None:
    write_nlu_data(tmp_path / "nlu", 300, 40, 50, seed=1)
    parts = [read_utterances(tmp_path / "nlu" / name) for name in ("train", "valid", "test")]
    assert [len(part) for part in parts] == [300, 40, 50]
    assert len({row.text for part in parts for row in part}) == 390
    assert [row for part in parts for row in part] == nlu_rows(390, seed=1)


def test_an_older_set_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    write_nlu_data(tmp_path / "nlu", 20, 2, 2)
    write_nlu_data(tmp_path / "nlu", 10, 2, 2, seed=1)
    assert len(read_utterances(tmp_path / "nlu" / "train")) == 10
    (tmp_path / "nlu" / "thesis").write_text("years of work")
    with pytest.raises(
        OptionError, match="nlu: exists and contains more than train, valid, test: choose another folder"
    ):
        write_nlu_data(tmp_path / "nlu", 10, 2, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["nlu"]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((0, 1, 1), "count is 0: use 1 or more"),
        ((1, 0, 1), "validation is 0"),
        ((1, 1, -1), "test is -1"),
        (
            (100_000, 500, 400),
            "count is 100,000, validation 500 and test 400: use 100,000 utterances or fewer in total",
        ),
    ],
)
def test_sizes_out_of_reach(tmp_path: Path, sizes: tuple[int, int, int], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        write_nlu_data(tmp_path / "nlu", *sizes)


@pytest.mark.parametrize("count", [0, 100_001])
def test_counts_out_of_reach(count: int) -> None:
    with pytest.raises(OptionError, match=f"count is {count}: use 1 to 100,000 utterances"):
        nlu_rows(count)


def test_a_place_that_cannot_be_written_to(tmp_path: Path) -> None:
    with pytest.raises(LeakageError, match="cannot be written"):
        write_nlu_data(tmp_path / "none" / "nlu", 10, 2, 2)


def test_nothing_is_left_where_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from leakage_tasks.research.victims import nlu_grammar

    def fail(rows: list[Utterance], folder: Path) -> None:
        if folder.name == "test":
            raise LeakageError("disk on fire")
        folder.mkdir()

    monkeypatch.setattr(nlu_grammar, "write_folder", fail)
    with pytest.raises(LeakageError, match="fire"):
        write_nlu_data(tmp_path / "nlu", 10, 2, 2)
    assert not list(tmp_path.iterdir())
