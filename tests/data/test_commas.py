"""Files of values with a header: names that repeat or are empty, and rows that do not fit the header."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from leakage_tasks.canaries import plant, read_manifest, verify
from leakage_tasks.canaries.unplant import remove
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.defences.sanitize import sanitize

HEADERS = ("id,id,text", "text,id,id", ",text", ",,text", "text,,", "id,,id,,text,label", "id,text,id")

OTHERS = [("one", "joy"), ("two\nlines", "sad"), ("three", "joy"), ("four", "sad")]


def write(path: Path, header: str, rows: int = 30) -> None:
    names = header.split(",")
    values = {"text": "a text", "label": "joy"}
    lines = (",".join(f"{values.get(name, 'v')} {row}" for name in names) for row in range(rows))
    path.write_text("\n".join([header, *lines]) + "\n")


def texts(path: Path) -> Counter[str]:
    """The text column as pandas reads it."""
    return Counter(pd.read_csv(path, sep="\t" if path.suffix == ".tsv" else ",")["text"])


def copies(manifest: Path) -> Counter[str]:
    return Counter({canary.text: canary.repetitions for canary in read_manifest(manifest) if canary.planted})


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
@pytest.mark.parametrize("header", HEADERS)
def test_copies_stand_in_the_text_column_whatever_names_repeat(
    tmp_path: Path, manifest: Path, header: str, suffix: str
) -> None:
    source, output, back = (tmp_path / f"{name}{suffix}" for name in ("in", "out", "back"))
    write(source, header)
    if suffix == ".tsv":
        source.write_text(source.read_text().replace(",", "\t"))
    plant(manifest, source, output)
    assert texts(output) - texts(source) == copies(manifest)
    assert verify(output, manifest).ok
    remove(output, back)
    assert back.read_bytes() == source.read_bytes()


@pytest.mark.parametrize("last", ["", "\r", "\n", "\r\n"])
@pytest.mark.parametrize("first", ["\r", "\n", "\r\n"])
def test_a_carriage_return_alone_ends_a_row_among_other_line_ends(
    tmp_path: Path, manifest: Path, first: str, last: str
) -> None:
    source, output, back = (tmp_path / f"{name}.csv" for name in ("in", "out", "back"))
    rows = ["text,label", "one,joy", '"two\nlines",sad', "three,joy", "four,sad"]
    ends = [first, "\r", "\n", "\r", last]
    source.write_bytes("".join(map("".join, zip(rows, ends, strict=True))).encode())
    plant(manifest, source, output)
    with output.open(newline="") as lines:
        read = [tuple(row) for row in csv.reader(lines)]
    planted = [row for row in read if row not in [("text", "label"), *OTHERS]]
    assert [row for row in read if row in OTHERS] == OTHERS
    assert Counter(text for text, _ in planted) == copies(manifest)
    remove(output, back)
    assert back.read_bytes() == source.read_bytes()


def test_copies_in_shards_stand_in_the_text_column_where_names_repeat(tmp_path: Path, manifest: Path) -> None:
    source, output = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    for name, header in (("a.csv", "id,id,text"), ("b.csv", ",,text")):
        write(source / name, header)
    plant(manifest, source, output)
    found = texts(output / "a.csv") + texts(output / "b.csv")
    assert found - texts(source / "a.csv") - texts(source / "b.csv") == copies(manifest)


def test_sanitize_drops_by_the_text_column_where_names_repeat(tmp_path: Path) -> None:
    source, output = tmp_path / "in.csv", tmp_path / "out.csv"
    write(source, "id,id,text")

    def fit(seen: Sequence[str], seed: int) -> Callable[[Sequence[str]], np.ndarray]:
        return lambda asked: np.array([9.0 - 8 * (text == "a text 3" and text in seen) for text in asked])

    sanitize(source, output, drop=1, fit=fit)
    assert texts(source) - texts(output) == Counter({"a text 3": 1})


@pytest.mark.parametrize(
    ("header", "name", "wanted"),
    [("text,id,text", "text", {}), ("text,label,label", "label", {"label_column": "label"})],
)
def test_a_used_column_that_is_there_twice_is_refused(
    tmp_path: Path, manifest: Path, header: str, name: str, wanted: dict[str, str]
) -> None:
    source, output = tmp_path / "in.csv", tmp_path / "out.csv"
    write(source, header)
    with pytest.raises(LeakageError, match=f"in.csv: has two columns called '{name}'"):
        plant(manifest, source, output, **wanted)
    assert not output.exists()


@pytest.mark.parametrize("row", ["0,joy,a text", "a text,joy,"])
def test_a_row_with_more_values_than_columns_is_refused(tmp_path: Path, manifest: Path, row: str) -> None:
    source, output = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text(f"text,label\na,b\n{row}\n")
    with pytest.raises(LeakageError, match=r"in.csv: row 2 has 3 values for 2 columns"):
        plant(manifest, source, output)
    assert not output.exists()
