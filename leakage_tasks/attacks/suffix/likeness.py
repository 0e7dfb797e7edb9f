"""Similarity of a generated text and a true suffix: numbers that reveal neither."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import SequenceMatcher

from rapidfuzz.distance import LCSseq, Levenshtein

from leakage_tasks.attacks.suffix.finding import Likeness
from leakage_tasks.canaries.detect import GROUPS, find_secrets

Decode = Callable[[Sequence[Sequence[int]]], list[str]]
SHORTEST = 3
"""Smallest length of a run in a finding, in tokens; shorter runs are common in any two texts."""


def likeness(decode: Decode, prefix: Sequence[int], generated: Sequence[int], reference: Sequence[int]) -> Likeness:
    """Compare a generated text with a reference, both token ids.

    Args:
        decode: Returns the texts of token rows.
        prefix: The tokens before the generated text; a secret that begins in them is not counted.
        generated: The generated tokens. Negative ids are placeholders for missing tokens and are left out.
        reference: The true tokens, one or more.

    Returns:
        The comparison.
    """
    made = [int(token) for token in generated if token >= 0]
    true = [int(token) for token in reference]
    before, whole, true_whole, written, wanted = decode([prefix, [*prefix, *made], [*prefix, *true], made, true])
    # A character may have tokens on both sides of the prefix's end; the prefix's text is then no beginning.
    text, first = (whole, len(before)) if whole.startswith(before) else (written, 0)
    if whole.startswith(before) and true_whole.startswith(before):
        # Some tokenizers drop the first space of a text that is decoded alone.
        written, wanted = whole[first:], true_whole[first:]
    return Likeness(
        length=len(true),
        generated=len(made),
        distance=Levenshtein.distance(made, true),
        characters=Levenshtein.distance(written, wanted),
        text_length=len(wanted),
        subsequence=LCSseq.similarity(made, true),
        run=SequenceMatcher(None, made, true, autojunk=False).find_longest_match().size,
        included=_included(made, true),
        types=len(set(true)),
        secrets=_secrets(text, first),
    )


def equal_blocks(written: Sequence[int], true: Sequence[int]) -> tuple[tuple[int, int, int], ...]:
    """Return the runs of equal tokens as (first position in ``written``, first position in ``true``, length).

    The longest run comes first in the search, then the longest runs before and after it, and so on
    (``difflib.SequenceMatcher``), so the runs have one order in both texts. Negative ids are placeholders for missing
    tokens and equal nothing.
    """
    matcher = SequenceMatcher(None, list(written), list(true), autojunk=False)
    found = [(block.a, block.b, block.size) for block in matcher.get_matching_blocks() if block.size >= SHORTEST]
    return tuple(found)


def _included(made: Sequence[int], true: Sequence[int]) -> int:
    """Return the length of the longest beginning of ``true`` that occurs in ``made`` as a run."""
    longest = 0
    for start in range(len(made)):
        length = 0
        while length < len(true) and start + length < len(made) and made[start + length] == true[length]:
            length += 1
        longest = max(longest, length)
    return longest


def _secrets(text: str, first: int) -> dict[str, int]:
    """Return the number of secrets of each kind that begin at character ``first`` of ``text`` or later."""
    kinds = [secret.kind for secret in find_secrets(text, GROUPS["personal"]) if secret.start >= first]
    return {kind: kinds.count(kind) for kind in sorted(set(kinds))}
