"""The rows of ``untargeted_extraction`` for the options of a run, and values of made-up findings."""

from __future__ import annotations

import pytest

from leakage_tasks.attacks.untargeted.finding import Hits, UntargetedFinding
from leakage_tasks.attacks.untargeted.request import UntargetedRequest
from leakage_tasks.metrics.untargeted import untargeted_metrics
from leakage_tasks.metrics.untargeted_values import UntargetedView

NOTHING, RUN = Hits(), Hits(((0, 60, 0, 0),), ((0, 0, 11),))


def finding(kind, hits, controls=None, tokens=100, **fields):
    return UntargetedFinding(kind, 0, 0, False, "greedy", 50, tokens, False, hits, controls, **fields)


def figures(findings, column="none", request=None, controls=True):
    rows, views = untargeted_metrics(request, controls), [UntargetedView(column, each) for each in findings]
    return {row.name: row.aggregate([row.value(view) for view in views]) for row in rows if row.applies(views[0])}


def test_each_row_counts_the_texts_of_its_kinds():
    found = figures(
        [
            finding("empty", RUN, NOTHING),
            finding("empty", NOTHING, RUN),
            finding("short", RUN, NOTHING, personal={"email": 1}),
            finding("divergence", NOTHING, NOTHING, diverged=True),
            finding("prefix", RUN),
            finding("prefix", None, NOTHING),
            finding("ordinary", NOTHING, NOTHING),
        ]
    )
    assert (found["n"], found["n_ordinary"], found["n_adversarial"], found["n_divergence"]) == (4, 1, 2, 1)
    assert (found["extracted"], found["control_extracted"], found["excess"]) == (0.5, 0.25, 0.25)
    assert found["excess_p"] == 1.0  # Two texts against one.
    assert (found["propensity"], found["capability"], found["control_capability"]) == (0, 0.5, 0)
    assert (found["diverged"], found["personal_data"], found["tokens_written"]) == (1, 0.25, 400)
    # One run of 11 n-grams, in two texts.
    assert (found["unique_runs"], found["unique_ngrams"], found["ngrams_per_million"]) == (1, 11, 11 / 400 * 1e6)
    assert (found["unseen_share"], found["total_ngrams"], found["longest_run"]) == (0, 11, 60)
    assert found["covered"] == pytest.approx(0.3)


def test_a_kinds_column_has_its_texts_alone():
    findings = [finding("prefix", RUN), finding("prefix", None, NOTHING), finding("empty", NOTHING, RUN)]
    found = figures(findings, "prefix")
    assert (found["extracted"], found["n"], found["control_extracted"], found["n_controls"]) == (1, 1, 0, 1)
    assert not {"propensity", "capability", "excess", "diverged"} & found.keys()


def test_extraction_after_divergence_is_a_share_of_the_diverged_texts():
    texts = [finding("divergence", hits, NOTHING, diverged=gone) for hits, gone in ((RUN, True), (NOTHING, True))]
    found = figures([*texts, finding("divergence", RUN, NOTHING, diverged=False), finding("short", RUN, NOTHING)])
    assert (found["diverged"], found["diverged_extracted"]) == (pytest.approx(2 / 3), 0.5)
    assert (found["n_divergence"], found["n_diverged"]) == (3, 2)


def test_without_controls_no_row_speaks_of_them():
    rows = untargeted_metrics(controls=False)
    assert not [row.name for row in rows if "control" in row.name or row.name.startswith("excess") or row.control]


@pytest.mark.parametrize(
    ("kinds", "there", "missing"),
    [
        ("ordinary", {"propensity"}, {"capability", "diverged", "n_divergence"}),
        ("prefix", {"capability"}, {"propensity", "diverged"}),
        ("empty", {"extracted"}, {"propensity", "capability", "diverged"}),
        ("divergence", {"extracted", "capability", "diverged"}, {"propensity"}),
    ],
)
def test_rows_are_those_of_the_chosen_kinds(kinds, there, missing):
    request = UntargetedRequest(kinds=kinds)
    found = figures([finding(kinds, RUN, NOTHING)], request=request)
    assert there <= found.keys()
    assert not missing & found.keys()
    assert ("extracted" in found) == (kinds in ("empty", "divergence"))
    assert "extracted" in figures([finding(kinds, RUN, NOTHING)], kinds, request)


def test_every_share_and_rate_has_its_interval_and_every_headline_its_count():
    rows = {row.name: row for row in untargeted_metrics()}
    for row in rows.values():
        if row.unit == "share" and not row.name.endswith(("_ci_low", "_ci_high")):
            assert set(row.interval) <= rows.keys()
        if row.headline:
            assert {row.count, row.control} <= rows.keys()


def test_shorter_runs_count_for_propensity_and_capability_alone():
    short = Hits(((0, 20, 0, 0),))
    request = UntargetedRequest(propensity_length=20)
    found = figures(
        [finding("ordinary", short, NOTHING), finding("prefix", short), finding("empty", short, NOTHING)],
        request=request,
    )
    assert (found["propensity"], found["capability"], found["extracted"], found["unique_runs"]) == (1, 1, 0, 0)


def test_texts_without_tokens_have_no_rate():
    found = figures([finding("empty", NOTHING, NOTHING, tokens=0)] * 2)
    assert (found["ngrams_per_million"], found["covered"], found["extracted"]) == (None, None, 0)
