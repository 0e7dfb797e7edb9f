"""Errors a user can act on: one line each, naming what is wrong, what was expected and the remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

LONGEST, CUT = 2_000, " … "
"""Characters of a message; what is cut out of a longer one is its middle, as the place comes first, the remedy last."""


Spelling = Callable[[str], str]
"""An option's name in Python → how whoever gave it writes it."""
Error = TypeVar("Error", bound="LeakageError")


def on_command_line(option: str) -> str:
    """An option as ``leakage`` takes it: ``--text-column``."""
    return f"--{option.replace('_', '-')}"


def in_metadata(option: str) -> str:
    """An option as ``lm_eval`` hands it on: ``--metadata text_column=…``."""
    return f"--metadata {option}=…"


class LeakageError(Exception):
    """Base of every error this package raises on purpose; its message is a single line that a terminal can show.

    Whatever a message echoes, control characters in it are escaped. Without a ``message`` it is made of its parts, for
    callers that go by one of them: ``subject`` is what is wrong (a file, a field), ``problem`` what is wrong with it,
    ``remedy`` what to do, in which ``{}`` stands for the ``option`` (its name in Python) as ``spelling`` writes it.
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
        told = remedy.format(spelling(option)) if option else remedy
        super().__init__(one_line(str(message) or ": ".join(part for part in (subject, problem, told) if part)))

    def spelled(self, spelling: Spelling, kind: type[Error]) -> Error:
        """The same as an error of another kind, its option as ``spelling`` writes it."""
        parts = {"subject": self.subject, "problem": self.problem, "remedy": self.remedy, "option": self.option}
        return kind("" if self.option else self, **parts, spelling=spelling)


def one_line(text: str) -> str:
    """``text`` with its control characters escaped, without its middle where it is long."""
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]}{CUT}{text[-LONGEST // 2 :]}"
    told = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
    # Escapes are longer than what they stand for.
    return told if len(told) <= LONGEST + len(CUT) else f"{told[: LONGEST // 2]}{CUT}{told[-LONGEST // 2 :]}"


class SpaceError(LeakageError):
    """A template, slot, alphabet or filling that does not fit the randomness space.

    ``reason`` is the message without the texts that it quotes, for canaries whose texts must not be shown.
    """

    def __init__(self, message: object = "", *, reason: str = "", subject: str = "") -> None:
        super().__init__(message, subject=subject)
        self.reason = one_line(reason)


class ManifestError(LeakageError):
    """A canary manifest that cannot be read; the message names file, line and field."""


class PlantingError(LeakageError):
    """A dataset canaries cannot be planted into, or a planted file that fails verification."""


class TargetError(LeakageError):
    """A model that cannot do what an attack asks of it."""


class ReadingError(TargetError):
    """A text that a model fails on; ``brief`` is the message without what may be part of the text."""

    def __init__(self, message: str = "", brief: str = "") -> None:
        super().__init__(message)
        self.brief = brief or message


class ForwardPassError(ReadingError):
    """A model whose own forward pass raised an error."""

    @classmethod
    def of(cls, model: str, kind: str, words: str) -> ForwardPassError:
        """Return the error of a model whose forward pass raised an exception of this ``kind`` with these ``words``."""
        said = f"the forward pass of {model} failed"
        remedy = "see whether the model reads a text by itself in plain transformers"
        shown = f"{kind}: {words}" if words != kind else kind
        return cls(
            f"{said} ({shown}): {remedy}; LM_EVAL_LEAKAGE_DEBUG=1 shows the traceback",
            f"{said} ({kind}, of which no more is shown, as it may hold somebody's text): {remedy}",
        )


class MissingEmbeddingError(ReadingError):
    """A token that the tokenizer gives and the model has no embedding of."""

    @classmethod
    def of(cls, token: str, number: int, embeddings: int, where: str) -> MissingEmbeddingError:
        """Return the error of a ``token`` with the id ``number`` in ``where``, of a model with so many embeddings."""
        said = f"has no embedding, as the model has {embeddings} (ids 0 to {embeddings - 1})"
        remedy = (
            "name the tokenizer that the model was trained with, tokenizer=… in --model_args, or call "
            "model.resize_token_embeddings(len(tokenizer)) before training"
        )
        return cls(
            f"{where}: the token {token!r} (id {number}) {said}: {remedy}",
            f"{where}: one of its tokens {said}: {remedy}",
        )


class OptionError(LeakageError):
    """An option (command line, ``--metadata`` or API argument) with an unusable value."""


class MissingOption(OptionError):
    """An option that something cannot do without and that was not given."""


class ResultsError(LeakageError):
    """A file of results or samples that cannot be used; the message names file and field, or line."""
