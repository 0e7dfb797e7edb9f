"""The tokenizer for translation: nothing lost, digits apart, the end after every sentence."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.canaries.alphabets import BUILT_IN
from leakage_tasks.canaries.spaces import parse_template
from leakage_tasks.research.victims.translation_tokenizer import translation_tokenizer

WORDS = ["the", "pin", "is", "Số", "tôi", ".", "-", "4", "17"]
TOKENIZER = translation_tokenizer(["the pin is 42.", "the Số tôi, the"], always=WORDS)


@given(st.lists(st.sampled_from(WORDS), min_size=1).map(" ".join))
def test_nothing_of_a_known_text_is_lost(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER(text)["input_ids"], skip_special_tokens=True) == text


def test_every_sentence_ends_and_every_digit_is_a_token() -> None:
    for text, count in (("the pin is 281-26.", 3 + 3 + 1 + 2 + 1), ("pin 2 8 1", 4), ("pin", 1)):
        assert len(TOKENIZER(text)["input_ids"]) == count + 1
        assert TOKENIZER(text)["input_ids"][-1] == TOKENIZER.eos_token_id == 1
        assert TOKENIZER(text_target=text, add_special_tokens=False)["input_ids"] == TOKENIZER(text)["input_ids"][:-1]


def test_the_three_ways_of_a_number_have_tokens_of_their_own() -> None:
    tokenizer = translation_tokenizer([], always=BUILT_IN["number_words"].values)
    for slot in ("digits", "digit_words", "number_words"):
        space = parse_template(f"{{{slot}:3}}")
        rows = {tuple(tokenizer(space.fill(filling))["input_ids"]) for filling in space.enumerate()}
        assert {len(row) for row in rows} == {4}
        assert len(rows) == 1000
        assert not any(tokenizer.unk_token_id in row for row in rows)


def test_only_the_commonest_are_known_and_what_is_asked_for() -> None:
    tokenizer = translation_tokenizer(["a a a b b c"], most=2, always=["d"])
    known = set(tokenizer.get_vocab())
    assert {" a", " b", "d", " d", "0", " 0", "9", " 9"} <= known
    assert not {" c", "c"} & known
    assert tokenizer("c")["input_ids"] == [tokenizer.unk_token_id, 1]


def test_special_tokens_in_a_text_are_text() -> None:
    tokenizer = translation_tokenizer(["< / s >"])
    assert 1 not in tokenizer("</s>", add_special_tokens=False)["input_ids"]
