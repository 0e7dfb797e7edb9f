"""``leakage canaries --preset`` and labels counted in the data, from the command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from leakage_tasks.canaries import (
    Canary,
    elmahdy_canaries,
    make_canaries,
    mix_and_match_canaries,
    nlu_canaries,
    read_manifest,
)
from leakage_tasks.canaries.alphabets import tokenizer_words
from leakage_tasks.canaries.generate import nonce_of
from tests.conftest import Leakage, Ran, Refused


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Six rows: three of sports, two of arts, one of maths."""
    path = tmp_path / "train.csv"
    topics = ["sports", "arts", "sports", "maths", "arts", "sports"]
    path.write_text("body,topic\n" + "".join(f"x,{topic}\n" for topic in topics))
    return path


@pytest.fixture
def counted(data: Path) -> tuple[object, ...]:
    """Options that have classes counted."""
    return "--data", data, "--label-column", "topic", "--text-column", "body"


def asked_for(path: Path, make: Callable[..., list[Canary]], *what: object, **named: object) -> list[Canary]:
    """What the library makes with the seed of a manifest that the command wrote."""
    seed = read_manifest(path)[0].seed
    assert seed is not None
    prefix = f"{named.pop('id_prefix', '')}{nonce_of(seed)}-"
    return [replace(canary, seed=seed) for canary in make(*what, **named, seed=seed, id_prefix=prefix)]


def test_elmahdy(tmp_path: Path, leakage: Leakage, word_pieces: Path, counted: tuple[object, ...]) -> None:
    path = tmp_path / "c.jsonl"
    options = ("--unknown", 2, "--count", 2, "--controls", 1, "--seed", 3, "--repetitions", "10,50")
    more = ("--supporting-repetitions", 4)
    code, out, err = leakage(
        "canaries", "--preset", "elmahdy", "--tokenizer", word_pieces, *counted, *options, *more, "-o", path
    )
    assert (code, err) == (0, "")
    assert out == (
        f"{path}: 2 canaries and 4 supporting canaries (76 copies to plant), 1 control; space of 16 secrets, "
        "4.0 bits; class 'maths'\n"
    )
    words = tokenizer_words("words", str(word_pieces), "whole-words")
    assert read_manifest(path) == asked_for(
        path,
        elmahdy_canaries,
        words,
        2,
        label="maths",
        classes=["maths", "arts", "sports"],
        unknown=2,
        repetitions=(10, 50),
        supporting_repetitions=4,
        controls=1,
    )
    assert read_manifest(path)[0].seed == 3


@pytest.mark.parametrize(("supporting", "labels"), [("all", 2), ("one", 1), ("none", 0), ("2", 2)])
def test_elmahdy_supporting(
    tmp_path: Path, leakage: Leakage, word_pieces: Path, counted: tuple[object, ...], supporting: str, labels: int
) -> None:
    path = tmp_path / "c.jsonl"
    options = ("--label", "most-popular", "--supporting", supporting, "-o", path)
    assert leakage("canaries", "--preset", "elmahdy", "--tokenizer", word_pieces, *counted, *options)[0] == 0
    own, *helpers = read_manifest(path)
    assert own.label == "sports"
    assert len({helper.label for helper in helpers} & {"arts", "maths"}) == len(helpers) == labels


def test_elmahdy_with_classes_by_name(tmp_path: Path, leakage: Leakage, word_pieces: Path) -> None:
    path = tmp_path / "c.jsonl"
    named = ("--label", "a", "--supporting-labels", "b,a,c")
    assert leakage("canaries", "--preset", "elmahdy", "--tokenizer", word_pieces, *named, "-o", path)[0] == 0
    assert [canary.label for canary in read_manifest(path)] == ["a", "b", "c"]


def test_elmahdy_with_sentences(tmp_path: Path, leakage: Leakage, word_pieces: Path) -> None:
    path, sentences = tmp_path / "c.jsonl", tmp_path / "s.txt"
    sentences.write_text("The sky is blue.\n\nGrass is green\n")
    options = ("--sentences", sentences, "--count", 2, "--supporting", "none", "-o", path)
    assert leakage("canaries", "--preset", "elmahdy", "--tokenizer", word_pieces, *options)[0] == 0
    assert [canary.template for canary in read_manifest(path)] == ["The sky is {words}.", "Grass is {words}"]


def test_mix_and_match(tmp_path: Path, leakage: Leakage, table_words: Path) -> None:
    path = tmp_path / "c.jsonl"
    options = ("--tokenizer", table_words, "--label", "5", "--repetitions", "25", "--controls", 2)
    code, out, err = leakage("canaries", "--preset", "mix-and-match", *options, "-o", path)
    assert (code, err) == (0, "")
    assert "14 canaries (350 copies to plant), 2 controls" in out
    terms = tokenizer_words("terms", str(table_words), "words-and-numbers")
    given = {"label": "5", "repetitions": (25,), "controls": 2}
    assert read_manifest(path) == asked_for(path, mix_and_match_canaries, terms, **given)


@pytest.mark.parametrize(
    ("options", "count"),
    [(("--conjoin",), 7), (("--position", 1), 14), (("--targets", "towels, 1974"), 2), (("--labels", "mixed"), 5)],
)
def test_mix_and_match_variants(
    tmp_path: Path, leakage: Leakage, table_words: Path, counted: tuple[object, ...], options: tuple, count: int
) -> None:
    path = tmp_path / "c.jsonl"
    preset = ("--preset", "mix-and-match", "--tokenizer", table_words)
    assert leakage("canaries", *preset, *counted, *options, "-o", path)[0] == 0
    assert len(read_manifest(path)) == count
    labels = {canary.label for canary in read_manifest(path)}
    assert labels == ({"maths", "arts", "sports"} if "--labels" in options else {"maths"})


def test_nlu(tmp_path: Path, ran: Ran) -> None:
    path = tmp_path / "c.jsonl"
    options = ("--unknown", 6, "--count", 2, "--controls", 1, "--seed", 3, "--id-prefix", "x-")
    out, err = ran("canaries", "--preset", "nlu-pin", *options, "-o", path)
    assert err.startswith("leakage: warning: the template has no {unique}: 2 canaries share a prefix and compete")
    assert out == (
        f"{path}: 2 canaries (200 copies to plant), 1 control; space of 1,000,000 secrets, 19.9 bits; "
        "class 'PinIntent'\n"
    )
    with pytest.warns(UserWarning, match="compete"):
        assert read_manifest(path) == asked_for(path, nlu_canaries, "pin", 2, 6, controls=1, id_prefix="x-")


def test_nlu_with_everything_else(tmp_path: Path, leakage: Leakage, counted: tuple[object, ...]) -> None:
    path = tmp_path / "c.jsonl"
    options = ("--area-code", "206", "--repetitions", "500", "--label", "arts")
    assert leakage("canaries", "--preset", "nlu-call", *options, "-o", path)[0] == 0
    assert read_manifest(path) == asked_for(
        path, nlu_canaries, "call", area_code="206", repetitions=(500,), label="arts"
    )
    assert leakage("canaries", "--preset", "nlu-color", *counted, "-o", path)[0] == 0
    assert read_manifest(path) == asked_for(path, nlu_canaries, "color", label="maths")


def test_a_template_with_classes_counted(tmp_path: Path, leakage: Leakage, counted: tuple[object, ...]) -> None:
    path = tmp_path / "c.jsonl"
    template = "{unique} {digits:4}"
    assert (
        leakage("canaries", "--template", template, *counted, "--supporting", "all", "--count", 1, "-o", path)[0] == 0
    )
    given = {"label": "maths", "supporting": 2, "supporting_labels": ["arts", "sports"]}
    nonce = nonce_of(read_manifest(path)[0].seed or 0)
    assert read_manifest(path) == asked_for(path, make_canaries, template, 1, **given, nonce=nonce)


ONE = ("--count", "1", "--template")
ELMAHDY = ("--preset", "elmahdy", "--tokenizer", "TOKENIZER")
MIX = ("--preset", "mix-and-match", "--tokenizer", "TOKENIZER")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give one of --template, --preset (elmahdy, mix-and-match, "),
        ([*ELMAHDY, "--template", "{digits}"], "give one of --template, --preset"),
        (["--from-text", "train.csv", "--template", "{digits}"], "give one of --template"),
        (["--template", "{digits}", "--detect", "ccn"], "--detect goes with --from-text: leave it out"),
        (["--template", "{digits}", "--reveal"], "--reveal goes with --from-text: leave it out"),
        (["--from-text", "train.csv", "--label", "a"], "--label goes with --template or --preset elmahdy or"),
        (
            ["--from-text", "train.csv", "--label-column", "topic"],
            'nlu-color: leave it out, and write the class as "label" into each line of the manifest',
        ),
        (["--from-text", "train.csv"], "no column 'text'"),
        (["--from-text", "none.txt"], "none.txt: no such file"),
        (["--from-text", "."], "a folder without .txt files"),
        (["--preset", "elmady"], "--preset is 'elmady': use elmahdy, mix-and-match, nlu-call, nlu-"),
        (["--preset", "elmahdy", "--supporting", "none"], "--preset elmahdy needs --tokenizer"),
        (["--preset", "mix-and-match"], "--preset mix-and-match needs --tokenizer"),
        ([*ELMAHDY, "--position", "1"], "--position goes with --preset mix-and-match: leave it out"),
        ([*ELMAHDY, "--tags", "O"], "--tags goes with --template: leave it out"),
        ([*ONE, "my pin code is {digits}", "--tags", "O,O,B-x"], "-canary-0 has 5 words"),
        ([*ONE, "pin {digits}", "--tags", ","], "-canary-0 has 2 words: give each"),
        ([*ONE, "pin {digits}", "--tags", "O,Q-x"], "--tags: 'Q-x' is outside the BIO scheme: use O, B-name"),
        ([*ONE, "pin {digits}", "--tags", "O,B-x y"], "--tags: 'B-x y' is outside the BIO scheme"),
        ([*ELMAHDY, "--conjoin"], "--conjoin goes with --preset mix-and-match: leave it out"),
        ([*MIX, "--count", "3"], "--count goes with --template or --preset elmahdy or --preset nlu-call"),
        ([*MIX, "--supporting", "one"], "--supporting goes with --template or --preset elmahdy"),
        (["--template", "{digits}", "--unknown", "0"], "--unknown goes with --preset elmahdy"),
        ([*ELMAHDY, "--label", "rarest"], "--label rarest needs --data and --label-column"),
        ([*ELMAHDY, "--label-column", "topic"], "--label-column goes with --data"),
        ([*ELMAHDY, "--data", "train.csv"], "--data train.csv needs --label-column"),
        (["--template", "{digits}", "--supporting", "1,2"], "--supporting is '1,2': give all, one, none or a number"),
        ([*ELMAHDY, "--sentences", "none.txt"], "none.txt: cannot read the sentences"),
        (["--preset", "nlu-pin", "--area-code", "206"], "--area-code goes with --preset nlu-call: leave it out"),
        (
            ["--preset", "nlu-pin", "--tokenizer", "x"],
            "--tokenizer goes with --template or --preset elmahdy or --preset",
        ),
        (["--preset", "nlu-call", "--label", "rarest"], "--label rarest needs --data and --label-column"),
        ([*MIX, "--repetitions", "x"], "--repetitions is 'x': give whole numbers"),
    ],
)
def test_what_is_wrong_is_one_line(
    tmp_path: Path,
    data: Path,
    refused: Refused,
    word_pieces: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [str(word_pieces) if word == "TOKENIZER" else word for word in arguments]
    assert message in refused("canaries", *words, "-o", "c.jsonl")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train.csv"]
