"""The harness' command as a process: what it ends with is what is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from leakage_tasks.harness.command import run_command


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        ("echo table; exit 0", None),
        (
            "echo before >&2; printf 'leakage: no such file\\n\\n' >&2; exit 2",
            "lm_eval ended with code 2: no such file",
        ),
        (
            "printf '\\033[31mOSError: no weights\\033[0m\\r\\n'; exit 1",
            "lm_eval ended with code 1: OSError: no weights",
        ),
        ("exit 3", "lm_eval ended with code 3: no message"),
    ],
)
def test_the_last_line_is_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, outcome: str | None
) -> None:
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\necho "$@" > "$0.words"\n{script}\n')
    program.chmod(0o755)
    monkeypatch.setattr("leakage_tasks.harness.command.sys.executable", str(program))
    assert run_command(["--tasks", "a b"], tmp_path / "log") == outcome
    assert (tmp_path / "python.words").read_text() == "-m lm_eval --tasks a b\n"
