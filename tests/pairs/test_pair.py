"""The fixed rule that divides a data set, and the names that stand for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.core.errors import OptionError
from leakage_tasks.pairs.pair import SPLITS, split_of, split_rows, splits_named


@given(st.integers(0, 3000))
def test_the_splits_are_disjoint_and_cover_every_row(rows: int) -> None:
    found = split_rows(rows)
    assert sorted(row for split in SPLITS for row in found[split]) == list(range(rows))


@given(st.integers(0, 3000))
def test_the_sizes_follow_from_the_shares(rows: int) -> None:
    found = split_rows(rows)
    rest = rows - rows // 15
    assert [len(found[split]) for split in SPLITS] == [rest - rest // 10, rest // 10, rows // 15]


@given(st.integers(15, 500))
def test_the_last_rows_are_the_test(rows: int) -> None:
    assert list(split_rows(rows)["test"]) == list(range(rows))[-(rows // 15) :]


def test_the_draw_is_the_same_on_every_machine() -> None:
    assert split_rows(60)["validation"] == [9, 15, 27, 28, 55]


def test_the_draw_is_spread_over_all_rows() -> None:
    drawn = split_rows(15_000)["validation"]
    by_thousand = [sum(low <= row < low + 1000 for row in drawn) for low in range(0, 14_000, 1000)]
    # 100 expected in each, with a standard deviation below 10.
    assert min(by_thousand) > 60
    assert max(by_thousand) < 140


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("train_", "train"),
        ("my_val_", "validation"),
        ("valid-2", "validation"),
        ("TEST", "test"),
        ("trainer_", None),
        ("contest", None),
        ("", None),
    ],
)
def test_a_split_is_a_word_of_a_name(name: str, split: str | None) -> None:
    assert split_of(name) == split


def test_several_sets_stand_in_the_order_of_training() -> None:
    assert list(splits_named(["test", "train", "val"], "x").items()) == [
        ("train", "train"),
        ("val", "validation"),
        ("test", "test"),
    ]


@pytest.mark.parametrize("names", [["a", "b"], ["b", "train"], ["val", "valid"]])
def test_several_sets_need_names_that_divide_them(names: list[str]) -> None:
    with pytest.raises(OptionError, match=f"x: holds several sets .{', '.join(names)}. that their names do not divide"):
        splits_named(names, "x")
