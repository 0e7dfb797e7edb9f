"""Windows of sampled documents: their places, their number, their exchanged suffixes, and controls that overlap."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset, DatasetDict
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.core.errors import OptionError, PlantingError
from leakage_tasks.data.streamed import HubFormat
from leakage_tasks.pairs.document_texts import hold_chats, read_documents
from leakage_tasks.pairs.documents import DocumentSource, read_windows, shared_document
from leakage_tasks.pairs.exchange import with_exchanged
from leakage_tasks.pairs.pair import Pair
from tests.oracles import letters

TEXTS = ["".join(f"{'abcdefghij'[n % 10]}{n:02d}{part:02d}" for part in range(n + 1)) for n in range(20)]
"""Documents of 5, 10, …, 100 characters, each a token."""


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: Any) -> str:
    folder = tmp_path_factory.mktemp("tokenizer")
    letters().save_pretrained(folder)
    return str(folder)


@pytest.fixture
def source(tmp_path: Path, tokenizer: str) -> DocumentSource:
    write(tmp_path / "data.jsonl", TEXTS)
    return DocumentSource(str(tmp_path / "data.jsonl"), prefix=6, suffix=4, tokenizer=tokenizer)


def write(path: Path, texts: list[str]) -> None:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))


def text_of(pair: Pair) -> str:
    return letters().decode([*pair.prefix, *pair.suffix])


def test_windows_are_where_they_say(source: DocumentSource) -> None:
    for offset in ("0", "3", "random"):
        windows = read_windows(replace(source, offset=offset, windows=3))
        assert [pair.id for pair in windows.pairs] == list(range(len(windows.pairs)))
        for pair in windows.pairs:
            assert text_of(pair) == TEXTS[pair.document or 0][pair.offset or 0 :][:10]
        places = {
            document: [pair.offset for pair in windows.pairs if pair.document == document] for document in range(20)
        }
        for document, starts in places.items():
            room = len(TEXTS[document]) - int(offset.replace("random", "0"))
            assert len(starts) == min(3, room // 10)
            assert all(later - earlier >= 10 for earlier, later in zip(starts, starts[1:], strict=False))
            assert offset == "random" or starts == [int(offset) + 10 * index for index in range(len(starts))]
        short = sum(len(text) < 10 + int(offset.replace("random", "0")) for text in TEXTS)
        assert (windows.available, windows.sampled, windows.short) == (20, 20, short)


def test_a_larger_sample_holds_the_smaller_and_the_seed_decides(source: DocumentSource) -> None:
    def chosen(number: int, seed: int) -> set[int | None]:
        return {pair.document for pair in read_windows(replace(source, documents=number, seed=seed)).pairs}

    few, more, other = chosen(6, 0), chosen(12, 0), chosen(6, 1)
    assert few < more
    assert few != other
    assert read_windows(replace(source, documents=6)).available == 20


def test_repeated_documents_count_once(source: DocumentSource, tmp_path: Path) -> None:
    write(tmp_path / "twice.jsonl", [*TEXTS, *TEXTS])
    windows = read_windows(replace(source, data=str(tmp_path / "twice.jsonl")))
    assert (windows.documents, windows.repeated, windows.short) == (19, 19, 2)


def test_folders_saved_sets_and_hub_data_hold_equal_documents(source: DocumentSource, tmp_path: Path) -> None:
    """A .txt file, a row of a saved set, and a row of a shard are a document each."""
    folder, saved, hub = tmp_path / "folder", tmp_path / "saved", tmp_path / "hub"
    folder.mkdir()
    hub.mkdir()
    for number, text in enumerate(TEXTS):
        (folder / f"{number:02}.txt").write_text(text)
    parts = {"train": TEXTS[:15], "test": TEXTS[15:]}
    DatasetDict({name: Dataset.from_dict({"text": part}) for name, part in parts.items()}).save_to_disk(str(saved))
    write(hub / "train.jsonl", TEXTS)
    expected = [text_of(pair) for pair in read_windows(source).pairs]
    for data in (folder, saved, f"hub:{hub}"):
        assert [text_of(pair) for pair in read_windows(replace(source, data=str(data))).pairs] == expected
    assert len(read_windows(replace(source, data=str(saved), split="test")).pairs) == 5


def test_controls_that_share_a_run_of_tokens_are_named(source: DocumentSource, tmp_path: Path) -> None:
    write(tmp_path / "other.jsonl", ["z" * 60, "y" * 30 + TEXTS[15][7:31], "y" * 30 + TEXTS[15][7:32] + "z"])
    controls = read_windows(replace(source, data=str(tmp_path / "other.jsonl")))
    assert shared_document(read_windows(source), controls) == 2
    write(tmp_path / "apart.jsonl", ["z" * 60, "y" * 30 + TEXTS[15][7:31]])
    assert (
        shared_document(read_windows(source), read_windows(replace(source, data=str(tmp_path / "apart.jsonl")))) is None
    )


@given(st.lists(st.integers(0, 5), min_size=2, max_size=30).filter(lambda rows: len(set(rows)) > 1), st.integers(0, 3))
def test_an_exchanged_suffix_is_of_another_document(documents: list[int], seed: int) -> None:
    pairs = [Pair(n, (1,), (n,), document) for n, document in enumerate(documents)]
    exchanged = with_exchanged(pairs, seed)
    partners = [pair.exchanged[0] for pair in exchanged]
    assert all(documents[partner] != pair.document for partner, pair in zip(partners, exchanged, strict=True))
    if 2 * max(map(documents.count, documents)) <= len(documents):
        assert sorted(partners) == list(range(len(documents)))
    assert exchanged == with_exchanged(pairs, seed)


def test_a_text_split_into_blocks_is_one_document(source: DocumentSource, tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("\n".join(["line of text"] * 9000))
    with pytest.raises(OptionError, match="only one document is long enough,"):
        read_windows(replace(source, data=str(tmp_path / "long.txt")))


def test_repetitions_of_one_document_are_counted_in_the_error(source: DocumentSource, tmp_path: Path) -> None:
    write(tmp_path / "equal.jsonl", [max(TEXTS, key=len)] * 5)
    with pytest.raises(OptionError, match=r"long enough \(4 are repetitions\)"):
        read_windows(replace(source, data=str(tmp_path / "equal.jsonl")))


CHAT = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]


@pytest.mark.parametrize(("row", "expected"), [({"messages": CHAT}, True), ({"text": "a"}, False)])
def test_only_the_schema_of_hub_data_decides_if_they_hold_chats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: dict[str, Any], expected: bool
) -> None:
    Dataset.from_list([row] * 3).to_parquet(tmp_path / "data" / "train.parquet")
    monkeypatch.setattr(HubFormat, "batches", None)
    assert hold_chats(f"hub:{tmp_path / 'data'}", "text") == expected


@pytest.mark.parametrize(("names", "expected"), [("instruction,output", True), ("text,output", False)])
def test_only_the_header_of_a_csv_file_decides_if_it_holds_chats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: str, expected: bool
) -> None:
    (tmp_path / "rows.csv").write_text(f"{names}\na,b\n")
    monkeypatch.setattr("leakage_tasks.data.commas.check_rows", None)
    assert hold_chats(str(tmp_path / "rows.csv"), "text") == expected


def test_a_csv_file_that_is_not_utf_8_has_the_error_of_its_reader(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(b"instruction,output\n\xff,b\n")
    assert not hold_chats(str(tmp_path / "rows.csv"), "text")
    with pytest.raises(PlantingError, match="not UTF-8 at byte 19"):
        list(read_documents(tmp_path / "rows.csv", "text"))
