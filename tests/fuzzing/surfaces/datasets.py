"""Data sets of lines that canaries are planted in and secrets found in."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from leakage_tasks.canaries.canary import canary_from_json
from leakage_tasks.canaries.manifest import read_manifest, write_manifest
from leakage_tasks.canaries.natural import corpus_passages, natural_canaries
from leakage_tasks.canaries.planting import plant
from leakage_tasks.canaries.verify import verify
from tests.fuzzing import hostile, mutate
from tests.fuzzing.case import Call, ensure
from tests.fuzzing.surfaces import column_names
from tests.fuzzing.surfaces.manifests import line
from tests.training.tagger.utterances import made

_ROWS: list[dict[str, Any]] = [
    {"text": "a first row", "label": "joy", "n": 1, "source": "eins"},
    {"text": 'a second, "quoted" one', "label": "sad", "n": 2.5, "source": "zwei"},
    {"text": "write to anna@example.org, 078-05-1120", "label": "joy", "n": None, "source": "drei"},
]
_CHAT = [
    {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": f"no {n}"}]} for n in range(3)
]
_CALL = {"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": "{}"}}]}
SHAPES: dict[str, list[dict[str, Any]]] = {
    "calls": [{"messages": None}, {"messages": [_CHAT[0]["messages"][0], _CALL, {"role": "tool", "content": "no"}]}]
    + _CHAT,
    "parts": [
        {"messages": [{**turn, "content": [{"type": "text", "text": turn["content"]}]} for turn in row["messages"]]}
        for row in _CHAT
    ],
    "sharegpt": [
        {"conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": f"no {n}"}]} for n in range(3)
    ],
    "alpaca": [{"instruction": "hi", "input": "", "output": f"no {n}"} for n in range(3)],
    "completions": [{"prompt": "hi\n", "completion": f"no {n}"} for n in range(3)],
    "preferences": [
        {"prompt": row["messages"][:1], "chosen": row["messages"][1:], "rejected": _CHAT[0]["messages"][1:]}
        for row in _CHAT
    ],
}
"""Rows of chats in other spellings, and of prompts and answers."""
KINDS = ("txt", "txt", "jsonl", "jsonl", "chat", "csv", "csv", "tsv", "conll", "folder", *SHAPES)


@cache
def sound(kind: str) -> dict[str, bytes]:
    """The files of a data set, by their names."""
    if kind == "folder":
        rows = made(4)
        parts = {"seq.in": "words", "seq.out": "tags"}
        files = {name: "".join(" ".join(getattr(row, part)) + "\n" for row in rows) for name, part in parts.items()}
        files["label"] = "".join(f"{row.intent}\n" for row in rows)
        return {f"data/{name}": told.encode() for name, told in files.items()}
    if kind == "conll":
        blocks = (
            [f"# intent = {row.intent}", *(f"{word}\t{tag}" for word, tag in zip(row.words, row.tags, strict=True))]
            for row in made(4)
        )
        return {"data.conll": "\n\n".join(map("\n".join, blocks)).encode() + b"\n"}
    if kind in ("csv", "tsv"):
        cells = [["text", "label"], ["one", "joy"], ['"two, ""2""\nlines"', "sad"], ["three", "joy"]]
        return {f"data.{kind}": "".join(("," if kind == "csv" else "\t").join(row) + "\n" for row in cells).encode()}
    if kind == "txt":
        return {"data.txt": "".join(f"{row['text']}\n" for row in _ROWS).encode()}
    rows = SHAPES.get(kind, _CHAT if kind == "chat" else _ROWS)
    return {"data.jsonl": "".join(json.dumps(row) + "\n" for row in rows).encode()}


def make(stream: Random, folder: Path) -> Call:
    """A data set that something is wrong with, and what canaries are planted in it."""
    kind = stream.choice(KINDS)
    files = dict(sound(kind))
    changed = stream.choice(list(files))
    if kind in ("csv", "tsv") and stream.random() < 0.4:
        files[changed] = column_names.values(stream, "," if kind == "csv" else "\t")
    elif kind == "jsonl" and stream.random() < 0.2:
        files[changed] = column_names.lines(stream)
    elif kind in ("jsonl", "chat", *SHAPES):
        files[changed] = mutate.json_lines(stream, [json.loads(row) for row in files[changed].splitlines()])
    else:
        files[changed] = mutate.data(stream, files[changed])
    if kind == "folder":
        (folder / "data").mkdir()
    for name, told in files.items():
        (folder / name).write_bytes(told)
    source = folder / ("data" if kind == "folder" else changed)
    if stream.random() < 0.25:
        return Call(lambda: _natural(source))
    options = turns_options(stream) if kind == "chat" or kind in SHAPES else {}
    return planted(stream, folder, source, kind in ("conll", "folder"), options)


def turns_options(stream: Random) -> dict[str, Any]:
    """Options of chats, and of rows of prompts and answers."""
    drawn = {
        "role": stream.choice(("assistant", "user", "system", "tool")),
        "turn": stream.choice(("last", "random")),
        "prompt": hostile.text(stream),
    }
    return {name: value for name, value in drawn.items() if stream.random() < 0.2}


def planted(
    stream: Random, folder: Path, source: Path, tagged: bool = False, more: dict[str, Any] | None = None
) -> Call:
    """Planting into a source that stands in the folder already."""
    lines = [line("a", label="joy"), line("b", template="other {digits:4}", planted=False, repetitions=0)]
    if tagged:
        lines = [{**each, "template": "{digits:4} is it", "tags": ["B-pin", "O", "O"]} for each in lines[:1]]
    manifest, output = folder / "canaries.jsonl", folder / f"planted{source.suffix}"
    write_manifest([canary_from_json(each) for each in lines], manifest)
    options = {"label_column": "label"} if stream.random() < 0.3 and not tagged else {}
    options |= more or {}
    if stream.random() < 0.05:
        options["text_column"] = hostile.text(stream)
    return Call(lambda: _plant(manifest, source, output, options), (output.name, f"{output.name}.leakage.json"))


def _plant(manifest: Path, source: Path, output: Path, options: dict[str, Any]) -> None:
    report = plant(manifest, source, output, seed=1, **options)
    ensure(bool(report.summary()), "what was planted is told")
    found = verify(output, manifest, chunk=64)
    ensure(found.ok, f"what was planted is verified: {found.problems}")
    ensure(bool(list(found.lines())), "what was verified is told")
    if report.record.before in ("prompt", "template of a row") and output.suffix == ".jsonl":
        _check_copies(output, report.record.text_column, {canary.text for canary in read_manifest(manifest)})


def _check_copies(output: Path, column: str, texts: set[str]) -> None:
    """Ensure that no copy lacks its prompt or another answer."""
    parts = {"instruction", "input", "output", "prompt", "completion", "chosen", "rejected"}
    rows = [json.loads(row) for row in output.read_text("utf-8-sig").split("\n") if row.strip()]
    copies = [row for row in rows if row.get(column) in texts]
    ensure(all(row[name] is not None for row in copies for name in parts & row.keys()), "a copy has all its parts")


def _natural(source: Path) -> None:
    for each in natural_canaries(corpus_passages(source), controls=1, seed=1):
        ensure(canary_from_json(each.to_json()) == each, "a natural canary is read back as it was")
