"""Token ids of many texts at once: what the tokenizer itself gives, whatever its Python layer does."""

from __future__ import annotations

from typing import Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from leakage_tasks.targets.token_ids import MANY, token_ids
from tests.targets.text_models import marked_words, merged_line_end

TEXTS = [f"the code is {number}, said <s> 17" + " 4" * (number % 3) for number in range(MANY + 7)]


class Counted:
    """A tokenizer that counts the texts it is given through its Python layer."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer, self.texts = tokenizer, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)

    def __call__(self, texts: list[str], **told: Any) -> Any:
        self.texts += len(texts)
        return self._tokenizer(texts, **told)


class Shouting(PreTrainedTokenizerFast):
    """A tokenizer that changes texts before its backend sees them."""

    def __call__(self, text: Any, *rest: Any, **told: Any) -> Any:
        """In capitals."""
        return super().__call__([each.upper() for each in text], *rest, **told)


def with_special_tokens() -> PreTrainedTokenizerFast:
    """A tokenizer of words that puts ``<s>`` before a text and ``</s>`` after it."""
    return PreTrainedTokenizerFast(tokenizer_object=_backend(), bos_token="<s>", eos_token="</s>", pad_token="</s>")


def shouting() -> PreTrainedTokenizerFast:
    return Shouting(tokenizer_object=_backend(), bos_token="<s>", eos_token="</s>")


def _backend() -> Tokenizer:
    words = ["<unk>", "<s>", "</s>", "THE", "CODE", "IS", "the", "code", "is", ",", "said", "17", *map(str, range(10))]
    numbers = {word: number for number, word in enumerate(dict.fromkeys(words))}
    backend = Tokenizer(models.WordLevel(numbers, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.TemplateProcessing("<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    return backend


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("make", [merged_line_end, marked_words, with_special_tokens, shouting])
def test_ids_are_those_the_tokenizer_gives_text_by_text(make: Any, special: bool) -> None:
    expected = [make()([text], add_special_tokens=special)["input_ids"][0] for text in TEXTS]
    assert token_ids(make(), TEXTS, special) == expected


@pytest.mark.parametrize(("make", "few"), [(with_special_tokens, True), (shouting, False)])
def test_many_texts_go_past_the_python_layer_unless_it_changes_them(make: Any, few: bool) -> None:
    tokenizer = Counted(make())
    token_ids(tokenizer, TEXTS, special=False)
    assert tokenizer.texts < 40 if few else tokenizer.texts >= len(TEXTS)


@pytest.mark.parametrize(("make", "through_python"), [(with_special_tokens, 20), (shouting, 100)])
def test_few_texts_go_past_the_python_layer_once_some_agreed(make: Any, through_python: int) -> None:
    tokenizer = Counted(make())
    rows = [row for first in range(0, 100, 5) for row in token_ids(tokenizer, TEXTS[first : first + 5], special=True)]
    assert tokenizer.texts == through_python
    assert rows == make()(TEXTS[:100])["input_ids"]
    tokenizer(TEXTS[:9], truncation=True, max_length=3)
    assert token_ids(tokenizer, TEXTS[:2], special=True) == rows[:2]


def test_what_an_earlier_call_cut_off_and_filled_up_does_not_matter() -> None:
    tokenizer = with_special_tokens()
    tokenizer(TEXTS[:9], truncation=True, max_length=3, padding="max_length")
    tokenizer(TEXTS[:9], split_special_tokens=True)
    assert token_ids(tokenizer, TEXTS, special=True) == with_special_tokens()(TEXTS)["input_ids"]


def test_a_tokenizer_without_a_backend_is_asked_itself() -> None:
    def tokenizer(texts: list[str], **_: Any) -> dict[str, list[list[int]]]:
        return {"input_ids": [[len(text)] for text in texts]}

    assert token_ids(tokenizer, TEXTS, special=False) == [[len(text)] for text in TEXTS]


def test_no_texts_have_no_tokens() -> None:
    assert token_ids(with_special_tokens(), [], special=True) == []
