"""Choice of the layout of a space's token paths, and the check that the layout loses no filling."""

from __future__ import annotations

import os.path
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from leakage_tasks.canaries.spaces import Space
from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets.protocols import Paths
from leakage_tasks.targets.tokens.automaton import WHOLE_TEXTS, AutomatonPaths
from leakage_tasks.targets.tokens.byte_paths import BytePaths, by_bytes, on_bytes
from leakage_tasks.targets.tokens.fixed_ends import Encode, Tail, encode_each, head_of, tail_of
from leakage_tasks.targets.tokens.tries import Tries, last_word, probes_of
from leakage_tasks.targets.tokens.vocabulary import Pieces

ENUMERATE = 20_000
"""Maximum number of fillings for which a space is enumerated without trying another method."""
KEPT = 8
"""Number of templates whose paths are cached."""
MOVED = 2
"""Number of fillings that are encoded to verify the paths after another prefix."""
ENUMERATE_AT_MOST = 1_000_000
"""Maximum number of fillings for which a space is enumerated if the walk of the vocabulary fails the check."""


def lay_out(
    space: Space, encode: Encode, spelling: Callable[[], Pieces], tries: Tries, alone: Encode | None = None
) -> Paths:
    """Return the token paths of ``space``.

    Args:
        space: the space.
        encode: tokens of texts, with special tokens only for their own spelling in a text.
        spelling: returns the text that each token adds after another token; not called for a small space.
        tries: the spaces enumerated before.
        alone: as in :meth:`Tries.paths`.

    Raises:
        TargetError: the tokenizer does not round-trip the space's fillings.
    """
    if space.size <= ENUMERATE:
        return tries.paths(space, encode, alone)
    pieces = spelling()
    paths = _walked(AutomatonPaths, space, encode, pieces)
    if paths is None and pieces.parts:
        paths = _walked(BytePaths, by_bytes(space), on_bytes(encode), pieces.by_bytes)
    if paths is not None:
        return paths
    if space.size <= ENUMERATE_AT_MOST:
        return tries.paths(space, encode, alone)
    raise TargetError(
        "the tokenizer does not give back the text of this template's fillings (it drops, joins or replaces "
        f"characters), so they cannot be searched: {WHOLE_TEXTS}"
    )


@dataclass(frozen=True)
class VerifiedPaths:
    """Token paths that lose no filling, and probes that show whether they are right after other text too.

    The text before the last word usually changes no later token. ``rest`` is the text between the tokens of the paths'
    prefix and the first slot. ``texts`` are the probes after the prefix, with their ``tokens``.
    """

    paths: AutomatonPaths
    rest: str
    texts: Sequence[str]
    tokens: Sequence[tuple[int, ...]]

    def moved(self, space: Space, encode: Encode) -> AutomatonPaths | None:
        """Return the paths after the prefix of ``space``, or None if the probes have other tokens there."""
        text = space.prefix.removesuffix(self.rest)
        try:
            encoded = [tuple(tokens) for tokens in encode([text + probe for probe in self.texts])]
        except TargetError:
            return None
        prefix = encoded[0][: len(encoded[0]) - len(self.tokens[0])]
        if any(tokens != prefix + after for tokens, after in zip(encoded, self.tokens, strict=True)):
            return None
        return self.paths.after(prefix, space, encode, text)


def _walked(kind: type[AutomatonPaths], space: Space, encode: Encode, pieces: Pieces) -> AutomatonPaths | None:
    """Return the paths found by walking the vocabulary through the template, or None if they would lose a filling."""
    cuts = _cuts(space, pieces)
    key = kind, *map(id, space.slots), *space.pieces[1:], last_word(space.prefix), *(space.prefix[at:] for at in cuts)
    verified = pieces.verified.pop(key, None)
    paths = None if verified is None else verified.moved(space, encode)
    if verified is None or paths is None:
        verified = _verified(kind, space, encode, pieces, cuts)
        if verified is None:
            return None
        paths = verified.paths
    pieces.verified[key] = verified
    if len(pieces.verified) > KEPT:
        del pieces.verified[next(iter(pieces.verified))]
    return paths


def _verified(
    kind: type[AutomatonPaths], space: Space, encode: Encode, pieces: Pieces, cuts: Sequence[int]
) -> VerifiedPaths | None:
    """Return the paths of ``space``, or None if they would lose a probe; probes have every value in every slot."""
    probes, before = probes_of(space), [space.prefix[:at] for at in cuts]
    texts = [space.begin(filling) for filling in probes]
    encoded = [tuple(tokens) for tokens in encode(texts)]
    # The placeholder -1 represents the token that is cut off.
    cut_off = [(*(tokens or ()), -1) for tokens in encode_each(encode, before)]
    prefix, text = _shared_prefix(space, encoded + cut_off, encode, pieces)
    tail = tail_of(space, probes, encoded, encode, pieces)
    if not _holds(texts, encoded, prefix, text, tail, pieces):
        return None
    after = [tokens[len(prefix) :] for tokens in (*encoded[:MOVED], *(tokens[:-1] for tokens in cut_off))]
    begun = [whole.removeprefix(text) for whole in (*texts[:MOVED], *before)]
    paths = kind(space, encode, prefix, text, pieces, tail)
    return VerifiedPaths(paths, space.prefix.removeprefix(text), begun, after)


def _cuts(space: Space, pieces: Pieces) -> list[int]:
    """Return the positions in the text before the first slot at which a token that extends into the slot may begin.

    Up to that token, a filling has the tokens of the text before such a position, since these do not depend on the text
    after it.
    """
    first = {value[0] for value in space.slots[0].values}
    return [
        at for at in range(len(space.prefix)) if not first.isdisjoint(pieces.continuations.get(space.prefix[at:], ()))
    ]


def _shared_prefix(
    space: Space, encoded: Sequence[tuple[int, ...]], encode: Encode, pieces: Pieces
) -> tuple[tuple[int, ...], str]:
    """Return the leading tokens shared by ``encoded`` that spell only text before the first slot, with this text."""
    prefix = tuple(os.path.commonprefix(encoded)[: min(map(len, encoded)) - 1])
    head = head_of(space, prefix, encode, pieces)
    while len(prefix) > len(head.tokens):
        text = _spell(prefix[len(head.tokens) :], pieces, space.prefix.removeprefix(head.text))
        if text is not None:
            return prefix, head.text + text
        prefix = prefix[:-1]
    return head.tokens, head.text


def _spell(tokens: Sequence[int], pieces: Mapping[int, str], whole: str) -> str | None:
    """Return the text of ``tokens`` if ``whole`` starts with it, else None; ``whole`` may lack the text's leading
    space."""
    text = "".join(pieces.get(token, "\0") for token in tokens)
    return next((form for form in (text, text.removeprefix(" ")) if whole.startswith(form)), None)


def _holds(
    texts: Sequence[str],
    encoded: Sequence[tuple[int, ...]],
    prefix: tuple[int, ...],
    text: str,
    tail: Tail,
    pieces: Mapping[int, str],
) -> bool:
    """Return True if the tokens of all filled probes, ``texts``, begin with ``prefix`` and spell the text."""
    for filled, tokens in zip(texts, encoded, strict=True):
        between = tokens[len(prefix) : len(tokens) - len(tail.tokens)]
        spelled = "".join([pieces.get(token, "\0") for token in between])
        if tokens[: len(prefix)] != prefix or text + spelled + tail.text != filled:
            return False
    return True
