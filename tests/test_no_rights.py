"""Commands that may not read their input, or may not write where they should: one line, and nothing is made."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from leakage_tasks.canaries import make_canaries, write_manifest
from tests.conftest import Leakage
from tests.report.made import STAMP, leaking, results

NOBODY = 65534
Restricted = Callable[[str, Path, int], tuple[int, list[str]]]
COMMANDS = {
    "plant": "plant {0}/canaries.jsonl {0}/train.txt -o {1}/planted.txt",
    "canaries": "canaries --from-text {0}/train.txt -o {1}/found.jsonl",
    "sanitize": "sanitize {0}/train.txt -o {1}/clean.txt --drop 1 --epochs 1",
    "leaderboard": "leaderboard {0}/results_" + STAMP + ".json -o {1}/board.html",
    "report": "report {0}/results_" + STAMP + ".json -o {1}/report.html",
    "card": "card {0}/results_" + STAMP + ".json --card {1}/README.md",
}
TRIED: set[str] = set()
"""Commands that this process has run, and has therefore loaded what they are made of."""
EACH = pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Inputs in ``in`` and a folder ``out``, where everyone may look, whoever the tests are run by."""
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        for name in ("in", "out", "tried"):
            (place / name).mkdir()
        (place / "in" / "train.txt").write_text("a line\nmy card is 4111 1111 1111 1111\n" * 3)
        write_manifest(make_canaries("The pin is {digits:4}.", 1, seed=1), place / "in" / "canaries.jsonl")
        (place / "in" / f"results_{STAMP}.json").write_text(json.dumps(results(leaking())))
        for each in (place, *place.rglob("*")):
            each.chmod(0o755 if each.is_dir() else 0o644)
        (place / "out").chmod(0o777)
        yield place
        for each in place.rglob("*"):
            each.chmod(0o700)


@pytest.fixture
def restricted(leakage: Leakage, folder: Path) -> Restricted:
    """Run a command as a user who is not root, in a process of its own: exit code and the lines it says."""

    def run(command: str, path: Path, mode: int) -> tuple[int, list[str]]:
        # Whoever it is run by next may have no right to read what Python is made of.
        if command not in TRIED:
            assert leakage(*command.format(folder / "in", folder / "tried").split())[0] == 0
            TRIED.add(command)
        path.chmod(mode)
        with (folder / "said").open("w+") as said:
            child = os.fork()
            if not child:
                os._exit(_as_nobody(command.format(folder / "in", folder / "out").split(), said.fileno()))
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            said.seek(0)
            return code, [line for line in said.read().splitlines() if line.startswith(("leakage: ", "Error: "))]

    return run


def _as_nobody(words: list[str], said: int) -> int:
    from leakage_tasks.cli import main

    os.dup2(said, 1)
    os.dup2(said, 2)
    if not os.geteuid():
        os.setuid(NOBODY)
    sys.argv = ["leakage", *words]
    with os.fdopen(1, "w") as out, os.fdopen(2, "w") as err, redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as stop:
            return int(stop.code or 0)
    return 70


@EACH
def test_a_folder_that_cannot_be_written_to(command: str, folder: Path, restricted: Restricted) -> None:
    code, lines = restricted(command, folder / "out", 0o555)
    assert code == 2
    assert len(lines) == 1
    assert lines[0].startswith(f"leakage: {folder / 'out'}")
    assert not list((folder / "out").iterdir())


@EACH
def test_an_input_that_cannot_be_read(command: str, folder: Path, restricted: Restricted) -> None:
    words = command.format(folder / "in", folder / "out").split()
    read = Path(next(word for word in words if word.endswith((".txt", ".json")) and "/in/" in word))
    code, lines = restricted(command, read, 0)
    assert code == 2
    assert len(lines) == 1
    # The command line's own check of arguments comes first where there is one.
    assert str(read) in lines[0]
    assert "not readable" in lines[0] or "Permission denied" in lines[0]
    assert not list((folder / "out").iterdir())


def test_an_input_in_a_folder_that_cannot_be_written_to_is_read(folder: Path, restricted: Restricted) -> None:
    code, _ = restricted(COMMANDS["plant"], folder / "in", 0o555)
    assert code == 0
    assert (folder / "out" / "planted.txt").is_file()
