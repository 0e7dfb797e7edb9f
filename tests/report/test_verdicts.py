"""The same verdict wherever a run is shown: table, Markdown, page, CSV, JSON, card and check."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from leakage_tasks.report.load.figures import verdict_on
from leakage_tasks.report.load.results import read_runs
from tests.conftest import Leakage, Ran
from tests.report.made import declaration, leaking, results, write


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that leaks by its exposure."""
    return write(tmp_path / "run", results(leaking()))


def said_of(run: Path) -> str:
    (found,) = read_runs([run])
    verdict = verdict_on(found.tasks["canary_exposure"])
    assert verdict is not None
    assert verdict.short == "above chance"
    return f"canary_exposure: {verdict.words}"


def test_boards_show_it(tmp_path: Path, ran: Ran, run: Path) -> None:
    outputs = [tmp_path / f"board.{kind}" for kind in ("md", "html", "csv", "json")]
    out, _ = ran("leaderboard", run, *(word for path in outputs for word in ("-o", path)))
    assert f"= one: {said_of(run)}" in out
    markdown, page, table, data = (path.read_text() for path in outputs)
    assert said_of(run).replace("_", r"\_") in markdown
    assert said_of(run) in page
    (row,) = csv.DictReader(table.splitlines())
    assert said_of(run) in row["verdicts"]
    (entry,) = json.loads(data)["groups"][0]["runs"]
    assert entry["verdicts"]["canary_exposure"]["short"] == "above chance"


def test_a_card_shows_it(tmp_path: Path, leakage: Leakage, run: Path) -> None:
    assert leakage("card", run, "--card", tmp_path / "README.md")[0] == 0
    text = (tmp_path / "README.md").read_text()
    assert "### Verdict" in text
    assert "- `canary_exposure`: **above chance** (chance alone exposes 20 secrets" in text


def test_a_check_shows_it(leakage: Leakage, run: Path) -> None:
    _, out, _ = leakage("check", run, "--max-exposure", 20)
    assert f"=     one: {said_of(run)}" in out


def test_a_run_without_headline_has_no_verdict(tmp_path: Path, leakage: Leakage) -> None:
    declared = {"canary_exposure": declaration("canary_exposure", no_headline="few")}
    file = write(tmp_path, results({"canary_exposure": leaking()["canary_exposure"]}, declared=declared))
    _, out, _ = leakage("leaderboard", file)
    assert "above chance" not in out
