"""Errors about canaries whose secrets are somebody's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from leakage_tasks.canaries.canary import MASK, Canary
from leakage_tasks.errors import LeakageError, TargetError


@contextmanager
def about(canary: Canary) -> Iterator[None]:
    """Name the canary where the target cannot serve it; no error of any kind shows what a natural one holds."""
    try:
        yield
    except TargetError as error:
        raise TargetError(f"canary {canary.id!r}: {without_secret(str(error), canary)}") from None
    except Exception as error:
        if canary.kind != "natural":
            raise
        raise without_its_words(error, canary) from None


@contextmanager
def hiding(canaries: Sequence[Canary]) -> Iterator[None]:
    """No error of any kind shows what a natural one of ``canaries`` holds, whichever of them it is about."""
    try:
        yield
    except Exception as error:
        hidden = error
        for canary in canaries:
            if canary.kind == "natural":
                hidden = without_its_words(hidden, canary)
        if hidden is error:
            raise
        raise hidden from None


def without_secret(message: str, canary: Canary) -> str:
    """A message about a natural canary without what it could show of its secret and the text around it."""
    if canary.kind != "natural":
        return message
    first, *_, last = canary.space.pieces
    slots = canary.text[len(first) :].removesuffix(last)
    texts = [canary.text, canary.attack_space.fill(canary.secret), slots, "".join(canary.secret), canary.template]
    texts += [canary.source_text or "", *canary.space.pieces, *canary.attack_space.pieces]
    values = {slots, "".join(canary.secret)}.union(*(slot.values for slot in canary.space.slots))
    for text in sorted((text for text in texts if len(text.strip()) > 3), key=len, reverse=True):
        message = message.replace(text, MASK)
    return re.sub(r"'[^']*'", lambda quoted: repr(MASK) if quoted[0][1:-1] in values else quoted[0], message)


def without_its_words(error: Exception, canary: Canary) -> LeakageError:
    """An error in an attack on a natural canary, whose message and traceback may hold anything that was read."""
    if isinstance(error, LeakageError):
        return type(error)(without_secret(str(error), canary))
    return LeakageError(
        f"canary {canary.id!r}: {type(error).__name__}, of which no more is shown, as the canary is natural: attack "
        "one of another kind to see it"
    )
