"""Checks for characters that the locale's encoding or UTF-8 cannot represent."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from leakage_tasks.core.errors import OptionError


def check_characters(option: str, text: str) -> None:
    """Raise OptionError if ``text`` holds bytes that the locale's encoding could not decode.

    Python replaces each such byte of a command line with half a surrogate pair. Tokenizers and UTF-8 files reject these
    characters.
    """
    if _is_undecoded(text):
        raise OptionError(f"{option}={text!r}: {_cause()}")


def unwritable(error: UnicodeEncodeError, words: Sequence[str]) -> str:
    """Return a one-line message about characters that could not be written.

    The message names the first of the command's ``words`` that holds such characters. It does not quote
    ``error.object``, which may be private text.
    """
    named = next((word for word in words if _is_undecoded(word)), "")
    if named:
        return f"{named!r}: {_cause()}"
    return (
        f"a name or a text contains characters that the encoding {error.encoding!r} cannot encode: {_remedy()}"
        if error.encoding != "utf-8"
        else "a name or a text contains a lone surrogate character, which UTF-8 cannot encode: remove it from the input"
    )


def _is_undecoded(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


def _cause() -> str:
    encoding = sys.getfilesystemencoding()
    if encoding == "utf-8":
        return "holds bytes that are not UTF-8: write it in UTF-8"
    return f"holds characters that the locale's encoding, {encoding!r}, does not have: {_remedy()}"


def _remedy() -> str:
    return "run the command again with PYTHONUTF8=1 before it"
