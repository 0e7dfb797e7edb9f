"""Texts read by a causal model, against plain passes of `transformers`."""

from __future__ import annotations

import copy
import math
import random
from collections import Counter

import pytest
import torch
from tokenizers import processors
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer
from transformers import PreTrainedTokenizerFast

from benchmarks.compatibility.tokenizers import tokenizer as tokenizer_called
from leakage_tasks.core.errors import TargetError
from leakage_tasks.pairs.document_texts import document_blocks
from leakage_tasks.targets.causal.target import CausalTarget
from leakage_tasks.targets.protocols import CutText, ReadsTexts
from leakage_tasks.targets.suffix.text_cut import cut_text
from leakage_tasks.targets.suffix.text_reader import CausalTextReader
from tests.chats import chat_model, chat_tokenizer
from tests.oracles import letters, merging, tiny_gpt2


def plain(model, before, tokens):
    """Log-probabilities of the whole vocabulary at each of the tokens, in float64."""
    with torch.no_grad():
        logits = model(torch.tensor([[*before, *tokens]])).logits[0].double()
    return logits[len(before) - 1 : -1].log_softmax(-1)


@pytest.mark.parametrize("before", [None, "my house is red"])
@pytest.mark.parametrize("cached", [True, False])
def test_figures_are_those_of_a_plain_pass(before, cached):
    model, tokenizer = tiny_gpt2(letters()), letters()
    reader = CausalTextReader(CausalTarget(model, tokenizer, cached=cached), before)
    assert isinstance(reader, ReadsTexts)
    texts = reader.cut(["the dog", "a", "two red cats saw my old house", "", "the dogs"], 25)
    start = [tokenizer.bos_token_id] if before is None else tokenizer(before, add_special_tokens=False)["input_ids"]
    for text, figures in zip(texts, reader.read(texts), strict=True):
        assert len(text.tokens) <= 25
        if not text.tokens:
            assert figures.total == 0
            continue
        logs = plain(model, start, text.tokens)
        own = logs[range(len(text.tokens)), list(text.tokens)]
        mean = (logs.exp() * logs).sum(-1)
        assert figures.total == pytest.approx(float(own.sum()), abs=1e-4)
        assert figures.log_probabilities == pytest.approx(own.numpy(), abs=1e-5)
        assert figures.means == pytest.approx(mean.numpy(), abs=1e-5)
        spread = (logs.exp() * (logs - mean[:, None]).square()).sum(-1).sqrt()
        assert figures.deviations == pytest.approx(spread.numpy(), abs=1e-5)
    filled = [text for text in texts if text.tokens]
    context = reader.cut(["no pin is "], 20)[0]
    for text, total in zip(filled, reader.totals_after(context, filled), strict=True):
        logs = plain(model, [*start, *context.tokens], text.tokens)
        assert total == pytest.approx(float(logs[range(len(text.tokens)), list(text.tokens)].sum()), abs=1e-4)


def test_one_forward_pass_reads_a_text_once(monkeypatch):
    target = CausalTarget(tiny_gpt2(letters()), letters())
    reader = CausalTextReader(target)
    rows = []
    read = target.read
    monkeypatch.setattr(target, "read", lambda tokens, *rest: rows.extend(tokens.tolist()) or read(tokens, *rest))
    texts = reader.cut(["the dog", "a red cat", "my pin"], 50)
    reader.read(texts)
    assert len(rows) == 3


def test_excluded_tokens_count_nothing_in_the_moments():
    model = tiny_gpt2(letters())

    class Excluding(CausalTarget):
        def read(self, tokens, keep, sources=(None,)):
            logits = super().read(tokens, keep, sources)
            logits[..., 5:] = -math.inf
            return logits

    reader = CausalTextReader(Excluding(model, letters()))
    [figures] = reader.read([CutText("..", (2, 3))])
    assert all(map(math.isfinite, [*figures.means, *figures.deviations, figures.total]))
    [excluded] = reader.read([CutText("..", (2, 7))])
    assert excluded.total == -math.inf
    assert all(map(math.isfinite, excluded.means))


def test_a_text_is_cut_where_its_tokens_end():
    target = CausalTarget(tiny_gpt2(merging()), merging())
    reader = CausalTextReader(target)
    text = "  the pin is 1234 é 5678"
    for number in range(1, 20):
        [cut] = reader.cut([text], number)
        assert text.startswith(cut.text)
        assert "�" not in cut.text
        assert len(cut.tokens) == min(number, len(reader.cut([text], 99)[0].tokens))
    assert reader.cut([text], 99)[0].text == text
    # A tokenizer that changes the case, and one that drops the space before a text.
    assert cut_text("The Dog runs", [1, 2, 3], 2, lambda row: "the dog").text == "The Dog"
    assert cut_text(" the dog runs", [1, 2, 3], 2, lambda row: "the dog").text == " the dog"


@pytest.mark.parametrize("style", ["gemma", "mistral"])
def test_tokens_that_carry_a_space_cut_a_text_where_they_end(style: str):
    """Decoding a part of the tokens spells spaces that the text does not have."""
    tokenizer = chat_tokenizer(style)
    row = [("user", "The pin of kalo3 is"), ("assistant", "0123.\n\n All right.")]
    text = tokenizer.apply_chat_template([{"role": role, "content": said} for role, said in row], tokenize=False)
    reader = CausalTextReader(CausalTarget(chat_model(style), tokenizer), "")
    whole = reader.target.encode([text])[0]
    for number in range(len(whole) - 1):
        [cut] = reader.cut([text], number)
        assert text.startswith(cut.text)
        assert [*cut.first, *cut.tokens] == reader.target.encode([cut.text])[0] == whole[: number + 1]


def test_a_character_of_several_tokens_is_left_out_of_a_cut_text():
    tokenizer = tokenizer_called("byte fallback")
    row = tokenizer("the é pin", add_special_tokens=False)["input_ids"]
    texts = [cut_text("the é pin", row, number, lambda kept: "?", tokenizer).text for number in range(1, len(row))]
    assert texts[row.index(tokenizer.convert_tokens_to_ids("<0xC3>"))] == "the "
    assert "the é" in texts
    assert texts == sorted(texts, key=len)


class Counting:
    """A tokenizer that counts the characters that it reads."""

    is_fast = True

    def __init__(self, tokenizer):
        self.tokenizer, self.characters = tokenizer, 0

    def __call__(self, text, **settings):
        self.characters += len(text)
        return self.tokenizer(text, **settings)


def test_only_the_beginning_of_a_long_text_is_read_again_for_its_cut():
    tokenizer = copy.deepcopy(merging())
    counting = Counting(tokenizer)
    text = "the pin is 1234 and the dog saw it " * 400
    row = tokenizer(text, add_special_tokens=False)["input_ids"]
    whole = tokenizer.decode(row[:20])
    assert cut_text(text, row, 20, tokenizer.decode, counting).text == whole
    assert counting.characters < len(text) / 10
    # One token may be longer than the beginning that is read.
    tokenizer.add_tokens(["=" * 5000])
    text = "=" * 5000 + text
    row = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert len(cut_text(text, row, 2, tokenizer.decode, tokenizer).text) in range(5001, 5010)


@pytest.mark.parametrize("trim", [False, True])
def test_a_cut_text_keeps_the_white_space_of_its_tokens(trim: bool):
    """A tokenizer like that of GPT-2 leaves white space out of the characters of a token."""
    text = "a poem   \n\n\n      of lines   \n      and the pin"
    backend = copy.deepcopy(merging()).backend_tokenizer
    backend.train_from_iterator([text] * 9, BpeTrainer(vocab_size=300, initial_alphabet=ByteLevel.alphabet()))
    backend.post_processor = processors.ByteLevel(trim_offsets=trim)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend)
    row = tokenizer(text, add_special_tokens=False)["input_ids"]
    for number in range(1, len(row)):
        assert cut_text(text, row, number, tokenizer.decode, tokenizer).text == tokenizer.decode(row[:number])


def test_a_context_that_leaves_no_room_is_an_error():
    reader = CausalTextReader(CausalTarget(tiny_gpt2(letters()), letters()))
    context, text = reader.cut(["a" * 40, "b" * 40], 60)
    with pytest.raises(TargetError, match="a context of 41 tokens and a text of 40 exceed the model's 64"):
        reader.totals_after(context, [text])


@pytest.mark.parametrize("tokenizer", [letters, merging])
def test_the_pieces_of_a_large_file_are_the_tokens_of_its_whole_text(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr("leakage_tasks.data.lines.BLOCK", 1000)
    monkeypatch.setattr("leakage_tasks.pairs.texts.running_tokens.__defaults__", (200,))
    stream = random.Random(0)
    words = ["the", "pin", "of", "my", "old", "house", "is", "not", "red", "and", "blue"]
    texts = [" ".join(stream.choices(words, k=number)) for number in (3000, 2, 700, 0, 40)]
    for index, text in enumerate(texts):
        (tmp_path / f"{index}.txt").write_text(text)
    own = copy.deepcopy(tokenizer())
    reader = CausalTextReader(CausalTarget(tiny_gpt2(own), own))
    expected = Counter(token for text in reader.cut(texts, 1 << 30) for token in text.tokens)
    read = []
    monkeypatch.setattr(type(own), "__call__", spied(type(own).__call__, read))
    pieces = list(reader.pieces(document_blocks(tmp_path, "text")))
    assert Counter(token for piece in pieces for token in piece) == expected
    # The tokenizer reads blocks of 1,000 characters, each after the last 200 characters before it.
    assert max(map(len, read)) <= 1200 < len(texts[2]) < len(texts[0])


def spied(call, read):
    """A tokenizer's call that notes the texts it reads."""

    def noted(self, text, **options):
        read.extend([text] if isinstance(text, str) else text)
        return call(self, text, **options)

    return noted
