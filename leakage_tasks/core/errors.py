"""Errors that a user can act on: each message is one line with the problem, the expected value and the remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

LONGEST, CUT = 2_000, " … "
"""Maximum number of characters of a message, and the text that replaces the middle of a longer message. Its start (the
location) and its end (the remedy) are kept."""
WITHHELD = ", of which no more is shown, as it may hold somebody's text"
"""Text after the class of an exception whose message is withheld."""


Spelling = Callable[[str], str]
"""Function from an option's Python name to the user's spelling of it."""
Error = TypeVar("Error", bound="LeakageError")


def on_command_line(option: str) -> str:
    """Return an option as a flag of ``leakage``: ``--text-column``."""
    return f"--{option.replace('_', '-')}"


def in_metadata(option: str) -> str:
    """Return an option as part of the metadata of ``lm_eval``: ``--metadata text_column=…``."""
    return f"--metadata {option}=…"


class LeakageError(Exception):
    """Base class of all errors that this package raises on purpose; the message is one printable line.

    Control characters in the message are escaped. If ``message`` is empty, it is built from parts, which callers can
    read: ``subject`` is the faulty thing (a file, a field), ``problem`` describes the fault, ``remedy`` says how to fix
    it. In ``remedy``, ``{}`` is replaced by ``spelling(option)``; ``option`` is a Python name.
    """

    def __init__(
        self,
        message: object = "",
        *,
        subject: str = "",
        problem: str = "",
        remedy: str = "",
        option: str = "",
        spelling: Spelling = on_command_line,
    ) -> None:
        self.subject, self.problem, self.remedy, self.option = subject, problem, remedy, option
        advice = remedy.format(spelling(option)) if option else remedy
        super().__init__(one_line(str(message) or ": ".join(part for part in (subject, problem, advice) if part)))

    def spelled(self, spelling: Spelling, kind: type[Error]) -> Error:
        """Return this error as another class, with its option spelled by ``spelling``."""
        parts = {"subject": self.subject, "problem": self.problem, "remedy": self.remedy, "option": self.option}
        return kind("" if self.option else self, **parts, spelling=spelling)


def one_line(text: str) -> str:
    """Return ``text`` with control characters escaped and, if it is too long, with its middle cut out."""
    # Cut first, since escapes are longer than the characters that they replace.
    characters = _shortened(text, LONGEST)
    escaped = "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in characters
    )
    return _shortened(escaped, LONGEST + len(CUT))


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: LONGEST // 2]}{CUT}{text[-LONGEST // 2 :]}"


class SpaceError(LeakageError):
    """Error for a template, slot, alphabet or filling that does not fit the randomness space.

    ``reason`` is the message without quoted texts, for canaries whose texts must stay hidden.
    """

    def __init__(self, message: object = "", *, reason: str = "", subject: str = "") -> None:
        super().__init__(message, subject=subject)
        self.reason = one_line(reason)


class ManifestError(LeakageError):
    """Error for an unreadable canary manifest; the message names file, line and field."""


class PlantingError(LeakageError):
    """Error for a dataset that cannot take canaries, or for a planted file that fails verification."""


class TargetError(LeakageError):
    """Error for a model that lacks a capability that an attack needs."""


class QuotingError(LeakageError):
    """Error whose message may quote a text; ``brief`` is the message without these parts."""

    def __init__(self, message: str = "", brief: str = "") -> None:
        super().__init__(message)
        self.brief = brief or message


class ReadingError(QuotingError, TargetError):
    """Error for a text that makes a model fail."""


class ForwardPassError(ReadingError):
    """Error for an exception inside a model's forward pass."""

    @classmethod
    def of(cls, model: str, kind: str, words: str) -> ForwardPassError:
        """Return the error for an exception of class ``kind`` with the message ``words`` in the forward pass of
        ``model``."""
        problem = f"the forward pass of {model} failed"
        remedy = "see whether the model reads a text by itself in plain transformers"
        return cls(
            f"{problem} ({_shown(kind, words)}): {remedy}; LM_EVAL_LEAKAGE_DEBUG=1 shows the traceback",
            f"{problem} ({kind}{WITHHELD}): {remedy}",
        )


def _shown(kind: str, words: str) -> str:
    return f"{kind}: {words}" if words != kind else kind


class ServerError(QuotingError):
    """Error for a server that cannot be reached or that answers a request with an error.

    It is no TargetError: another attempt may succeed, so no task may be null because of it.
    """

    @classmethod
    def of(cls, model: str, kind: str, words: str) -> ServerError:
        """Return the error for an exception of class ``kind`` with the message ``words`` of the client of ``model``."""
        problem = f"the server of {model} failed"
        remedy = (
            "check base_url in --model_args and the server's log, and repeat the command; max_retries=N allows more "
            "attempts, and --metadata resume=DIR keeps findings"
        )
        return cls(f"{problem} ({_shown(kind, words)}): {remedy}", f"{problem} ({kind}{WITHHELD}): {remedy}")


class MissingEmbeddingError(ReadingError):
    """Error for a token of the tokenizer that has no embedding in the model."""

    @classmethod
    def of(cls, token: str, number: int, embeddings: int, where: str) -> MissingEmbeddingError:
        """Return the error for ``token`` with id ``number`` in ``where``; the model has ``embeddings`` embeddings."""
        problem = f"has no embedding, as the model has {embeddings} (ids 0 to {embeddings - 1})"
        remedy = (
            "name the tokenizer that the model was trained with, tokenizer=… in --model_args, or call "
            "model.resize_token_embeddings(len(tokenizer)) before training"
        )
        return cls(
            f"{where}: the token {token!r} (id {number}) {problem}: {remedy}",
            f"{where}: one of its tokens {problem}: {remedy}",
        )


class OptionError(LeakageError):
    """Error for an unusable value of an option (command line, ``--metadata`` or API argument)."""


class MissingOption(OptionError):
    """Error for a required option that is missing."""


class ResultsError(LeakageError):
    """Error for an unusable file of results or samples; the message names the file and the field or line."""
