"""Characters that an encoding cannot hold, as one line."""

from __future__ import annotations

import sys

import pytest

from leakage_tasks.core.encoding import check_characters, unwritable
from leakage_tasks.core.errors import OptionError

UNDECODED = "caf\udcc3\udca9"
"""The UTF-8 bytes of an accented word, as Python reads them where the locale is ASCII."""


def error_of(text: str, encoding: str) -> UnicodeEncodeError:
    with pytest.raises(UnicodeEncodeError) as caught:
        text.encode(encoding)
    return caught.value


@pytest.mark.parametrize(
    ("encoding", "message"),
    [
        ("ascii", r"^--metadata context='caf.*'ascii', does not have: .*PYTHONUTF8=1"),
        ("utf-8", "not UTF-8: write it in UTF-8"),
    ],
)
def test_undecoded_bytes_are_an_error_that_names_the_option_and_the_encoding_to_use(
    monkeypatch: pytest.MonkeyPatch, encoding: str, message: str
) -> None:
    monkeypatch.setattr(sys, "getfilesystemencoding", lambda: encoding)
    with pytest.raises(OptionError, match=message):
        check_characters("--metadata context", UNDECODED)


def test_any_other_text_is_taken() -> None:
    check_characters("--metadata context", "café – 日本 🙂")


def test_the_word_of_the_command_that_cannot_be_written_is_named() -> None:
    line = unwritable(error_of(f"some text with {UNDECODED}", "utf-8"), ["canaries", "--template", UNDECODED])
    assert line.startswith(f"{UNDECODED!r}: ")


@pytest.mark.parametrize(("text", "encoding"), [("my secret é", "ascii"), ("my secret \ud800", "utf-8")])
def test_text_that_comes_from_elsewhere_is_not_shown(text: str, encoding: str) -> None:
    line = unwritable(error_of(text, encoding), ["verify"])
    assert "secret" not in line
