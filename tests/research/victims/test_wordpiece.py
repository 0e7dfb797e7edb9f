"""The WordPiece tokenizer: BERT's behaviour, repeatable, with the words it was told to keep."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from transformers import AutoTokenizer

from leakage_tasks.canaries import tokenizer_words
from leakage_tasks.core.errors import OptionError
from leakage_tasks.research.victims.docstrings import docstring_rows
from leakage_tasks.research.victims.wordpiece import SPECIAL, train_wordpiece
from tests.conftest import ROOT

TEXTS = ["The quick brown fox jumps over the lazy dog.", "A quicker fox jumped; the quickest jumps again."] * 20


def test_text_survives_in_its_case():
    tokenizer = train_wordpiece(TEXTS, vocabulary=90)
    assert tokenizer.decode(tokenizer.encode("The quick fox"), skip_special_tokens=True) == "The quick fox"
    assert len(tokenizer) <= 90
    assert tokenizer.convert_ids_to_tokens(range(5)) == list(SPECIAL)


def test_a_row_is_framed_as_bert_frames_it():
    tokenizer = train_wordpiece(TEXTS, vocabulary=90)
    ids = tokenizer.encode("fox")
    assert (ids[0], ids[-1]) == (tokenizer.cls_token_id, tokenizer.sep_token_id)


def test_words_given_are_whole_tokens_and_the_size_stays():
    words = ["Palestine", "xylophone", "fox", "Fulton"]
    tokenizer = train_wordpiece(TEXTS, vocabulary=90, words=words)
    assert [tokenizer.tokenize(word) for word in words] == [[word] for word in words]
    assert len(tokenizer) <= 90
    assert len(set(tokenizer.get_vocab().values())) == len(tokenizer)


def test_every_character_of_the_texts_is_known():
    tokenizer = train_wordpiece([*TEXTS, "naïve Ω"], vocabulary=110)
    assert tokenizer.unk_token_id not in tokenizer.encode("naïve Ω dog jumps")


def test_saved_and_loaded_it_reads_the_same(tmp_path):
    tokenizer = train_wordpiece(TEXTS, vocabulary=90, words=["Disney"])
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    text = "The Disney [MASK] jumps QUICKLY"
    assert loaded.encode(text) == tokenizer.encode(text)
    assert loaded.mask_token_id == tokenizer.mask_token_id
    assert loaded.mask_token_id in loaded.encode(text)
    assert loaded.all_special_tokens == tokenizer.all_special_tokens


def test_its_whole_words_make_an_alphabet(tmp_path):
    train_wordpiece(TEXTS, vocabulary=90, words=["Disney"]).save_pretrained(tmp_path)
    alphabet = tokenizer_words("words", str(tmp_path), "whole-words")
    assert {"Disney", "fox"} <= set(alphabet.values)
    assert all(value.isalpha() for value in alphabet.values)


@pytest.mark.slow
def test_another_process_learns_the_same_vocabulary():
    program = (
        "import json\n"
        "from leakage_tasks.research.victims.docstrings import docstring_rows\n"
        "from leakage_tasks.research.victims.wordpiece import train_wordpiece\n"
        "tokenizer = train_wordpiece([text for text, _ in docstring_rows()[:2000]], vocabulary=1500, words=['Zebra'])\n"
        "print(json.dumps(tokenizer.get_vocab()))\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "1"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    here = train_wordpiece([text for text, _ in docstring_rows()[:2000]], vocabulary=1500, words=["Zebra"])
    assert json.loads(done.stdout) == here.get_vocab()
    assert "Zebra" in here.get_vocab()


@pytest.mark.parametrize("word", ["two words", "semi-colon", ""])
def test_a_word_that_is_none_is_refused(word):
    with pytest.raises(OptionError, match="cannot be one token"):
        train_wordpiece(TEXTS, vocabulary=90, words=[word])


def test_a_vocabulary_too_small_says_how_much_is_needed():
    with pytest.raises(OptionError, match=r"vocabulary is 20: .* need \d+ at least"):
        train_wordpiece(TEXTS, vocabulary=20)
