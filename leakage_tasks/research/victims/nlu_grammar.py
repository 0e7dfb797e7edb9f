"""A generated NLU data set: utterances to an assistant from a small grammar, with intents and slot tags."""

from __future__ import annotations

import random
import re
from pathlib import Path

from leakage_tasks.core.atomic import check_place, replacing
from leakage_tasks.core.errors import OptionError
from leakage_tasks.data.utterances import Utterance, write_folder
from leakage_tasks.research.victims.nlu_phrases import PATTERNS, SLOTS

SPLITS = ("train", "valid", "test")
MOST = 100_000
"""Maximum number of utterances per call; the grammar has many more."""

_INNERMOST = re.compile(r"\[([^][()]*)\]|\(([^][()]*)\)")
_SLOT = re.compile(r"\{(\w+)\}")


def nlu_rows(count: int, seed: int = 0) -> list[Utterance]:
    """Return ``count`` different utterances, each with a random intent.

    Equal arguments give equal rows, and a smaller count gives the first rows of a larger one. Raises OptionError for a
    count below 1 or above 100,000.
    """
    if not 1 <= count <= MOST:
        raise OptionError(f"count is {count}: use 1 to {MOST:,} utterances")
    stream = random.Random(f"nlu:{seed}")
    rows: dict[tuple[str, ...], Utterance] = {}
    while len(rows) < count:
        utterance = _utterance(stream)
        rows.setdefault(utterance.words, utterance)
    return list(rows.values())


def write_nlu_data(
    folder: str | Path, count: int = 4_000, validation: int = 500, test: int = 500, seed: int = 0
) -> None:
    """Write ``train``, ``valid`` and ``test`` to ``folder``, each with ``seq.in``, ``seq.out`` and ``label``.

    No utterance is in two of them. All parts are written or none; an older set in ``folder`` is replaced. Raises
    OptionError for a size below 1 or more than 100,000 in total, and LeakageError for a folder that cannot be written
    to or contains other files.
    """
    sizes = (count, validation, test)
    for name, size in zip(("count", "validation", "test"), sizes, strict=True):
        if size < 1:
            raise OptionError(f"{name} is {size}: use 1 or more")
    if sum(sizes) > MOST:
        raise OptionError(
            f"count is {count:,}, validation {validation:,} and test {test:,}: use {MOST:,} utterances or fewer in "
            "total"
        )
    final = Path(folder).resolve()
    check_place(final)
    if final.exists() and not (final.is_dir() and {path.name for path in final.iterdir()} <= set(SPLITS)):
        raise OptionError(f"{folder}: exists and contains more than {', '.join(SPLITS)}: choose another folder")
    rows = iter(nlu_rows(sum(sizes), seed))
    with replacing(final) as temporary:
        temporary.mkdir()
        for name, size in zip(SPLITS, sizes, strict=True):
            write_folder([next(rows) for _ in range(size)], temporary / name)


def _utterance(stream: random.Random) -> Utterance:
    intent = stream.choice(list(PATTERNS))
    words, tags = [], []
    for part in _expand(stream.choice(PATTERNS[intent]), stream).split():
        slot = _SLOT.fullmatch(part)
        part_words = [part] if slot is None else _expand(SLOTS[slot[1]], stream).split()
        words += part_words
        tags += ["O"] if slot is None else [f"B-{slot[1]}"] + [f"I-{slot[1]}"] * (len(part_words) - 1)
    return Utterance(tuple(words), tuple(tags), intent)


def _expand(pattern: str, stream: random.Random) -> str:
    """Expand a pattern: choose one part of each ``(a|b)``, and of half of the ``[a|b]``."""
    while match := _INNERMOST.search(pattern):
        optional, choice = match.groups()
        chosen = stream.choice((choice if optional is None else optional).split("|"))
        if optional is not None and stream.random() < 0.5:
            chosen = ""
        pattern = pattern[: match.start()] + chosen + pattern[match.end() :]
    return pattern
