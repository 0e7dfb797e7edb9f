"""Reports start quickly: they load neither torch nor transformers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from leakage_tasks import write_report
from tests.conftest import ROOT
from tests.report.pages import usual_canaries, write_run

CODE = """
import sys
from leakage_tasks.cli import main
try:
    main()
finally:
    print(*[name for name in {names} if name in sys.modules], file=sys.stderr)
"""
MODELS = ("torch", "transformers", "lm_eval")
AUDITS = ("sklearn", "pandas", "rapidfuzz")
"""Libraries of audits and of comparisons of texts."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs with samples."""
    folder = tmp_path_factory.mktemp("runs")
    for number in (1, 2):
        write_run(folder / str(number), f"models/{number}", usual_canaries(number / 2, number))
    return folder


@pytest.mark.parametrize(
    "words",
    [
        "leaderboard {runs} -o {out}.html",
        "check {runs} --max-exposure 60",
        "score {runs}/1",
        "compare {runs}/1 {runs}/2 -o {out}.html",
        "plot repetitions {runs}/1 -o {out}.svg",
        "verify-report {report}",
    ],
    ids=lambda words: words.partition(" ")[0],
)
def test_a_report_loads_no_torch(runs: Path, tmp_path: Path, words: str) -> None:
    if "{report}" in words:
        write_report(runs / "1", tmp_path / "report.html")
    made = words.format(runs=runs, out=tmp_path / "out", report=tmp_path / "report.html")
    assert loaded(made, MODELS) == ""


@pytest.mark.parametrize("words", ["check {runs} --max-exposure 60", "plot repetitions {runs}/1 -o {out}.svg"])
def test_a_report_without_an_audit_loads_none_of_its_libraries(runs: Path, tmp_path: Path, words: str) -> None:
    assert loaded(words.format(runs=runs, out=tmp_path / "out"), AUDITS) == ""


def loaded(arguments: str, names: tuple[str, ...]) -> str:
    """Those of ``names`` that a command imports."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", CODE.format(names=names), *arguments.split()]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return done.stderr.splitlines()[-1]
