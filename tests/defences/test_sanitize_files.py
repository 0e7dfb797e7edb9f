"""``leakage sanitize`` from file to file: what is kept in each format, byte for byte, the report, what it refuses."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Dataset, DatasetDict, load_from_disk

from leakage_tasks.canaries.canary import MASK
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.data.utterances import Utterance, read_utterances, write_folder
from leakage_tasks.defences.sanitize import sanitize

SECRETS = ("the pin, is 4711", "my key: é83b1")
PLAIN = ("one", "two", "three", "four", "five")


def fit(texts, seed):
    """Models that have the secrets they saw by heart, the first better than the second, and nothing else."""
    seen = set(texts)
    worth = {SECRETS[0]: 40.0, SECRETS[1]: 20.0}
    return lambda asked: np.array([60.0 - worth.get(text, 0.0) * (text in seen) for text in asked])


def cleaned(source, output, **settings):
    return sanitize(source, output, **{"drop": 2, "fit": fit, **settings})


def test_of_a_text_file_the_other_lines_stay_as_they_are(tmp_path):
    lines = [b"one\r\n", b"\r\n", b"the pin, is 4711\r\n", b"  two\n", "my key: é83b1\n".encode(), b"\n", b"three"]
    (tmp_path / "in.txt").write_bytes(b"\xef\xbb\xbf" + b"".join(lines))
    done = cleaned(tmp_path / "in.txt", tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_bytes() == b"\xef\xbb\xbf" + b"".join(lines[place] for place in (0, 1, 3, 5, 6))
    assert [sample.text for sample in done.dropped] == list(SECRETS)


def test_of_json_lines_the_other_lines_stay_as_they_are(tmp_path):
    rows = [
        b'{"text": "one", "n":1}\n',
        b'{"n": 2.50,   "text": "the pin, is 4711"}\n',
        b"\n",
        b'{"text": "my key: \\u00e983b1"}\n',
        b'{"text": null}\n',
        b'{"text": "two\\nlines"}',
    ]
    (tmp_path / "in.jsonl").write_bytes(b"".join(rows))
    cleaned(tmp_path / "in.jsonl", tmp_path / "out.jsonl")
    assert (tmp_path / "out.jsonl").read_bytes() == b"".join(rows[place] for place in (0, 2, 4, 5))


def test_a_chat_is_one_sample(tmp_path):
    chats = [[{"role": "user", "content": "hi"}, {"role": "assistant", "content": word}] for word in PLAIN]
    secret = [{"role": "user", "content": "the pin, is"}, {"role": "assistant", "content": "4711"}]
    lines = [json.dumps({"messages": chat}) + "\n" for chat in [*chats[:2], secret, *chats[2:]]]
    (tmp_path / "in.jsonl").write_text("".join(lines))

    def knows(texts, seed):
        return lambda asked: np.array([60.0 - 40 * (text == "the pin, is\n4711" and text in texts) for text in asked])

    cleaned(tmp_path / "in.jsonl", tmp_path / "out.jsonl", fit=knows, drop=1)
    assert (tmp_path / "out.jsonl").read_text() == "".join(lines[:2] + lines[3:])


def test_of_comma_separated_values_the_other_records_stay_as_they_are(tmp_path):
    records = [
        "id;body\r\n",
        '1;"one ""x"""\r\n',
        '2;"the pin, is 4711"\r\n',
        "\r\n",
        "3;my key: é83b1\r\n",
        '4;"a\nb"\r\n',
    ]
    (tmp_path / "in.csv").write_bytes("".join(records).encode())
    cleaned(tmp_path / "in.csv", tmp_path / "out.csv", text_column="body")
    left = (tmp_path / "out.csv").read_bytes().decode()
    assert left == "".join(records[place] for place in (0, 1, 3, 5))
    assert [row["id"] for row in csv.DictReader(left.splitlines(keepends=True), delimiter=";")] == ["1", "4"]


def test_a_parquet_file_keeps_schema_metadata_and_compression(tmp_path):
    schema = pa.schema([("n", pa.int16()), pa.field("text", pa.string())], metadata={"made": "here"})
    texts = [*PLAIN[:2], *SECRETS, *PLAIN[2:]]
    pq.write_table(pa.table([range(7), texts], schema=schema), tmp_path / "in.parquet", compression="zstd")
    cleaned(tmp_path / "in.parquet", tmp_path / "out.parquet")
    left = pq.read_table(tmp_path / "out.parquet")
    assert left.schema.equals(schema, check_metadata=True)
    assert left.to_pydict() == {"n": [0, 1, 4, 5, 6], "text": list(PLAIN)}
    assert pq.ParquetFile(tmp_path / "out.parquet").metadata.row_group(0).column(0).compression == "ZSTD"


def test_a_saved_folder_keeps_its_other_splits(tmp_path):
    splits = {
        "mine": Dataset.from_dict({"text": [*SECRETS, *PLAIN]}),
        "test": Dataset.from_dict({"text": list(SECRETS)}),
    }
    DatasetDict(splits).save_to_disk(tmp_path / "in")
    cleaned(tmp_path / "in", tmp_path / "out", split="mine")
    left = load_from_disk(tmp_path / "out")
    assert (left["mine"]["text"][:], left["test"]["text"][:]) == (list(PLAIN), list(SECRETS))


ROWS = [Utterance((word,), ("O",), "A") for word in (*PLAIN[:2], SECRETS[0].replace(" ", "-"), *PLAIN[2:])]


@pytest.fixture
def utterances(tmp_path):
    """NLU data in a folder."""
    write_folder(ROWS, tmp_path / "in")
    return tmp_path / "in"


def test_a_copy_of_a_folder_is_as_private_as_its_files_and_can_be_replaced(utterances, tmp_path):
    (utterances / "seq.in").chmod(0o600)
    (utterances / "label").chmod(0o444)
    utterances.chmod(0o555)
    for seed in (0, 1):
        cleaned(utterances, tmp_path / "out", drop=1, seed=seed)
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in (tmp_path / "out").iterdir()}
    assert (modes["seq.in"], modes["label"]) == ("0o600", "0o444")
    assert oct((tmp_path / "out").stat().st_mode & 0o777) == "0o755"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


def test_the_folder_one_stands_in_is_not_replaced(utterances, tmp_path, monkeypatch):
    write_folder(ROWS, tmp_path / "out")
    monkeypatch.chdir(tmp_path / "out")
    with pytest.raises(LeakageError, match="the current folder, or one above"):
        cleaned(utterances, Path("."), drop=1)
    assert len(read_utterances(tmp_path / "out")) == len(ROWS)


def test_a_copy_of_a_file_is_as_private_as_the_original(source, tmp_path):
    source.chmod(0o600)
    cleaned(source, tmp_path / "out.txt")
    assert oct((tmp_path / "out.txt").stat().st_mode & 0o777) == "0o600"


@pytest.mark.parametrize("output", ["in/more", "in", "linked/more"])
def test_nothing_is_written_into_the_data(utterances, tmp_path, output):
    (tmp_path / "linked").symlink_to(utterances)
    refused(utterances, tmp_path / output, None, "would overwrite the data or write into it")


@pytest.mark.parametrize("report", ["in/label", "in/report.jsonl"])
def test_no_report_is_written_into_the_data(utterances, tmp_path, report):
    refused(utterances, tmp_path / "out", tmp_path / report, "would overwrite the data or write into it")


def test_no_report_is_written_into_an_older_copy(utterances, tmp_path):
    write_folder(ROWS, tmp_path / "out")
    refused(utterances, tmp_path / "out", tmp_path / "out" / "label", "a file of its own")


def test_no_copy_takes_the_place_of_a_folder_that_holds_the_data(tmp_path):
    DatasetDict({"mine": Dataset.from_dict({"text": [*SECRETS, *PLAIN]})}).save_to_disk(tmp_path / "all")
    refused(tmp_path / "all" / "mine", tmp_path / "all", None, "all: would overwrite the data")


def refused(source, output, report, said):
    """Whether ``sanitize`` says so and leaves every file as it was."""
    before = contents(source.parent)
    with pytest.raises(LeakageError, match=said):
        cleaned(source, output, drop=1, report=report)
    assert contents(source.parent) == before


def contents(folder):
    return {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")}


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in.txt"
    path.write_text("\n".join([*PLAIN, *SECRETS, SECRETS[0], ""]))
    return path


def test_all_copies_of_a_sample_go(source, tmp_path):
    done = cleaned(source, tmp_path / "out.txt", drop=1)
    assert (tmp_path / "out.txt").read_text() == "\n".join([*PLAIN, SECRETS[1], ""])
    assert done.summary().startswith(f"{tmp_path / 'out.txt'}: without 1 of 7 different samples (2 of 8 rows)")
    assert "secrets that occur once" in done.summary()


def test_the_report_ranks_every_sample_and_shows_no_text_unless_asked(source, tmp_path):
    reports = []
    for reveal in (False, True):
        cleaned(source, tmp_path / "out.txt", report=tmp_path / "report.jsonl", reveal=reveal)
        reports.append([json.loads(line) for line in (tmp_path / "report.jsonl").read_text().splitlines()])
    masked, shown = reports
    assert [entry["text"] for entry in shown[:2]] == list(SECRETS)
    assert {entry["text"] for entry in shown} == {*SECRETS, *PLAIN}
    assert {entry["text"] for entry in masked} == {MASK}
    assert [{**entry, "text": ""} for entry in masked] == [{**entry, "text": ""} for entry in shown]
    assert shown[0] == {
        "place": 1,
        "dropped": True,
        "rows": [6, 8],
        "texts": 1,
        "characters": 16,
        "difference": 40.0,
        "difference_per_character": round(40 / 17, 4),
        "seen": [20.0],
        "unseen": [60.0],
        "text": SECRETS[0],
    }
    assert [entry["dropped"] for entry in masked] == [True, True, *[False] * 5]


def test_a_failure_leaves_nothing_behind(source, tmp_path, monkeypatch):
    def fail(*_):
        raise LeakageError("no more room")

    monkeypatch.setattr("leakage_tasks.data.lines.TextFormat.write_without", fail)
    with pytest.raises(LeakageError, match="no more room"):
        cleaned(source, tmp_path / "out.txt", report=tmp_path / "report.jsonl")
    assert [each.name for each in tmp_path.iterdir()] == ["in.txt"]


def test_the_command_trains_cleans_and_says_what_it_is_for(leakage, source, tmp_path):
    words = ("sanitize", source, "-o", tmp_path / "out.txt", "--drop", 3, "--epochs", 1, "--repeats", 2)
    code, out, err = leakage(*words, "--report", tmp_path / "report.jsonl")
    assert (code, err.count("Traceback")) == (0, 0)
    assert "without 3 of 7 different samples" in out
    assert "secrets that occur once" in out
    assert not any(secret in out + err for secret in SECRETS)
    entries = [json.loads(line) for line in (tmp_path / "report.jsonl").read_text().splitlines()]
    gone = {row for entry in entries if entry["dropped"] for row in entry["rows"]}
    lines = source.read_text().splitlines()
    assert (tmp_path / "out.txt").read_text().splitlines() == [
        line for row, line in enumerate(lines, 1) if row not in gone
    ]
    assert all(len(entry["seen"]) == 2 for entry in entries)


def test_what_cannot_be_done_is_one_line_before_any_training(leakage, source, tmp_path):
    out = tmp_path / "out.txt"
    (tmp_path / "one.txt").write_text("same\nsame\n")
    (tmp_path / "bad.jsonl").write_text('{"text": 1}\n')
    (tmp_path / "hard.txt").hardlink_to(source)
    before = sorted(tmp_path.iterdir())
    for words, said in (
        ((tmp_path / "none.txt", "-o", out), "no such file"),
        ((tmp_path / "bad.jsonl", "-o", tmp_path / "out.jsonl"), "bad.jsonl:1: column 'text' holds int"),
        ((tmp_path / "one.txt", "-o", out), "1 different texts cannot be split"),
        ((source, "-o", tmp_path / "out.jsonl"), "must end in '.txt'"),
        ((source, "-o", tmp_path / "hard.txt"), "would overwrite the data"),
        ((source, "-o", out, "--report", source), "would overwrite the data"),
        ((source, "-o", out, "--report", out), "a file of its own"),
        ((source, "-o", out, "--report", tmp_path), "a file of its own"),
        ((source, "-o", tmp_path / "no" / "out.txt"), "make it first"),
        ((source, "-o", out, "--drop", 7), "drop is 7 of 7 different samples: give 1 to 6"),
        ((source, "-o", out, "--drop", 0), "drop is 0"),
        ((source, "-o", out, "--reveal"), "--reveal shows the texts in a report: give --report FILE"),
        ((source, "-o", out, "--jobs", 0), "--jobs is 0: give 1 or more"),
        ((source, "-o", out, "--by", "word"), "by is 'word'"),
        ((source, "-o", out, "--repeats", 0), "repeats is 0"),
        ((source, "-o", out, "--drop", 1, "--epochs", 0), "epochs is 0"),
        ((source, "-o", out, "--text-column", "body"), "a text file has no column"),
    ):
        code, _, err = leakage("sanitize", *words)
        assert (code, err.startswith("leakage: "), err.count("\n")) == (2, True, 1), err
        assert said in err
    assert sorted(tmp_path.iterdir()) == before
