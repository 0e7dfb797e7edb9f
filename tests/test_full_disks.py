"""Commands whose output finds no room, or no right to be written: one line, and the old output stays."""

from __future__ import annotations

import resource
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import Leakage
from tests.disks import fill, small_disk
from tests.killing.commands import COMMANDS, Command
from tests.killing.folders import contents
from tests.killing.inputs import make_inputs

WRITING = [
    each for each in COMMANDS if each.program == "leakage" and each.outputs and not each.name.startswith("study")
]
# A card that says the same already is not written.
AGAIN = {"card": "--name other"}
pytestmark = pytest.mark.usefixtures("kept_page_parts")
EACH = pytest.mark.parametrize("command", WRITING, ids=lambda command: command.name)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_inputs(tmp_path_factory.mktemp("made") / "inputs")


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with small_disk(tmp_path_factory.mktemp("disk"), "8m") as place:
        yield place


def check(outcome: tuple[int, str, str], reason: str) -> None:
    code, _, err = outcome
    lines = [line for line in err.splitlines() if line.startswith("leakage: ") and "warning" not in line]
    assert code == 2, err
    assert len(lines) == 1
    assert reason in lines[0]
    assert "Traceback" not in err


def begun(command: Command, inputs: Path, out: Path, leakage: Leakage) -> dict[str, str]:
    """An older output, as it is; written once for all tests of a command."""
    older = inputs.parent / "begun" / command.name.replace(" ", "-")
    if not older.exists():
        older.mkdir(parents=True)
        code, _, err = leakage(*command.arguments(inputs, older))
        assert code == 0, err
    shutil.copytree(older, out)
    return contents(out)


@EACH
def test_a_full_disk(command: Command, inputs: Path, disk: Path, leakage: Leakage) -> None:
    shutil.rmtree(disk / "out", ignore_errors=True)
    before = begun(command, inputs, disk / "out", leakage)
    filling = fill(disk)
    try:
        outcome = leakage(*command.arguments(inputs, disk / "out", AGAIN.get(command.name, command.older)))
    finally:
        filling.unlink()
    check(outcome, "No space left on device")
    assert contents(disk / "out") == before
    assert not list((disk / "out").glob(".leakage-*"))


@pytest.mark.parametrize(
    "command",
    [each if number % 4 == 0 else pytest.param(each, marks=pytest.mark.slow) for number, each in enumerate(WRITING)],
    ids=lambda command: command.name,
)
def test_a_limit_on_the_size_of_files(command: Command, inputs: Path, tmp_path: Path, leakage: Leakage) -> None:
    before = begun(command, inputs, tmp_path / "out", leakage)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, hard))
    try:
        outcome = leakage(*command.arguments(inputs, tmp_path / "out", AGAIN.get(command.name, command.older)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    check(outcome, "File too large")
    assert contents(tmp_path / "out") == before
    assert not list((tmp_path / "out").glob(".leakage-*"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_under_standard_output(leakage: Leakage, monkeypatch: pytest.MonkeyPatch) -> None:
    with suppress(OSError), Path("/dev/full").open("w", buffering=1) as full:  # Closing writes once more.
        monkeypatch.setattr("sys.stdout", full)
        outcome = leakage("--version")
    check(outcome, "No space left on device: free disk space")
