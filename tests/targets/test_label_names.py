"""Names of classes, as files hold them and as tasks spell them."""

from __future__ import annotations

import pytest

from leakage_tasks.targets.label_names import LabelNames, read_labels


def test_numbers_as_names_are_told_by_the_side_that_holds_text() -> None:
    assert read_labels({"0": "5", "1": "4"}, 2) == ["5", "4"]
    assert read_labels({"5": 0, "4": 1}, 2) == ["5", "4"]


def test_a_text_that_is_no_file_is_names_separated_by_colons() -> None:
    names = [f"class {number}" for number in range(100)]
    assert read_labels(":".join(names), len(names)) == names


@pytest.mark.parametrize(
    ("labels", "continuation", "place"),
    [
        (["good", "bad"], " bad", 1),
        (["good", "bad"], "\n: bad \n", 1),
        (["good", "bad"], " -> bad", 1),
        (["good", "bad"], " Bad", 1),
        (["good", "bad"], " 1", 1),
        (["good", "bad"], " 2", None),
        (["good", "bad"], " ba", None),
        (["good", "bad"], "", None),
        (["b", "B"], " B", 1),
        (["b", "B", "c"], " C", 2),
        (["-b", "b"], " -b", 0),
        (["-b", "b"], " b", 1),
        (["5", "4", "0"], " 0", 2),
        (["5", "4"], " 1", None),
        ([" padded", "b"], " padded", 0),
        (["b", "BB", "bb"], " Bb", None),
    ],
)
def test_what_a_continuation_names(labels: list[str], continuation: str, place: int | None) -> None:
    assert LabelNames(labels).find(continuation) == place
