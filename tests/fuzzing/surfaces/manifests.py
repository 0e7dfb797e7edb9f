"""Manifests: lines of canaries, of every kind."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import strategies as st

from leakage_tasks.canaries.alphabets import load_tokenizer
from leakage_tasks.canaries.canary import canary_from_json
from leakage_tasks.canaries.manifest import is_private, manifest_hash, read_manifest, write_manifest
from leakage_tasks.core.errors import LeakageError
from tests.fuzzing import hostile, mutate
from tests.fuzzing.case import Call, ensure
from tests.fuzzing.drawn import draw

with suppress(LeakageError):
    # A name of no tokenizer, so that what loads them is there before the first input.
    load_tokenizer("none")

SECRET = "4929-1111-2222-3333"
_WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_TEXT = _WORDS.map(lambda text: text.replace("{", "{{").replace("}", "}}"))
_CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "id": st.text(min_size=1, max_size=4),
        "template": st.tuples(_TEXT, st.sampled_from(["{digits:4}", "{digits}{digits:3}"]), _TEXT).map("".join),
        "secret": st.lists(st.sampled_from("0123456789") | st.text(max_size=2), min_size=4, max_size=4),
        "repetitions": st.integers(1, 3) | st.integers(),
        "known": st.text(max_size=4) | st.just("{digits:4}"),
        "label": st.text(max_size=4),
        "tags": st.lists(st.text(max_size=2), max_size=3),
        "source": st.tuples(_TEXT, st.sampled_from(["", "{digits:4}"])).map("".join),
        "seed": st.integers(),
        "profile": st.text(max_size=4),
    },
)


def line(name: str, **changed: Any) -> dict[str, Any]:
    """A sound line."""
    usual = {"template": f"The pin of {name} is {{digits:4}}.", "secret": [*"4071"], "space": {"digits": {}}}
    return {"schema": 1, "id": name, **usual, "repetitions": 3, "planted": True, "kind": "random", **changed}


@cache
def sound() -> list[dict[str, Any]]:
    """Lines of every kind."""
    words = {"kind": "list", "values": ["red", "blue", "green"], "joiner": "-"}
    return [
        line("a", label="joy", seed=3, profile="smoke"),
        line("b", planted=False, repetitions=0),
        line("c", template="x {c:2} y", secret=["red", "blue"], space={"c": words}, known="{c:2} y"),
        line("d", source="Der PIN ist {digits:4}.", tags=["O", "O", "O", "O", "B-pin"]),
        line("e", kind="supporting", supports="a", label="sad"),
        line("f", kind="organic", template="{hex}{upper}", secret=["f", "A"], space={"hex": {}, "upper": {}}),
    ]


def natural() -> dict[str, Any]:
    """A line whose secret is somebody's."""
    return line(
        "natural-1",
        kind="natural",
        template=f"my card {SECRET[:5]}{{n:4}} thanks",
        secret=[*"1111"],
        space={"n": {"kind": "list", "values": [*"0123456789"]}},
        known=f"card {SECRET[:5]}{{n:4}}",
    )


def make(stream: Random, folder: Path) -> Call:
    """A manifest, read; if it is sound, written and read again."""
    path = folder / "canaries.jsonl"
    odds = stream.random()
    if odds < 0.25:
        told = b"\n".join(mutate.written(stream, _changed(stream)) for _ in range(stream.randint(1, 2)))
    elif odds < 0.35:
        told = mutate.json_lines(stream, [natural()])
    else:
        told = mutate.json_lines(stream, stream.sample(sound(), stream.randint(1, 6)))
    path.write_bytes(told)
    bare = hostile.value(stream) if stream.random() < 0.1 else None
    shown = (f"{SECRET[:5]}{{n:4}} thanks",) if 0.25 <= odds < 0.35 else ()
    return Call(lambda: _read(path, bare), ("again.jsonl",), shown)


def _changed(stream: Random) -> dict[str, Any]:
    """A sound line with other values in it, most of which fit."""
    found = draw(stream, _CHANGES) or {}
    kept = stream.sample(list(found), min(len(found), 3))
    return line("a") | {name: found[name] for name in kept}


def _read(path: Path, bare: Any) -> None:
    if bare is not None:
        canary_from_json(bare)
    canaries = read_manifest(path)
    for each in canaries:
        ensure(canary_from_json(each.to_json()) == each, "a canary is read back as it was")
        ensure(isinstance(json.dumps(each.text), str) and each.space.size > 0, "a canary has a text")
    write_manifest(canaries, path.with_name("again.jsonl"))
    ensure(read_manifest(path.with_name("again.jsonl")) == canaries, "a manifest is read back as it was")
    if not is_private(canaries):
        ensure(manifest_hash(canaries) == manifest_hash(canaries[::-1]), "order changes no hash")
