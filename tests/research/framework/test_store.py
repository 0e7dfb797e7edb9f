"""Finished runs become small files, and a page that is made of them alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from leakage_tasks.core.registry import Registry
from leakage_tasks.core.signal_cleanup import PREFIX, SUFFIX
from leakage_tasks.research.framework import papers
from leakage_tasks.research.framework.papers import Paper, PaperClaim, PaperPart, drawing, register_paper
from leakage_tasks.research.framework.registry import Study, StudyPlan
from leakage_tasks.research.framework.reproduction_page import reproduction_page
from leakage_tasks.research.framework.runner import run_studies
from leakage_tasks.research.framework.stored_results import StoredResult, StoreError, read_store, store_runs
from tests.conftest import ROOT, Leakage, Refused
from tests.research.stored import claim, stored


@pytest.fixture
def no_papers(monkeypatch: pytest.MonkeyPatch) -> None:
    """No paper is known but those that the test registers."""
    monkeypatch.setattr(papers, "KNOWN_PAPERS", Registry("paper"))
    monkeypatch.setattr("leakage_tasks.research.framework.reproduction_page.KNOWN_PAPERS", papers.KNOWN_PAPERS)


@pytest.fixture
def runs(study: Study, tmp_path: Path, no_papers: None) -> Path:
    """A finished run at the scale paper, and its paper, the only one known."""
    claims = (PaperClaim("coin 1 always hits"), PaperClaim("coin 0 hits"))
    register_paper(Paper("coins", "Coins", (PaperPart("Table 1", "two coins", "table-1", claims=claims),)))
    list(run_studies([study], StudyPlan("paper"), tmp_path / "runs", progress=False))
    return tmp_path / "runs"


def write(store: Path, result: StoredResult) -> None:
    store.mkdir(exist_ok=True)
    (store / "table-1.json").write_text(json.dumps(result.to_json()))


def test_a_run_is_stored_without_its_place(runs: Path, tmp_path: Path) -> None:
    (path,) = store_runs(runs, tmp_path / "store")
    (result,) = read_store(tmp_path / "store")
    assert path == tmp_path / "store/coins/paper/table-1.json"
    assert result.command == "leakage study run coins/table-1 --scale paper --seed 0"
    assert (result.seeds, result.devices, result.scale) == (3, ["CPU"], "paper")
    assert str(tmp_path) not in path.read_text()


def test_the_command_stores_and_makes_the_page(runs: Path, tmp_path: Path, leakage: Leakage) -> None:
    page = tmp_path / "page.md"
    code, out, err = leakage("study", "report", "--store", runs, "--results", tmp_path / "store", "-o", page)
    assert (code, err) == (0, "")
    summary = (
        "Of 2 claims in 1 papers, 1 are reproduced, 1 are refuted and 0 are inconclusive, 0 of them only because of "
        "the correction for many tests."
    )
    assert summary in page.read_text()
    assert out == f"stored {tmp_path}/store/coins/paper/table-1.json\n{summary}\nwritten to {page}\n"


def test_the_page_counts_claims(runs: Path, tmp_path: Path) -> None:
    """Of each kind; those without a result have a column where there are some."""
    claims = (PaperClaim("coin 3 hits"), PaperClaim("coin 4 hits"))
    parts = (PaperPart("Table 2", "two more", "table-2", claims=claims),)
    register_paper(Paper("notes", "Notes", parts))
    write(
        tmp_path / "store", stored(claims=[claim("coin 0 hits", True, 0.04), claim("coin 1 always hits", True, 0.04)])
    )
    page = reproduction_page(tmp_path / "store")
    assert "0 are reproduced, 0 are refuted and 4 are inconclusive, 2 of them only because" in page
    assert "many tests; 2 not run." in page
    assert "| inconclusive | inconclusive by correction alone | not run |" in page
    assert "| [coins](#coins) | 2 | 0 | 0 | 2 | 2 | 0 |" in page
    assert "| [notes](#notes) | 2 | 0 | 0 | 2 | 0 | 2 |" in page


def test_a_cell_is_escaped(runs: Path, tmp_path: Path) -> None:
    write(tmp_path / "store", stored(claims=[claim("coin 1 always hits", True, evidence="P(a|b) <b> 1")]))
    parsed = MarkdownIt("commonmark").enable("table").parse(reproduction_page(tmp_path / "store"))
    cells = [token.content for token in parsed if token.type == "inline"]
    assert r"P(a|b) &lt;b> 1" in cells


@pytest.mark.usefixtures("study", "no_papers")
def test_each_run_is_listed_once_with_all_its_parts(tmp_path: Path) -> None:
    claims = (PaperClaim("one wins"), PaperClaim("nought wins"))
    parts = PaperPart("Table 1", "two coins", "table-1", claims=claims), PaperPart("Table 2", "two coins", "table-1")
    register_paper(Paper("coins", "Coins", (*parts, drawing("Figure 1", "a coin"))))
    held = [claim("one wins: here", True), claim("one wins: there", True), claim("nought wins", None)]
    write(tmp_path / "store", stored(claims=held))
    lines = reproduction_page(tmp_path / "store").splitlines()
    row = "| Table 1 (1) | one wins | no figure | here: as seen<br>there: as seen | reproduced |"
    assert row in lines
    assert "- more runs (`--trials 6`): Table 1 (2)" in lines
    assert "Nothing to measure: Figure 1." in lines
    assert "| `leakage study run coins/table-1 --scale small --seed 0` | Table 1, Table 2 | 2 |" in lines


def test_no_store(tmp_path: Path, refused: Refused) -> None:
    said = refused("study", "report", "--results", tmp_path / "store", "-o", tmp_path / "page.md")
    assert f"{tmp_path / 'store'}: no such folder: set --results" in said
    assert not (tmp_path / "page.md").exists()


def test_smoke_is_refused(study: Study, tmp_path: Path) -> None:
    list(run_studies([study], StudyPlan("smoke"), tmp_path / "runs", progress=False))
    with pytest.raises(StoreError, match="--scale smoke only checks that a study runs"):
        store_runs(tmp_path / "runs", tmp_path / "store")
    write(tmp_path / "store", stored(scale="smoke"))
    with pytest.raises(StoreError, match=r"table-1.json: --scale smoke only checks that a study runs"):
        read_store(tmp_path / "store")


def test_text_that_people_wrote_is_refused(study: Study, tmp_path: Path) -> None:
    list(run_studies([study], StudyPlan("paper", reveal=True), tmp_path / "runs", progress=False))
    with pytest.raises(StoreError, match="contains text that people wrote: run the study again without --reveal"):
        store_runs(tmp_path / "runs", tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_runs_without_a_finished_study(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no finished study in this folder: run one"):
        store_runs(tmp_path, tmp_path / "store")


def test_a_run_of_before_is_run_again(runs: Path, tmp_path: Path) -> None:
    how = runs / "coins/paper/table-1/how.json"
    how.write_text(json.dumps({name: value for name, value in json.loads(how.read_text()).items() if name != "code"}))
    with pytest.raises(StoreError, match="lack fields that the store needs: run the study again"):
        store_runs(runs, tmp_path / "store")


def test_what_a_killed_run_left_half_made_is_no_result(tmp_path: Path) -> None:
    """Whether it is a file of the store or a study's folder."""
    write(tmp_path / "store", stored())
    left = f"{PREFIX}x{SUFFIX}"
    write(tmp_path / "store" / left, stored())
    assert read_store(tmp_path / "store") == [stored()]
    place = tmp_path / "runs" / "coins" / "small" / left
    place.mkdir(parents=True)
    (place / "report.json").write_text("{")
    with pytest.raises(StoreError, match="no finished study in this folder"):
        store_runs(tmp_path / "runs", tmp_path / "store")


@pytest.mark.parametrize("text", ["[1]", "{}", '{"schema": 1}'])
def test_what_is_no_stored_result(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(StoreError, match=r"a\.json: not a stored result of a study"):
        read_store(tmp_path)


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    cells = {"a": 1, "b": "x", "c": None, "d": {"published": 0.5}}
    measured = {"value": 0.5, "low": None, "high": 1.0, "count": 3, "sd": None}
    result = stored(rows=[{**cells, "e": measured}], claims=[claim("A", None, 0.5)])
    write(tmp_path / "store", result)
    assert read_store(tmp_path / "store") == [result]


@pytest.mark.parametrize(
    "wrong",
    [
        {"rows": [{"a": {"value": "x", "low": None, "high": None, "count": 1}}], "columns": ["a"]},
        {"rows": [{"a": 1}]},
        {"claims": [{"words": 1, "holds": None, "evidence": ""}]},
        {"claims": [claim("A", True) | {"p": "0.1"}]},
        {"seeds": "3"},
        {"versions": ["0.1"]},
        {"code": []},
        {"devices": [1]},
        {"seconds": None},
        {"study": 1},
        {"study": "../coins"},
        {"scale": "../small"},
        {"schema": 2},
    ],
)
def test_a_field_of_another_kind(tmp_path: Path, wrong: dict[str, Any]) -> None:
    (tmp_path / "a.json").write_text(json.dumps(stored().to_json() | wrong))
    with pytest.raises(StoreError, match="not a stored result"):
        read_store(tmp_path)


@pytest.mark.slow
def test_the_page_of_the_repository_is_that_of_its_store() -> None:
    assert (ROOT / "docs/reproduction.md").read_text(encoding="utf-8") == reproduction_page(ROOT / "docs/results")


def test_the_store_of_the_repository_tells_of_no_machine() -> None:
    texts = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs/results").rglob("*.json"))]
    assert texts
    assert not any(place in text for text in texts for place in ("/tmp", "/home", "/work", "/root"))
