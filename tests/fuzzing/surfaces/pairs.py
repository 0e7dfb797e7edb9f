"""Pairs of prefixes and suffixes, arrays or lines, and guesses in the challenge's form."""

from __future__ import annotations

import io
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from leakage_tasks.pairs.source import Source, pairs_hash, read_pairs
from leakage_tasks.pairs.submission import found_before, judged_guesses, read_submission
from tests.fuzzing import hostile, mutate
from tests.fuzzing.case import Call, ensure

_ROWS = [{"prefix": [1, 2, 3, row], "suffix": [5, 6, row]} for row in range(5)]
_GUESSES = b'Example ID,Suffix Guess\n0,"[5,6,0]"\n2,"[5,6,7]"\n1,"[5, 6, 1]"\n'
_TYPES = ("<i8", "<u2", ">i4", "<f4", "|b1", "|O", "<U3", "<M8[s]", "<c8", "|V4")
_SPLITS = ("all", "train", "validation", "test", "x")


def make(stream: Random, folder: Path) -> Call:
    """One of the three; lengths are asked for now and then."""
    odds = stream.random()
    if odds < 0.2:
        path = folder / "guesses.csv"
        path.write_bytes(mutate.data(stream, _GUESSES))
        return Call(lambda: _score(path))
    if odds < 0.6:
        path = folder / "pairs.jsonl"
        path.write_bytes(mutate.json_lines(stream, _ROWS))
    else:
        path = folder / stream.choice(("train_prefix.npy", "_prefix.npy", "prefix.npy", "x_prefix.npy"))
        whole = [_array(stream, np.array([row[name] for row in _ROWS])) for name in ("prefix", "suffix")]
        path.write_bytes(whole[0])
        if stream.random() < 0.95:
            path.with_name(path.name.replace("prefix", "suffix")).write_bytes(whole[1])
    lengths = {name: _length(stream) for name in ("prefix_length", "suffix_length")}
    source = Source(str(path if odds < 0.8 else folder), split=stream.choice(_SPLITS), **lengths)
    return Call(lambda: _read(source))


def _length(stream: Random) -> Any:
    return stream.choice((None, None, None, 2, 3, 4, hostile.value(stream, 0)))


def _array(stream: Random, sound: Any) -> bytes:
    """A file of an array, now and then of another type or shape."""
    odds = stream.random()
    if odds < 0.15:
        kind = stream.choice(_TYPES)
        sound = np.zeros((5, 3), kind)
    elif odds < 0.25:
        shape = stream.choice(((5,), (), (0, 3), (5, 0), (5, 3, 1), (1, 3)))
        sound = np.zeros(shape, np.int64)
    elif odds < 0.35:
        sound = sound.astype(np.int64)
        sound[stream.randrange(5), 0] = stream.choice((-1, 2**31, 2**62, -(2**62)))
    out = io.BytesIO()
    np.save(out, sound, allow_pickle=True)
    return mutate.data(stream, out.getvalue()) if stream.random() < 0.5 else out.getvalue()


def _read(source: Source) -> None:
    pairs = read_pairs(source)
    ensure(len(pairs_hash(pairs)) == 16, "pairs have a fingerprint")
    ensure(all(each.prefix and each.suffix for each in pairs), "no part of a pair is empty")


def _score(path: Path) -> None:
    guesses = read_submission(path)
    judged = judged_guesses(guesses, {number: (5, 6, number) for number in range(5)})
    ensure(0 <= found_before(judged, 2) <= 5, "no more pairs are found than there are")
