"""How much of a template the attacker is given."""

import pytest

from leakage_tasks.canaries import Canary
from leakage_tasks.canaries.attacker_view import attacker_view

CANARY = Canary(
    "c", "my {{pin}} is {digits:2}, or {letters} {{maybe}}.", ("4", "2", "b"), known="is {digits:2}, or {letters}"
)


@pytest.mark.parametrize(
    ("known", "text"),
    [
        ("all", "my {pin} is 42, or b {maybe}."),
        ("before", "my {pin} is 42, or b"),
        ("after", "42, or b {maybe}."),
        ("none", "42, or b"),
    ],
)
def test_the_attacker_sees_the_slots_what_is_between_them_and_the_side_named(known, text):
    seen = attacker_view(CANARY, known)
    assert seen.attack_space.fill(seen.secret) == text
    assert seen.text == CANARY.text


@pytest.mark.parametrize("template", ["{digits}", "{digits} x", "x {digits}"])
@pytest.mark.parametrize("known", ["all", "before", "after", "none"])
def test_a_side_without_text_has_none_to_leave_out(template, known):
    seen = attacker_view(Canary("c", template, ("7",)), known).attack_space
    kept = {"all": ("x ", " x"), "before": ("x ", ""), "after": ("", " x"), "none": ("", "")}[known]
    assert seen.pieces == tuple(side if side and side in template else "" for side in kept)


@pytest.mark.parametrize(
    ("template", "known"), [("x {digits}", "before"), ("{digits} x", "after"), ("{digits}", "none")]
)
def test_what_leaves_nothing_out_is_the_canary_itself(template, known):
    canary = Canary("c", template, ("7",))
    assert attacker_view(canary, known) == attacker_view(canary, "all") == canary
