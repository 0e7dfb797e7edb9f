"""Samples with fewer documents than their run's results: an error wherever samples are read, and only there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from leakage_tasks.api.reports import read_findings
from leakage_tasks.core.errors import ResultsError
from leakage_tasks.report.load.documents import read_documents
from leakage_tasks.stats.passages import Limits
from tests.conftest import Leakage, Refused
from tests.report.logged import choice, log, suffix
from tests.report.pages import usual_canaries, write_run

LOST = r"samples_canary_exposure_.*: \d+ documents, but the results are of \d+: give the file as lm_eval wrote it"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run whose samples of canary_exposure lost their last line."""
    write_run(tmp_path, "models/a", usual_canaries(0.9))
    (samples,) = tmp_path.rglob("samples_canary_exposure_*")
    samples.write_text("".join(samples.read_text().splitlines(keepends=True)[:-1]))
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        ("card", "--dry-run"),
        ("leaderboard", "-o", "board.html"),
        ("plot", "repetitions", "-o", "figure.svg"),
        ("report", "-o", "evidence.html"),
    ],
    ids=lambda words: words[0],
)
def test_commands_that_read_samples_refuse_them(
    command: tuple[str, ...], run: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run)
    assert re.search(LOST, refused(*command, run))
    assert not [*run.glob("*.html"), *run.glob("*.svg")]


def test_commands_that_read_only_results_do_not(run: Path, leakage: Leakage) -> None:
    for command in ("leaderboard", "check"):
        limit = ("--max-extracted", 1) if command == "check" else ()
        assert leakage(command, run, *limit)[0] == 0


def test_findings_in_python_refuse_them(run: Path) -> None:
    with pytest.raises(ResultsError, match=LOST):
        read_findings(run)


def test_documents_refuse_them(tmp_path: Path) -> None:
    log(tmp_path, {"suffix_extraction": [suffix(pair, {"s": choice(True, 1.0)}) for pair in range(2)]})
    (samples,) = tmp_path.glob("samples_*")
    samples.write_text(samples.read_text().splitlines(keepends=True)[0])
    with pytest.raises(ResultsError, match="1 document, but the results are of 2"):
        read_documents(tmp_path, Limits())


def test_lines_of_other_columns_do_not_stand_for_a_lost_document(tmp_path: Path) -> None:
    log(tmp_path, {"suffix_extraction": [suffix(pair, {"s": choice(True, 1.0)}) for pair in range(2)]})
    (samples,) = tmp_path.glob("samples_*")
    lines = [json.loads(line) for line in samples.read_text().splitlines()]
    others = [line | {"filter": "zlib"} for line in lines]
    samples.write_text("".join(json.dumps(line) + "\n" for line in (lines[0], *others)))
    with pytest.raises(ResultsError, match="1 document, but the results are of 2"):
        read_documents(tmp_path, Limits())
