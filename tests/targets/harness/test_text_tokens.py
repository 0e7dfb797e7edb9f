"""Tokenizers of several kinds, all with the same two ways."""

import pytest

from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.targets.harness.texts import text_tokens
from tests.oracles import merging

TEXT = "the pin is 1234, code ab7."


class Model:
    def __init__(self, tokenizer=None, end=None):
        self.tokenizer, self.eot_token_id = tokenizer, end


class Tiktoken:
    """The methods of a `tiktoken` encoding, on another tokenizer."""

    n_vocab, eot_token = 400, 7

    def encode_ordinary(self, text):
        return merging()(text, add_special_tokens=False)["input_ids"]

    def encode(self, text):
        raise AssertionError("finds special tokens in text")

    def decode(self, tokens):
        return merging().decode(tokens)


class Remote:
    """The methods of the harness' tokenizer behind a server."""

    def encode(self, text):
        return merging()(text, add_special_tokens=False)["input_ids"]

    def decode(self, tokens):
        assert all(type(token) is int for token in tokens)
        return merging().decode(tokens)


@pytest.mark.parametrize("tokenizer", [merging(), Tiktoken(), Remote()], ids=["transformers", "tiktoken", "remote"])
def test_every_kind_goes_both_ways(tokenizer):
    found = text_tokens(Model(tokenizer))
    expected = merging()(TEXT, add_special_tokens=False)["input_ids"]
    assert found.encode([TEXT, "the"])[0] == expected
    assert found.decode([expected, expected[:2]]) == [TEXT, merging().decode(expected[:2])]


@pytest.mark.parametrize(
    ("model", "vocabulary", "special"),
    [
        (Model(merging(), 3), len(merging()), {merging().eos_token_id, 3}),
        (Model(Tiktoken()), 400, {7}),
        (Model(Remote(), 5), None, {5}),
    ],
    ids=["transformers", "tiktoken", "remote"],
)
def test_what_is_told_of_the_vocabulary(model, vocabulary, special):
    found = text_tokens(model)
    assert (found.vocabulary, found.special) == (vocabulary, special)


def test_the_one_that_is_given_comes_first(tmp_path):
    merging().save_pretrained(tmp_path)
    for given in (str(tmp_path), merging()):
        assert text_tokens(Model(Remote()), given).vocabulary == len(merging())


def test_a_model_without_one_needs_a_name():
    class Hidden(Model):
        @property
        def tokenizer(self):
            raise OSError("no network")

        @tokenizer.setter
        def tokenizer(self, value):
            pass

    for model in (Model(), Hidden(), Model(tokenizer="a name"), object()):
        with pytest.raises(TargetError, match="--metadata tokenizer=NAME"):
            text_tokens(model)


def test_a_name_that_cannot_be_loaded_is_an_option_error():
    with pytest.raises(OptionError, match="no such folder"):
        text_tokens(Model(), "./nowhere")
