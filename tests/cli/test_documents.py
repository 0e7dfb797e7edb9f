"""``leakage documents``: tables, page, JSON and heat map of one run."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import Leakage, Ran
from tests.report.load.window_samples import finding, two_documents, write

LIMITS = ("--passage", "16")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    write(tmp_path / "results", two_documents())
    return tmp_path / "results"


def test_figures_stand_beside_controls_with_counts_and_intervals(results: Path, ran: Ran) -> None:
    out, _ = ran("documents", results, *LIMITS)
    assert re.search(r"Windows extracted exactly +33.3 % \[.*\], n = 6 windows +0 %, n = 2 windows", out)
    assert re.search(r"Recalled near-verbatim in order +60 % \[.*\], n = 60 tokens +0 %, n = 20 tokens", out)
    names = re.findall(r"^(?:document|control) \d", out, re.MULTILINE)
    assert names == ["document 1", "document 0", "control 0"]
    assert "No controls" not in out


def test_without_controls_the_reader_is_warned(tmp_path: Path, leakage: Leakage) -> None:
    write(tmp_path, [finding(0, 0, 0, blocks=None)])
    _, out, _ = leakage("documents", tmp_path)
    assert "No controls: text that is easy to guess counts as recalled" in out
    assert "near-verbatim recall is unknown: run it with stride=" in out


@pytest.mark.slow
def test_every_kind_of_report_is_written(results: Path, tmp_path: Path, ran: Ran) -> None:
    outputs = [tmp_path / f"report{kind}" for kind in (".html", ".json", ".png", ".svg")]
    out, _ = ran("documents", results, *LIMITS, *(word for path in outputs for word in ("-o", path)))
    assert all(f"wrote {path}" in out for path in outputs)
    data = json.loads(outputs[1].read_text())
    assert [each["recalled"] for each in data["documents"]["items"]] == [20, 16]
    assert data["documents"]["items"][1]["near_verbatim"] == [[11, 19], [22, 30]]
    assert data["controls"]["summary"]["exact"] == {"value": 0.0, "low": None, "high": None, "n": 2}
    assert outputs[2].read_bytes().startswith(b"\x89PNG")
    page = outputs[0].read_text()
    assert "Content-Security-Policy" in page
    (picture,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page)
    assert b"<svg" in base64.b64decode(picture)
    assert "document 1: 0 of 2 windows exact" in page


def test_the_heat_map_states_which_documents_it_leaves_out(
    tmp_path: Path, leakage: Leakage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The words beside the picture, which itself takes a second."""
    monkeypatch.setattr("leakage_tasks.report.page.documents.describe_documents", lambda run: ("data:,", "drawn"))
    write(tmp_path, [finding(number, number, 0) for number in range(20)] + [finding(-1 - n, n, 0) for n in range(5)])
    leakage("documents", tmp_path, "-o", tmp_path / "page.html")
    words = "The heat map shows 9 of 20 documents, those recalled most, and 3 of 5 controls."
    assert words in (tmp_path / "page.html").read_text()
    write(tmp_path / "few", two_documents())
    leakage("documents", tmp_path / "few", "-o", tmp_path / "few.html")
    assert "The heat map shows" not in (tmp_path / "few.html").read_text()


def test_a_page_shows_no_token_even_of_a_run_that_reveals(tmp_path: Path, leakage: Leakage) -> None:
    shown = [replace(each, guesses=((987654321, 123456789),)) for each in two_documents()]
    write(tmp_path, shown)
    leakage("documents", tmp_path, "-o", tmp_path / "page.html", "-o", tmp_path / "page.json")
    for name in ("page.html", "page.json"):
        assert "987654321" not in (tmp_path / name).read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-o", "report.pdf"), "--output report.pdf: unknown kind of file"),
        (("--gap", "-1"), "Invalid value for '--gap'"),
        (("--block", "2"), "Invalid value for '--block'"),
    ],
)
def test_wrong_words_are_told(results: Path, leakage: Leakage, words: tuple[str, ...], message: str) -> None:
    code, _, err = leakage("documents", results, *words)
    assert code == 2
    assert message in err
