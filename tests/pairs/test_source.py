"""Reading pairs from arrays, JSON lines and text."""

from __future__ import annotations

import csv
import dataclasses
import json
import os
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.core.errors import MissingOption, OptionError
from leakage_tasks.pairs import source as reading
from leakage_tasks.pairs.pair import Pair
from leakage_tasks.pairs.source import Source, pairs_hash, read_pairs
from leakage_tasks.pairs.texts import _windows
from tests.conftest import ROOT
from tests.oracles import merging
from tests.pairs.conftest import save_pairs

DATA = Path(os.environ.get("LEAKAGE_DATA", ROOT.parent / "shared" / "data")) / "lm_extraction"
public = pytest.mark.skipif(not DATA.is_dir(), reason="needs the public pairs in LEAKAGE_DATA")


def ids(text: str) -> list[int]:
    found: list[int] = merging()(text, add_special_tokens=False)["input_ids"]
    return found


def write_lines(path: Path, rows: Sequence[Any]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


# -- arrays -------------------------------------------------------------------------------------------------


def test_a_row_of_the_arrays_is_a_pair(tmp_path: Path) -> None:
    pairs = read_pairs(Source(str(save_pairs(tmp_path / "d", "train_", 30)), split="all"))
    assert pairs[7] == Pair(7, (7, 1, 2, 3), (507, 501, 502, 503))
    assert [pair.id for pair in pairs] == list(range(30))
    assert {type(token) for pair in pairs for token in pair.prefix + pair.suffix} == {int}


def test_a_split_keeps_the_rows_numbers(tmp_path: Path) -> None:
    data = str(save_pairs(tmp_path / "d", "train_", 45))
    found = {split: read_pairs(Source(data, split=split)) for split in ("train", "validation", "test")}
    assert [pair.id for pair in found["test"]] == [42, 43, 44]
    assert {split: len(pairs) for split, pairs in found.items()} == {"train": 38, "validation": 4, "test": 3}
    assert all(pair.prefix[0] == pair.id for pairs in found.values() for pair in pairs)


def test_files_named_for_splits_are_the_splits(tmp_path: Path) -> None:
    data = save_pairs(tmp_path / "d", "train_", 20)
    save_pairs(data, "val_", 3, first=20)
    save_pairs(data, "test_", 5, first=23)
    found = {split: [pair.id for pair in read_pairs(Source(str(data), split=split))] for split in ("validation", "all")}
    assert found == {"validation": [20, 21, 22], "all": list(range(28))}
    assert [pair.prefix[0] for pair in read_pairs(Source(str(data)))] == list(range(23, 28))


def test_one_file_of_a_folder_can_be_named(tmp_path: Path) -> None:
    data = save_pairs(tmp_path / "d", "a_", 20)
    save_pairs(data, "b_", 16, first=100)
    assert [pair.prefix[0] for pair in read_pairs(Source(str(data / "b_prefix.npy"), split="test"))] == [115]
    with pytest.raises(OptionError, match="holds several sets .a_, b_."):
        read_pairs(Source(str(data)))


def test_one_file_named_for_testing_is_all_test(tmp_path: Path) -> None:
    data = str(save_pairs(tmp_path / "d", "test_", 6))
    assert len(read_pairs(Source(data))) == 6
    with pytest.raises(OptionError, match="split=train is empty .the data have: test 6."):
        read_pairs(Source(data, split="train"))


@pytest.mark.parametrize(
    ("name", "split"),
    [("val_", "validation"), ("valid_", "validation"), ("validation_", "validation"), ("test_", "test")],
)
def test_one_file_named_for_a_split_is_that_split(tmp_path: Path, name: str, split: str) -> None:
    data = save_pairs(tmp_path / "d", "train_", 30)
    file = str(save_pairs(data, name, 16, first=100) / f"{name}prefix.npy")
    assert [pair.prefix[0] for pair in read_pairs(Source(file, split=split))] == list(range(100, 116))
    assert read_pairs(Source(file, split="all")) == read_pairs(Source(file, split=split))
    with pytest.raises(OptionError, match=rf"split=train is empty .the data have: {split} 16."):
        read_pairs(Source(file, split="train"))


def test_one_file_named_for_training_is_divided(tmp_path: Path) -> None:
    file = str(save_pairs(tmp_path / "d", "train_", 45) / "train_prefix.npy")
    assert [pair.id for pair in read_pairs(Source(file))] == [42, 43, 44]


def published(folder: Path) -> Path:
    """A folder as the challenge publishes it: four arrays a set, and a test set without its suffixes."""
    for name, rows, first in (("train_", 30, 0), ("val_", 4, 100), ("test_", 5, 200)):
        save_pairs(folder, name, rows, first=first)
        prefixes = np.load(folder / f"{name}prefix.npy", allow_pickle=False)
        np.save(folder / f"{name}preprefix.npy", prefixes + 7)
        np.save(folder / f"{name}dataset.npy", np.concatenate([prefixes] * 3, axis=1))
    for name in ("test_suffix", "test_preprefix", "test_dataset"):
        (folder / f"{name}.npy").unlink()
    return folder


def test_the_challenges_folder_as_it_is_published(tmp_path: Path) -> None:
    data = str(published(tmp_path / "d"))
    assert [pair.prefix[0] for pair in read_pairs(Source(data, split="train"))] == list(range(30))
    found = read_pairs(Source(data, split="validation"))
    assert found[0] == Pair(30, (100, 1, 2, 3), (600, 501, 502, 503))
    assert [pair.id for pair in found] == list(range(30, 34))


def test_the_challenges_test_set_lacks_its_suffixes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    data = published(tmp_path / "d")
    missing = (
        f"{data / 'test_prefix.npy'}: test_suffix.npy is missing in its folder, so split=test has no suffixes to "
        "compare"
    )
    said = refused(Source(str(data)))
    assert said == f"{missing} guesses with: add them, or use another split"
    assert len(read_pairs(Source(str(data), split="all"))) == 34
    assert f"split=all leaves out test: {missing}" in caplog.text
    save_pairs(data, "test_", 5, first=200)
    assert [pair.id for pair in read_pairs(Source(str(data)))] == list(range(34, 39))


def test_the_text_before_prefixes_is_no_prefix(tmp_path: Path) -> None:
    data = published(tmp_path / "d")
    said = refused(Source(str(data / "val_preprefix.npy")))
    assert said == f"{data / 'val_preprefix.npy'}: contains the text before the prefixes: pass val_prefix.npy"
    save_pairs(tmp_path / "own", "pre", 15)
    assert len(read_pairs(Source(str(tmp_path / "own")))) == 1


def test_lengths_keep_what_is_next_to_the_seam(tmp_path: Path) -> None:
    data = str(save_pairs(tmp_path / "d", "", 15))
    (pair,) = read_pairs(Source(data, prefix_length=2, suffix_length=1))
    assert pair == Pair(14, (2, 3), (514,))


@public
def test_the_public_pairs_in_the_challenges_layout(tmp_path: Path) -> None:
    prefixes, suffixes = (np.load(DATA / f"train_{what}.npy", allow_pickle=False) for what in ("prefix", "suffix"))
    for name, rows in (("train", slice(14_000)), ("val", slice(14_000, 15_000))):
        for what, array in (("preprefix", suffixes), ("prefix", prefixes), ("suffix", suffixes)):
            np.save(tmp_path / f"{name}_{what}.npy", array[rows])
    np.save(tmp_path / "test_prefix.npy", prefixes[:1000])
    found = read_pairs(Source(str(tmp_path), split="validation"))
    assert [pair.id for pair in found] == list(range(14_000, 15_000))
    assert found[5] == Pair(14_005, tuple(prefixes[14_005].tolist()), tuple(suffixes[14_005].tolist()))


@public
def test_the_public_pairs_are_divided_as_published() -> None:
    prefixes, suffixes = (np.load(DATA / f"train_{what}.npy", allow_pickle=False) for what in ("prefix", "suffix"))
    found = {split: read_pairs(Source(str(DATA), split=split)) for split in ("train", "validation", "test")}
    assert [len(pairs) for pairs in found.values()] == [12_600, 1_400, 1_000]
    assert [pair.id for pair in found["test"]] == list(range(14_000, 15_000))
    assert sorted(pair.id for pairs in found.values() for pair in pairs) == list(range(15_000))
    for pairs in found.values():
        for pair in pairs[::97]:
            assert pair.prefix == tuple(prefixes[pair.id].tolist())
            assert pair.suffix == tuple(suffixes[pair.id].tolist())


# -- JSON lines ---------------------------------------------------------------------------------------------


def test_lines_of_any_length_are_pairs(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "p.jsonl", [{"prefix": [1, 2, 3], "suffix": [4]}, {"prefix": [5], "suffix": [6, 7]}])
    assert read_pairs(Source(str(data), split="all")) == (Pair(0, (1, 2, 3), (4,)), Pair(1, (5,), (6, 7)))
    assert read_pairs(Source(str(data), prefix_length=1, suffix_length=1, split="all"))[0] == Pair(0, (3,), (4,))


def test_pairs_may_have_a_text_column_too(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "p.jsonl", [{"text": "both", "prefix": [1], "suffix": [2]}])
    assert read_pairs(Source(str(data), split="all")) == (Pair(0, (1,), (2,)),)


# -- text ---------------------------------------------------------------------------------------------------

LONG = ["".join(f"the pin is {n * place % 9973:04d}, code ab{n}.\n" for n in range(60)) for place in (1, 3, 7)]


def windows(texts: Sequence[str], prefix: int, suffix: int) -> list[Pair]:
    found: dict[tuple[int, ...], tuple[int, int]] = {}
    for document, text in enumerate(texts):
        tokens = ids(text)
        width = prefix + suffix
        for start in range(0, len(tokens) // width * width, width):
            found.setdefault(tuple(tokens[start : start + width]), (document, start))
    return [Pair(row, window[:prefix], window[prefix:], *found[window]) for row, window in enumerate(found)]


def save_texts(folder: Path, kind: str, texts: Sequence[str]) -> Path:
    from datasets import Dataset

    path = folder / f"texts.{kind}"
    if kind == "jsonl":
        return write_lines(path, [{"text": text} for text in texts])
    if kind in ("csv", "tsv"):
        with path.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream, delimiter="," if kind == "csv" else "\t")
            writer.writerows([["text"], *([text] for text in texts)])
        return path
    table = Dataset.from_dict({"text": list(texts)})
    if kind == "parquet":
        table.to_parquet(path)
        return path
    table.save_to_disk(folder / "saved")
    return folder / "saved"


@pytest.mark.parametrize("kind", ["jsonl", "csv", "tsv", "parquet", "saved"])
def test_every_text_is_cut_by_itself(tmp_path: Path, tokenizer_folder: str, kind: str) -> None:
    data = save_texts(tmp_path, kind, LONG)
    found = read_pairs(Source(str(data), 7, 4, "all", tokenizer_folder))
    assert list(found) == windows(LONG, 7, 4)


def test_a_text_file_is_one_text(tmp_path: Path, tokenizer_folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakage_tasks.data.lines.BLOCK", 1000)
    monkeypatch.setattr("leakage_tasks.pairs.texts.running_tokens.__defaults__", (200,))
    (tmp_path / "t.txt").write_text("".join(LONG), encoding="utf-8")
    found = read_pairs(Source(str(tmp_path / "t.txt"), 7, 4, "all", tokenizer_folder))
    assert list(found) == windows(["".join(LONG)], 7, 4)


def test_text_is_cut_at_fifty_and_fifty_unless_asked(tmp_path: Path, tokenizer_folder: str) -> None:
    data = save_texts(tmp_path, "jsonl", LONG)
    found = read_pairs(Source(str(data), split="all", tokenizer=tokenizer_folder))
    assert list(found) == windows(LONG, 50, 50)


def test_a_window_that_comes_again_is_left_out(tmp_path: Path, tokenizer_folder: str) -> None:
    data = save_texts(tmp_path, "jsonl", [LONG[0], LONG[1], LONG[0]])
    once = save_texts(tmp_path, "csv", LONG[:2])
    found = [read_pairs(Source(str(path), 5, 5, "all", tokenizer_folder)) for path in (data, once)]
    assert found[0] == found[1]


@given(st.lists(st.lists(st.integers(0, 9), max_size=5), max_size=6), st.integers(1, 8))
def test_the_windows_rejoin_to_the_texts_tokens(pieces: list[list[int]], width: int) -> None:
    # Tokens are all different, so that no window comes twice.
    numbers = iter(range(1000))
    texts = [[np.array([next(numbers) for _ in range(length)]) for length in lengths] for lengths in pieces]
    found = _windows(texts, width, set()).tokens.tolist()
    for text in texts:
        tokens = [int(token) for piece in text for token in piece]
        joined = [token for window in found[: len(tokens) // width] for token in window]
        assert joined == tokens[: len(joined)]
        found = found[len(tokens) // width :]
    assert not found


def test_splits_that_datasets_saved_are_the_splits(tmp_path: Path, tokenizer_folder: str) -> None:
    from datasets import Dataset, DatasetDict

    split = {"train": LONG[:2], "test": LONG[2:]}
    saved = DatasetDict({name: Dataset.from_dict({"text": texts}) for name, texts in split.items()})
    saved.save_to_disk(tmp_path / "d")
    everything = windows(LONG, 9, 3)
    found = {name: read_pairs(Source(str(tmp_path / "d"), 9, 3, name, tokenizer_folder)) for name in (*split, "all")}
    assert list(found["train"] + found["test"]) == list(found["all"]) == everything
    assert list(found["train"]) == windows(LONG[:2], 9, 3)


def test_another_column_and_chat_turns(tmp_path: Path, tokenizer_folder: str) -> None:
    turns = [{"role": "user", "content": LONG[0]}, {"role": "assistant", "content": LONG[1]}]
    data = write_lines(tmp_path / "chat.jsonl", [{"body": LONG[2], "messages": turns}])
    column = read_pairs(Source(str(data), 5, 5, "all", tokenizer_folder, "body"))
    assert list(column) == windows(LONG[2:], 5, 5)
    chat = read_pairs(Source(str(data), 5, 5, "all", tokenizer_folder))
    assert list(chat) == windows([f"{LONG[0]}\n{LONG[1]}"], 5, 5)


# -- once, and told apart -----------------------------------------------------------------------------------


def test_a_source_is_read_once_until_its_files_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = save_pairs(tmp_path / "d", "train_", 30)
    reads: list[Path] = []
    monkeypatch.setattr(reading, "read_arrays", lambda path: reads.append(path) or real(path))  # type: ignore[func-returns-value]
    from leakage_tasks.pairs.token_files import read_arrays as real

    first = read_pairs(Source(str(data)))
    assert read_pairs(Source(str(data))) is first
    read_pairs(Source(str(data), 2, 2, "train"))
    assert len(reads) == 1
    save_pairs(data, "train_", 45)
    assert len(read_pairs(Source(str(data)))) == 3
    assert len(reads) == 2


@pytest.mark.parametrize(
    "changed",
    [Pair(1, (1, 2), (3,)), Pair(0, (1,), (2, 3)), Pair(0, (1, 2, 3), ()), Pair(0, (1, 2), (4,))],
)
def test_the_hash_tells_pairs_apart(changed: Pair) -> None:
    pair = Pair(0, (1, 2), (3,))
    assert pairs_hash([pair]) == pairs_hash([dataclasses.replace(pair)])
    assert pairs_hash([changed]) != pairs_hash([pair])
    assert pairs_hash([pair, pair]) != pairs_hash([pair])


# -- bad input ----------------------------------------------------------------------------------------------


def refused(source: Source) -> str:
    with pytest.raises(OptionError) as caught:
        read_pairs(source)
    return str(caught.value)


def test_prefixes_and_suffixes_of_unequal_number(tmp_path: Path) -> None:
    data = save_pairs(tmp_path / "d", "train_", 5)
    np.save(data / "train_suffix.npy", np.zeros((4, 4), dtype=np.uint16))
    assert "train_prefix.npy: has 5 rows, train_suffix.npy 4: give every prefix its suffix" in refused(
        Source(str(data))
    )


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((5, 4)), "holds float64 of shape [5, 4], expected one row of token ids per pair"),
        (np.zeros(5, dtype=int), "holds int64 of shape [5], expected"),
        (np.zeros((5, 0), dtype=int), "holds int64 of shape [5, 0], expected"),
        (np.array([[1, 2], [3, -4]]), "row 1 (from 0) holds -4, which is not a token id"),
        (np.array([[1, 2**40], [3, 4]]), "row 0 (from 0) holds 1099511627776, which is not a token id"),
        (np.array([[1], [2, 3]], dtype=object), "such as rows of different lengths, and pickles are never loaded"),
    ],
)
def test_arrays_that_are_no_rows_of_token_ids(tmp_path: Path, array: Any, message: str) -> None:
    data = save_pairs(tmp_path / "d", "train_", len(array))
    np.save(data / "train_suffix.npy", array, allow_pickle=True)
    said = refused(Source(str(data)))
    assert message in said
    assert said.startswith(f"{data / 'train_suffix.npy'}: ")


class Trap:
    """Unpickling it is noticed."""

    sprung = False

    def __reduce__(self) -> Any:
        return setattr, (Trap, "sprung", True)


def test_a_pickle_is_not_loaded(tmp_path: Path) -> None:
    data = save_pairs(tmp_path / "d", "train_", 5)
    (data / "train_prefix.npy").write_bytes(pickle.dumps(Trap()))
    assert "train_prefix.npy: cannot be read (it holds Python objects" in refused(Source(str(data)))
    assert not Trap.sprung


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: whole.replace(b"(5, 4), ", b"(5, 4  , "),
        lambda whole: whole.replace(b"(5, 4), }" + b" " * 17, b"(5, 4" + b"0" * 17 + b"), }"),
        lambda whole: whole[:-9],
    ],
    ids=["broken header", "more memory than there is", "cut off"],
)
def test_a_damaged_file(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    data = save_pairs(tmp_path / "d", "train_", 5)
    path = data / "train_prefix.npy"
    path.write_bytes(damage(path.read_bytes()))
    assert "train_prefix.npy: cannot be read (" in refused(Source(str(data)))


@pytest.mark.parametrize(
    ("gone", "asked", "message"),
    [
        ("train_suffix.npy", ".", "train_suffix.npy: no such file: every *prefix.npy needs a *suffix.npy"),
        ("train_suffix.npy", "train_prefix.npy", "train_suffix.npy: no such file"),
        ("train_prefix.npy", ".", "train_suffix.npy: train_prefix.npy is missing in its folder"),
        ("train_prefix.npy", "train_prefix.npy", "train_prefix.npy: no such file"),
        ("", "train_suffix.npy", "expected a file called *prefix.npy next to its *suffix.npy"),
    ],
)
def test_a_missing_partner(tmp_path: Path, gone: str, asked: str, message: str) -> None:
    data = save_pairs(tmp_path / "d", "train_", 5)
    if gone:
        (data / gone).unlink()
    assert message in refused(Source(str(data / asked)))


EXPECTED = "holds no pairs: expected *prefix.npy and *suffix.npy, or a data set saved by 'datasets'"


def test_a_folder_of_nothing_or_of_other_arrays(tmp_path: Path) -> None:
    assert refused(Source(str(tmp_path))) == f"{tmp_path}: {EXPECTED}"
    np.save(tmp_path / "tokens.npy", np.zeros((3, 4), dtype=int))
    (tmp_path / "README.md").write_text("no data of a model\n")
    assert refused(Source(str(tmp_path))) == f"{tmp_path}: {EXPECTED}"


def test_a_folder_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: object) -> None:
        raise PermissionError(path)

    for name in ("listdir", "scandir"):
        monkeypatch.setattr(os, name, refuse)
    assert refused(Source(str(tmp_path))) == f"{tmp_path}: {EXPECTED}"


def test_a_folder_of_text_names_what_reads_it(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("some words\n")
    assert refused(Source(str(tmp_path))) == (
        f"{tmp_path}: {EXPECTED}; give text as one file, or use the task memorization, which reads folders of text"
    )


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"prefix": [1]}, "field 'suffix' is missing"),
        ({"prefix": [1], "suffix": []}, "field 'suffix' is list of length 0, expected a list of one token id or more"),
        ({"prefix": "ab", "suffix": [1]}, "field 'prefix' is str of length 2, expected a list"),
        ({"prefix": [1, -2], "suffix": [1]}, "field 'prefix' holds a number below 0 at index 1 (from 0)"),
        ({"prefix": [1, 2.0], "suffix": [1]}, "field 'prefix' holds float at index 1"),
        ({"prefix": [True], "suffix": [1]}, "field 'prefix' holds bool at index 0"),
        ({"prefix": [1], "suffix": [2**70]}, f"field 'suffix' holds a number above {2**31 - 1} at index 0"),
        ([1, 2], "holds list, expected an object of columns"),
    ],
)
def test_a_line_that_is_no_pair(tmp_path: Path, row: Any, message: str) -> None:
    data = write_lines(tmp_path / "p.jsonl", [{"prefix": [1], "suffix": [2]}, row])
    said = refused(Source(str(data), split="all"))
    assert said.startswith(f"{data}:2: ")
    assert message in said


def test_a_first_line_with_half_a_pair(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "p.jsonl", [{"prefix": [1]}])
    assert "p.jsonl:1: field 'suffix' is missing" in refused(Source(str(data)))


@pytest.mark.parametrize("name", ["prefix_length", "suffix_length"])
@pytest.mark.parametrize("value", [0, -1, True, "5"])
def test_a_length_below_one(tmp_path: Path, name: str, value: Any) -> None:
    settings: dict[str, Any] = {name: value}
    assert f"{name}={value!r}: expected a number of tokens, 1 or more" in refused(Source(str(tmp_path), **settings))


def test_a_length_beyond_the_data_names_the_pair(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "p.jsonl", [{"prefix": [1, 2], "suffix": [2]}, {"prefix": [1], "suffix": [2]}])
    said = refused(Source(str(data), prefix_length=2, split="all"))
    assert said == f"{data}:2: its prefix has 1 tokens, prefix_length=2 needs more: use 1 or less"
    folder = save_pairs(tmp_path / "d", "train_", 15)
    said = refused(Source(str(folder), suffix_length=5))
    assert "train_prefix.npy: row 14 (from 0): its suffix has 4 tokens, suffix_length=5 needs more" in said


def test_an_unknown_and_an_empty_split(tmp_path: Path) -> None:
    data = str(save_pairs(tmp_path / "d", "train_", 12))
    assert refused(Source(data, split="tset")).endswith("test or all; did you mean 'test'?")
    assert refused(Source(data, split="dev")) == "split='dev' is unknown: use train, validation, test or all"
    assert "split=test is empty (the data have: train 11, validation 1)" in refused(Source(data))


def test_text_needs_a_tokenizer(tmp_path: Path) -> None:
    data = save_texts(tmp_path, "jsonl", LONG)
    with pytest.raises(MissingOption, match="texts.jsonl: text is cut .* pass --metadata tokenizer=…"):
        read_pairs(Source(str(data)))
    assert "cannot be loaded" in refused(Source(str(data), tokenizer=str(tmp_path / "none")))


def test_texts_too_short(tmp_path: Path, tokenizer_folder: str) -> None:
    data = save_texts(tmp_path, "jsonl", ["pin"])
    said = refused(Source(str(data), tokenizer=tokenizer_folder))
    assert "holds no text of 100 tokens, prefix_length=50 and suffix_length=50 together" in said


def test_errors_of_the_formats_speak_of_our_options(tmp_path: Path, tokenizer_folder: str) -> None:
    data = write_lines(tmp_path / "p.jsonl", [{"body": "x"}])
    assert "name one with --metadata text_column=…" in refused(Source(str(data), tokenizer=tokenizer_folder))
    assert "no such file" in refused(Source(str(tmp_path / "none.jsonl"), tokenizer=tokenizer_folder))
    assert "unknown kind of file '.bin'" in refused(
        Source(str(touched(tmp_path / "x.bin")), tokenizer=tokenizer_folder)
    )


def touched(path: Path) -> Path:
    path.touch()
    return path


def test_a_folder_above_that_of_the_pairs(tmp_path: Path) -> None:
    inside = save_pairs(tmp_path / "pairs", "train_", 5)
    assert refused(Source(str(tmp_path))) == f"{tmp_path}: {EXPECTED}; {inside} holds pairs: name it"


@pytest.mark.parametrize("split", ["test", "all"])
def test_arrays_of_no_rows(tmp_path: Path, split: str) -> None:
    data = save_pairs(tmp_path / "d", "train_", 0)
    assert refused(Source(str(data), split=split)) == (
        f"{data / 'train_prefix.npy'}: holds no pairs: give one row of token ids per pair"
    )
