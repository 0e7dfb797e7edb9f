"""Lists of words as the tensors a tagger reads."""

from __future__ import annotations

import torch

from leakage_tasks.models.nlu_inputs import nlu_inputs
from leakage_tasks.models.nlu_tagger import NLUTaggerConfig
from tests.taggers import tiny_tagger, words_tokenizer


def config(**changed: object) -> NLUTaggerConfig:
    return NLUTaggerConfig(**{**tiny_tagger(True).config.to_dict(), "characters": "abc", **changed})


def spelt(word: str, **changed: object) -> list[int]:
    """The numbers of one word's characters."""
    return nlu_inputs([[word]], words_tokenizer(), config(**changed))["characters"][0, 0].tolist()


def test_words_have_the_numbers_of_the_tokenizer_and_1_if_it_knows_them_not() -> None:
    ids = nlu_inputs([["my", "pin", "unheard"]], words_tokenizer(), config())["input_ids"]
    assert ids.tolist() == [[*words_tokenizer().convert_tokens_to_ids(["my", "pin"]), 1]]


def test_shorter_sentences_are_padded_on_the_right() -> None:
    found = nlu_inputs([["pin"], ["my", "pin", "code"]], words_tokenizer(), config())
    assert found["input_ids"][0, 1:].tolist() == [0, 0]
    assert found["attention_mask"].tolist() == [[1, 0, 0], [1, 1, 1]]
    assert (found["characters"][0, 1:] == 0).all()


def test_sentences_are_padded_with_the_models_own_padding() -> None:
    found = nlu_inputs([["pin"], ["my", "pin"]], words_tokenizer(), config(pad_token_id=7))
    assert found["input_ids"][0, 1] == 7


def test_characters_are_numbered_from_2_and_others_are_1() -> None:
    assert spelt("cab?") == [4, 2, 3, 1]


def test_shorter_words_end_in_zeros() -> None:
    found = nlu_inputs([["a", "cab"]], words_tokenizer(), config())["characters"]
    assert torch.equal(found, torch.tensor([[[2, 0, 0], [4, 2, 3]]]))


def test_words_are_cut_at_the_most_characters_of_a_word() -> None:
    assert spelt("abcabc", max_word_length=4) == [2, 3, 4, 2]
    assert spelt("abcabc", max_word_length=6) == [2, 3, 4, 2, 3, 4]


def test_without_a_character_layer_there_are_no_characters() -> None:
    assert set(nlu_inputs([["a"]], words_tokenizer(), config(characters=""))) == {"input_ids", "attention_mask"}
