"""Errors about canaries whose secrets are somebody's."""

from __future__ import annotations

from collections.abc import Sequence

from leakage_tasks.attacks.coarse import NATURAL
from leakage_tasks.canaries.canary import MASK, Canary
from leakage_tasks.core.errors import CUT, LONGEST, LeakageError, ReadingError, TargetError


class _Guard:
    """A block whose errors leave it as :meth:`safe` says, without a way back to what they stand for.

    Not a generator's: the frames of ``contextlib`` hold the error, which tools that print local variables would show.
    """

    def safe(self, error: Exception) -> LeakageError | None:
        """What is raised instead of ``error``; None to let it pass."""
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


class about(_Guard):
    """Name the canary where the target cannot serve it; no error of any kind shows what a natural one holds."""

    def __init__(self, canary: Canary) -> None:
        self.canary = canary

    def safe(self, error: Exception) -> LeakageError | None:
        """The error by the canary's name, without its words."""
        if isinstance(error, ReadingError):
            return type(error)(error.brief) if self.canary.kind == NATURAL else None
        if isinstance(error, TargetError):
            return TargetError(f"canary {self.canary.id!r}: {without_secret(str(error), self.canary)}")
        return without_its_words(error, self.canary) if self.canary.kind == NATURAL else None


class hiding(_Guard):
    """No error of any kind shows what a natural one of ``canaries`` holds, whichever of them it is about."""

    def __init__(self, canaries: Sequence[Canary]) -> None:
        self.canaries = canaries

    def safe(self, error: Exception) -> LeakageError | None:
        """The error without the words of any natural canary."""
        natural = [canary for canary in self.canaries if canary.kind == NATURAL]
        if not natural:
            return None
        if not isinstance(error, LeakageError):
            return LeakageError(
                f"an attack on {len(self.canaries)} canaries, some of them natural: {type(error).__name__}, of which "
                "no more is shown: attack canaries of another kind to see it"
            )
        message = error.brief if isinstance(error, ReadingError) else str(error)
        for canary in natural:
            message = without_secret(message, canary)
        return type(error)(message)


def without_secret(message: str, canary: Canary) -> str:
    """A message about a natural canary without what it could show of its secret and the text around it."""
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
        # Texts of which the cut has left a part are not found as a whole.
        message = _without_edges(message, max(map(len, texts)))
    quoted = {form for value in values for form in (repr(value), f"'{value}'", f'"{value}"')}
    for text in sorted(quoted, key=len, reverse=True):
        message = message.replace(text, repr(MASK))
    return message


def _without_edges(message: str, width: int) -> str:
    """A message without ``width`` characters on both sides of every place where it may have been cut."""
    first, *rest = message.split(CUT)
    parts = [first]
    for part in rest:
        parts[-1] = parts[-1][: max(0, len(parts[-1]) - width)]
        parts.append(part[width:])
    return CUT.join(parts)


def without_its_words(error: Exception, canary: Canary) -> LeakageError:
    """An error in an attack on a natural canary, whose message and traceback may hold anything that was read."""
    if isinstance(error, ReadingError):
        return type(error)(error.brief)
    if isinstance(error, LeakageError):
        return type(error)(without_secret(str(error), canary))
    return LeakageError(
        f"canary {canary.id!r}: {type(error).__name__}, of which no more is shown, as the canary is natural: attack "
        "one of another kind to see it"
    )
