"""How a text becomes batches: what is predicted, how often, after what."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.core.errors import OptionError
from leakage_tasks.models.char_tokenizer import char_tokenizer
from leakage_tasks.training.text_batches import IGNORED, DrawnWindows, OverlappingWindows, Windows

TEXT = "".join(chr(0x4E00 + number) for number in range(200))
"""No character comes twice, so each stands for its place."""
TOKENIZER = char_tokenizer(TEXT)
CPU = torch.device("cpu")
SIZES = {"count": st.integers(2, 200), "batch_size": st.integers(1, 9), "length": st.integers(1, 40)}


def place(token: int) -> int:
    return token - 2


def rows(batches, epoch: int = 1) -> list[list[tuple[int, int]]]:
    """Each row's (place of the input, place of the target) that count."""
    return [
        [(place(read), place(wanted)) for read, wanted in zip(*row, strict=True) if wanted != IGNORED]
        for inputs, targets in batches.epoch(epoch)
        for row in zip(inputs.tolist(), targets.tolist(), strict=True)
    ]


@given(**SIZES, epoch=st.integers(0, 5))
def test_a_shuffled_epoch_predicts_every_character_once_from_the_one_before(count, batch_size, length, epoch):
    batches = DrawnWindows(TEXT[:count], TOKENIZER, batch_size, length, CPU, seed=3)
    found = rows(batches, epoch)
    assert sorted(pair for row in found for pair in row) == [(n, n + 1) for n in range(count - 1)]
    assert all(len(row) <= length for row in found)
    assert len(list(batches.epoch(epoch))) == len(batches)


def test_a_window_is_a_piece_of_the_text_and_one_at_most_goes_on_at_its_beginning():
    found = rows(DrawnWindows(TEXT, TOKENIZER, 7, 13, CPU))
    seams = sum((after[0] != before[1]) for row in found for before, after in pairwise(row))
    assert seams <= 1
    assert any(row[0][0] % 13 for row in found)


def test_epochs_differ_and_the_same_epoch_of_a_seed_does_not():
    def order(seed, epoch):
        return rows(DrawnWindows(TEXT, TOKENIZER, 7, 13, CPU, seed=seed), epoch)

    assert order(0, 1) == order(0, 1)
    assert order(0, 1) != order(0, 2)
    assert order(0, 1) != order(1, 1)


def test_bagging_draws_as_many_windows_with_replacement():
    counts: list[int] = []
    for epoch in range(40):
        drawn = DrawnWindows(TEXT, TOKENIZER, 4, 8, CPU, replacement=True)
        found = [tuple(row) for row in rows(drawn, epoch)]
        assert len(found) == drawn.windows == 25
        counts += Counter(found).values()
    # Each of 25 windows drawn 25 times with replacement: a share of (1 − 1/25)^25 = 0.36 is left out on average.
    assert len(counts) / (25 * 40) == pytest.approx(1 - (1 - 1 / 25) ** 25, abs=0.03)


@given(**SIZES)
def test_overlapping_windows_predict_every_character_once_with_half_a_window_before(count, batch_size, length):
    batches = OverlappingWindows(TEXT[:count], TOKENIZER, batch_size, length, CPU)
    assert sorted(pair for row in rows(batches) for pair in row) == [(n, n + 1) for n in range(count - 1)]
    assert batches.characters == count - 1
    context = [
        int((wanted != IGNORED).nonzero()[0])
        for _, targets in batches.epoch(1)
        for wanted in targets
        if (wanted != IGNORED).any()
    ]
    assert context[0] == 0
    assert all(before == length - max(1, length // 2) for before in context[1:])


@pytest.mark.parametrize("kind", [Windows, DrawnWindows, OverlappingWindows])
def test_a_text_with_nothing_to_predict_is_refused(kind):
    with pytest.raises(OptionError, match="1 characters"):
        kind(TEXT[:1], TOKENIZER, 4, 8, CPU)
