"""Reports start quickly: they load neither torch nor transformers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from leakage_tasks import write_report
from tests.conftest import ROOT
from tests.report.pages import usual_canaries, write_run

CODE = """
import contextlib, io, json, sys
from leakage_tasks.cli import main
names, commands = json.loads(sys.argv.pop())
loaded = {}
for words in commands:
    sys.argv[1:] = words.split()
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            main()
        except SystemExit as stop:
            assert stop.code in (0, 1), said.getvalue()
    loaded[words.partition(" ")[0]] = [name for name in names if name in sys.modules]
print(json.dumps(loaded))
"""
MODELS = ("torch", "transformers", "lm_eval", "datasets")
AUDITS = ("sklearn", "pandas", "rapidfuzz")
"""Libraries of audits and of comparisons of texts."""
WITHOUT_AUDIT = ["check {runs} --max-exposure 60", "plot repetitions {runs}/1 -o {out}.svg"]
SCORE = "score {runs}/1"
REPORTS = [
    *WITHOUT_AUDIT,
    "leaderboard {runs} -o {out}.html",
    SCORE,
    "compare {runs}/1 {runs}/2 -o {out}.html",
    "verify-report {report}",
]


def loaded(folder: Path, commands: Sequence[str]) -> dict[str, list[str]]:
    """The libraries that a process has imported after each report of two runs, one report after the other."""
    for number in (1, 2):
        write_run(folder / "runs" / str(number), f"models/{number}", usual_canaries(number / 2, number))
    report = folder / "report.html"
    if any("{report}" in words for words in commands):
        write_report(folder / "runs" / "1", report)
    reports = [words.format(runs=folder / "runs", out=folder / "out", report=report) for words in commands]
    command = [sys.executable, "-c", CODE, json.dumps([MODELS + AUDITS, reports])]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_no_report_loads_torch(tmp_path: Path) -> None:
    libraries = loaded(tmp_path, REPORTS)
    assert len(libraries) == len(REPORTS)
    assert {command: names for command, names in libraries.items() if set(names) & set(MODELS)} == {}


@pytest.mark.slow
def test_a_report_without_an_audit_loads_none_of_its_libraries_and_scoring_none_of_the_harness(tmp_path: Path) -> None:
    check, plot, score = loaded(tmp_path, [*WITHOUT_AUDIT, SCORE]).values()
    assert check == plot == []
    assert not set(score) & set(MODELS)
