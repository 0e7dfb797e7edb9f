from __future__ import annotations

from pathlib import Path

import pytest

from leakage_tasks.metrics.audit import AuditFigure, audit
from leakage_tasks.report.load.format import audit_words
from leakage_tasks.report.load.results import read_runs
from leakage_tasks.report.load.samples import audit_of, read_samples
from leakage_tasks.report.page.runs import describe_runs
from tests.report.made import leaking, results, write
from tests.report.pages import board, usual_canaries, write_run


def test_figures_are_those_of_the_findings_beside_the_results(tmp_path: Path):
    write_run(tmp_path, "models/a", usual_canaries(0.9))
    (run,) = read_runs([tmp_path])
    logged = run.tasks["canary_exposure"].logged
    assert logged is not None
    found = audit_of(run, 0.0)
    assert found == audit(read_samples(logged).findings(), 0.0)
    assert found[0].value is not None


def test_without_samples_there_are_none(tmp_path: Path):
    (run,) = read_runs([write(tmp_path, results(leaking()))])
    assert audit_of(run, 0.0) == []


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"refused": "takes 5"}, "no value: takes 5"),
        ({"value": 0.75, "low": 0.5, "high": 0.9, "basis": "b"}, "0.750 [0.500, 0.900] (b; 0.500 without a leak)"),
        (
            {"value": 1.5, "best": 1.8, "lower_bound": True, "basis": "b"},
            "1.50 or more (b; a perfect attack could have shown 1.80)",
        ),
    ],
)
def test_a_figure_is_told_with_what_it_rests_on_or_why_there_is_none(fields: dict, words: str):
    assert audit_words(AuditFigure("name", "Title", "what it is", 0.5, **fields)) == words


def test_the_page_tells_them_for_each_run(tmp_path: Path):
    write_run(tmp_path, "models/a", usual_canaries(0.9))
    (told,) = describe_runs(board(tmp_path))
    expected = [each.title for each in audit_of(read_runs([tmp_path])[0], 0.0)]
    assert [title for title, _, _ in told["audit"]] == expected
