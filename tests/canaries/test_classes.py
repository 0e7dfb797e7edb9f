"""Counting classes in every kind of dataset, and choosing one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from leakage_tasks.canaries.classes import by_rows, choose_class, class_counts
from leakage_tasks.core.errors import LeakageError, OptionError, PlantingError

ROWS = [("one", "joy"), ("two", "fear"), ("three", "joy"), ("four", "anger"), ("five", None)]
COUNTS = {"anger": 1, "fear": 1, "joy": 2}


def jsonl(folder: Path) -> Path:
    path = folder / "data.jsonl"
    path.write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in ROWS))
    return path


def csv(folder: Path) -> Path:
    path = folder / "data.csv"
    path.write_text("text,label\n" + "".join(f"{text},{label or ''}\n" for text, label in ROWS))
    return path


def parquet(folder: Path) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts, labels = zip(*ROWS, strict=True)
    pq.write_table(pa.table({"text": list(texts), "label": list(labels)}), folder / "data.parquet")
    return folder / "data.parquet"


def saved(folder: Path) -> Path:
    from datasets import ClassLabel, Dataset, DatasetDict, Features, Value

    names = ["joy", "fear", "anger", "never"]
    features = Features({"text": Value("string"), "label": ClassLabel(names=names)})
    numbers = [None if label is None else names.index(label) for _, label in ROWS]
    train = Dataset.from_dict({"text": [text for text, _ in ROWS], "label": numbers}, features=features)
    DatasetDict({"train": train, "test": train.select([0])}).save_to_disk(folder / "data")
    return folder / "data"


@pytest.mark.parametrize("make", [jsonl, csv, parquet, saved])
def test_counts_in_every_format(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    assert class_counts(make(tmp_path), "label") == COUNTS


def test_counts_of_another_split(tmp_path: Path) -> None:
    assert class_counts(saved(tmp_path), "label", "test") == {"joy": 1}


def test_numbers_are_classes_by_their_digits(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text('{"review": "a", "stars": 5}\n{"review": "b", "stars": 5}\n{"review": "c", "stars": 1}\n')
    assert class_counts(path, "stars", text_column="review") == {"1": 1, "5": 2}


@pytest.mark.parametrize(
    ("column", "message"),
    [("kind", "no column 'kind'"), ("empty", "column 'empty' contains no class: pass another column")],
)
def test_columns_without_classes(tmp_path: Path, column: str, message: str) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text('{"text": "a", "label": "x", "empty": null}\n')
    with pytest.raises(PlantingError, match=message):
        class_counts(path, column)


def test_the_rarest_first_and_equals_by_name() -> None:
    assert by_rows({"b": 2, "a": 2, "c": 1, "d": 3}) == ["c", "a", "b", "d"]


@pytest.mark.parametrize(("wanted", "chosen"), [("rarest", "anger"), ("most-popular", "joy"), ("fear", "fear")])
def test_choosing(wanted: str, chosen: str) -> None:
    assert choose_class(COUNTS, wanted) == chosen
    assert choose_class({"joy": 2, "anger": 2, "fear": 1}, "most-popular") == "joy"


@pytest.mark.parametrize(
    ("wanted", "message"),
    [("angry", "did you mean 'anger'"), ("xyz", "use rarest, most-popular or one of anger, fear, joy")],
)
def test_an_unknown_class(wanted: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        choose_class(COUNTS, wanted)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LeakageError, match="no such file"):
        class_counts(tmp_path / "none.csv", "label")
