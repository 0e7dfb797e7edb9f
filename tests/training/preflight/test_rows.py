"""Rows of batches, and characters back to tokens."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.core.errors import OptionError
from leakage_tasks.training.preflight.rows import Detokenizer, rows_of
from tests.oracles import letters, merging

TEXTS = st.text("the pin is 0123456789 code ab, .", min_size=1, max_size=30)


@given(text=TEXTS, data=st.data(), kind=st.sampled_from([letters, merging]))
def test_characters_are_those_tokens_that_hold_them(text, data, kind):
    text = text.replace(",", "") or "x"
    ids = np.array(kind()(text, add_special_tokens=False)["input_ids"])
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    held = [n for n, token in enumerate(ids) for _ in kind().decode([token])]
    found = Detokenizer(kind()).tokens(ids, start, end)
    assert list(range(found.start, found.stop)) == sorted(set(held[start:end]))


def test_padding_is_left_out_and_the_first_token_never_counts():
    batch = {
        "input_ids": torch.tensor([[0, 0, 5, 6, 7], [1, 2, 3, 4, 5]]),
        "attention_mask": torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]]),
        "labels": torch.tensor([[-100, -100, 5, 6, 7], [1, 2, -100, 4, 5]]),
    }
    left, right = rows_of(batch, encodes=False)
    assert (left.tokens.tolist(), left.counted.tolist()) == ([5, 6, 7], [False, True, True])
    assert (right.tokens.tolist(), right.counted.tolist()) == ([1, 2, 3, 4, 5], [False, True, False, True, True])


def test_a_translator_reads_its_source_and_learns_its_target():
    batch = {"input_ids": torch.tensor([[5, 6]]), "labels": torch.tensor([[7, 8, -100]])}
    source, target = rows_of(batch, encodes=True)
    assert (source.tokens.tolist(), source.counted.tolist()) == ([5, 6], [False, False])
    assert (target.tokens.tolist(), target.counted.tolist()) == ([7, 8], [True, True])


def test_the_second_half_of_a_preference_batch_is_rejected():
    batch = {
        "input_ids": torch.tensor([[1, 2], [1, 3]]),
        "completion_mask": torch.tensor([[0, 1], [0, 1]]),
        "attention_mask": torch.ones(2, 2),
    }
    assert [(row.pair, row.counted.tolist()) for row in rows_of(batch, encodes=False)] == [
        ("chosen", [False, True]),
        ("rejected", [False, True]),
    ]


def test_a_batch_with_masked_tokens_is_refused() -> None:
    batch = {"input_ids": torch.tensor([[2, 4, 6, 4, 3]]), "labels": torch.tensor([[-100, 5, -100, 7, -100]])}
    with pytest.raises(OptionError, match="masked language models: only trainers of causal .* leakage verify instead"):
        list(rows_of(batch, encodes=False))
