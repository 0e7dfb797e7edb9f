"""A run saved with the former names of metrics, declarations and attacks is read, scored and compared as before."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from leakage_tasks.core.former_names import ATTACKS, FIELDS, METRICS, MISSED
from leakage_tasks.report.board.board import make_board
from leakage_tasks.report.board.formats import as_json
from leakage_tasks.report.compare.changes import compare
from leakage_tasks.report.load.comparability import group_comparable
from leakage_tasks.report.load.results import read_runs
from leakage_tasks.report.load.results_file import every_row, headline_row, read_run
from leakage_tasks.report.score import score_file
from tests.conftest import Leakage

EXPOSURE, EXTRACTION = "canary_exposure", "canary_extraction"
FORMER = Path(__file__).with_name("former")
"""Results and samples of four canaries and two controls, which an earlier version wrote."""
RESULTS = next(FORMER.glob("results_*.json"))
LEFT = re.compile("|".join(rf"\b{name}" for name in ("missed_below", *METRICS)))


def renamed(text: str) -> str:
    """A results file's text with all current names."""
    data = json.loads(text)
    for task, headline in ((EXPOSURE, "exposure"), (EXTRACTION, "extracted")):
        declared = data["configs"][task]["leakage"]
        declared["rows"] = {
            name: {FIELDS.get(field, field): value for field, value in row.items()}
            for name, row in declared["rows"].items()
        }
        declared["schema"] = 2
        for part in (data["configs"], data["results"], data["higher_is_better"]):
            part[task] = json.loads(json.dumps(part[task]).replace("missed_below", MISSED[headline]))
    text = json.dumps(data)
    for former, current in METRICS.items():
        text = text.replace(former, current)
    for former, current in ATTACKS.items():
        text = text.replace(f'"{former}"', f'"{current}"')
    return text


@pytest.fixture
def current(tmp_path: Path) -> Path:
    """The same run with current names."""
    folder = tmp_path / "current"
    folder.mkdir()
    for file in FORMER.glob("samples_*.jsonl"):
        shutil.copy(file, folder)
    (folder / RESULTS.name).write_text(renamed(RESULTS.read_text(encoding="utf-8")), encoding="utf-8")
    return folder / RESULTS.name


def test_the_file_has_all_former_names():
    text = RESULTS.read_text(encoding="utf-8")
    assert [name for name in ("missed_below", *METRICS) if name not in text] == []
    assert [name for name in ("words", "of", "better", "alarm") if f'"{name}"' not in text] == []
    assert [name for name in ("sampled", "sampling") if f'"{name}"' not in text] == []


def test_its_rows_declarations_and_attacks_are_read_by_their_current_names(current: Path):
    former, now = read_run(RESULTS).tasks, read_run(current).tasks
    for task in (EXPOSURE, EXTRACTION):
        for part in ("values", "errors", "higher_is_better", "declared"):
            assert getattr(former[task], part) == getattr(now[task], part)
        names = {*former[task].headline, *former[task].rows, *former[task].higher_is_better}
        assert not [name for name in names if LEFT.match(name) and name != "hidden_metrics"]
    assert former[EXPOSURE].headline["min_detectable_exposure"] is not None
    assert former[EXTRACTION].headline["min_detectable_rate"] is not None
    assert former[EXPOSURE].headline["share_with_interval_x3"] == 1.0
    assert former[EXPOSURE].declared is not None
    assert former[EXPOSURE].declared.protocol["attack"] == "rank-sample"
    assert [attack for attack, _ in former[EXTRACTION].declared.attacks] == ["sample-tokens"]


def test_it_is_comparable_with_a_run_that_has_the_current_names(current: Path):
    runs = read_runs([RESULTS, current])
    assert len(group_comparable(runs)) == 1
    changes = compare(*runs).changes
    assert changes
    assert all(change.before == change.after for change in changes)


@pytest.mark.parametrize(
    ("task", "newer", "emptied", "differing"),
    [
        # The run wrote a value above the largest possible exposure, and the percentile bootstrap of the mean exposure.
        (
            EXPOSURE,
            ("exposure_max_ci_low,none", "exposure_max_ci_high,none"),
            ("min_detectable_exposure,none",),
            ["exposure_ci_low,none", "exposure_ci_high,none"],
        ),
        (EXTRACTION, ("n_extracted,none", "n_success_at_10,none"), (), []),
    ],
)
def test_its_samples_are_scored_to_its_own_figures(
    task: str, newer: tuple[str, ...], emptied: tuple[str, ...], differing: list[str]
):
    scored = score_file(FORMER / RESULTS.name.replace("results_", f"samples_{task}_").replace(".json", ".jsonl"))
    assert scored.compared is not None
    assert [difference.partition(": ")[0] for difference in scored.compared.differences] == differing
    assert (scored.compared.newer, scored.compared.emptied) == (newer, emptied)
    assert scored.compared.equal > 15


def test_its_board_has_current_names():
    data = json.loads(as_json(make_board(read_runs([RESULTS]))))
    columns = {column["key"]: column for column in data["columns"]}
    assert columns[f"{EXPOSURE}/exposure_x1"]["direction"] == "lower"
    assert columns[f"{EXPOSURE}/exposure_x1"]["description"].startswith("bits of the secret")
    assert {f"{EXPOSURE}/share_with_interval", f"{EXTRACTION}/min_detectable_rate"} <= columns.keys()


@pytest.mark.parametrize("name", ["exposure_known", "share_with_interval", f"{EXPOSURE}/exposure_known"])
def test_a_limit_is_for_a_metric_by_either_name(leakage: Leakage, name: str):
    _, out, _ = leakage("check", RESULTS, "--limit", f"{name}=1")
    assert f"PASS  former: {EXPOSURE}/share_with_interval 1.00" in out


def test_its_card_says_what_was_too_small_to_show(leakage: Leakage, tmp_path: Path):
    card = tmp_path / "README.md"
    assert leakage("card", RESULTS, "--card", card)[0] == 0
    text = card.read_text(encoding="utf-8")
    assert "a mean exposure below" in text
    assert "an extraction rate below" in text
    assert "rank-sample" in text


def test_rows_of_a_results_file_have_current_names():
    data = json.loads(RESULTS.read_text(encoding="utf-8"))
    rows = every_row(data, EXTRACTION)
    assert "min_detectable_rate" in rows
    assert not [name for name in rows if LEFT.match(name)]
    exposed = every_row(data, EXPOSURE)
    assert headline_row(exposed, "exposure_known") == exposed["share_with_interval_x1"]


def test_no_former_attack_is_a_current_one():
    assert not {*ATTACKS} & {*ATTACKS.values()}
