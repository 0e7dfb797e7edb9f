"""Choice of the layout of a space's token paths, and the check that the layout loses no filling."""

from __future__ import annotations

import os.path
from collections.abc import Callable, Mapping, Sequence

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
KEPT = 64
"""Number of templates that are known to hold after a last word."""
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


def _walked(kind: type[AutomatonPaths], space: Space, encode: Encode, pieces: Pieces) -> AutomatonPaths | None:
    """Return the paths found by walking the vocabulary through the template, or None if they would lose a filling."""
    probes, key = probes_of(space), (kind, space.slots, space.pieces[1:], last_word(space.prefix))
    if key in pieces.held:
        # The text before the last word usually changes no later token. These probes have every value in every slot.
        probes = probes[-max(map(len, space.slots)) :]
    texts = [space.begin(filling) for filling in probes]
    encoded = [tuple(tokens) for tokens in encode(texts)]
    prefix, text = _shared_prefix(space, encoded + _cut_short(space, encode, pieces), encode, pieces)
    tail = tail_of(space, probes, encoded, encode, pieces)
    if not _holds(texts, encoded, prefix, text, tail, pieces):
        return None
    pieces.held[key] = None
    if len(pieces.held) > KEPT:
        del pieces.held[next(iter(pieces.held))]
    return kind(space, encode, prefix, text, pieces, tail)


def _cut_short(space: Space, encode: Encode, pieces: Pieces) -> list[tuple[int, ...]]:
    """Return token sequences of the text before the first slot: one for each position at which a token that extends
    into the slot may begin.

    The tokens of every filling begin like one of these cuts or like the whole text, since tokens before a position do
    not depend on the text after it. The placeholder −1 represents the token that is cut off.
    """
    first = {value[0] for value in space.slots[0].values}
    cuts = [
        at for at in range(len(space.prefix)) if not first.isdisjoint(pieces.continuations.get(space.prefix[at:], ()))
    ]
    return [(*(tokens or ()), -1) for tokens in encode_each(encode, [space.prefix[:at] for at in cuts])]


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
