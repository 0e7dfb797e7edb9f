"""Redaction of error and log messages about natural canaries, whose secrets belong to real people."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from leakage_tasks.attacks.coarse import NATURAL
from leakage_tasks.canaries.canary import MASK, Canary
from leakage_tasks.core.errors import CUT, LONGEST, LeakageError, QuotingError, TargetError
from leakage_tasks.core.log import log

HIDDEN = "a message of %s is hidden, as natural canaries are attacked: attack canaries of another kind to see it"


class _Guard:
    """A context manager that replaces each error in its block by the result of :meth:`safe`, without a link to the
    original.

    It is not a generator with ``contextlib``, because the frames of ``contextlib`` hold the original error, and tools
    that print local variables would show it.
    """

    def safe(self, error: Exception) -> LeakageError | None:
        """Return the error to raise instead of ``error``; None to let ``error`` pass."""
        raise NotImplementedError

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        safe = self.safe(error) if isinstance(error, Exception) else None
        del error, trace
        if safe is not None:
            try:
                raise safe from None
            finally:
                safe.__context__ = None


class NamingCanary(_Guard):
    """Context manager that names the canary in a target's errors.

    No error of any kind shows the secret of a natural canary.
    """

    def __init__(self, canary: Canary) -> None:
        self.canary = canary

    def safe(self, error: Exception) -> LeakageError | None:
        """Return the error with the canary's id and without its secret."""
        if isinstance(error, TargetError) and not isinstance(error, QuotingError):
            return TargetError(f"canary {self.canary.id!r}: {without_secret(str(error), self.canary)}")
        return without_its_words(error, self.canary) if self.canary.kind == NATURAL else None


class HidingSecrets(_Guard):
    """Context manager: no error of any kind shows the secret of any natural canary in ``canaries``."""

    def __init__(self, canaries: Sequence[Canary]) -> None:
        self.canaries = canaries

    def safe(self, error: Exception) -> LeakageError | None:
        """Return the error without the secrets and texts of all natural canaries."""
        natural = [canary for canary in self.canaries if canary.kind == NATURAL]
        if not natural:
            return None
        if not isinstance(error, LeakageError):
            return LeakageError(
                f"an attack on {len(self.canaries)} canaries, some of them natural: {type(error).__name__}; its "
                "message is hidden: attack canaries of another kind to see it"
            )
        message = error.brief if isinstance(error, QuotingError) else str(error)
        for canary in natural:
            message = without_secret(message, canary)
        return type(error)(message)


class HidingLogs:
    """Context manager: if ``canaries`` include natural ones, no log message of another package is shown.

    The harness logs a server's answer to a request that fails, and such an answer may repeat the request.
    """

    def __init__(self, canaries: Sequence[Canary]) -> None:
        self._hides = any(canary.kind == NATURAL for canary in canaries)

    def __enter__(self) -> None:
        self._factory = logging.getLogRecordFactory()
        if self._hides:
            logging.setLogRecordFactory(self._record)

    def __exit__(self, *error: object) -> None:
        if self._hides:
            logging.setLogRecordFactory(self._factory)

    def _record(self, name: str, *arguments: Any, **more: Any) -> logging.LogRecord:
        record = self._factory(name, *arguments, **more)
        if name != log.name:
            record.msg, record.args, record.exc_info, record.stack_info = HIDDEN % name, (), None, None
        return record


about, hiding = NamingCanary, HidingSecrets
"""Former names of the two classes, which attacks of other packages may use."""


def without_secret(message: str, canary: Canary) -> str:
    """Remove a natural canary's secret and the text around it from a message."""
    if canary.kind != NATURAL:
        return message
    first, *_, last = canary.space.pieces
    slots = canary.text[len(first) :].removesuffix(last)
    texts = [canary.text, canary.attack_space.fill(canary.secret), slots, "".join(canary.secret), canary.template]
    texts += [canary.source_text or "", *canary.space.pieces, *canary.attack_space.pieces]
    was_cut = len(message) > LONGEST
    values = {slots, "".join(canary.secret)}.union(*(slot.values for slot in canary.space.slots))
    for text in sorted((text for text in texts if len(text.strip()) > 3), key=len, reverse=True):
        message = message.replace(text, MASK)
    if was_cut:
        # The cut may have left part of a text, which the search for whole texts does not find.
        message = _without_edges(message, max(map(len, texts)))
    quoted = {form for value in values for form in (repr(value), f"'{value}'", f'"{value}"')}
    for text in sorted(quoted, key=len, reverse=True):
        message = message.replace(text, repr(MASK))
    # Words of names are values of slots, which may be in a message without quotes.
    for value in sorted((value for value in values if len(value) > 3), key=len, reverse=True):
        message = message.replace(value, MASK)
    return message


def _without_edges(message: str, width: int) -> str:
    """Remove ``width`` characters on both sides of each point at which the message may have been cut."""
    first, *rest = message.split(CUT)
    parts = [first]
    for part in rest:
        parts[-1] = parts[-1][: max(0, len(parts[-1]) - width)]
        parts.append(part[width:])
    return CUT.join(parts)


def without_its_words(error: Exception, canary: Canary) -> LeakageError:
    """Return a safe error for an attack on a natural canary.

    The original message and traceback may contain anything that the attack read.
    """
    if isinstance(error, QuotingError):
        return type(error)(error.brief)
    if isinstance(error, LeakageError):
        return type(error)(without_secret(str(error), canary))
    return LeakageError(
        f"canary {canary.id!r}: {type(error).__name__}; its message is hidden because the canary is natural: "
        "attack a canary of another kind to see it"
    )
