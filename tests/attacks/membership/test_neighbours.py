"""Similar texts by words and by a masked model."""

from __future__ import annotations

from collections import Counter

import torch
from transformers import BertConfig, BertForMaskedLM

from leakage_tasks.attacks.membership.masked_neighbours import masked_neighbours
from leakage_tasks.attacks.membership.neighbours import by_words, number_changed
from tests.oracles import wordpiece

TEXT = "one two three  four five\nsix seven eight nine ten eleven twelve thirteen"


def test_words_are_dropped_or_swapped_and_no_other_is_added():
    copies = by_words(TEXT, 50, 0)
    assert len(set(copies)) > 25
    own = Counter(TEXT.split())
    for copy in copies:
        left = Counter(copy.split())
        assert left <= own
        assert (own - left).total() <= number_changed(13) == 2
        assert copy != TEXT
    assert any(len(copy.split()) == 13 for copy in copies)
    assert any(len(copy.split()) < 13 for copy in copies)


def test_similar_texts_depend_on_the_seed_and_the_text_alone():
    assert by_words(TEXT, 5, 0) == by_words(TEXT, 5, 0) == by_words(TEXT, 9, 0)[:5]
    assert by_words(TEXT, 5, 0) != by_words(TEXT, 5, 1)
    assert by_words("word", 2, 0) == ["word", "word"]
    assert by_words("", 2, 0) == ["", ""]


def spans(text: str, *parts: str) -> list[tuple[int, int]]:
    return [(text.index(part), text.index(part) + len(part)) for part in parts]


def test_words_that_no_turn_holds_stay_in_their_places():
    text = "USER: one two three four five</s>\nMODEL says: six seven eight nine ten</s>\n"
    spoken = spans(text, "one two three four five", "six seven eight nine ten")
    fixed = ["USER:", "five</s>", "MODEL", "says:", "ten</s>"]
    copies = by_words(text, 50, 0, {text: spoken}.get)
    assert len(set(copies)) > 10
    assert text not in copies
    for copy in copies:
        assert [word for word in copy.split() if word in fixed] == fixed
        assert copy.startswith("USER: ")
        assert copy.endswith(" ten</s>\n")
    alone = "<s> one </s>"
    assert by_words(alone, 2, 0, {alone: spans(alone, "one")}.get) == [alone] * 2
    assert by_words(" a b c", 5, 0, {" a b c": [(0, 6)]}.get) == by_words(" a b c", 5, 0)


def test_a_masked_model_replaces_some_tokens_by_others_of_its_vocabulary(tmp_path):
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(wordpiece()),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=40,
        initializer_range=1.0,
    )
    BertForMaskedLM(config).save_pretrained(tmp_path)
    wordpiece().save_pretrained(tmp_path)
    text = "the cat sat on the mat, a big dog runs"
    copies = masked_neighbours(str(tmp_path))(text, 20, 0)
    assert masked_neighbours(str(tmp_path))(text, 20, 0) == copies
    spoken = spans(text, "the", "sat on the mat, a", "dog runs")
    marked = masked_neighbours(str(tmp_path), spoken={text: spoken}.get)(text, 40, 0)
    assert {copy.split()[1] for copy in marked} == {"cat"}
    assert all("big" in copy.split() for copy in marked)
    assert any("big" not in copy.split() for copy in masked_neighbours(str(tmp_path))(text, 40, 0))
    own = wordpiece()(text, add_special_tokens=False)["input_ids"]
    changed = number_changed(len(own))
    for copy in copies:
        row = wordpiece()(copy, add_special_tokens=False)["input_ids"]
        if len(row) == len(own):  # a piece of a word may join the word before it
            assert sum(old != new for old, new in zip(own, row, strict=True)) == changed
        assert not set(row) & {0, 2, 3, 4}
    assert sum(len(wordpiece()(copy, add_special_tokens=False)["input_ids"]) == len(own) for copy in copies) > 10
