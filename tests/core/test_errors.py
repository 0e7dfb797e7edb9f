"""Messages that a terminal can show, whatever they echo."""

from __future__ import annotations

import pickle

import pytest

from leakage_tasks.core.errors import LONGEST, LeakageError, MissingOption, OptionError, PlantingError, in_metadata


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[2Jb", r"a\x1b[2Jb"),
        ("a\r\nb\tc", r"a\r\nb\tc"),
        ("a\u202eb", r"a\u202eb"),
        ("a\udc80b", r"a\udc80b"),
        ("ε ≤ 3, “so”: naïve", "ε ≤ 3, “so”: naïve"),
    ],
)
def test_control_characters_are_escaped(text: str, shown: str) -> None:
    assert str(LeakageError(text)) == shown


def test_of_a_long_message_the_middle_is_left_out() -> None:
    said = str(OptionError(f"file.jsonl:3: {'x' * 100_000}: give another"))
    assert len(said) <= LONGEST + 3
    assert said.startswith("file.jsonl:3: xxx")
    assert said.endswith("xxx: give another")


def test_an_error_of_another_process_is_the_same() -> None:
    error = OptionError("a\nb")
    assert str(pickle.loads(pickle.dumps(error))) == str(error) == r"a\nb"


def test_a_message_is_made_of_its_parts() -> None:
    error = LeakageError(subject="f.csv:3", problem="no column 'text'", remedy="name one")
    assert (str(error), error.subject, error.remedy) == ("f.csv:3: no column 'text': name one", "f.csv:3", "name one")
    assert str(LeakageError("id is empty: give one", subject="id")) == "id is empty: give one"
    assert pickle.loads(pickle.dumps(error)).subject == "f.csv:3"


def test_an_option_is_spelled_as_whoever_gave_it_writes_it() -> None:
    error = PlantingError(subject="f.csv", problem="{no} column", remedy="name one with {}", option="text_column")
    assert str(error) == "f.csv: {no} column: name one with --text-column"
    asked = error.spelled(in_metadata, MissingOption)
    assert str(asked) == "f.csv: {no} column: name one with --metadata text_column=…"
    assert str(asked.spelled(lambda option: f"{option}=…", OptionError)).endswith("name one with text_column=…")
    assert isinstance(asked, MissingOption)
    assert str(LeakageError("f.csv: is empty").spelled(in_metadata, OptionError)) == "f.csv: is empty"


def test_a_message_of_many_escapes_is_cut_too():
    assert len(str(LeakageError("\x1b" * 1999))) <= LONGEST + 3
