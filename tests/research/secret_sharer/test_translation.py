"""Table 6 of The Secret Sharer: what its corpus may be, what is planted, and what the report makes of trials."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leakage_tasks.core.errors import LeakageError
from leakage_tasks.research.framework.registry import StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Published
from leakage_tasks.research.secret_sharer.translation import (
    COPIES,
    EXPERIMENTS,
    PAPER,
    TABLE_6,
    canaries_of,
    corpus_of,
    fingerprint,
    planted_pairs,
    report,
    trials,
)

REAL = replace(PAPER, held_out=2, recipe={"positions": 12})


def trial(bits: dict[int, float], extracted: bool) -> StudyTrial:
    """A trial with these exposures of fixed sources by times inserted; filled ones are a bit lower."""
    common = {"method": "exact", "rejected": None}
    fixed = [{"source": "fixed", "inserted": n, "bits": b, "extracted": extracted, **common} for n, b in bits.items()]
    filled = [{**entry, "source": "filled", "bits": entry["bits"] - 1, "rejected": False} for entry in fixed]
    return StudyTrial({}, {"secrets": fixed + filled, "exact": 0.9, "loss": 0.1, "parameters": 780_000}, 1.0)


def test_every_scale_has_as_many_trials_as_seeds() -> None:
    assert [config["seed"] for config in trials(StudyPlan("small", seed=3))] == [3, 4, 5, 6]
    assert len(trials(StudyPlan("paper", trials=2))) == 2


def test_secrets_of_both_kinds_are_planted_as_often_as_the_table_says() -> None:
    ground = EXPERIMENTS["smoke"]
    canaries = canaries_of(ground, seed=0)
    pairs = planted_pairs(corpus_of(ground, 0).training, canaries, seed=0)
    assert len(pairs) == ground.pairs + 2 * sum(COPIES)
    for canary in canaries:
        assert pairs.count((canary.source_text or "", canary.text)) == canary.repetitions
    number = "".join(canaries[0].secret)
    assert number not in (canaries[0].source_text or "").replace("-", "")
    filled = next(canary for canary in canaries if canary.id == "filled-canary-0")
    assert "".join(filled.secret) in (filled.source_text or "").replace("-", "")


def test_a_real_corpus_is_read_from_the_users_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKAGE_DATA", str(tmp_path))
    assert fingerprint(REAL) == ""
    rows = [{"source": f"uno {n}", "target": f"one {n}"} for n in range(6)]
    rows += [rows[0], {"source": "x" * 12, "target": "too long"}]
    (tmp_path / "parallel.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    corpus = corpus_of(REAL, 0)
    assert (len(corpus.training), len(corpus.validation)) == (4, 2)
    assert sorted(corpus.training + corpus.validation) == [(f"uno {n}", f"one {n}") for n in range(6)]
    assert len(fingerprint(REAL)) == 64


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file: save one JSON object with 'source' and 'target' per line there"),
        ('{"source": "a"}', "parallel.jsonl:1: expected a JSON object with 'source' and 'target'"),
        ('{"source": "a", "target": "b"}', "1 pairs of up to 11 characters: more than 2 needed"),
    ],
)
def test_a_corpus_that_does_not_do_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None, message: str
) -> None:
    monkeypatch.setenv("LEAKAGE_DATA", str(tmp_path))
    if content is not None:
        (tmp_path / "parallel.jsonl").write_text(content)
    with pytest.raises(LeakageError, match=message):
        corpus_of(REAL, 0)


def test_the_report_sets_the_published_figures_beside_the_measured_ones() -> None:
    done = [trial({1: 5 + n, 2: 15 + n, 4: 29, 0: n / 2}, extracted=True) for n in range(4)]
    made = report(done, StudyPlan("small"))
    assert [row.get("exposure, published") for row in made.rows] == [*(Published(b) for b, _ in TABLE_6.values()), None]
    assert [round(cell_value(row["exposure, fixed source"]), 2) for row in made.rows] == [6.5, 16.5, 29, 0.75]
    assert cell_value(made.rows[1]["exposure, filled source"]) == pytest.approx(15.5)
    assert cell_value(made.rows[2]["extracted, fixed source"]) == 1
    assert [claim.holds for claim in made.claims] == [True] * 4


def test_claims_fail_where_the_trials_say_otherwise() -> None:
    done = [trial({1: 20 - n, 2: 12 + n, 4: 2, 0: 25}, extracted=False) for n in range(4)]
    assert [claim.holds for claim in report(done, StudyPlan("small")).claims] == [False] * 4


def cell_value(cell: Any) -> float:
    return float(cell.value)
