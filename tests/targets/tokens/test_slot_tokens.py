"""Rows put together from parts equal the tokenization of the whole text."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from tokenizers.processors import RobertaProcessing
from transformers import PreTrainedTokenizerFast

from benchmarks.compatibility.tokenizers import unigram_model
from leakage_tasks.canaries.alphabets import word_list
from leakage_tasks.canaries.spaces import parse_template
from leakage_tasks.targets import ClassifierTarget
from leakage_tasks.targets.tokens.slot_tokens import known_text
from tests.oracles import WORDS, tiny_bert, wordpiece

ALPHABET = word_list("words", [word for word in WORDS if word not in ("the", "is")])
PIECES = word_list("pieces", ["cats", "sating", "7", "90", "dog", "red, blue"])


def rows_of(tokenizer, space):
    return ClassifierTarget(tiny_bert(), tokenizer).rows(space)


def as_lists(rows) -> list[list[int]]:
    return rows.tolist() if isinstance(rows, np.ndarray) else rows


def byte_level() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=420, special_tokens=["<s>", "</s>", "<pad>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([" ".join(WORDS)] * 50, trainer)
    tokenizer.post_processor = RobertaProcessing(("</s>", 1), ("<s>", 0))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>")


def metaspace() -> PreTrainedTokenizerFast:
    words = [f"▁{word}" for word in [*WORDS, *"0123456789.,:!"]]
    tokenizer = Tokenizer(unigram_model(words, ["<unk>", "<pad>"]))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", unk_token="<unk>")


TOKENIZERS = {"wordpiece": wordpiece, "byte-level": byte_level, "metaspace": metaspace}
TEMPLATES = ("the {w} sat on {w}.", "{w} the {w:2}", "the {p}: {w}", "is ({p}) {w}, {p}", "a{w}b {w}", "{w}{w} on")


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("template", TEMPLATES)
def test_every_row_is_the_tokenization_of_its_text(name, template):
    tokenizer = TOKENIZERS[name]()
    space = parse_template(template, {"w": ALPHABET, "p": PIECES})
    rows = rows_of(tokenizer, space)
    for known in range(1, len(space.slots) + 1):
        stream = np.random.default_rng(known)
        values = np.stack([stream.integers(len(slot), size=200) for slot in space.slots[:known]], axis=1)
        texts = [known_text(space, head) for head in rows.heads(values)]
        assert as_lists(rows.of(values)) == tokenizer(texts)["input_ids"]


@given(st.lists(st.sampled_from(["{w}", "{p}", "the", "is", ".", " ", ": ", "red"]), min_size=1, max_size=7), st.data())
@settings(max_examples=60, deadline=None)
def test_whatever_the_template(parts: Sequence[str], data):
    template = "".join(parts) + " {w}"
    space = parse_template(template, {"w": ALPHABET, "p": PIECES})
    rows = rows_of(wordpiece(), space)
    known = data.draw(st.integers(1, len(space.slots)))
    values = np.array([[data.draw(st.integers(0, len(slot) - 1)) for slot in space.slots[:known]] for _ in range(3)])
    texts = [known_text(space, head) for head in rows.heads(values)]
    assert as_lists(rows.of(values)) == wordpiece()(texts)["input_ids"]


def test_one_token_a_value_gives_one_array():
    rows = rows_of(wordpiece(), parse_template("the {w} sat on {w}.", {"w": ALPHABET}))
    assert rows.of(np.array([[0, 1], [2, 3]])).shape == (2, 8)


def test_the_text_is_not_tokenized_again_for_every_filling():
    calls = 0
    tokenizer = wordpiece()
    target = ClassifierTarget(tiny_bert(), tokenizer)
    rows = target.rows(parse_template("the {w} sat on {w}.", {"w": ALPHABET}))
    rows.of(np.array([[0, 1]]))

    def counted(texts):
        nonlocal calls
        calls += len(texts)
        return tokenizer(list(texts))["input_ids"]

    rows._encode = counted
    rows.of(np.array([[n, n] for n in range(len(ALPHABET))]))
    assert calls == 0


def test_the_place_of_a_slots_token_is_where_rows_differ():
    rows = rows_of(wordpiece(), parse_template("the {w} sat on {w}.", {"w": ALPHABET}))
    pair = rows.of(np.array([[3, 0], [3, 1]]))
    assert np.flatnonzero(pair[0] != pair[1]).tolist() == [rows.column(1)]
    assert rows.single(1)[[0, 1]].tolist() == pair[:, rows.column(1)].tolist()


def test_values_of_several_tokens_have_no_single_one():
    rows = rows_of(wordpiece(), parse_template("the {p}", {"p": PIECES}))
    assert rows.single(0) is None
    assert rows.column(0) is None


def test_the_known_text_ends_before_the_next_open_slot():
    space = parse_template("a {w} b {w} c", {"w": ALPHABET})
    assert known_text(space, ("cat",)) == "a cat b"
    assert known_text(space, ("cat", "dog")) == "a cat b dog c"
