"""The help of the command line: stages, one line for each command, panels of options, examples, renamed options."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from leakage_tasks.cli import build_app
from leakage_tasks.cli.help import STAGES, command_help, declared_help, first_sentence, with_flags
from leakage_tasks.cli.registry import register_command
from tests.conftest import Leakage

APP = typer.main.get_command(build_app())


def commands(command: Any = APP, words: tuple[str, ...] = ("leakage",)) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command and group of commands, with the words that call it."""
    yield words, command
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, (*words, name))


LEAVES = [(words, command) for words, command in commands() if not hasattr(command, "commands")]
NAMED = pytest.mark.parametrize(("words", "command"), LEAVES, ids=[" ".join(words) for words, _ in LEAVES])


def test_the_help_lists_commands_by_stage(leakage: Leakage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = leakage("--help")[1].splitlines()
    titles = [line.rstrip(":") for line in lines if line and not line.startswith((" ", "Usage"))]
    assert titles == ["Options", *STAGES]
    stage = {line.split()[0]: lines[:number] for number, line in enumerate(lines) if line.startswith("  ")}
    for name, title in {"canaries": "Prepare", "power": "Check before training", "plan": "Audit", "plot": "Report",
                        "sanitize": "Defend", "study": "Research", "demo": "Get started"}.items():  # fmt: skip
        assert [line for line in stage[name] if line.endswith(":")][-1] == f"{title}:"


def test_each_command_has_one_whole_line(leakage: Leakage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    groups = [(words, command) for words, command in commands() if hasattr(command, "commands")]
    assert len(groups) == 3
    for words, group in groups:
        lines = leakage(*words[1:], "--help")[1].splitlines()
        for name in group.commands:
            (line,) = [line for line in lines if line.startswith(f"  {name} ")]
            assert line.endswith(".")
            assert len(line) <= 80
        assert sum(line.startswith("   ") for line in lines) == 0


def test_the_common_options_of_canaries_come_first_and_are_six() -> None:
    (canaries,) = [command for words, command in LEAVES if words == ("leakage", "canaries")]
    panels = [option.rich_help_panel for option in canaries.params]
    assert panels[:6] == [None] * 6
    assert None not in panels[6:]
    assert len(set(panels[6:])) == 7


def test_options_are_shown_in_panels_and_help_ends_the_last(leakage: Leakage) -> None:
    text = leakage("canaries", "--help")[1]
    sections = {part.splitlines()[0]: part for part in text.split("\n\n")}
    assert "--template" in sections["Options:"]
    assert "--elmahdy" not in sections["Options:"]
    assert "--preset" in sections["Instead of --template: the canaries of a paper:"]
    assert "--family" in sections["Instead of --template: text like the training data:"]
    assert "--from-text" in sections["Instead of --template: secrets found in a text:"]
    assert sections["Other options:"].splitlines()[-1].split()[0] == "--help"
    assert sections["Example:"].splitlines()[1].strip().startswith("leakage canaries --template")


@NAMED
def test_each_command_has_an_example_that_it_accepts(words: tuple[str, ...], command: Any) -> None:
    example = declared_help(command.callback).example
    assert example is not None
    given = shlex.split(example)
    assert tuple(given[: len(words)]) == words
    assert len(f"  {example}") <= 80
    command.make_context(words[-1], given[len(words) :])


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("canaries",), "missing option '--output' / '-o'"),
        (("canaries", "-o", "x", "--count", "z"), "invalid value for '--count'"),
        (("canaries", "-o", "x", "--nope"), "--nope"),
        (("plant", "-o", "x"), "manifest source: give the manifest and the data"),
        (("study", "run"), "missing argument 'names"),
        (("plot", "nope"), "no such command 'nope'"),
    ],
)
def test_a_usage_error_names_the_option_and_gives_an_example(
    leakage: Leakage, words: tuple[str, ...], named: str
) -> None:
    code, _, err = leakage(*words)
    *_, error, example = err.splitlines()
    assert code == 2
    assert named in error.lower().replace("'manifest source'", "manifest source")
    assert example.startswith(f"Example: leakage {words[0]}")
    assert err.count("Example: ") == 1


RENAMED = [
    (words, command, old, new)
    for words, command in LEAVES
    for old, new in declared_help(command.callback).renamed.items()
]


def test_the_renamed_options_are_known() -> None:
    assert {(words[-1], old, new) for words, _, old, new in RENAMED} == {
        ("canaries", "--doubled", "--conjoin"),
        ("canaries", "--only", "--targets"),
        ("plant", "--fuzzy", "--near-copies"),
        ("plant", "--turn", "--chat-position"),
    }


@pytest.mark.parametrize(("words", "command", "old", "new"), RENAMED, ids=[old for _, _, old, _ in RENAMED])
def test_the_old_spelling_of_an_option_is_accepted_but_not_shown(
    leakage: Leakage, words: tuple[str, ...], command: Any, old: str, new: str
) -> None:
    (option,) = [option for option in command.params if new in option.opts]
    value = [] if option.is_flag else ["2"]
    read = [command.make_context("x", ["-o", "out", name, *value]).params for name in (old, new)]
    assert read[0] == read[1]
    assert read[0][option.name] not in (None, False)
    text = leakage(*words[1:], "--help")[1]
    assert f"{new} " in text
    assert f"{old} " not in text
    err = leakage(*words[1:], f"{old}x")[2]
    assert f"{old} " not in f"{err.splitlines()[-2]} ".replace(f"{old}x", "")


def test_first_sentence() -> None:
    assert first_sentence("Write a card.\n\nMore of it.") == "Write a card."
    assert first_sentence("Write a card. More of it.") == "Write a card."
    assert first_sentence("No full stop\nin two lines\n\nMore.") == "No full stop in two lines"
    assert first_sentence("") == ""


def test_a_command_of_an_unknown_stage_is_refused() -> None:
    with pytest.raises(ValueError, match="stage 'Later' of command x: use Get started, Prepare"):
        register_command("x", "Later", 1, example="leakage x")


def test_a_function_without_a_declaration_has_an_empty_one() -> None:
    assert declared_help(test_first_sentence).stage is None
    assert declared_help(None).renamed == {}
    assert declared_help(command_help("Audit")(lambda: None)).stage == "Audit"


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("drop is 0: give 1 or more", "--drop is 0: give 1 or more"),
        ("batch_size=0: give 1", "--batch-size=0: give 1"),
        ("no noise: set batch_size 1", "no noise: set --batch-size 1"),
        ("a drop is 0: pass batch_size=8", "a drop is 0: pass batch_size=8"),
        ("batch_size/drop: no such file", "batch_size/drop: no such file"),
        ("'batch_size' is no column", "'batch_size' is no column"),
        ("epochs is 0", "epochs is 0"),
    ],
)
def test_errors_name_options_as_they_are_typed(message: str, shown: str) -> None:
    assert with_flags(message, {"drop": "--drop", "batch_size": "--batch-size"}) == shown
