"""Text for the usefulness task."""

import json

import pytest

from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.tasks.heldout_text import CHARACTERS, bits_of, documents


def test_a_text_is_cut_at_line_ends_and_nothing_is_lost(tmp_path):
    text = "".join(f"line {n} of the text\n" for n in range(600))
    (tmp_path / "a.txt").write_text(text)
    cut = documents(text=str(tmp_path / "a.txt"), pretrained="x", seed=3)["test"]["text"]
    assert "".join(cut) == text
    assert all(part.endswith("\n") for part in cut)
    assert all(CHARACTERS <= len(part) < CHARACTERS + 30 for part in cut[:-1])


def test_jsonl_rows_are_documents(tmp_path):
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": word}) + "\n" for word in ("one", "two")))
    assert documents(heldout_bits_per_byte={"text": str(tmp_path / "a.jsonl")})["test"]["text"] == ["one", "two"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"\xff\xfe", "not UTF-8 at byte 0"),
        ("a.txt", b"\n\n", "holds no text"),
        ("a.jsonl", b'{"text": "x"}\n{"other": 1}\n', "a.jsonl:2: expected a JSON object with a field 'text'"),
        ("a.jsonl", b"[1]\n", "a.jsonl:1"),
    ],
)
def test_bad_files_are_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(OptionError, match=message):
        documents(text=str(tmp_path / name))


def test_jsonl_may_hold_blank_lines_and_any_character(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "one\u2028two"}\n\n{"text": "three"}\n', encoding="utf-8-sig")
    assert documents(text=str(tmp_path / "a.jsonl"))["test"]["text"] == ["one\u2028two", "three"]


@pytest.mark.parametrize(("own", "message"), [("x", "expected options by name"), ({"txt": "a"}, "did you mean 'text'")])
def test_its_own_options_are_checked(own, message):
    with pytest.raises(OptionError, match=message):
        documents(heldout_bits_per_byte=own)


def test_a_missing_text_is_asked_for(tmp_path):
    with pytest.raises(OptionError, match="--metadata text=FILE"):
        documents(pretrained="x")
    with pytest.raises(OptionError, match="cannot be read"):
        documents(text=str(tmp_path / "none.txt"))


@pytest.mark.parametrize("answer", [-7.5, (-7.5, False)])
def test_bits_are_by_byte(answer):
    assert bits_of({"text": "né"}, [answer]) == {"bits_per_byte": (-7.5, 3)}


def test_a_text_of_which_the_tokenizer_reads_nothing_is_no_perfect_model():
    with pytest.raises(TargetError, match="a text of 3 characters has the log-likelihood 0.*tokenizer=NAME"):
        bits_of({"text": "abc"}, [0.0])
