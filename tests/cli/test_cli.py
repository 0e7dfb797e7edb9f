"""The command line's own behaviour: what it says, how fast it starts, how it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from leakage_tasks import __version__, cli
from leakage_tasks.core.errors import LeakageError

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("torch", "transformers", "datasets", "pyarrow", "matplotlib", "scipy", "lm_eval", "peft")


def leakage(*arguments: str, code: str = "from leakage_tasks.cli import main; main()") -> subprocess.CompletedProcess:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True)


def test_version() -> None:
    done = leakage("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"lm-eval-leakage {__version__}\n", "")


@pytest.mark.parametrize("words", [["--x\x1b[2J"], ["x\ufeff"], ["plot", "x\u202e"], ["plant", "--x\ufeff"]])
def test_what_was_typed_is_repeated_without_its_control_characters(words: list[str]) -> None:
    done = leakage(*words)
    assert done.returncode == 2
    assert "Error: No such " in done.stderr
    assert done.stderr.replace("\n", "").isprintable()


@pytest.mark.parametrize("path", ["\u202e" * 300, "\x1b[2J" * 100])
@pytest.mark.parametrize(
    "words", [["score"], *(pytest.param([each], marks=pytest.mark.slow) for each in ("card", "leaderboard", "check"))]
)
def test_a_path_that_the_system_refuses_is_repeated_without_them_too(words: list[str], path: str) -> None:
    done = leakage(*words, path)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.rstrip("\n").isprintable()


def test_help_names_every_command_and_imports_nothing_heavy() -> None:
    code = (
        "import sys; from leakage_tasks.cli import main\n"
        "try: main()\n"
        f"finally: print(*[name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    done = leakage("--help", code=code)
    assert done.returncode == 0
    assert done.stderr == "\n"
    for command in ("canaries", "plant", "verify", "tune-prompt", "train-nlu", "nlu-data", "demo", "doctor", "study"):
        assert f"\n  {command} " in done.stdout


@pytest.mark.parametrize("arguments", [["--nonsense"], ["nonsense"], ["doctor", "--nonsense"]])
def test_usage_errors_end_with_2_and_no_traceback(arguments: list[str]) -> None:
    done = leakage(*arguments)
    assert done.returncode == 2
    assert "nonsense" in done.stderr
    assert "Traceback" not in done.stderr


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


def test_a_real_mistake_in_a_manifest_reaches_the_user(tmp_path: Path) -> None:
    (tmp_path / "canaries.jsonl").write_text("not json\n")
    (tmp_path / "train.txt").write_text("some text\n")
    output = tmp_path / "planted.txt"
    done = leakage("plant", str(tmp_path / "canaries.jsonl"), str(tmp_path / "train.txt"), "-o", str(output))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("leakage: ")
    assert "canaries.jsonl" in line
    assert not output.exists()


def test_a_path_the_system_refuses_is_one_line(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["leakage", "verify", "a" * 300, "b.jsonl"])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 2
    assert capsys.readouterr().err.startswith("leakage: ")
