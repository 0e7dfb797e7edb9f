"""A membership AUC that the texts alone explain: refused by the check, unranked on the board, marked on the card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leakage_tasks.metrics.membership import membership_metrics
from leakage_tasks.report.board.board import make_board
from leakage_tasks.report.load.results import read_runs
from tests.conftest import Leakage, Ran
from tests.report.made import results, write

REAL = {
    **{"membership_auc": 0.8, "membership_auc_ci_low": 0.72, "membership_auc_ci_high": 0.87, "n_reported": 200},
    **{"blind_auc": 0.53, "blind_auc_ci_low": 0.44, "blind_auc_ci_high": 0.62, "blind_auc_words": 0.53, "blind_p": 0.6},
    **{"membership_above_blind": 0.27, "membership_above_blind_p": 0.001, "conclusive": 1},
    **{"dataset_p": 0.002, "dataset_p_blind": 0.7, "dataset_p_null": 0.9, "n_members": 200, "n_nonmembers": 200},
}
SHIFTED = {**REAL, "blind_auc": 0.9, "blind_auc_words": 0.9, "blind_p": 0.001, "membership_above_blind": -0.1} | {
    "membership_above_blind_p": 0.99,
    "conclusive": 0,
    "dataset_p_blind": 0.001,
}
SAID = "inconclusive: the texts differ without the model: AUC 0.80, the best blind baseline, words, has AUC 0.90"


def run_of(folder: Path, values: dict[str, float], model: str = "models/one") -> Path:
    """A results file of the task ``membership``."""
    declared: dict[str, Any] = {
        "schema": 2,
        "measures": "leakage",
        "protocol": {"data": "ab" * 8},
        "tested": {"texts": 400},
        "attacks": [{"attack": "loss", "access": "black box"}],
        "rows": {row.name: row.declaration() for row in membership_metrics()},
    }
    return write(folder, results({"membership": values}, model=model, declared={"membership": declared}))


@pytest.mark.parametrize(("waived", "code"), [((), 1), (("--allow", "texts-differ"), 0)])
def test_a_check_refuses_it_unless_that_is_waived(
    tmp_path: Path, leakage: Leakage, waived: tuple[str, ...], code: int
) -> None:
    found, out, _ = leakage("check", run_of(tmp_path, SHIFTED), "--limit", "membership_auc=0.99", *waived)
    assert found == code
    assert f"membership: {SAID}" in out
    assert ("(conclusive = 0); --allow texts-differ waives it" in out) is not waived


def test_a_check_passes_a_real_signal_below_its_limit(tmp_path: Path, leakage: Leakage) -> None:
    file = run_of(tmp_path, REAL)
    assert leakage("check", file, "--limit", "membership_auc=0.99")[0] == 0
    assert leakage("check", file, "--limit", "membership_auc=0.85")[0] == 1


def test_a_board_gives_it_no_place(tmp_path: Path) -> None:
    run_of(tmp_path / "shifted", SHIFTED)
    run_of(tmp_path / "real", REAL, model="models/two")
    (group,) = make_board(read_runs([tmp_path])).groups
    assert [(entry.run.source, entry.place) for entry in group.entries] == [("models/two", 1), ("models/one", None)]
    assert [entry.verdicts["membership"].short for entry in group.entries] == [
        "above the best blind baseline",
        "inconclusive",
    ]


def test_board_page_and_card_show_the_verdict_and_the_blind_baseline_as_control(
    tmp_path: Path, leakage: Leakage, ran: Ran
) -> None:
    outputs = [tmp_path / f"board.{kind}" for kind in ("md", "html")]
    file, card = run_of(tmp_path / "run", SHIFTED), tmp_path / "README.md"
    out, _ = ran("leaderboard", file, *(word for path in outputs for word in ("-o", path)))
    assert all(SAID in text for text in (out, *(path.read_text() for path in outputs)))
    assert leakage("card", file, "--card", card)[0] == 0
    text = card.read_text()
    assert "**inconclusive** (the texts differ without the model: AUC 0.80" in text
    assert "The measurement is faulty: do not rely on these values." in text
    assert leakage("card", run_of(tmp_path / "real", REAL), "--card", card)[0] == 0
    assert "Membership AUC: 0.800 (95 % interval 0.720 to 0.870" in card.read_text()
    assert "compared with 0.530 for controls and 0.5 by chance" in card.read_text()


SHARE = {
    **{"suspected_share": 0.3, "suspected_share_ci_low": 0.21, "suspected_share_ci_high": 0.42, "n_suspected": 150},
    **{"suspected_share_of_nonmembers": 0.02, "suspected_share_valid": 1},
}


def test_board_and_card_show_the_share_of_suspected_texts_with_its_control(tmp_path: Path, leakage: Leakage) -> None:
    file, page, card = run_of(tmp_path / "run", REAL | SHARE), tmp_path / "board.md", tmp_path / "README.md"
    assert leakage("leaderboard", file, "-o", page)[0] == 0
    assert "Share of suspected texts used" in page.read_text()
    assert leakage("card", file, "--card", card)[0] == 0
    quoted = card.read_text().partition("- Share of suspected texts used: 30 % (95 % interval 21 % to 42 %")[2]
    assert "compared with 2 % for controls and 0 % by chance" in quoted
    assert "This estimate assumes that suspected texts are recognized as often as known texts." in quoted


@pytest.mark.parametrize(("waived", "code"), [((), 1), (("--allow", "share-controls"), 0)])
def test_a_check_refuses_a_share_whose_controls_fail(
    tmp_path: Path, leakage: Leakage, waived: tuple[str, ...], code: int
) -> None:
    file = run_of(tmp_path, REAL | SHARE | {"suspected_share_valid": 0})
    found, out, _ = leakage("check", file, "--limit", "suspected_share=0.5", *waived)
    assert found == code
    assert "the share of suspected texts is not calibrated" in out
