"""The command line's own behaviour: what it says, how fast it starts, how it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from leakage_tasks import __version__, cli
from leakage_tasks.canaries import make_canaries, write_manifest
from leakage_tasks.core.errors import LeakageError
from tests.conftest import Leakage, Refused

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("torch", "transformers", "datasets", "pyarrow", "matplotlib", "scipy", "lm_eval", "peft")


def started(*arguments: str, code: str = "from leakage_tasks.cli import main; main()") -> subprocess.CompletedProcess:
    """The command in a process of its own."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True)


def test_version() -> None:
    done = started("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"lm-eval-leakage {__version__}\n", "")


@pytest.mark.parametrize("words", [["--x\x1b[2J"], ["x\ufeff"], ["plot", "x\u202e"], ["plant", "--x\ufeff"]])
def test_what_was_typed_is_repeated_without_its_control_characters(words: list[str], leakage: Leakage) -> None:
    code, _, err = leakage(*words)
    assert code == 2
    assert "Error: No such " in err
    assert err.replace("\n", "").isprintable()


@pytest.mark.parametrize("path", ["\u202e" * 300, "\x1b[2J" * 100])
@pytest.mark.parametrize("words", ["score", "card", "leaderboard", "check", "verify b.jsonl"])
def test_a_path_that_the_system_refuses_is_repeated_without_them_too(words: str, path: str, refused: Refused) -> None:
    command, *others = words.split()
    assert refused(command, path, *others).rstrip("\n").isprintable()


def test_help_names_every_command_and_imports_nothing_heavy() -> None:
    code = (
        "import sys; from leakage_tasks.cli import main\n"
        "try: main()\n"
        f"finally: print(*[name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    done = started("--help", code=code)
    assert done.returncode == 0
    assert done.stderr == "\n"
    for command in ("canaries", "plant", "verify", "tune-prompt", "train-nlu", "nlu-data", "demo", "doctor", "study"):
        assert f"\n  {command} " in done.stdout


@pytest.mark.parametrize("arguments", [["--nonsense"], ["nonsense"], ["doctor", "--nonsense"]])
def test_usage_errors_end_with_2_and_no_traceback(arguments: list[str], leakage: Leakage) -> None:
    code, _, err = leakage(*arguments)
    assert code == 2
    assert "nonsense" in err
    assert "Traceback" not in err


def run_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> int:
    def fails() -> int:
        raise error

    monkeypatch.setattr("leakage_tasks.cli.doctor.doctor", fails)
    monkeypatch.setattr(sys, "argv", ["leakage", "doctor"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(str(ended.value.code))


def test_what_the_user_can_put_right_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_with(monkeypatch, LeakageError("canaries.jsonl, line 3: what to do")) == 2
    assert capsys.readouterr() == ("", "leakage: canaries.jsonl, line 3: what to do\n")


def test_control_c_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_with(monkeypatch, KeyboardInterrupt()) == 130


# -- locales without UTF-8 ----------------------------------------------------------------------------------

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
ASCII_OUTPUT = {"PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}


def leakage_in(variables: dict[str, str], *arguments: str | bytes) -> subprocess.CompletedProcess[bytes]:
    """The command in a process of its own, its output as bytes."""
    command = [sys.executable, "-c", "from leakage_tasks.cli import main; main()", *arguments]
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT), **variables}, capture_output=True)


def test_a_text_that_the_locale_cannot_decode_is_one_line_and_nothing_is_written(tmp_path: Path) -> None:
    output = tmp_path / "canaries.jsonl"
    done = leakage_in(ASCII, "canaries", "--template", "Thé {unique} {digits:4}", "--count", "6", "-o", str(output))
    assert done.returncode == 2
    (line,) = done.stderr.decode("ascii").splitlines()
    assert line.startswith("leakage: 'Th")
    assert line.endswith("run the command again with PYTHONUTF8=1 before it")
    assert not list(tmp_path.iterdir())


def test_bytes_that_are_not_utf_8_are_one_line_too(tmp_path: Path) -> None:
    output = tmp_path / "canaries.jsonl"
    words = (b"canaries", b"--template", b"Th\xe9 {unique} {digits:4}", b"--count", b"6", b"-o")
    done = leakage_in({"LC_ALL": "C.UTF-8"}, *words, os.fsencode(output))
    assert done.returncode == 2
    (line,) = done.stderr.decode().splitlines()
    assert line.endswith("write it in UTF-8")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("variables", [ASCII, pytest.param(ASCII_OUTPUT, marks=pytest.mark.slow)])
def test_a_manifest_with_accents_is_written_planted_and_shown(variables: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("Ein Haus für Björn\n" * 800, encoding="utf-8")
    canaries, planted = tmp_path / "canaries.jsonl", str(tmp_path / "planted.txt")
    write_manifest(make_canaries("Die Nummer von Björn, {unique}, ist {digits:4}.", 6), canaries)
    assert leakage_in(variables, "plant", str(canaries), str(tmp_path / "train.txt"), "-o", planted).stderr == b""
    done = leakage_in(variables, "verify", planted, str(canaries))
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii()
    assert "Björn" in Path(planted).read_text(encoding="utf-8")
