"""Commands that another package brings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leakage_tasks.cli import build_app
from leakage_tasks.cli.registry import GROUP
from leakage_tasks.core.registry import entries_of
from tests.conftest import Leakage, Refused

MODULE = """
import typer
def greet(name: str) -> None:
    '''Say hello.'''
    typer.echo(f"hello {name}")
from leakage_tasks.cli.help import command_help
@command_help('Audit')
def wave() -> None:
    '''Wave with a hand. It is not heard.'''
app = typer.Typer(help="Two of them.")
app.command("one")(greet)
app.command("two")(greet)
"""


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Installs a package ``outside`` with these entry points."""

    def install(entries: str) -> None:
        place = tmp_path / "outside-1.0.dist-info"
        place.mkdir()
        (place / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
        (place / "entry_points.txt").write_text(f"[{GROUP}]\n{entries}\n")
        (tmp_path / "outside_commands.py").write_text(MODULE)
        monkeypatch.syspath_prepend(tmp_path)
        # Laid out anew, with what is installed.
        monkeypatch.setattr("leakage_tasks.cli.build_app", build_app)
        entries_of.cache_clear()

    yield install
    entries_of.cache_clear()


def test_a_function_becomes_a_command(outside: Callable[[str], None], leakage: Leakage) -> None:
    outside("greet = outside_commands:greet")
    assert leakage("greet", "you") == (0, "hello you\n", "")
    assert "Say hello." in leakage("--help")[1]


def test_the_help_lists_commands_of_another_package_under_its_name_or_their_stage(
    outside: Callable[[str], None], leakage: Leakage
) -> None:
    outside("greet = outside_commands:greet\nwave = outside_commands:wave\ngreetings = outside_commands:app")
    text = leakage("--help")[1]
    own = text.partition("Commands of outside:\n")[2]
    assert [line.split()[0] for line in own.splitlines()] == ["greet", "greetings"]
    audit = text.partition("Audit:\n")[2].partition("\n\n")[0]
    assert audit.splitlines()[-1].split() == ["wave", "Wave", "with", "a", "hand."]


def test_a_typer_becomes_a_group_of_commands(outside: Callable[[str], None], leakage: Leakage) -> None:
    outside("greetings = outside_commands:app")
    assert leakage("greetings", "two", "you") == (0, "hello you\n", "")


def test_one_that_cannot_be_imported_costs_a_line_and_itself(outside: Callable[[str], None], leakage: Leakage) -> None:
    outside("greet = outside_commands:greet\nmissing = outside_commands:nothing")
    code, out, err = leakage("greet", "you")
    assert (code, out) == (0, "hello you\n")
    (line,) = err.splitlines()
    assert line.startswith("leakage: warning: missing of outside cannot be imported (AttributeError: ")


@pytest.mark.parametrize("taken", ["plant", "doctor", "plot"])
def test_a_name_that_is_taken_names_both_packages(outside: Callable[[str], None], refused: Refused, taken: str) -> None:
    outside(f"{taken} = outside_commands:greet")
    err = refused("--help")
    assert err == f"leakage: leakage {taken} is a command of lm-eval-leakage and of outside: uninstall one of them\n"


def test_two_other_packages_with_one_name(outside: Callable[[str], None], refused: Refused) -> None:
    outside("study = outside_commands:greet")
    err = refused("--help")
    assert "lm-eval-leakage" in err
    assert "outside" in err
