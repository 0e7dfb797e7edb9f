"""Choosing how a space is laid out as token paths, and proving that the choice loses no filling."""

from __future__ import annotations

import os.path
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from typing import Any

from leakage_tasks.canaries.spaces import Filling, Space
from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets.protocols import Paths
from leakage_tasks.targets.tokens.automaton import (
    WHOLE_TEXTS,
    AutomatonPaths,
    Encode,
    Vocabulary,
    next_characters,
    parse,
)
from leakage_tasks.targets.tokens.byte_paths import (
    BYTE,
    BytePaths,
    as_bytes,
    by_bytes,
    on_bytes,
    parts_of_characters,
)
from leakage_tasks.targets.tokens.tries import Tries, probes_of

ENUMERATE = 20_000
"""Spaces up to this size are laid out by enumeration at once; it is exact and quick."""
ENUMERATE_AT_MOST = 1_000_000
"""Spaces up to this size are laid out by enumeration where the walk of the vocabulary does not hold."""
VOCABULARIES = 8
"""Sets of characters whose tokens are remembered: those of a few templates."""


class Pieces(dict[int, str]):
    """Text each ordinary token adds when it follows another one, by token."""

    parts: Mapping[int, str] = {}
    """The bytes of each token that is a part of characters, as ``byte_paths`` writes them."""

    @cached_property
    def continuations(self) -> dict[str, set[str]]:
        """What may follow each beginning of a token's text, the whole one excepted."""
        return next_characters(self.values())

    @cached_property
    def of(self) -> Callable[[frozenset[str]], Vocabulary]:
        """Gives the tokens that are made of some characters alone, found once for many canaries of one template."""
        return lru_cache(VOCABULARIES)(partial(Vocabulary.of, self))

    @cached_property
    def by_bytes(self) -> Pieces:
        """The bytes of each token, parts of characters too."""
        return Pieces({token: as_bytes(text) for token, text in self.items()} | dict(self.parts))


def lay_out(space: Space, encode: Encode, spelling: Callable[[], Pieces], tries: Tries) -> Paths:
    """The token paths of ``space``.

    ``encode`` gives the tokens of texts without special tokens, ``spelling`` the text each ordinary token adds
    after another one, which a small space does not need. ``tries`` has what was enumerated before. Raises TargetError
    where the tokenizer does not round-trip the space's fillings.
    """
    if space.size <= ENUMERATE:
        return tries.paths(space, encode)
    pieces = spelling()
    found = _walked(AutomatonPaths, space, encode, pieces)
    if found is None and pieces.parts:
        found = _walked(BytePaths, by_bytes(space), on_bytes(encode), pieces.by_bytes)
    if found is not None:
        return found
    if space.size <= ENUMERATE_AT_MOST:
        return tries.paths(space, encode)
    raise TargetError(
        "the tokenizer does not give back the text of this template's fillings (it drops, joins or replaces "
        f"characters), so they cannot be searched: {WHOLE_TEXTS}"
    )


def _walked(kind: type[AutomatonPaths], space: Space, encode: Encode, pieces: Pieces) -> AutomatonPaths | None:
    """The walk of the vocabulary, or None where it would lose a filling."""
    probes = probes_of(space)
    encoded = [tuple(tokens) for tokens in encode([space.fill(filling) for filling in probes])]
    prefix, text = _shared_prefix(space, encoded + _cut_short(space, encode, pieces), pieces)
    if not _holds(space, probes, encoded, prefix, text, pieces):
        return None
    return kind(space, encode, prefix, text, pieces)


def token_pieces(tokenizer: Any, vocabulary: int) -> Pieces:
    """Text each ordinary token adds when it follows another one.

    Tokens without text of their own are left out (special ones; parts of a character are :attr:`Pieces.parts`), and
    those that no encoding holds; a template that needs them is caught by the probes in :func:`lay_out`.
    """
    special = set(tokenizer.all_special_ids)
    anchor = tokenizer.encode("a", add_special_tokens=False)[-1:]
    ids = [token for token in range(min(vocabulary, len(tokenizer))) if token not in special]
    plain = {"skip_special_tokens": False, "clean_up_tokenization_spaces": False}
    skip = len(tokenizer.decode(anchor, **plain))
    texts = tokenizer.batch_decode([[*anchor, token] for token in ids], **plain)
    added = {token: text[skip:] for token, text in zip(ids, texts, strict=True)}
    spelled = {token: text for token, text in added.items() if text and "\ufffd" not in text}
    never = unproduced(tokenizer, spelled)
    pieces = Pieces({token: text for token, text in spelled.items() if token not in never})
    pieces.parts = parts_of_characters(tokenizer, [token for token, text in added.items() if "\ufffd" in text])
    return pieces


def _cut_short(space: Space, encode: Encode, pieces: Pieces) -> list[tuple[int, ...]]:
    """Tokens of the text before the first slot, cut wherever a token may begin that reaches into the slot.

    Whatever the filling, its tokens begin like one of these or like those of the whole text: what is before a
    token does not depend on what is after it. A token stands in for the one cut off.
    """
    first = {value[0] for value in space.slots[0].values}
    cuts = [
        at for at in range(len(space.prefix)) if not first.isdisjoint(pieces.continuations.get(space.prefix[at:], ()))
    ]
    return [(*tokens, -1) for tokens in encode([space.prefix[:at] for at in cuts])] if cuts else []


def _shared_prefix(
    space: Space, encoded: Sequence[tuple[int, ...]], pieces: Mapping[int, str]
) -> tuple[tuple[int, ...], str]:
    """The leading tokens all of ``encoded`` share that spell nothing but text before the first slot."""
    prefix = tuple(os.path.commonprefix(encoded)[: min(map(len, encoded)) - 1])
    while prefix:
        text = _spell(prefix, pieces, space.prefix)
        if text is not None:
            return prefix, text
        prefix = prefix[:-1]
    return (), ""


def _spell(tokens: Sequence[int], pieces: Mapping[int, str], whole: str) -> str | None:
    """What ``tokens`` spell at the start of ``whole``; the first one may have lost a leading space there."""
    text = "".join(pieces.get(token, "\0") for token in tokens)
    return next((form for form in (text, text.removeprefix(" ")) if whole.startswith(form)), None)


def _holds(
    space: Space,
    probes: Sequence[Filling],
    encoded: Sequence[tuple[int, ...]],
    prefix: tuple[int, ...],
    text: str,
    pieces: Mapping[int, str],
) -> bool:
    """Whether every probe's tokens begin with ``prefix``, spell its text and lead back to it alone."""
    for filling, tokens in zip(probes, encoded, strict=True):
        spelled = text + "".join(pieces.get(token, "\0") for token in tokens[len(prefix) :])
        if tokens[: len(prefix)] != prefix or spelled != space.fill(filling) or filling not in parse(space, spelled):
            return False
    return True


def unproduced(tokenizer: Any, pieces: Mapping[int, str]) -> set[int]:
    """Those of ``pieces`` that ``tokenizer`` provably never gives, whatever it encodes.

    Two kinds. The token of a byte where the character is an ordinary token as well: fallback takes bytes for characters
    without a token alone. And, in byte-pair encoding, a token that its own characters are not merged to: merges
    within a token of a text are those of the token by itself. What cannot be proven by the tokenizer's own encoding is
    kept, such as added tokens, which are matched before the text is encoded.
    """
    added = set(tokenizer.added_tokens_decoder)
    tokens = [token for token in pieces if token not in added]
    names = dict(zip(tokens, tokenizer.convert_ids_to_tokens(tokens), strict=True))
    of_bytes = {token for token, name in names.items() if BYTE.fullmatch(name)}
    others = {token: name for token, name in names.items() if token not in of_bytes}
    characters = {pieces[token] for token in others if len(pieces[token]) == 1}
    replaced = [token for token in of_bytes if pieces[token] in characters]
    return {token for token in replaced if _is_missing(tokenizer, token, pieces[token])} | _unmerged(tokenizer, others)


def _is_missing(tokenizer: Any, token: int, text: str) -> bool:
    """Whether ``token`` is not met where ``text`` stands alone, twice, first, last and between others."""
    texts = [text, text * 2, f"a{text}", f"{text}a", f"0{text}0", f" {text} ", f"\n{text}\n", f".{text}."]
    return not any(token in row for row in tokenizer(texts, add_special_tokens=False)["input_ids"])


def _unmerged(tokenizer: Any, names: Mapping[int, str]) -> set[int]:
    """Tokens of a byte-pair encoding that its merges do not lead to; none where that cannot be told from the token."""
    from tokenizers.models import BPE

    model = getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None)
    if not isinstance(model, BPE) or model.dropout or model.continuing_subword_prefix or model.end_of_word_suffix:
        return set()
    return {token for token, name in names.items() if [each.id for each in model.tokenize(name)] != [token]}
