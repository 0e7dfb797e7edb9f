"""Every study of the package runs at its smallest scale."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from leakage_tasks.research.framework.papers import KNOWN_PAPERS
from leakage_tasks.research.framework.registry import Study, StudyPlan, all_studies
from leakage_tasks.research.framework.report import plain_text
from leakage_tasks.research.framework.runner import run_studies

QUICK = ("elmahdy/table-4", "ethicist/table-2", "mix-and-match/table-2", "nlu/table-2", "secret-sharer/figure-4")
"""One of each paper; the others are slow together."""
STUDIES = [
    pytest.param(each, id=each.name, marks=() if each.name in QUICK else pytest.mark.slow) for each in all_studies()
]


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """One folder for all workers, so that studies of one paper share what they can."""
    temporary = tmp_path_factory.getbasetemp()
    return (temporary if worker_id == "master" else temporary.parent) / "studies"


@pytest.mark.slow
@pytest.mark.parametrize("study", STUDIES)
def test_a_study_runs_and_reports(study: Study, output: Path) -> None:
    (done,) = run_studies([study], StudyPlan("smoke"), output, progress=False)
    assert done.report.rows
    assert done.report.claims
    assert done.report.differences
    assert (done.folder / "figure.png").exists() == (study.plot is not None)
    saved = json.loads((done.folder / "report.json").read_text())
    assert saved["columns"] == list(done.report.columns)
    assert (done.folder / "table.txt").read_text() == plain_text(replace(done.report, claims=()))
    words = [claim.words for claim in done.report.claims]
    claims = [
        claim
        for part in KNOWN_PAPERS[study.group].parts
        if f"{study.group}/{part.study}" == study.name
        for claim in part.claims
    ]
    assert [claim.words for claim in claims if not any(map(claim.is_tested_by, words))] == []
