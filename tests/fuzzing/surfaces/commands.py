"""Every ``leakage`` command line, with odd values; those that train for long get one that ends them early."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import datasets  # noqa: F401
import lm_eval.models.huggingface  # noqa: F401
import matplotlib.pyplot  # noqa: F401
import peft  # noqa: F401
import typer

from leakage_tasks.canaries.canary import canary_from_json
from leakage_tasks.canaries.manifest import write_manifest
from leakage_tasks.cli import build_app
from tests.fuzzing import hostile
from tests.fuzzing.case import Call
from tests.fuzzing.command import check_words, leakage
from tests.fuzzing.surfaces.manifests import line
from tests.report.logged import finding, log
from tests.report.made import STAMP

EARLY: dict[str, tuple[tuple[str, ...], ...]] = {
    "demo": (("--epochs", "0"), ("--controls", "-1"), ("--output", "data.txt"), ("--output", "run")),
    "showcase": (("--output", "data.txt"), ("--output", "run"), ("--seed", "x")),
    "study run": (("none/such",), ("elmahdy", "--scale", "x"), ("nlu", "--trials", "0"), ("nlu", "--jobs", "0")),
    "train-nlu": (("none",), ("data.txt",), ("run",)),
    "sanitize": (("none.txt", "-o", "out.txt"), ("data.txt", "-o", "out.csv"), ("data.txt", "--epochs", "0")),
    "tune-prompt": (("--model", "./none", "--data", "pairs.jsonl", "-o", "out"), ("--model", "run", "--data", "none")),
    "quantize": (("./none", "-o", "out"), ("run", "-o", "out"), ("data.txt", "-o", "out")),
    "selftest": (("--model", "x"), ("--model_args", "pretrained=./none"), ("--canaries", "0"), ("--samples", "-1")),
    "checkpoints": (("none",), ("run",), ("data.txt",), ("--plot", "out.txt"), ("--model_args", "peft=x")),
    "nlu-data": (("--count", "0"), ("--count", "x"), ("-o", "run")),
}
"""Words that end what would take long, one of which always comes last, where it counts."""
USUAL = ("README.md", "report.html")
"""Files that commands write to if no other is named."""
LEFT_OUT = ("doctor",)
_FILES = ("canaries.jsonl", "data.txt", "pairs.jsonl", "run", f"run/results_{STAMP}.json", "trainer_state.json", "none")
_OUTPUTS = ("out", "out.jsonl", "out.txt", "out.html", "out.md", "out.csv", "out.json", "out.png", "out.svg")
_NUMBERS = ("-1", "0", "1", "2", "3", "x", "", "1.5", "nan", "inf", "-inf", "1e400", "9" * 400, "9" * 5_000, "٣", "1_0")
_TEXTS = (
    *("pin {digits:4}", "text", "label", "train", "joy", "rarest", "1,10", "smoke", "elmahdy", "email", "x=data.txt"),
)


@cache
def commands() -> dict[str, tuple[Any, ...]]:
    """The parameters of every command by its words."""
    return {name: tuple(command.params) for name, command in _walk("", typer.main.get_command(build_app()))}


def _walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        if name not in LEFT_OUT:
            yield name, command
        return
    for each, below in command.commands.items():
        yield from _walk(f"{name} {each}".strip(), below)


def make(stream: Random, folder: Path) -> Call:
    """A command with some of its options, each given a sound or an odd value."""
    _write(folder)
    name = stream.choice(list(commands()))
    words: list[str] = []
    for parameter in commands()[name]:
        if parameter.param_type_name == "argument":
            count = stream.choice((1, 1, 1, 2)) if parameter.nargs == -1 else 1
            words += [_path(stream) for _ in range(count if name not in EARLY else 0)]
        elif parameter.required or stream.random() < 0.25:
            words.append(parameter.opts[0])
            words += [] if getattr(parameter, "is_flag", False) else [_value(stream, parameter)]
    if stream.random() < 0.05:
        words.append(stream.choice(("--", "-", "--none", "-x", hostile.text(stream))))
    early = stream.choice(EARLY[name]) if name in EARLY else ()
    said = check_words([*name.split(), *(word for word in words if name not in EARLY or word != "--"), *early])
    given = {Path(word).parts[0] for word in said if word and Path(word).parts}
    outputs = {*given, *(f"{each}{end}" for each in given for end in (".leakage.json", ".png", ".svg")), *USUAL}
    return Call(lambda: leakage(*said), tuple(outputs - set(_FILES[1:])))


def _path(stream: Random) -> str:
    return stream.choice(_FILES) if stream.random() < 0.9 else hostile.text(stream)


def _value(stream: Random, parameter: Any) -> str:
    # Typer's own words for a parameter's type, or Click's.
    kind = str(getattr(parameter, "type_descriptor", None) or parameter.type).lower()
    if stream.random() < 0.15:
        return hostile.text(stream)
    if "output" in parameter.name or parameter.name in ("report", "card"):
        return stream.choice(_OUTPUTS)
    if re.search(r"\bpath\b", kind):
        return _path(stream)
    return stream.choice(_NUMBERS if re.search(r"\b(int|float)\b", kind) else _TEXTS)


def _write(folder: Path) -> None:
    """What the commands may be given."""
    lines = [line("a"), line("b", planted=False, repetitions=0)]
    write_manifest(map(canary_from_json, lines), folder / _FILES[0])
    (folder / "data.txt").write_text("one\ntwo anna@example.org\n")
    (folder / "pairs.jsonl").write_text('{"prefix": [1, 2], "suffix": [3, 4]}\n')
    log(folder / "run", {"canary_exposure": [finding("a"), finding("k", rank=4e5, repetitions=0)]}, model="m")
    history = [{"epoch": 1.0, "step": 1, "leakage/exposure_x1": 2.0, "leakage/exposure_bound": 13.0}]
    (folder / "trainer_state.json").write_text(json.dumps({"log_history": history}))
