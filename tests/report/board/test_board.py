from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leakage_tasks.report.board.board import Board, make_board
from leakage_tasks.report.load.results import read_runs
from tests.report.made import declaration, leaking, results, write


def _board(tmp_path: Path, *contents: dict[str, Any]) -> Board:
    for place, content in enumerate(contents):
        model = f"model-{place}"
        args = {"model": "hf", "model_args": {"pretrained": model}}
        write(tmp_path / model, {**content, "model_name": model, "config": args})
    return make_board(read_runs([tmp_path]))


def _places(board: Board) -> dict[str, int | None]:
    return {entry.run.name: entry.place for group in board.groups for entry in group.entries}


def test_headlines_of_leakage_come_before_usefulness(tmp_path: Path):
    board = _board(tmp_path, results({"arc": {"acc": 0.5, "acc_norm": 0.6}, **leaking()}))
    shown = [column.key for column in board.columns if column.shown]
    assert shown == [
        "canary_exposure/exposure",
        "canary_exposure/exposure_max",
        "canary_extraction/extracted",
        "arc/acc",
    ]


def test_usefulness_that_most_runs_have_comes_first(tmp_path: Path):
    both, one = {"arc": {"acc": 0.5}, "boolq": {"acc": 0.5}}, {"boolq": {"acc": 0.5}}
    board = _board(tmp_path, results(both), results(one))
    assert [column.key for column in board.columns] == ["boolq/acc", "arc/acc"]


def test_ends_of_intervals_are_no_columns(tmp_path: Path):
    board = _board(tmp_path, results(leaking()))
    assert not [column.key for column in board.columns if "_ci_" in column.key]


def test_a_metric_that_nobody_knows_here_shows_by_its_own_declaration(tmp_path: Path):
    rows = {
        "new_rate": {
            "description": "what is new",
            "title": "New",
            "headline": True,
            "direction": "lower",
            "interval": ["low", "high"],
            "count": "n",
            "control": "theirs",
            "unit": "share",
        },
        "n": {"check": {"below": 5, "words": "few", "fault": False}},
    }
    declared = {"measures": "leakage", "protocol": {}, "tested": {}, "attacks": [], "rows": rows}
    values = {"new_rate": 0.5, "low": 0.1, "high": 0.9, "theirs": 0.2, "n": 4.0}
    board = _board(tmp_path, results({"new_task": values}, declared={"new_task": declared}))
    (column,) = [column for column in board.columns if column.shown]
    assert (column.title, column.description, column.leakage) == ("New", "what is new", True)
    (entry,) = board.groups[0].entries
    assert dataclasses.astuple(entry.figures["new_task/new_rate"]) == (0.5, 0.1, 0.9, "", 0.2, 4, None)
    assert [flag.words for flag in entry.flags] == ["few"]
    assert entry.place == 1


def test_equal_titles_name_their_task(tmp_path: Path):
    board = _board(tmp_path, results(leaking()))
    titles = [column.title for column in board.columns]
    assert "control_p (canary_exposure)" in titles
    assert "control_p (canary_extraction)" in titles
    assert len(set(titles)) == len(titles)


def test_the_least_leaking_is_first(tmp_path: Path):
    board = _board(tmp_path, results(leaking(exposure=9.0)), results(leaking(exposure=2.0)))
    assert _places(board) == {"model-1": 1, "model-0": 2}
    assert [entry.run.name for entry in board.groups[0].entries] == ["model-1", "model-0"]


def test_equal_figures_share_a_place(tmp_path: Path):
    board = _board(tmp_path, results(leaking()), results(leaking()), results(leaking(exposure=20.0)))
    assert _places(board) == {"model-0": 1, "model-1": 1, "model-2": 3}


def test_places_go_by_what_all_runs_of_a_group_have(tmp_path: Path):
    safe = {"canary_extraction": {**leaking()["canary_extraction"], "extracted": 0.0}}
    board = _board(tmp_path, results(leaking(exposure=20.0, extracted=1.0)), results(safe))
    assert _places(board) == {"model-1": 1, "model-0": 2}


def test_runs_that_share_no_figure_have_no_place(tmp_path: Path):
    first, second = ({task: leaking()[task]} for task in leaking())
    board = _board(tmp_path, results(first), results(leaking()), results(second))
    assert set(_places(board).values()) == {None}


def test_later_columns_break_ties(tmp_path: Path):
    board = _board(tmp_path, results(leaking(extracted=0.5)), results(leaking(extracted=0.25)))
    assert _places(board) == {"model-1": 1, "model-0": 2}


def test_higher_is_better_where_the_metric_says_so(tmp_path: Path):
    both = [{"canary_extraction": {"hdt": value, "n_planted": 20}} for value in (0.2, 0.8)]
    assert _places(_board(tmp_path, *map(results, both))) == {"model-1": 1, "model-0": 2}


def test_a_run_whose_controls_show_a_fault_has_no_place_and_comes_last(tmp_path: Path):
    board = _board(tmp_path, results(leaking(exposure=0.1, control_p=1e-6)), results(leaking()))
    assert _places(board) == {"model-1": 1, "model-0": None}
    assert [entry.run.name for entry in board.groups[0].entries] == ["model-1", "model-0"]


def test_runs_asked_otherwise_are_a_group_with_the_reason(tmp_path: Path):
    declared = {task: declaration(task, protocol={"canaries": "cd" * 32}) for task in leaking()}
    board = _board(tmp_path, results(leaking()), results(leaking()), results(leaking(), declared=declared))
    assert [len(group.entries) for group in board.groups] == [2, 1]
    assert board.groups[0].reason == ""
    assert "other canaries" in board.groups[1].reason
    assert _places(board) == {"model-0": 1, "model-1": 1, "model-2": 1}


def test_runs_without_leakage_come_last_without_a_place(tmp_path: Path):
    board = _board(tmp_path, results({"arc": {"acc": 0.5}}), results({"arc": {"acc": 0.7}}), results(leaking()))
    assert [entry.run.name for entry in board.groups[0].entries] == ["model-2"]
    assert _places(board) == {"model-2": 1, "model-0": None, "model-1": None}


def test_a_group_of_tasks_stands_for_its_members(tmp_path: Path):
    content = results({"mmlu": {"acc": 0.5}, "mmlu_law": {"acc": 0.4}})
    content["group_subtasks"] = {"mmlu": ["mmlu_law"]}
    board = _board(tmp_path, content)
    assert {column.key: column.shown for column in board.columns} == {"mmlu/acc": True, "mmlu_law/acc": False}


def test_members_show_where_their_group_has_no_figure(tmp_path: Path):
    content = results({"arc": {"acc": 0.5}})
    content["results"]["science"] = {"alias": "science"}
    content["group_subtasks"] = {"science": ["arc"]}
    assert [column.key for column in _board(tmp_path, content).columns if column.shown] == ["arc/acc"]


@pytest.mark.parametrize("filter_", ["strict", "loose"])
def test_filters_of_the_harness_are_columns_of_their_own(tmp_path: Path, filter_: str):
    board = _board(tmp_path, results({"gsm": {"exact_match,strict": 0.5, "exact_match,loose": 0.7}}))
    assert f"gsm exact_match ({filter_})" in [column.title for column in board.columns]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.lists(st.one_of(st.none(), st.floats(0, 30)), min_size=2, max_size=5), order=st.randoms())
def test_places_do_not_depend_on_the_order_of_files(tmp_path: Path, values: list[float | None], order: Any):
    runs = []
    for place, value in enumerate(values):
        content = results(leaking(exposure=value), model=f"model-{place}")
        runs.append(read_runs([write(tmp_path / str(place), json.loads(json.dumps(content)))])[0])
    expected = _places(make_board(runs))
    order.shuffle(runs)
    assert _places(make_board(runs)) == expected


def test_a_task_named_after_its_metric_is_named_once(tmp_path: Path):
    board = _board(tmp_path, results({"heldout_bits_per_byte": {"bits_per_byte": 2.0}}))
    assert [column.title for column in board.columns] == ["heldout_bits_per_byte"]


def _values(board: Board, prefix: str) -> dict[str, dict[str, float | None]]:
    columns = [column for column in board.columns if column.key.startswith(prefix)]
    return {
        column.title: {
            entry.run.name: entry.figure(column).value for entry in board.entries if entry.figure(column).value
        }
        for column in columns
    }


def test_harness_tasks_with_other_numbers_of_examples_have_columns_of_their_own(tmp_path: Path):
    contents = [results({"arc": {"acc": 0.5}, **leaking()}, **{"n-shot": {"arc": shots}}) for shots in (0, 25, 25)]
    board = _board(tmp_path, *contents)
    assert _values(board, "arc") == {
        "arc acc, 0-shot": {"model-0": 0.5},
        "arc acc, 25-shot": {"model-1": 0.5, "model-2": 0.5},
    }
    assert [column.key for column in board.columns][-2:] == ["arc/acc/25-shot", "arc/acc/0-shot"]
    # Places follow the leakage alone.
    assert _places(board) == {"model-0": 1, "model-1": 1, "model-2": 1}


def test_usefulness_on_other_data_has_columns_of_its_own(tmp_path: Path):
    declared = declaration("canary_exposure")
    row = {**declared["rows"]["exposure"], "title": "Accuracy", "interval": None, "count": "", "control": ""}
    labels = {**declared, "measures": "usefulness", "rows": {"acc": row}, "attacks": []}
    held_out = {"heldout_bits_per_byte": {"bits_per_byte": 1.5}, "label_accuracy": {"acc": 0.5}, **leaking()}
    contents = [
        results(held_out, declared={"label_accuracy": {**labels, "protocol": {"data": data}}}, task_hashes=texts)
        for data, texts in (
            ("ab" * 32, {"heldout_bits_per_byte": "12" * 32}),
            ("cd" * 32, {"heldout_bits_per_byte": "34" * 32}),
            ("cd" * 32, {}),
        )
    ]
    board = _board(tmp_path, *contents)
    assert _values(board, "heldout") == {
        "heldout_bits_per_byte, data 121212": {"model-0": 1.5},
        "heldout_bits_per_byte, data 343434": {"model-1": 1.5},
        "heldout_bits_per_byte": {"model-2": 1.5},
    }
    assert _values(board, "label") == {
        "Accuracy, data ababab": {"model-0": 0.5},
        "Accuracy, data cdcdcd": {"model-1": 0.5, "model-2": 0.5},
    }
    assert len(board.groups) == 1
