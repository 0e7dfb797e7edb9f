"""The table of the steps on a GPU: a step that fails or is stopped becomes a line, and the exit code is then 1."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.gpu.report import FAILED, HELD, LEFT_OUT, Report, main

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "benchmarks" / "on_gpu.sh"


@pytest.fixture
def table(monkeypatch, capsys):
    """A function that returns the exit code and the rows of the table."""

    def rows_and_code(out, *steps):
        monkeypatch.setattr(sys, "argv", ["report", str(out), *steps])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr().out
        assert (out / "table.md").read_text() in printed
        rows = [line for line in printed.splitlines() if line.startswith("|")][2:]
        return ended.value.code, [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]

    return rows_and_code


def test_results_that_hold_or_are_left_out(table, tmp_path):
    report = Report("plain", tmp_path)
    report.add("8 rows", "5 per second")
    report.add("bits", "not installed", LEFT_OUT)
    assert table(tmp_path, "plain=0:3") == (
        0,
        [["plain", "3", "8 rows", "5 per second", HELD], ["plain", "", "bits", "not installed", LEFT_OUT]],
    )


def test_every_kind_of_failure_is_a_line_and_none_hides_another(table, tmp_path):
    Report("wrong", tmp_path).add("costs", "0.1 bits", FAILED)
    late = Report("late", tmp_path)
    late.progress("1,000 canaries", "7 rows")
    (tmp_path / "broken.log").write_text("Traceback\nRuntimeError: a | b\n\n")
    code, rows = table(tmp_path, "wrong=1:1", "late=124:9", "broken=1:2", "silent=0:1")
    assert code == 1
    assert rows == [
        ["wrong", "1", "costs", "0.1 bits", FAILED],
        ["late", "9", "1,000 canaries", "until then: 7 rows", "unfinished"],
        ["late", "", "time limit", "the step took too long", FAILED],
        ["broken", "2", "exit code 1", "RuntimeError: a / b", FAILED],
        ["silent", "1", "no result", "", FAILED],
    ]


def test_progress_of_a_step_that_ended_is_not_shown(table, tmp_path):
    report = Report("audit", tmp_path)
    report.progress("canaries", "half")
    report.add("canaries", "all")
    assert table(tmp_path, "audit=0:1") == (0, [["audit", "1", "canaries", "all", HELD]])


def test_the_steps_exist_and_their_limits_add_up_to_less_than_six_minutes():
    text = SCRIPT.read_text()
    limits = {name: int(number) for name, number in re.findall(r"\[(\w+)\]=(\d+)", text)}
    modules = dict(re.findall(r"\[(\w+)\]=([a-z]\w+)", text))
    (order,) = re.findall(r"^ORDER=\((.*)\)$", text, re.MULTILINE)
    assert set(limits) == set(modules) == set(order.split())
    assert sum(limits.values()) < 360
    assert all((ROOT / "benchmarks" / "gpu" / f"{module}.py").is_file() for module in modules.values())


@pytest.mark.parametrize(("words", "said"), [(["--tiny", "fast"], "unknown step fast"), (["--small"], "--small")])
def test_an_unknown_step_is_refused_before_anything_runs(words, said, tmp_path):
    import os

    environment = {**os.environ, "OUT": str(tmp_path / "out")}
    done = subprocess.run(["bash", str(SCRIPT), *words], capture_output=True, text=True, env=environment)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
