"""Utterances read from a folder of three files and from CoNLL, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.data.utterances import Utterance, read_utterances, write_folder

PLAY = Utterance(("play", "old", "songs"), ("O", "B-genre", "I-genre"), "PlayMusic")
RAIN = Utterance(("rain", "today"), ("O", "B-day"), "GetWeather")


def folder(path: Path, words: str, tags: str, intents: str) -> Path:
    """A folder of the three files, with these contents."""
    path.mkdir(exist_ok=True)
    for name, content in (("seq.in", words), ("seq.out", tags), ("label", intents)):
        (path / name).write_text(content, encoding="utf-8", newline="")
    return path


def conll(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8", newline="")
    return path


@pytest.mark.parametrize(
    ("words", "tags", "intents"),
    [
        ("play old songs\nrain today\n", "O B-genre I-genre\nO B-day\n", "PlayMusic\nGetWeather\n"),
        ("play  old songs  \n rain today", "O B-genre I-genre \nO\tB-day", "PlayMusic \nGetWeather"),
        ("play old songs\r\nrain today\r\n", "O B-genre I-genre\r\nO B-day\r\n", "PlayMusic\r\nGetWeather\r\n"),
        ("\ufeffplay old songs\nrain today\n", "O B-genre I-genre\nO B-day\n", "\ufeffPlayMusic\nGetWeather"),
    ],
)
def test_a_folder(tmp_path: Path, words: str, tags: str, intents: str) -> None:
    assert read_utterances(folder(tmp_path / "train", words, tags, intents)) == [PLAY, RAIN]


@pytest.mark.parametrize(
    "content",
    [
        "# intent = PlayMusic\nplay O\nold B-genre\nsongs I-genre\n\n# intent: GetWeather\nrain O\ntoday B-day\n",
        "#\tintent=PlayMusic \r\nplay\tO\r\nold\tB-genre\r\nsongs\tI-genre\r\n \r\n\r\n#  intent = GetWeather\r\n"
        "rain\tO\r\ntoday\tB-day",
        "\ufeff# made by hand\n\n# text = play old songs O\n# intent = PlayMusic\nplay VB _ O\nold JJ _ B-genre\n"
        "songs NN _ I-genre\n\n# x\nrain NN O\ntoday NN B-day\n# intent = GetWeather\n\n\n",
    ],
)
def test_a_conll_file(tmp_path: Path, content: str) -> None:
    assert read_utterances(conll(tmp_path / "train.conll", content)) == [PLAY, RAIN]


def test_a_hash_can_be_a_word(tmp_path: Path) -> None:
    (row,) = read_utterances(conll(tmp_path / "d.conll", "# intent = A\n#\tO\n#1\tB-x\n#\tI-x\n"))
    assert row == Utterance(("#", "#1", "#"), ("O", "B-x", "I-x"), "A")


def test_an_inside_tag_may_follow_anything(tmp_path: Path) -> None:
    (row,) = read_utterances(folder(tmp_path / "d", "a b c\n", "I-x I-y B-x-y\n", "A b\n"))
    assert (row.tags, row.intent) == (("I-x", "I-y", "B-x-y"), "A b")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    rows = [PLAY, RAIN, Utterance(("é", "#"), ("O", "O"), "A")]
    write_folder(rows, tmp_path / "d")
    assert read_utterances(str(tmp_path / "d")) == rows


def refused(path: Path) -> str:
    with pytest.raises(PlantingError) as error:
        read_utterances(path)
    return str(error.value)


@pytest.mark.parametrize(
    ("words", "tags", "intents", "message"),
    [
        (
            "a\nb\nc\n",
            "O\nO\n",
            "A\nA\nA",
            "d: files of unequal numbers of lines (seq.in has 3, seq.out has 2, label has 3): "
            "line 3 of seq.in has no partner in seq.out: ",
        ),
        (
            "a\n",
            "O\n",
            "A\nA\n",
            "(seq.in has 1, seq.out has 1, label has 2): line 2 of label has no partner in seq.in",
        ),
        ("a\na b\n", "O\nO\n", "A\nA\n", "seq.out:2: 1 tags, but seq.in has 2 words"),
        ("a\na b\n", "O\nO O O\n", "A\nA\n", "seq.out:2: 3 tags, but seq.in has 2 words"),
        ("a b\n", "O X-name\n", "A\n", "seq.out:1: tag 'X-name' is outside the BIO scheme: write O, B-name or I-name"),
        ("a\n", "B-\n", "A\n", "seq.out:1: tag 'B-' is outside"),
        ("a\n", "o\n", "A\n", "seq.out:1: tag 'o' is outside"),
        ("a\n \n", "O\n\n", "A\nA\n", "seq.in:2: no word: write the utterance, or drop the line in every file"),
        ("a\na\n", "O\nO\n", "A\n\t\n", "label:2: no intent: name it"),
        ("", "", "", "d: holds no utterance"),
    ],
)
def test_a_folder_that_does_not_fit(tmp_path: Path, words: str, tags: str, intents: str, message: str) -> None:
    assert message in refused(folder(tmp_path / "d", words, tags, intents))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("play O\n", "d.conll:1: an utterance without an intent: put a line '# intent = NAME' before its words"),
        ("# intent = A\na O\n\n# b\nb O\n", "d.conll:4: an utterance without an intent"),
        ("# intent = A\na\n", "d.conll:2: 'a' has no tag, expected a word first and its tag last: add the tag"),
        ("# intent = A\na NN\n", "d.conll:2: tag 'NN' is outside the BIO scheme"),
        ("# intent = A\n\na O\n", "d.conll:1: an intent without words: write the words below it"),
        ("# intent =\na O\n", "d.conll:1: no intent: write '# intent = NAME'"),
        ("# intent = A\na O\n# intent = B\nb O\n", "d.conll:3: a second intent, after 'A': end the utterance before"),
        ("# nothing\n\n", "d.conll: holds no utterance"),
        ("", "d.conll: holds no utterance"),
    ],
)
def test_a_conll_file_that_does_not_fit(tmp_path: Path, content: str, message: str) -> None:
    assert message in refused(conll(tmp_path / "d.conll", content))


def test_missing_files_are_named(tmp_path: Path) -> None:
    path = folder(tmp_path / "d", "a\n", "O\n", "A\n")
    (path / "seq.out").unlink()
    assert "d: has no seq.out: NLU data needs seq.in, seq.out, label" in refused(path)
    (path / "label").unlink()
    assert "d: has no seq.out and no label:" in refused(path)


@pytest.mark.parametrize("name", ["seq.in", "seq.out", "label"])
def test_bytes_that_are_not_utf8(tmp_path: Path, name: str) -> None:
    path = folder(tmp_path / "d", "a\nb\n", "O\nO\n", "A\nA\n")
    (path / name).write_bytes(b"O\n\xff\n")
    assert f"{name}: not UTF-8 at byte 2 (line 2): save the file as UTF-8 first" in refused(path)
    (tmp_path / "d.conll").write_bytes(b"# intent = A\n\xff O\n")
    assert "d.conll: not UTF-8 at byte 13 (line 2)" in refused(tmp_path / "d.conll")


def test_paths_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "d.txt").write_text("a\n")
    assert "expected a .conll file or a folder with seq.in, seq.out, label" in refused(tmp_path / "d.txt")
    assert "no such file or folder" in refused(tmp_path / "none")
