"""Verdicts on made-up results, rule by rule."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from leakage_tasks.research.canary_inversion.experiment import SNIPS
from leakage_tasks.research.canary_inversion.future import SWEEPS
from leakage_tasks.research.canary_inversion.future_trials import sets
from leakage_tasks.research.framework.code_hash import code_of
from leakage_tasks.research.framework.papers import (
    KNOWN_PAPERS,
    BeyondItem,
    Paper,
    PaperClaim,
    PaperPart,
    TableCell,
    drawing,
)
from leakage_tasks.research.framework.registry import all_studies
from leakage_tasks.research.framework.report import Measured
from leakage_tasks.research.framework.reproduction import PageRow, beyond_rows, outcome
from leakage_tasks.research.framework.stored_results import StoredResult, read_store
from tests.research.stored import claim, stored
from tests.research.toy import Toy, make_study

CLAIMS = tuple(PaperClaim(letter, f"figure {letter}") for letter in "ABC")
PAPER = Paper(
    "coins", "Coins", (PaperPart("Table 1", "two coins", "table-1", TableCell({"coin": 1}, "ours", 0.9), CLAIMS),)
)
ROWS = [{"coin": 1, "ours": {"value": 1.0, "low": 0.292, "high": 1.0, "count": 3, "sd": None}}]
STUDY = make_study(Toy())


def rows_of(*results: StoredResult, paper: Paper = PAPER) -> dict[str, PageRow]:
    rows = outcome(paper, results, {STUDY.name: STUDY}).rows
    return {row["part"]: row for row in rows}


def verdicts(*p_values: float | None, holds: bool | None = True) -> list[str]:
    """The verdicts of claims A, B and C with these p-values."""
    claims = [claim(f"{letter}: holds", holds, p) for letter, p in zip("ABC", p_values, strict=True)]
    rows = rows_of(stored(claims=claims))
    return [rows[f"Table 1 ({number})"]["verdict"].partition(":")[0] for number in (1, 2, 3)]


def test_a_claim_has_to_bear_the_correction() -> None:
    """By hand: 0.01 × 3, then 0.03 × 2 = 0.06, then no less."""
    assert verdicts(0.01, 0.03, 0.04) == ["reproduced", "inconclusive", "inconclusive"]
    assert verdicts(0.01, 0.02, 0.04) == ["reproduced"] * 3


def test_what_is_no_test_counts_for_no_correction() -> None:
    assert verdicts(0.03, None, None) == ["reproduced"] * 3


def test_refuted_is_held_to_the_same() -> None:
    assert verdicts(0.01, 0.03, 0.04, holds=False) == ["refuted", "inconclusive", "inconclusive"]


def test_an_inconclusive_claim_says_how_many_runs_it_requires() -> None:
    claims = [claim("A: holds", True, 0.04), claim("B: holds", True, 0.04), claim("C: holds", None)]
    paper_outcome = outcome(PAPER, [stored(claims=claims)], {STUDY.name: STUDY})
    shown = [row["verdict"] for row in paper_outcome.rows if "(" in row["part"]]
    assert shown == ["inconclusive: significant only before correction"] * 2 + ["inconclusive"]
    assert paper_outcome.required == {"more runs (`--trials 6`)": ["Table 1 (1)", "Table 1 (2)", "Table 1 (3)"]}


def test_a_sentence_that_no_run_tells_is_no_matter_of_the_correction() -> None:
    """One of claim A's tests is significant before correction; both of claim B's are, for and against it."""
    claims = [
        *(claim("A: here", True, 0.04), claim("A: there", None, 0.5)),
        *(claim("B: here", True, 0.04), claim("B: there", False, 0.04)),
    ]
    judgements = outcome(PAPER, [stored(claims=claims)], {STUDY.name: STUDY}).judgements
    assert [item and (item.holds, item.only_uncorrected) for item in judgements] == [
        (None, False),
        (None, True),
        (None, False),
    ]


def test_the_paper_s_scale_comes_before_smaller_ones_and_what_is_told_before_what_is_not() -> None:
    def verdict(paper: bool | None, small: bool | None, p: float | None = None) -> tuple[bool | None, bool]:
        both = [
            stored(claims=[claim("A: holds", small, p), claim("B: holds", True, p)]),
            stored(scale="paper", claims=[claim("A: holds", paper)]),
        ]
        first = outcome(PAPER, both, {STUDY.name: STUDY}).judgements[0]
        assert first is not None
        return first.holds, first.only_uncorrected

    assert verdict(paper=True, small=False) == (True, False)
    assert verdict(paper=None, small=False) == (False, False)
    assert verdict(paper=None, small=True, p=0.04) == (None, True)


def test_what_more_runs_would_not_tell_says_what_would() -> None:
    undecided = claim("A: holds", None) | {"takes": "a larger model"}
    result = stored(claims=[undecided, claim("B: holds", True), claim("C: holds", True)])
    assert outcome(PAPER, [result], {STUDY.name: STUDY}).required == {"a larger model": ["Table 1 (1)"]}


def paper_with(**changed: str) -> Paper:
    """Return the paper with a changed claim A and no other claims."""
    (part,) = PAPER.parts
    return replace(PAPER, parts=(replace(part, claims=(replace(CLAIMS[0], **changed),)),))


def test_a_claim_may_require_something_else_than_more_runs() -> None:
    paper = paper_with(takes="more coins")
    required = outcome(paper, [stored(claims=[claim("A: holds", None)])], {STUDY.name: STUDY}).required
    assert required == {"more coins": ["Table 1 (1)"]}


@pytest.mark.parametrize("holds", [True, False])
@pytest.mark.parametrize(("scale", "said"), [("small", ": here coins are small"), ("paper", "")])
def test_what_a_verdict_rests_on_is_said_at_the_smaller_scale(holds: bool, scale: str, said: str) -> None:
    result = stored(claims=[claim("A: holds", holds)], scale=scale)
    where = "Table 1 (1)" if scale == "small" else "Table 1 (1) at `paper`"
    row = rows_of(result, paper=paper_with(caveat="here coins are small"))[where]
    assert row["verdict"] == f"{'reproduced' if holds else 'refuted'}{said}"


def test_the_stored_results_test_every_claim_of_a_paper() -> None:
    tests: dict[str, set[str]] = {}
    for result in read_store(Path("docs/results")):
        tests.setdefault(result.study, set()).update(each.words for each in result.report.claims)
    claims = [
        (said, tests[f"{name}/{part.study}"])
        for name in KNOWN_PAPERS
        for part in KNOWN_PAPERS[name].parts
        if part.study
        for said in part.claims
    ]
    assert [said.words for said, words in claims if not any(map(said.is_tested_by, words))] == []


def test_no_test_counts_for_two_claims_of_a_part() -> None:
    """Words that continue another claim's words would be a test of both."""
    parts = [part for name in KNOWN_PAPERS for part in KNOWN_PAPERS[name].parts]
    pairs = [pair for part in parts for pair in permutations(part.claims, 2)]
    assert [other.words for said, other in pairs if said.is_tested_by(other.words)] == []


@pytest.mark.parametrize(
    ("words", "is_test"),
    [("tokens leak", True), ("tokens leak: at n = 4", True), ("tokens leak more", False), ("no tokens leak", False)],
)
def test_a_test_has_the_words_of_its_claim(words: str, is_test: bool) -> None:
    assert PaperClaim("tokens leak").is_tested_by(words) is is_test


def test_a_part_with_a_published_value_has_a_row_of_its_own() -> None:
    claims = [claim("A: holds", True), claim("B: holds", False), claim("C: holds", None)]
    table = rows_of(stored(claims=claims, rows=ROWS))["Table 1"]
    assert (table["published"], table["measured"], table["verdict"]) == ("0.9", "1 [0.292, 1] n=3", "–")


def test_all_sentences_of_a_claim_have_to_hold() -> None:
    claims = [claim("A: here", True), claim("A: there", False, 0.01), claim("B: here", True), claim("C: here", True)]
    row = rows_of(stored(claims=claims))["Table 1 (1)"]
    assert row["verdict"] == "refuted"
    assert row["measured"] == "here: as seen\nthere: as seen; p = 0.01"


def test_a_claim_the_result_does_not_test() -> None:
    row = rows_of(stored(claims=[claim("A: holds", True)]))["Table 1 (2)"]
    assert row["verdict"].startswith("inconclusive: the result lacks its test; run it again: `leakage study run ")


def test_another_version() -> None:
    old = stored(claims=[claim("A: holds", True)], versions={"lm-eval-leakage": "0.0.1"})
    rows = rows_of(old)
    assert rows["Table 1 (1)"]["verdict"] == (
        "inconclusive: made by version 0.0.1; run it again: `leakage study run coins/table-1 --scale small --seed 0`"
    )


def test_edited_code() -> None:
    """Code without a hash counts as current, in all other tests."""
    edited, same = (stored(claims=[claim("A: holds", True)], code=[code]) for code in ("0123", code_of(STUDY.run)))
    assert rows_of(edited)["Table 1 (1)"]["verdict"].startswith("inconclusive: made by edited code; run it again: `")
    assert rows_of(same)["Table 1 (1)"]["verdict"] == "reproduced"


def test_many_tests_of_a_claim_show_the_weakest() -> None:
    claims = [claim(f"A: {number}", True, 0.001 / number, f"seen {number}") for number in range(1, 6)]
    row = rows_of(stored(claims=[*claims, claim("B: holds", True), claim("C: holds", True)]))["Table 1 (1)"]
    assert row["measured"] == "5 of 5 tests hold; the weakest: 1: seen 1; p = 0.001"


def test_long_evidence_is_shortened_and_its_p_corrected() -> None:
    evidence = "; ".join([*(f"part {number}" for number in range(8)), "p = 1e-9, n = 3"])
    row = rows_of(stored(claims=[claim("A: holds", True, 1e-9, evidence)]))["Table 1 (1)"]
    assert row["measured"] == "part 0; …; p ≤ 0.0001, n = 3"


def test_too_few_seeds() -> None:
    row = rows_of(stored(claims=[claim("A: holds", True, 1e-9)], seeds=2))["Table 1 (1)"]
    command = "`leakage study run coins/table-1 --scale small --seed 0 --trials 3`"
    assert row["verdict"] == f"inconclusive: 2 of at least 3 seeds: {command}"


def test_results_that_bear_no_verdict_count_for_no_correction() -> None:
    others = [
        stored(scale="paper", claims=[claim("A: holds", True, 0.04)], seeds=2),
        stored(claims=[claim("A: holds", True, 0.04)]),
    ]
    first = outcome(PAPER, others, {STUDY.name: STUDY}).judgements[0]
    assert first is not None
    assert first.holds is True


def test_a_part_without_a_result_says_how_to_run_it() -> None:
    paper = replace(PAPER, parts=(replace(PAPER.parts[0], without="needs a mint"), drawing("Figure 1", "a coin")))
    paper_outcome = outcome(paper, [], {STUDY.name: STUDY})
    assert {row["verdict"] for row in paper_outcome.rows} == {"inconclusive: not run"}
    command = "`leakage study run coins/table-1 --scale paper --trials 3`"
    assert paper_outcome.absent == {
        f"not run; {command} (`paper`: a mint; needs a mint)": ["Table 1"],
        "nothing to measure": ["Figure 1"],
    }
    assert paper_outcome.judgements == [None] * 3


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(0.1, 0.3, "gain"), (-0.1, 0.3, "no gain shown"), (-0.3, -0.1, "loss"), (None, None, "inconclusive: no interval")],
)
def test_gains_go_by_their_interval(low: float | None, high: float | None, verdict: str) -> None:
    item = BeyondItem("more coins", "table-1", "coins", lambda result: Measured(0.2, low, high, 3))
    (row,) = beyond_rows(replace(PAPER, beyond=(item,)), [stored()], {STUDY.name: STUDY})
    assert row["verdict"] == verdict
    assert row["gain"].startswith("0.2")


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(-0.04, 0.04, "equal within 0.05"), (-0.06, 0.04, "not equal"), (0.01, 0.06, "not equal")],
)
def test_equality_requires_an_interval_within_the_margin(low: float, high: float, verdict: str) -> None:
    item = BeyondItem("other coins", "table-1", "coins", lambda result: Measured(0.01, low, high, 3), alike=0.05)
    (row,) = beyond_rows(replace(PAPER, beyond=(item,)), [stored()], {STUDY.name: STUDY})
    assert row["verdict"] == verdict


@pytest.mark.parametrize(
    ("claims", "verdict"),
    [
        ([claim("A: holds", True)], "gain"),
        ([claim("A: holds", None)], "no gain shown: its test is not significant"),
        ([], "inconclusive: the result lacks its test; run it again: `leakage study run coins/table-1 *`"),
    ],
)
def test_a_gain_that_has_a_test_goes_by_it_too(claims: list[dict[str, Any]], verdict: str) -> None:
    item = BeyondItem("more", "table-1", "coins", lambda result: Measured(0.2, 0.1, 0.3, 3), tested="A: holds")
    (row,) = beyond_rows(replace(PAPER, beyond=(item,)), [stored(claims=claims)], {STUDY.name: STUDY})
    assert fnmatchcase(row["verdict"], verdict)


def test_every_study_belongs_to_a_part_or_an_addition() -> None:
    items = [(paper.name, item.study) for paper in KNOWN_PAPERS.values() for item in (*paper.parts, *paper.beyond)]
    listed = {f"{paper}/{study}" for paper, study in items if study}
    elsewhere = {f"nlu/{sweep.name}-{data}" for sweep in SWEEPS for data in sets() if data != SNIPS}
    assert listed | elsewhere == {study.name for study in all_studies()}
