"""Characters that a tokenizer writes as several tokens are walked by their bytes, and no filling is lost."""

import pytest

from benchmarks.compatibility.tokenizers import tokenizer
from leakage_tasks.canaries import parse_template, word_list
from leakage_tasks.targets.tokens.byte_paths import BytePaths
from leakage_tasks.targets.tokens.vocabulary import as_bytes, as_text
from tests.oracles import merging
from tests.targets.tokens.test_token_paths import all_fillings, automaton


@pytest.mark.parametrize("kind", ["digits merged", "single digits", "Llama 3", "byte fallback", "Gemma"])
def test_every_filling_is_met_on_every_kind_of_tokenizer_with_bytes(kind, monkeypatch):
    space = parse_template("the ☃ pin is {digits:2}中{digits:1}.")
    paths = automaton(space, tokenizer(kind), monkeypatch)
    assert isinstance(paths, BytePaths)
    assert sorted(all_fillings(paths)) == sorted(space.enumerate())


def test_values_that_share_some_of_a_characters_bytes_are_told_apart(monkeypatch):
    space = parse_template("{w} ☃ {w}", {"w": word_list("w", ["naŵ", "nam", "ŵ", "ŷ", "中", "丮"])})
    paths = automaton(space, merging(), monkeypatch)
    assert isinstance(paths, BytePaths)
    assert sorted(all_fillings(paths)) == sorted(space.enumerate())


def test_text_by_its_bytes_is_the_same_text():
    text = "a é ☃ 中 \U0001f600"
    assert as_text(as_bytes(text)) == text
    assert [ord(each) for each in as_bytes(text)] == list(text.encode())
