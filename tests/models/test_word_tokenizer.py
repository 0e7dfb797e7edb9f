"""One token a word, there and back, and searchable."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

from leakage_tasks.canaries.spaces import parse_template
from leakage_tasks.models.word_tokenizer import word_tokenizer
from leakage_tasks.targets import CausalTarget

TEXT = "b a the number is b , ##x N's é\nis the the b 0 1 2 3 4 5 6 7 8 9 .\n"
WORDS = sorted(set(TEXT.split()))
TOKENIZER = word_tokenizer(TEXT)
LINES = st.lists(st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join), max_size=4).map("\n".join)


@given(LINES)
def test_known_words_survive_with_their_line_breaks(text):
    ids = TOKENIZER.encode(text)
    assert TOKENIZER.decode(ids) == text
    assert len(ids) == len(text.split()) + text.count("\n")


def test_other_white_space_is_one_space():
    assert TOKENIZER.decode(TOKENIZER.encode("  the\t b  \n is ")) == "the b\nis"


def test_the_commonest_words_are_kept_and_those_wanted_always():
    made = word_tokenizer("c b a a b b d\nd d d", 2, always=["c", "d", "<s>"])
    assert sorted(made.get_vocab(), key=made.get_vocab().get) == [
        "<s>",
        "<unk>",
        "\n",
        "d",
        "b",
        "c",
    ]
    assert made.encode("a") == [made.unk_token_id]


def test_saved_and_loaded_it_is_the_same(tmp_path):
    TOKENIZER.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    text = "the b\nis ##x ,\n\nunknown N's"
    assert loaded.encode(text) == TOKENIZER.encode(text)
    assert loaded.decode(loaded.encode(text)) == TOKENIZER.decode(TOKENIZER.encode(text))


@pytest.mark.parametrize("template", ["the number is {digit_words:9}", "is {digit_words:4} , b {digit_words:5} .\n"])
def test_a_billion_fillings_of_words_can_be_searched(template):
    config = GPT2Config(vocab_size=len(TOKENIZER), n_layer=1, n_head=1, n_embd=8, n_positions=32)
    space = parse_template(template)
    paths = CausalTarget(GPT2LMHeadModel(config), TOKENIZER).paths(space)
    fixed = TOKENIZER.encode(template.split(" {")[0])
    assert space.size == 10**9
    assert list(paths.prefix) == fixed
    for filling in space.sample(20, 0):
        assert [*fixed, *paths.path(filling)] == TOKENIZER.encode(space.fill(filling))
