"""Tests of groups against formulas written down."""

from __future__ import annotations

import math

import pytest

from leakage_tasks.research.framework.group_tests import combined, no_difference


def test_combined_is_fishers_of_two() -> None:
    """Of two, the chance that a product of uniform numbers is as small: q·(1 − ln q)."""
    product = 0.25 * 0.05
    claim = combined("w", [0.25, 0.05], "shown")
    assert claim.p == pytest.approx(product * (1 - math.log(product)))
    assert claim.holds is None
    assert combined("w", [0.05, 0.05], "shown").holds is True
    assert combined("w", [], "shown").evidence == "not measured"


def test_groups_differ_where_chance_seldom_ranks_them_so() -> None:
    near = no_difference("w", [[1.0, 6.0], [2.0, 5.0], [3.0, 4.0]], "shown")
    assert (near.holds, near.p) == (True, None)
    far = [[float(n + 10 * group) for n in range(5)] for group in range(3)]
    assert no_difference("w", far, "shown").holds is False


def test_alike_or_few_groups() -> None:
    assert no_difference("w", [[math.inf, math.inf], [math.inf, math.inf]], "s").holds is True
    assert no_difference("w", [[1.0], [2.0]], "s").holds is None
