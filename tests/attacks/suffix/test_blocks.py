"""Equal runs of tokens are equal, in order, and the whole of equal texts."""

from __future__ import annotations

from hypothesis import given, strategies

from leakage_tasks.attacks.suffix.blocks import SHORTEST, equal_blocks

TOKENS = strategies.lists(strategies.integers(0, 3), max_size=20)


@given(TOKENS, TOKENS)
def test_runs_are_equal_long_enough_maximal_and_in_order(written: list[int], true: list[int]) -> None:
    blocks = equal_blocks(written, true)
    ends = (0, 0)
    for first, second, length in blocks:
        assert length >= SHORTEST
        assert written[first : first + length] == true[second : second + length]
        assert first >= ends[0]
        assert second >= ends[1]
        ends = (first + length, second + length)
    longest = max(
        (
            n
            for a in range(len(written))
            for b in range(len(true))
            for n in range(len(true) - b + 1)
            if n and a + n <= len(written) and written[a : a + n] == true[b : b + n]
        ),
        default=0,
    )
    assert max((length for _, _, length in blocks), default=0) == (longest if longest >= SHORTEST else 0)


def test_a_text_equals_itself_and_placeholders_equal_nothing() -> None:
    assert equal_blocks([5, 6, 7, 8], [5, 6, 7, 8]) == ((0, 0, 4),)
    assert equal_blocks([9, 5, 6, 7, 8], [5, 6, 7, 8]) == ((1, 0, 4),)
    assert equal_blocks([-1, -1, -1], [1, 2, 3]) == ()
