"""One token a character, there and back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from leakage_tasks.models.char_tokenizer import char_tokenizer

ALPHABET = "ab <>s/unk.,'09\n\t\r\u00a0é\u0301ß…”漢🙂"
TOKENIZER = char_tokenizer(ALPHABET)


@given(st.text(alphabet=ALPHABET, max_size=60))
def test_round_trip_is_exact(text):
    ids = TOKENIZER.encode(text)
    assert len(ids) == len(text)
    assert TOKENIZER.decode(ids) == text
    assert ids == TOKENIZER.encode(text, add_special_tokens=False)


def test_special_tokens_are_not_read_from_text_and_not_added():
    assert TOKENIZER.bos_token_id == TOKENIZER.eos_token_id == TOKENIZER.pad_token_id == 0
    assert 0 not in TOKENIZER.encode("<s>")
    assert TOKENIZER.decode(TOKENIZER.encode("a<s> <unk>")) == "a<s> <unk>"


def test_characters_outside_the_alphabet_are_unknown_one_by_one():
    assert TOKENIZER.encode("aXYb") == [TOKENIZER.encode("a")[0], 1, 1, TOKENIZER.encode("b")[0]]


def test_saved_and_loaded_it_is_the_same(tmp_path):
    TOKENIZER.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    text = "a<s>b\n\n  0 , 9 .\u00a0é"
    assert loaded.encode(text) == TOKENIZER.encode(text)
    assert loaded.decode(loaded.encode(text)) == text
    assert len(loaded) == len(set(ALPHABET)) + 2


def test_order_and_repeats_in_the_alphabet_do_not_matter():
    assert char_tokenizer("cabba").get_vocab() == char_tokenizer("abc").get_vocab()
