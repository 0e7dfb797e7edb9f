"""Text columns of categories, as pandas writes them: planted, verified, sanitized, and taken apart again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leakage_tasks.canaries import plant, read_manifest, verify
from leakage_tasks.canaries.unplant import remove
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.defences.sanitize import sanitize

CATEGORIES = 126
"""With the manifest's three they are more than an 8-bit index can count."""
SUFFIXES = [".parquet", ".arrow"]


def write(path: Path) -> pd.DataFrame:
    """Three rows of each of 126 texts, in category columns of text and label."""
    texts = [f"text {row % CATEGORIES}" for row in range(3 * CATEGORIES)]
    labels = ["joy", "sad", "calm"] * CATEGORIES
    frame = pd.DataFrame({"text": pd.Categorical(texts), "label": pd.Categorical(labels)})
    if path.suffix == ".parquet":
        frame.to_parquet(path)
        return frame
    table = pa.Table.from_pandas(frame)
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=100)
    return frame


def read(path: Path) -> pd.DataFrame:
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    return pa.ipc.open_stream(path).read_all().to_pandas()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_copies_among_categories_are_read_by_pandas_and_verified(tmp_path: Path, manifest: Path, suffix: str) -> None:
    source, output = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    before = write(source)
    plant(manifest, source, output, label_column="label")
    after = read(output)
    copies = {canary.text: canary.repetitions for canary in read_manifest(manifest) if canary.planted}
    assert Counter(after["text"]) - Counter(before["text"]) == copies
    assert len(set(after["text"])) > 128
    assert [str(kind) for kind in after.dtypes] == ["category", "category"]
    assert verify(output, manifest).ok


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_removed_copies_leave_rows_as_they_were_and_no_category(tmp_path: Path, manifest: Path, suffix: str) -> None:
    source, output, back = (tmp_path / f"{name}{suffix}" for name in ("in", "out", "back"))
    before = write(source)
    plant(manifest, source, output)
    remove(output, back)
    after = read(back)
    assert list(after["text"]) == list(before["text"])
    assert set(after["text"].cat.categories) == set(before["text"].cat.categories)
    assert not any(canary.text.encode() in back.read_bytes() for canary in read_manifest(manifest))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_sanitized_text_stays_in_no_category(tmp_path: Path, suffix: str) -> None:
    source, output = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    before = write(source)

    def fit(seen: Sequence[str], seed: int) -> Callable[[Sequence[str]], np.ndarray]:
        return lambda asked: np.array([99.0 - 90 * (text == "text 77" and text in seen) for text in asked])

    sanitize(source, output, drop=1, fit=fit)
    after = read(output)
    assert Counter(before["text"]) - Counter(after["text"]) == {"text 77": 3}
    assert "text 77" not in after["text"].cat.categories
    assert b"text 77" not in output.read_bytes()
    assert list(after["label"].cat.categories) == list(before["label"].cat.categories)


def test_categories_of_a_file_with_one_dictionary_for_all_batches_are_refused(tmp_path: Path, manifest: Path) -> None:
    source, output = tmp_path / "in.arrow", tmp_path / "out.arrow"
    table = pa.Table.from_pandas(pd.DataFrame({"text": pd.Categorical(["a", "b"])}))
    with pa.ipc.new_file(source, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(LeakageError, match="save it as an Arrow stream"):
        plant(manifest, source, output)
    assert not output.exists()


def test_categories_that_are_numbers_are_no_text(tmp_path: Path, manifest: Path) -> None:
    source = tmp_path / "in.parquet"
    pq.write_table(pa.table({"text": pa.array([1, 2]).dictionary_encode()}), source)
    with pytest.raises(LeakageError, match="column 'text' holds .*int64.*, expected text"):
        plant(manifest, source, tmp_path / "out.parquet")
