"""C(v), the share of a value among training tokens, which label search may penalise (Elmahdy et al., section 6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from leakage_tasks.canaries.alphabets import Alphabet
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import OptionError, PlantingError, on_command_line
from leakage_tasks.core.inputs import parse_json, read_text
from leakage_tasks.core.log import warn_once
from leakage_tasks.data import Columns, format_of

BATCH = 1024
_COUNTED: WeakKeyDictionary[Any, dict[tuple[str, ...], dict[int, float]]] = WeakKeyDictionary()


def value_shares(
    target: Any, alphabet: Alphabet, tokens: Sequence[Sequence[int]], settings: Mapping[str, Any]
) -> FloatArray:
    """C of each value of an alphabet, shape ``[A]``, from the settings ``corpus`` or ``counts``.

    ``tokens`` are those of each value in its slot, where many tokenizers write a word otherwise than by itself.

    A value of several tokens has the share of its rarest one, more than which it cannot have. Without either, Python's
    own help text stands in for the training text, as the paper suggests of public ones. Raises LeakageError.
    """
    if settings["counts"] is not None:
        shares = shares_given(settings["counts"])
        return np.array([shares.get(value, 0.0) for value in alphabet.values])
    if settings["corpus"] is None:
        warn_once(
            f"lambda={settings['lambda']}: word frequencies are those of Python's help text, which may be far from "
            "those of your training text; give them with corpus=FILE or counts=FILE"
        )
        counted = help_shares(target)
    else:
        counted = token_shares(target, settings["corpus"], settings["corpus_column"])
    return np.array([min((counted.get(token, 0.0) for token in value), default=0.0) for value in tokens])


def token_shares(target: Any, corpus: str, column: str) -> dict[int, float]:
    """The share of each token among those of a dataset's texts, special ones left out. Raises LeakageError."""
    return _counted(target, (corpus, column), lambda: _corpus_shares(target, corpus, column))


def help_shares(target: Any) -> dict[int, float]:
    """The share of each token in Python's help text."""
    from pydoc_data.topics import topics

    return _counted(target, (), lambda: _shares(target, (part for t in topics.values() for part in t.split("\n\n"))))


def _counted(target: Any, key: tuple[str, ...], count: Callable[[], dict[int, float]]) -> dict[int, float]:
    """Shares counted once a target, and forgotten with it."""
    known = _COUNTED.setdefault(target, {})
    if key not in known:
        known[key] = count()
    return known[key]


def _as_setting(option: str) -> str:
    return "corpus_column=…" if option == "text_column" else on_command_line(option)


def _corpus_shares(target: Any, corpus: str, column: str) -> dict[int, float]:
    path = Path(corpus)
    kind = format_of(path)
    wanted = Columns(column)
    try:
        layout = kind.survey(path, wanted)
    except PlantingError as error:
        raise error.spelled(_as_setting, OptionError) from None
    shares = _shares(target, (text for turns in kind.texts(path, layout, wanted) for text in turns))
    if not shares:
        raise OptionError(f"corpus={corpus} holds no words: give the training text or a public one")
    return shares


def _shares(target: Any, texts: Iterable[str]) -> dict[int, float]:
    counts: Counter[int] = Counter()
    source = iter(texts)
    while rows := list(islice(source, BATCH)):
        for tokens in target.encode(rows):
            counts.update(tokens)
    for token in _special(target):
        del counts[token]
    total = counts.total()
    return {token: count / total for token, count in counts.items()}


def shares_given(path: str) -> dict[str, float]:
    """Shares from a JSON object of counts by word. Raises OptionError."""
    try:
        counts = parse_json(read_text(path))
    except (OSError, ValueError) as error:
        raise OptionError(f"counts={path}: cannot be read ({error}): give a JSON object of counts by word") from None
    numbers = counts.values() if isinstance(counts, dict) else [None]
    if not all(isinstance(count, int | float) and count >= 0 for count in numbers) or not sum(numbers):
        raise OptionError(f"counts={path}: expected a JSON object of counts by word, some above 0, none below")
    total = sum(numbers)
    return {word: count / total for word, count in counts.items()}


def _special(target: Any) -> set[int]:
    return set(target.encode([""])[0])
