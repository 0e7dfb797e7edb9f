"""Model cards that are there already, and names of models that become a part of one."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import yaml
from hypothesis import strategies as st

from leakage_tasks.core.atomic import write_text
from leakage_tasks.report.card.card import make_card, read_card, read_measured_run
from leakage_tasks.report.load.markdown import escaped, table
from tests.fuzzing import hostile, mutate
from tests.fuzzing.case import Call, ensure
from tests.fuzzing.drawn import draw
from tests.report.made import declaration, results, write

_FRONT = """\
language: en  # a comment
license: "apache-2.0"
tags: [a, 'b', "c"]
note: |
  ---
  not the end
model-index:
- name: one
  results:
  - task: {type: text-generation}
    dataset: {name: x, type: x}
    metrics:
    - {type: acc, value: 0.5}
"""
_BODY = "\n# One\n\nText.\n\n<!-- leakage:start -->\nold\n<!-- leakage:end -->\n\nMore.\n"
_PIECES = (
    *("model-index:\n", "- name: one\n", "  results:\n", "  results: []\n", "  - metrics: []\n", "model-index: []\n"),
    *("a: &x 1\n", "b: *x\n", "? k\n: v\n", "{a: b}\n", "[1, 2]\n", "- x\n", "'q': \"w\"\n", "t: |\n  x\n", "---\n"),
    *("...\n", "# c\n", "%YAML 1.2\n", "!!set {a}\n", "2001-99-99: 1\n", "d: 2001-01-01\n", "\t\n", "<<: *x\n"),
    *("x: .nan\n", "y: 0o99\n", "z: !!binary =\n", "n: 1_0:99\n", "model-index: *x\n", "0: !!python/name:os\n"),
)
_YAML = st.lists(st.sampled_from(_PIECES), max_size=7).map("".join)


@cache
def _sound() -> tuple[dict[str, Any], ...]:
    """Of few rows, as YAML is read slowly."""
    one = {"exposure": 9.0, "exposure_ci_low": 7.5, "exposure_ci_high": 10.5, "n_planted": 20}
    rows = declaration("canary_exposure")["rows"]
    declared = declaration("canary_exposure", rows={name: row for name, row in rows.items() if name in one})
    return (
        results({"canary_exposure": one}, declared={"canary_exposure": declared}),
        results({"canary_exposure": one, "arc": {"acc": 0.5}}, declared={"canary_exposure": declared}),
    )


def make(stream: Random, folder: Path) -> Call:
    """A card to write to, and a run of a hostile name."""
    content = dict(stream.choice(_sound()))
    if stream.random() < 0.5:
        content["model_name"] = hostile.text(stream)
    path = write(folder, content)
    card = folder / "README.md"
    told = _card(stream)
    if told is not None:
        card.write_bytes(told)
    name = hostile.text(stream) if stream.random() < 0.2 else None
    return Call(lambda: _read(path, card, name), (card.name,))


def _card(stream: Random) -> bytes | None:
    """What stands in the card before; None for no card."""
    odds = stream.random()
    if odds < 0.1:
        return None
    if odds < 0.4:
        front = draw(stream, _YAML) or ""
    elif odds < 0.6:
        front = yaml.safe_dump(_clean(mutate.tree(stream, yaml.safe_load(_FRONT))), allow_unicode=stream.random() < 0.5)
    else:
        front = _FRONT
    whole = f"---\n{front}---\n{_BODY if stream.random() < 0.7 else hostile.text(stream)}"
    sound = whole.encode("utf-8", "surrogatepass")
    return mutate.data(stream, sound) if odds > 0.5 else sound


def _clean(value: Any) -> Any:
    """The value without what YAML has no form for."""
    if isinstance(value, dict):
        return {_clean(name): _clean(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_clean(each) for each in value]
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _read(path: Path, card: Path, name: str | None) -> None:
    run = read_measured_run(path)
    cell = escaped(run.name)
    ensure(cell.isprintable() and not re.search(r"[<>]", cell), "a name is harmless in Markdown")
    ensure(table(["a"], [[cell]]).count("\n") == 3, "a name stays in its cell")
    made = make_card(read_card(card), card, run, name=name, audited=())
    write_text(card, made.text)
    again = make_card(read_card(card), card, run, name=name, audited=())
    ensure(again.text == made.text, "the same figures again change no card")
