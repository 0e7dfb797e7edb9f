"""Templates, alphabets and word lists."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from hypothesis import strategies as st

from leakage_tasks.canaries.alphabets import alphabet_from_json, word_file
from leakage_tasks.canaries.spaces import parse_template, slot_names
from leakage_tasks.core.errors import LeakageError
from tests.fuzzing import hostile, mutate
from tests.fuzzing.case import Call, ensure
from tests.fuzzing.drawn import draw

_PARTS = ("{digits:4}", "{digits}", "{hex:2}", "{own:3}", "{own}", "{{", "}}", "{", "}", ":", "{:2}", "{digits:0}")
_MORE = ("{digits:10000}", "{digits:10001}", "{digits:٣}", "{digits:²}", "{digits:-1}", "{words:2}", "{ digits}", "{}")
_TEMPLATES = st.lists(st.sampled_from([*_PARTS, *_MORE]) | st.text(max_size=4), max_size=6).map("".join)
_SOUND: dict[str, Any] = {"kind": "list", "values": ["a", "bc", "d e"], "joiner": " "}


def make(stream: Random, folder: Path) -> Call:
    """A template with an alphabet of its own, and a word list in a file."""
    template = draw(stream, _TEMPLATES) or "".join(stream.choices((*_PARTS, hostile.text(stream)), k=3))
    spec = mutate.tree(stream, _SOUND) if stream.random() < 0.5 else _SOUND
    words = None
    if stream.random() < 0.3:
        words = folder / "words.txt"
        words.write_bytes(mutate.data(stream, "rot\nblau\n\n grün \nrot\n".encode()))
    number = stream.randrange(1 << 64)
    return Call(lambda: _read(template, spec, words, number))


def _read(template: str, spec: Any, words: Path | None, number: int) -> None:
    own = alphabet_from_json("own", spec) if words is None else word_file("own", words)
    ensure(alphabet_from_json("own", own.to_json()) == own, "an alphabet is read back as it was")
    try:
        space = parse_template(template, {"own": own})
    except LeakageError:
        parse_template(template, {"own": own}, slots_needed=False)
        raise
    ensure(bool(slot_names(template)), "a template with slots has names")
    filling = space.at(number % space.size)
    ensure(space.index(filling) == number % space.size, "a filling has its place")
    ensure(space.fill(filling).startswith(space.prefix), "a text begins with its prefix")
    ensure(space.sample(2, number) == space.sample(2, number), "the same seed draws the same")
    ensure(isinstance(space.ends_early, bool), "it is known whether texts end early")
