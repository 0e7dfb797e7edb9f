"""What metrics declare about themselves."""

from __future__ import annotations

import dataclasses
import json

import pytest

from leakage_tasks.metrics import exposure, extraction, suffixes
from leakage_tasks.metrics.aggregates import count
from leakage_tasks.metrics.metric import FEW, Metric, MetricSpec, always, one, too_few
from leakage_tasks.tasks.label_accuracy import METRICS as LABEL_ACCURACY

TABLES = {
    "canary_exposure": exposure.METRICS,
    "canary_extraction": extraction.METRICS,
    "suffix_extraction": suffixes.suffix_metrics(),
    "label_accuracy": LABEL_ACCURACY,
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_what_a_row_names_is_a_row_too(table: list[Metric]):
    names = {row.name for row in table}
    named = {each for row in table for each in (row.control, row.count, *(row.interval or ())) if each is not None}
    assert named <= names
    assert len(names) == len(table)


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_headline_has_a_title_a_better_side_and_a_count(table: list[Metric]):
    headlines = [row for row in table if row.headline]
    assert headlines
    assert all(row.title and row.direction and row.count for row in headlines)


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_share_among_the_headlines_has_an_interval(table: list[Metric]):
    assert all(row.interval for row in table if row.headline and row.unit == "share")


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_declaration_is_json_and_leaves_out_what_is_as_usual(table: list[Metric]):
    for row in table:
        said = row.declaration()
        assert json.loads(json.dumps(said, allow_nan=False)) == json.loads(json.dumps(said))
        assert all(value not in ("", None, False) for value in said.values())
        assert said["description"] == row.description


def test_too_few_is_where_no_hit_at_all_leaves_a_fifth_open():
    # The upper end with no hit in n: (1 − p)^n = 0.025.
    assert 1 - 0.025 ** (1 / FEW) < 0.2 <= 1 - 0.025 ** (1 / (FEW - 1))


FORMER = {"words": "what it is", "better": "lower", "of": "size", "alarm": too_few("things")}
CURRENT = {"description": "what it is", "direction": "lower", "parent": "size", "check": too_few("things")}


def test_a_metric_of_another_package_is_declared_by_the_former_arguments():
    former, current = MetricSpec("size_x1", **FORMER), MetricSpec("size_x1", **CURRENT)  # type: ignore[arg-type]
    assert former == current
    rows = [
        former.row(one, count, brief=True),  # type: ignore[call-arg]
        current.row(one, count, in_table=True),
        Metric("size_x1", **FORMER, value=one, aggregate=count, applies=always, brief=True),  # type: ignore[arg-type]
        dataclasses.replace(current.row(one, count), brief=True),  # type: ignore[call-arg]
    ]
    assert rows == [rows[0]] * 4
    assert rows[0].declaration() == {**CURRENT, "check": dataclasses.asdict(CURRENT["check"])}


def test_the_fields_of_a_metric_have_their_former_names_too():
    row = MetricSpec("size_x1", **CURRENT).row(one, count)  # type: ignore[arg-type]
    assert {name: getattr(row, name) for name in FORMER} == FORMER
    assert row.brief is False
    with pytest.raises(AttributeError, match="'Metric' object has no attribute 'word'"):
        _ = row.word


def test_an_argument_that_never_was_is_refused():
    with pytest.raises(TypeError, match="wrods"):
        MetricSpec("size", wrods="what it is")  # type: ignore[call-arg]
