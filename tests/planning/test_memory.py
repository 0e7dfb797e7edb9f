"""The memory that a plan tells, counted a second way."""

from __future__ import annotations

from types import SimpleNamespace

from leakage_tasks.attacks.registry import AttackRequest
from leakage_tasks.planning.memory import memory_of
from leakage_tasks.targets import Seq2SeqTarget
from tests.targets.seq2seq.test_target import FIXED, SOURCE, ending, tiny

LAYERS, WIDTH, NUMBER = 2, 16, 4
LOGIT = 12


def test_a_pass_of_a_translation_model_holds_the_source_of_each_row() -> None:
    target = Seq2SeqTarget(tiny("t5"), ending(), batch_size=10).given(FIXED)
    found = memory_of(AttackRequest(target, FIXED, 100, "seed"), SimpleNamespace(model=tiny("t5")), 10)
    # The last token of a path is not read.
    tokens = target.paths(FIXED.attack_space).longest - 1 + len(ending()(SOURCE)["input_ids"])
    keys_and_values = tokens * 2 * LAYERS * WIDTH * NUMBER
    assert found.batch == 10 * (keys_and_values + LOGIT * len(ending()))
