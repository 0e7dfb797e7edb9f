"""The distinct masked copies of texts, against copies written out one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakage_tasks.targets.masked import rows as masked_rows
from leakage_tasks.targets.masked.rows import MaskedRows, Query, varying_positions

MASK = 9
TEXTS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=4), min_size=1, max_size=8)


@st.composite
def queries(draw: st.DrawFn) -> list[Query]:
    texts = draw(TEXTS)
    return [(ids, draw(st.lists(st.sampled_from(range(len(ids))), unique=True).map(sorted))) for ids in texts]


def written_out(asked: list[Query]) -> list[tuple[tuple[int, ...], int, int]]:
    """Masked copy, its mask's place and the token there, for each token asked about."""
    return [((*ids[:place], MASK, *ids[place + 1 :]), place, ids[place]) for ids, places in asked for place in places]


@given(queries())
@settings(deadline=None, max_examples=60)
def test_every_token_is_asked_of_its_own_copy_and_no_copy_comes_twice(asked: list[Query]) -> None:
    rows, expected, copies = MaskedRows(asked, MASK), written_out(asked), []
    seen: dict[int, tuple] = {}
    for part in rows.parts():
        copies += [(*row,) for row in (part.rows.tolist() if isinstance(part.rows, np.ndarray) else part.rows)]
        for row, column, tokens, numbers in zip(part.rows, part.columns, part.tokens, part.queried, strict=True):
            for token, number in zip(tokens.tolist(), numbers.tolist(), strict=True):
                seen[number] = ((*map(int, row),), int(column), token)
    assert [seen[number] for number in range(len(expected))] == expected
    assert sorted(copies) == sorted({copy for copy, _, _ in expected})
    assert len(rows) == len(copies)


def test_values_are_summed_by_text() -> None:
    rows = MaskedRows([([1, 2], [0, 1]), ([1], []), ([3], [0])], MASK)
    assert rows.sums(np.array([1.0, 2.0, 4.0])).tolist() == [3.0, 0.0, 4.0]


def test_copies_are_written_out_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masked_rows, "TOGETHER", 6)
    parts = list(MaskedRows([([n, n + 1, n + 2], [0, 1, 2]) for n in range(10, 20, 3)], MASK).parts())
    assert len(parts) > 3
    assert sorted(number for part in parts for number in part.queried.ravel().tolist()) == list(range(12))


def test_varying_places_are_those_texts_of_one_length_differ_in() -> None:
    asked = [([5, 1, 6], [0, 1, 2]), ([5, 2, 6], [1, 2]), ([7, 7], [0, 1])]
    assert varying_positions(asked) == [[1], [1], []]
