"""Suspected texts of the task ``membership``: the share of them that a small model was trained on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leakage_tasks.core.errors import OptionError
from leakage_tasks.metrics.membership import MEMBERSHIP
from leakage_tasks.metrics.scoring import Answered, score
from leakage_tasks.stats.share_used import share_used
from leakage_tasks.tasks.membership import handler
from tests.oracles import letters
from tests.targets.text_models import hf
from tests.tasks.membership.test_guard import STEPS, dated, learnt
from tests.tasks.membership.test_task import TASK, answers, evaluate, findings, rows

USED, KNOWN = 18, 42
"""Numbers of texts that the model has learnt: suspected ones, and members. 18 of 60 suspected texts are 30 %."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    suspected = [text for pair in zip(dated(0)[KNOWN:], dated(5), strict=False) for text in pair] + [
        *dated(5)[USED:KNOWN]
    ]
    for name, texts in (("members", dated(0)[:KNOWN]), ("nonmembers", dated(2)), ("suspected", suspected)):
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps({'text': text})}\n" for text in texts))
    return tmp_path


def run(folder: Path, asked: bool = True, steps: int = STEPS, **given: Any) -> dict[str, Any]:
    named = {"suspected": str(folder / "suspected.jsonl")} if asked else {}
    return evaluate(hf(letters(), learnt(steps)), folder, attacks="loss:zlib:min-k", rows="all", **named, **given)


@pytest.mark.slow
def test_a_share_of_30_percent_is_estimated_and_changes_no_other_row(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    results = run(folder, steps=250)
    found = rows(results)
    assert found["suspected_share_ci_low"] <= 0.3 <= found["suspected_share_ci_high"] < 0.6
    assert found["suspected_share"] == pytest.approx(0.3, abs=0.1)
    assert found["suspected_share_of_nonmembers_ci_low"] == 0
    assert found["suspected_share_of_members_ci_high"] == 1
    assert (found["suspected_share_valid"], found["n_suspected"]) == (1, USED + KNOWN)
    assert results["configs"][TASK]["leakage"]["tested"]["suspected"] == USED + KNOWN
    without = rows(run(folder, asked=False, steps=250))
    assert not [name for name in without if "suspected" in name]
    assert "Metrics were not scored on the same number of documents" not in caplog.text
    # In another batch, scores differ by rounding.
    known = {name: value for name, value in without.items() if isinstance(value, float)}
    assert len(known) > 50
    assert {name: found[name] for name in known} == pytest.approx(known, rel=1e-5)
    again = score(MEMBERSHIP, [Answered(answer, "none", {}) for answer in answers(results)])["none"]
    assert {name: again[name] for name in found if name in again} == {
        name: value for name, value in found.items() if name in again
    }


def test_the_share_is_that_of_the_findings_and_a_second_run_takes_the_stored_ones(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = run(folder, resume=str(folder / "kept"))
    texts = findings(results)
    table = [[each.scores[name] for each in texts] for name in ("loss", "zlib", "min-k")]
    columns = zip(*((each.member, each.suspected, each.chooses, each.cluster) for each in texts), strict=True)
    expected = share_used(table, *columns)
    assert rows(results)["suspected_share"] == pytest.approx(expected.share.value)
    assert rows(results)["suspected_tpr"] == pytest.approx(expected.tpr.value)
    assert not any(each.blind or each.chooses for each in texts if each.suspected)
    monkeypatch.setattr(handler, "score_texts", None)
    assert findings(run(folder, resume=str(folder / "kept"))) == texts


def test_suspected_texts_are_not_among_the_non_members_and_need_both_classes(folder: Path) -> None:
    (folder / "suspected.jsonl").write_text(json.dumps({"text": dated(2)[3]}) + "\n")
    with pytest.raises(OptionError, match=r"nonmembers.jsonl: text 3 \(from 0\) equals text 0 of suspected="):
        run(folder)
    with pytest.raises(OptionError, match="canaries and suspected both name texts"):
        run(folder, members=None, nonmembers=None, canaries="canaries.jsonl")
