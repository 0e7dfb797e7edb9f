"""What the canaries of each family are, against the data read by hand; and that families are of one shape."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import pytest
from scipy import stats
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from leakage_tasks.canaries import read_manifest
from leakage_tasks.canaries.canary import FAMILIES, Canary, Family
from leakage_tasks.canaries.families import FamilyRequest, family_canaries
from leakage_tasks.core.errors import ManifestError, OptionError
from leakage_tasks.data import Columns
from tests.conftest import Ran, Refused

SYLLABLES = ["ka", "lo", "mi", "ru", "te", "so", "na", "vi"]
VOCABULARY = ["".join(parts) for parts in product(SYLLABLES, repeat=2)] + [
    "".join(p) for p in product(SYLLABLES, "xyz")
]
WITHOUT_DATA = ("typical", "high-perplexity", "bigram")


@pytest.fixture(scope="module")
def lines() -> list[str]:
    stream = random.Random(0)
    return [" ".join(["We", *stream.choices(VOCABULARY, k=stream.randrange(5, 10))]) + "." for _ in range(120)]


@pytest.fixture(scope="module")
def request_(lines: list[str], tmp_path_factory: pytest.TempPathFactory) -> FamilyRequest:
    folder = tmp_path_factory.mktemp("families")
    path = folder / "d.txt"
    path.write_text("\n".join(lines) + "\n")
    made = Tokenizer(models.WordLevel(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    new = [f"new{number}" for number in range(40)]
    made.train_from_iterator([*lines, " ".join(new)], trainers.WordLevelTrainer(special_tokens=["<unk>"]))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>")
    tokenizer.add_tokens(["<added1>", "<added2>"])
    tokenizer.save_pretrained(folder / "tokenizer")
    return FamilyRequest(path, Columns(), 6, (1, 4), 8, tokenizer=str(folder / "tokenizer"), seed=3)


def made(request: FamilyRequest, *families: Family) -> list[Canary]:
    return family_canaries(families, request)


def context_of(canary: Canary) -> str:
    return canary.space.pieces[0].rstrip(" ")


@pytest.mark.parametrize("family", [*WITHOUT_DATA, "new-token"])
def test_planted_ones_and_controls_are_of_one_shape(request_: FamilyRequest, family: Family) -> None:
    found = made(request_, family)
    assert [each.planted for each in found] == [True] * 6 + [False] * 8
    assert [each.repetitions for each in found] == [1, 4, 1, 4, 1, 4] + [0] * 8
    assert {each.family for each in found} == {family}
    assert len({each.space.size for each in found}) == 1
    assert len({context_of(each) for each in found}) == len({each.id for each in found}) == 14


def test_typical_ones_are_sentences_of_the_data_with_other_words_at_their_end(
    request_: FamilyRequest, lines: list[str]
) -> None:
    found = made(request_, "typical")
    values = {value for each in found for slot in each.space.slots for value in slot.values}
    for each in found:
        (line,) = (line for line in lines if line.startswith(context_of(each) + " "))
        rest = line.removeprefix(context_of(each)).strip(" .").split()
        assert len(rest) == 2
        assert not values & set(rest)
        assert each.text not in lines
    assert values <= set(VOCABULARY)


def test_no_filling_of_a_bigram_canary_has_two_words_that_the_data_join(
    request_: FamilyRequest, lines: list[str]
) -> None:
    joined = {pair for line in lines for pair in pairwise(re.findall(r"\w+", line.lower()))}
    for each in made(request_, "bigram"):
        last = context_of(each).rpartition(" ")[2].lower()
        first, second = (slot.values for slot in each.space.slots)
        assert not joined & ({(last, value) for value in first} | set(product(first, second)))


def test_new_tokens_are_tokens_that_the_data_never_have(request_: FamilyRequest, lines: list[str]) -> None:
    tokenizer = PreTrainedTokenizerFast.from_pretrained(request_.tokenizer)
    used = {token for line in lines for token in tokenizer(line)["input_ids"]}
    for each in made(replace(request_, unknown=1), "new-token"):
        for value in each.space.slots[0].values:
            (token,) = tokenizer(value)["input_ids"]
            assert token not in used


def test_tokens_that_were_added_are_new_ones(request_: FamilyRequest) -> None:
    found = [made(replace(request_, seed=seed), "new-token")[0].space.slots[0].values for seed in range(8)]
    assert {"<added1>", "<added2>"} <= {value for values in found for value in values}


def test_high_perplexity_contexts_are_no_sentences_of_the_data(request_: FamilyRequest, lines: list[str]) -> None:
    for each in made(replace(request_, tokenizer=None), "high-perplexity"):
        assert set(context_of(each).split()) <= set(VOCABULARY)
        assert not any(line.startswith(context_of(each)) for line in lines)


def test_secrets_are_uniform_over_their_words(request_: FamilyRequest) -> None:
    places = []
    for seed in range(25):
        for each in made(replace(request_, seed=seed), "typical"):
            slots = zip(each.space.slots, each.secret, strict=True)
            # Widths are powers of two from 16 on, and differ with the sentences that are drawn.
            places += [slot.position(value) * 16 // len(slot) for slot, value in slots]
    counts = [places.count(place) for place in range(16)]
    assert stats.chisquare(counts).pvalue > 1e-4


def test_the_same_seed_makes_the_same(request_: FamilyRequest) -> None:
    assert made(request_, *WITHOUT_DATA) == made(request_, *WITHOUT_DATA)


def test_families_of_one_manifest_share_no_context(request_: FamilyRequest) -> None:
    found = made(request_, "typical", "bigram")
    assert len({context_of(each) for each in found}) == len(found)


@pytest.mark.parametrize(
    ("changed", "families", "words"),
    [
        ({"unknown": 0}, ("typical",), "--unknown is 0: give 1 to 8 words"),
        ({"tokenizer": None}, ("new-token",), "--family new-token needs --tokenizer"),
        ({}, ("high-temperature",), "--family high-temperature needs --model"),
        ({"temperature": 0.0}, ("typical",), "--temperature is 0.0: give a number above 0"),
        ({"count": 500}, ("typical",), "too few for 508 canaries and controls: give more text"),
    ],
)
def test_what_cannot_be_made_is_one_line(
    request_: FamilyRequest, changed: dict[str, object], families: tuple[Family, ...], words: str
) -> None:
    request = replace(request_, **changed)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=words):
        made(request, *families)


def test_data_that_use_all_tokens_have_no_new_ones(request_: FamilyRequest, lines: list[str], tmp_path: Path) -> None:
    path = tmp_path / "all.txt"
    path.write_text("\n".join([*lines, " ".join(f"new{number}" for number in range(40))]) + "\n")
    with pytest.raises(OptionError, match=r"--family new-token: .*all.txt leave few or no tokens .*add_tokens"):
        made(replace(request_, data=path), "new-token")


def test_on_the_command_line(request_: FamilyRequest, tmp_path: Path, ran: Ran) -> None:
    path = tmp_path / "c.jsonl"
    numbers = ("--count", 2, "--controls", 3, "--repetitions", "2", "--seed", 5)
    out, err = ran("canaries", "--family", "bigram,typical", "--data", request_.data, *numbers, "-o", path)
    assert err.endswith(
        "(4 planted 2 times; an interval takes 10 planted equally often): use --count 5 or more, or --profile routine\n"
    )
    assert err.count("\n") == 1
    assert "4 canaries (8 copies to plant), 6 controls" in out
    assert "of each family: bigram, typical; the manifest, and samples logged with it, hold sentences of --data" in out
    found = read_manifest(path)
    assert [each.family for each in found] == ["bigram"] * 5 + ["typical"] * 5
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--family", "typicl", "--data", "d.txt"), "--family 'typicl': use one or several of typical, .*typical"),
        (("--family", "typical"), "--family needs --data"),
        (("--family", "typical", "--template", "x {digits:2}"), "give one of --template, --preset"),
        (("--family", "typical", "--data", "d.txt", "--tags", "O"), "--tags goes with --template"),
        (("--template", "x {digits:2}", "--model", "m"), "--model goes with --family"),
        (("--family", "typical", "--data", "d.txt", "--role", "boss"), "--role 'boss': is not a role of a chat"),
        (
            ("--family", "typical", "--data", "d.txt", "--count", "0", "--controls", "0"),
            "--count and --controls are both 0",
        ),
        (("--family", "typical", "--data", "missing.txt"), "missing.txt"),
    ],
)
def test_wrong_options_are_one_line(arguments: tuple[str, ...], words: str, tmp_path: Path, refused: Refused) -> None:
    assert re.search(words, refused("canaries", *arguments, "-o", tmp_path / "c.jsonl"))


def test_a_family_that_there_is_not_is_an_error_of_the_manifest(tmp_path: Path, request_: FamilyRequest) -> None:
    line = made(request_, "typical")[0].to_json() | {"family": "odd"}
    path = tmp_path / "c.jsonl"
    path.write_text(json.dumps(line) + "\n")
    with pytest.raises(ManifestError, match=rf"c.jsonl:1: field 'family': .*{', '.join(FAMILIES)}"):
        read_manifest(path)
