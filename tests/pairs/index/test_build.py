"""Indexes on the disk: equal to those in memory, made of any data, and refused when they are damaged or of others."""

from __future__ import annotations

import json
from pathlib import Path

import datasets
import numpy as np
import pytest

from leakage_tasks.core.errors import LeakageError, OptionError
from leakage_tasks.core.errors import on_command_line as spelled
from leakage_tasks.pairs.document_texts import read_documents
from leakage_tasks.pairs.documents import DocumentSource, read_windows
from leakage_tasks.pairs.index.build import build_index, write_index
from leakage_tasks.pairs.index.corpus import IndexSource, documents_of
from leakage_tasks.pairs.index.search import find_matches
from leakage_tasks.pairs.index.store import open_index
from leakage_tasks.pairs.source import Source, read_pairs
from tests.oracles import letters, merging

TEXTS = ["the pin is 12", "no pin here", "the tin is 34 and the pin is 12"]


@pytest.fixture
def tokenizer(tmp_path):
    letters().save_pretrained(tmp_path / "spoken")
    return str(tmp_path / "spoken")


@pytest.fixture
def corpus(tmp_path, tokenizer):
    (tmp_path / "c.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    return IndexSource(str(tmp_path / "c.jsonl"), tokenizer)


def test_an_index_is_no_text_for_other_tasks(corpus, tmp_path):
    folder = str(tmp_path / "index")
    write_index(corpus, folder, 1)
    readers = (
        lambda: read_windows(DocumentSource(folder, prefix=2, suffix=2, tokenizer=corpus.tokenizer)),
        lambda: read_pairs(Source(folder, tokenizer=corpus.tokenizer)),
        lambda: list(read_documents(Path(folder), "text")),
    )
    for read in readers:
        with pytest.raises(OptionError, match="is an index of 'leakage index', .*: give the text it was made of"):
            read()


def ids(text):
    return letters()(text, add_special_tokens=False)["input_ids"]


def documents(index):
    ends = [*index.starts[1:], len(index.tokens)]
    rows = [index.tokens[start : end - 1].astype(int) - 1 for start, end in zip(index.starts, ends, strict=True)]
    return [letters().decode(row) for row in rows]


@pytest.mark.parametrize(("part", "jobs"), [(1 << 20, 1), (16, 1), (16, 2)])
def test_a_written_index_is_that_in_memory(corpus, tmp_path, part, jobs):
    about = write_index(corpus, tmp_path / "index", jobs, part)
    written = open_index(tmp_path / "index")
    kept = build_index(documents_of(corpus, letters(), spelled), letters(), corpus.tokenizer, "c", part=part)
    assert written.about == kept.about == about
    assert documents(written) == TEXTS
    assert len(written.parts) == len(kept.parts) == (1 if part > 1000 else 4)
    for mine, theirs in zip(written.parts, kept.parts, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    [run] = find_matches(written, ids("see the pin is 12 today"), 8).runs
    assert (*written.place(run.position), run.start, run.length) == (2, 17, 3, len(" the pin is 12"))


def test_each_kind_of_data_gives_its_documents(tmp_path, tokenizer):
    folder = tmp_path / "files"
    folder.mkdir()
    for number, text in enumerate(TEXTS):
        (folder / f"{number}.txt").write_text(text)
    saved = datasets.DatasetDict(
        {name: datasets.Dataset.from_dict({"body": [text]}) for name, text in zip("abc", TEXTS, strict=True)}
    )
    saved.save_to_disk(tmp_path / "saved")
    hub = tmp_path / "hub"
    hub.mkdir()
    datasets.Dataset.from_dict({"text": TEXTS}).to_parquet(hub / "train.parquet")
    assert _read(IndexSource(str(folder), tokenizer)) == TEXTS
    assert _read(IndexSource(str(tmp_path / "saved"), tokenizer, "body")) == TEXTS
    assert _read(IndexSource(str(tmp_path / "saved"), tokenizer, "body", "b")) == TEXTS[1:2]
    assert _read(IndexSource(f"hub:{hub}", tokenizer)) == TEXTS


def _read(corpus):
    pieces = documents_of(corpus, letters(), spelled)
    return [letters().decode(np.concatenate([*document])) for document in pieces]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda c, p: write_index(IndexSource(c.data, None), p / "i"),
            "c.jsonl: an index holds tokens: pass --tokenizer",
        ),
        (lambda c, p: write_index(IndexSource(c.data, str(p / "no")), p / "i"), "no such folder"),
        (lambda c, p: write_index(IndexSource(str(p / "no.txt"), c.tokenizer), p / "i"), "no.txt: no such file"),
        (
            lambda c, p: write_index(IndexSource(c.data, c.tokenizer, "body"), p / "i"),
            "no column 'body'.*--text-column",
        ),
        (lambda c, p: write_index(IndexSource(c.data, c.tokenizer, split="x"), p / "i"), "no split 'x' .it has train"),
        (lambda c, p: write_index(c, p / "spoken"), "spoken: exists and holds no index: name a new folder"),
        (lambda c, p: write_index(c, p / "no" / "i"), "no folder"),
    ],
)
def test_what_cannot_be_indexed_is_one_clear_error(corpus, tmp_path, change, message):
    with pytest.raises(LeakageError, match=message):
        change(corpus, tmp_path)
    assert not (tmp_path / "i").exists()


def test_text_without_a_token_has_no_index(tmp_path, tokenizer):
    (tmp_path / "empty.jsonl").write_text('{"text": ""}\n')
    with pytest.raises(OptionError, match="empty.jsonl: holds no text"):
        write_index(IndexSource(str(tmp_path / "empty.jsonl"), tokenizer), tmp_path / "i")
    assert not (tmp_path / "i").exists()


def test_an_index_replaces_an_index(corpus, tmp_path, tokenizer):
    write_index(corpus, tmp_path / "index", part=16)
    (tmp_path / "other.txt").write_text("the tin")
    write_index(IndexSource(str(tmp_path / "other.txt"), tokenizer), tmp_path / "index")
    assert documents(open_index(tmp_path / "index")) == ["the tin"]


def _edit(path, **fields):
    about = json.loads((path / "index.json").read_text())
    (path / "index.json").write_text(json.dumps({**about, **fields}))


def _change_a_token(path):
    tokens = np.load(path / "tokens.npy", allow_pickle=False)
    tokens[3] += 1
    np.save(path / "tokens.npy", tokens)


def _of_another_corpus(path):
    np.save(path / "suffixes-00000.npy", np.arange(5, dtype=np.uint32))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: (path / "index.json").write_text("{"), "index.json: does not describe an index"),
        (lambda path: _edit(path, version=9), "index.json: version 9 of an index, expected 1"),
        (lambda path: _edit(path, tokens="many"), "index.json: field tokens: expected a whole number, found text"),
        (lambda path: _edit(path, part=0), "index.json: field part: expected a number from 1 to"),
        (lambda path: _edit(path, more=1), "index.json: field more: expected no such field"),
        (lambda path: (path / "index.json").unlink(), "index.json: cannot be read"),
        (lambda path: (path / "tokens.npy").write_bytes(b"\x93NUMPY"), r"tokens.npy: cannot be read \(ValueError\)"),
        (lambda path: (path / "documents.npy").unlink(), "documents.npy: cannot be read"),
        (lambda path: np.save(path / "documents.npy", np.array([{}])), "documents.npy: cannot be read"),
        (lambda path: np.save(path / "documents.npy", np.array([0.5])), "documents.npy: expected a list of whole"),
        (_change_a_token, "tokens.npy: changed since the index was made"),
        (_of_another_corpus, "its files do not belong together"),
    ],
)
def test_a_damaged_index_is_one_clear_error(corpus, tmp_path, damage, message):
    write_index(corpus, tmp_path / "index")
    damage(tmp_path / "index")
    with pytest.raises(OptionError, match=message):
        open_index(tmp_path / "index")


def test_another_tokenizer_has_another_hash(corpus, tmp_path):
    merging().save_pretrained(tmp_path / "merging")
    one = write_index(corpus, tmp_path / "one")
    other = write_index(IndexSource(corpus.data, str(tmp_path / "merging")), tmp_path / "other")
    again = write_index(IndexSource(corpus.data, str(tmp_path / "merging")), tmp_path / "again")
    assert one.tokenizer != other.tokenizer == again.tokenizer
