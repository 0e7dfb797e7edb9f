"""Errors about canaries whose secrets are somebody's."""

from __future__ import annotations

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
        natural = [canary for canary in canaries if canary.kind == "natural"]
        if not natural:
            raise
        if not isinstance(error, LeakageError):
            raise LeakageError(
                f"an attack on {len(canaries)} canaries, some of them natural: {type(error).__name__}, of which no "
                "more is shown: attack canaries of another kind to see it"
            ) from None
        message = str(error)
        for canary in natural:
            message = without_secret(message, canary)
        raise type(error)(message) from None


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
    quoted = {form for value in values for form in (repr(value), f"'{value}'", f'"{value}"')}
    for text in sorted(quoted, key=len, reverse=True):
        message = message.replace(text, repr(MASK))
    return message


def without_its_words(error: Exception, canary: Canary) -> LeakageError:
    """An error in an attack on a natural canary, whose message and traceback may hold anything that was read."""
    if isinstance(error, LeakageError):
        return type(error)(without_secret(str(error), canary))
    return LeakageError(
        f"canary {canary.id!r}: {type(error).__name__}, of which no more is shown, as the canary is natural: attack "
        "one of another kind to see it"
    )
