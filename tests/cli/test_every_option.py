"""Every option of every command, from its declaration: a run succeeds, or ends in one line and exit code 2."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import pytest
import typer

from leakage_tasks import cli, write_report
from leakage_tasks.canaries import make_canaries, plant, write_manifest
from leakage_tasks.canaries.presets.mix_and_match import LABELLED, TABLE_1
from leakage_tasks.models.word_tokenizer import word_tokenizer
from tests.fuzzing.case import Declined
from tests.fuzzing.command import leakage
from tests.report.logged import finding, log
from tests.training.tagger.utterances import made

BASES: dict[str, tuple[str, ...]] = {
    "canaries": (
        "--template 'My {unique} pin is {digits:3}.' -o out.jsonl",
        "--preset elmahdy --supporting none --tokenizer tokenizer -o out.jsonl",
        "--preset mix-and-match --tokenizer tokenizer -o out.jsonl",
        "--preset nlu-call -o out.jsonl",
        "--preset nlu-pin -o out.jsonl",
        "--family typical --data prose.txt -o out.jsonl",
        "--family typical --data prose.csv --text-column body --profile smoke -o out.jsonl",
        "--from-text prose.txt -o out.jsonl",
    ),
    "plant": (
        "canaries.jsonl rows.jsonl -o out.jsonl",
        "canaries.jsonl rows.csv -o out.csv",
        "canaries.jsonl chats.jsonl -o out.jsonl",
        "-o out.jsonl",
    ),
    "verify": ("planted.jsonl canaries.jsonl", "rows.jsonl canaries.jsonl"),
    "preflight": ("canaries.jsonl --trainer nowhere:make",),
    "tune-prompt": ("--model ./none --data pairs.jsonl -o prompt",),
    "train-nlu": ("none.conll -o out",),
    "sanitize": (
        "rows.jsonl -o out.jsonl --drop 1 --epochs 1 --batch-size 2",
        "shards -o out --drop 1 --epochs 1 --batch-size 2",
    ),
    "index": ("rows.jsonl -o out --tokenizer tokenizer", "prose.txt -o out --tokenizer tokenizer"),
    "leaderboard": ("run -o out.md", "run"),
    "card": ("run", "run --card README.md"),
    "score": ("run",),
    "score-guesses": ("guesses.csv --data pairs.jsonl --split train",),
    "power": ("--rate 0.1", "canaries.jsonl"),
    "compare": ("run run", "run run -o out.html"),
    "check": ("run --max-exposure 20",),
    "report": ("run -o out.html", "run -o out.html --limit exposure_max=20"),
    "verify-report": ("report.html", "report.html --results run"),
    "plan": ("canaries.jsonl --model nowhere",),
    "selftest": ("--model nowhere",),
    "checkpoints": ("nowhere",),
    "documents": ("run",),
    "options": ("", "beam"),
    "resume": ("kept",),
    "demo": ("--epochs 0",),
    "nlu-data": ("-o utterances --count 20",),
    "quantize": ("./none -o model",),
    "showcase": ("--output rows.jsonl",),
    "plot epochs": ("trainer_state.json -o out.png",),
    "plot repetitions": ("run -o out.png",),
    "plot histogram": ("run -o out.png",),
    "plot recall": ("run -o out.png",),
    "plot prefixes": ("run -o out.png",),
    "plot runs": ("run -o out.png",),
    "plot training": ("trainer_state.json -o out.png",),
    "plot trade": ("run -o out.png",),
    "study list": ("",),
    "study run": ("none/such",),
    "study report": ("--results none -o out.md",),
}
"""Command lines of each command, most of which succeed; those of commands that train or load a model end early."""
SLOW = {"sanitize": pytest.mark.slow}
"""Commands whose every run trains two models."""
LEFT_OUT = ("doctor",)
"""A command without an option that trains a model."""
VALUES: dict[str, tuple[str, ...]] = {
    "alphabets": ("x",),
    "area_code": ("206", "random"),
    "by": ("sample",),
    "canaries": ("canaries.jsonl",),
    "canary": ("a",),
    "card": ("README.md", "new.md"),
    "chat_position": ("last", "random"),
    "dask": ("tcp://127.0.0.1:1",),
    "data": ("prose.txt", "rows.csv", "rows.jsonl", "pairs.jsonl"),
    "dtype": ("float32",),
    "family": ("typical", "bigram,high-perplexity", "new-token"),
    "from_text": ("prose.txt",),
    "known": ("My ",),
    "label": ("joy", "rarest"),
    "label_column": ("label",),
    "labels": ("same", "mixed"),
    "limit": ("canary_exposure=20",),
    "metadata": ("budget=10",),
    "model_args": ("pretrained=none",),
    "preset": ("elmahdy",),
    "profile": ("smoke",),
    "remove": ("planted.jsonl",),
    "repetitions": ("1,2",),
    "role": ("user",),
    "sentences": ("prose.txt",),
    "settings": ("digits=3",),
    "source": ("Die Nummer ist {digits:3}.",),
    "source_column": ("label",),
    "supporting": ("1", "all"),
    "supporting_labels": ("joy,sad",),
    "tags": ("O,O,O,O,B-pin",),
    "targets": ("towels",),
    "template": ("Pin {digits:3}",),
    "text_column": ("text", "body", "messages"),
    "tokenizer": ("tokenizer", "none"),
    "validation": ("rows.jsonl",),
    "words": ("city=prose.txt", "prose.txt"),
}
"""Values that an option of that name is for; others get one by their type."""
BY_TYPE = {"int": ("2", "-1", "x"), "float": ("0.5", "-1", "nan"), "str": ("x", ""), "Path": ("none", "rows.jsonl")}


@cache
def command_line() -> Any:
    """The command line with all its commands."""
    return typer.main.get_command(cli.build_app())


@cache
def declared() -> dict[str, Any]:
    """Every command by its words."""
    return dict(_walk("", command_line()))


def _walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        yield name, command
        return
    for each, below in command.commands.items():
        yield from _walk(f"{name} {each}".strip(), below)


def options(name: str) -> dict[str, Any]:
    """The options of a command by their long names."""
    return {each.opts[0]: each for each in declared()[name].params if each.param_type_name == "option"}


def spelled(option: Any, odd: bool = False) -> list[list[str]]:
    """Words that give an option each value there is for it; ``odd`` ones of its type too."""
    if option.is_flag:
        return [[option.opts[0]]]
    kind = option.type_descriptor.annotation
    name = getattr(kind, "__name__", "str") if not str(kind).startswith("list") else re.findall(r"\w+", str(kind))[-1]
    outputs = ("out2.jsonl", "out2") if "output" in option.name else ()
    values = outputs or VALUES.get(option.name, ())
    return [[option.opts[0], value] for value in (*values, *(BY_TYPE[name] if odd or not values else ()))]


def pairs_of(name: str) -> Iterator[tuple[Any, Any]]:
    """Options of which one's help names the other."""
    every = options(name)
    for option in every.values():
        for other in set(re.findall(r"--[a-z][a-z_-]*", option.help or "")) & every.keys() - {option.opts[0]}:
            yield option, every[other]


def with_base(base: str, *more: list[str]) -> list[str] | None:
    """The words of a base with others; None where it has one of these options already."""
    words = shlex.split(base)
    taken = {"-o": "--output"}
    if {taken.get(word, word) for word in words} & {each[0] for each in more}:
        return None
    return [*words, *(word for each in more for word in each)]


def ends_well(name: str, words: list[str] | None) -> None:
    """Run a command; it succeeds, or ends in one line and exit code 2, or in 1 where its help says so."""
    if words is None:
        return
    try:
        code = leakage(*name.split(), *words)
    except Declined:
        return
    except Exception as error:
        error.add_note(f"leakage {name} {shlex.join(words)}")
        raise
    assert code == 0 or "xit code 1" in (declared()[name].help or "") or name == "check", (name, words)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everything that the command lines name."""
    folder = tmp_path_factory.mktemp("options")
    rows = [{"text": f"row {n} of mine", "label": ("joy", "sad", "calm")[n % 3]} for n in range(12)]
    chats = [
        {"messages": [{"role": "user", "content": f"q {n}"}, {"role": "assistant", "content": "a"}]} for n in range(9)
    ]
    for name, held in (("rows", rows), ("chats", chats), ("pairs", [{"prefix": [1, 2], "suffix": [3, 4]}])):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in held))
    (folder / "rows.csv").write_text("text,label\n" + "".join(f"{row['text']},{row['label']}\n" for row in rows))
    (folder / "shards").mkdir()
    (folder / "shards" / "a.txt").write_text("one\ntwo\nthree\n")
    stream, sounds = Random(0), [f"{a}{b}{c}" for a in "bdklmnprst" for b in "aeiou" for c in "dklmnrst"]
    prose = [" ".join(stream.sample(sounds, 9)) for _ in range(250)]
    (folder / "prose.txt").write_text(".\n".join([*prose, "Write to anna@example.org"]) + ".\n")
    word_tokenizer(" ".join([*sounds, *(row.text.replace(".", "") for row in TABLE_1), *LABELLED])).save_pretrained(
        folder / "tokenizer"
    )
    (folder / "prose.csv").write_text("id,body\n" + "".join(f"{n},{each}.\n" for n, each in enumerate(prose)))
    canaries = make_canaries("{unique} has the pin {digits:4}", 4, controls=2, label="joy", seed=1)
    write_manifest(canaries, folder / "canaries.jsonl")
    plant(folder / "canaries.jsonl", folder / "rows.jsonl", folder / "planted.jsonl")
    log(folder / "run", {"canary_exposure": [finding("a"), finding("k", rank=4e5, repetitions=0)]}, model="m")
    write_report(folder / "run", folder / "report.html")
    (folder / "README.md").write_text("# A model\n")
    (folder / "guesses.csv").write_text('Example ID,Suffix Guess\n0,"[3,4]"\n')
    history = [{"epoch": 1.0, "step": 1, "leakage/exposure_x1": 2.0, "leakage/exposure_bound": 13.0}]
    (folder / "trainer_state.json").write_text(json.dumps({"log_history": history}))
    return folder


@pytest.fixture
def here(inputs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same as the current folder; the command line is built once, as that takes longer than most runs."""
    monkeypatch.chdir(inputs)
    monkeypatch.setattr(cli, "build_app", command_line)
    return inputs


def test_every_command_has_a_line_to_begin_with() -> None:
    assert BASES.keys() == declared().keys() - set(LEFT_OUT)


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(name, marks=SLOW.get(name, ())) for name in BASES])
def test_each_option_alone(here: Path, name: str) -> None:
    for base in BASES[name]:
        ends_well(name, shlex.split(base))
        for option in options(name).values():
            for words in spelled(option, odd=True):
                ends_well(name, with_base(base, words))


@pytest.mark.parametrize("name", [name for name in BASES if list(pairs_of(name))])
def test_options_that_name_each_other(here: Path, name: str) -> None:
    for base in BASES[name]:
        for option, other in pairs_of(name):
            for one in spelled(option):
                for two in spelled(other):
                    ends_well(name, with_base(base, one, two))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["canaries", "plant", "verify", "power"])
def test_every_two_options(here: Path, name: str) -> None:
    for base in BASES[name]:
        for option, other in combinations(options(name).values(), 2):
            ends_well(name, with_base(base, spelled(option)[0], spelled(other)[0]))


@pytest.mark.slow
def test_each_option_of_training_a_tagger(here: Path) -> None:
    rows = made(12)
    blocks = (
        [f"# intent = {row.intent}", *(f"{word}\t{tag}" for word, tag in zip(row.words, row.tags, strict=True))]
        for row in rows
    )
    (here / "data.conll").write_text("\n\n".join(map("\n".join, blocks)) + "\n")
    base = "data.conll -o out --hidden-size 4 --device cpu"
    for option in options("train-nlu").values():
        for words in spelled(option):
            ends_well("train-nlu", with_base(base, words, *([] if option.name == "epochs" else [["--epochs", "1"]])))
