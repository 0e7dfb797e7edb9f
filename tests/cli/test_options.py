"""``leakage options`` shows what attacks, tasks and models declare."""

from __future__ import annotations

import re

import pytest

from leakage_tasks.attacks.registry import ATTACKS, BUDGET
from leakage_tasks.models.bridge import SIZES
from leakage_tasks.pairs.texts import LENGTH
from leakage_tasks.targets.memory import FREE_SHARE
from leakage_tasks.tasks.options import TASKS
from leakage_tasks.tasks.suffix.options import VALIDATION
from tests.conftest import Ran, Refused


def test_all_attacks_and_tasks_are_listed_with_their_options(ran: Ran) -> None:
    out, _ = ran("options")
    titles = [line for line in out.splitlines() if not line.startswith(" ")]
    assert [title.partition(",")[0].partition(":")[0] for title in titles] == [
        *(f"task {name}" for name in TASKS),
        *(f"attack {name}" for name in ATTACKS),
    ]
    assert {each.name for options in TASKS.values() for each in options.values()} <= set(out.split())


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("beam", r"width +int >= 1"),
        ("suffix_extraction", r"decoding +sample \| greedy \| beam +sample "),
        ("label_accuracy", r"data +text +required"),
        ("heldout_bits_per_byte", r"text +text +required"),
        ("canary_exposure", rf"budget +int >= 1 +{BUDGET} "),
        ("canary_extraction", r"canaries +text +builtin "),
        ("canary_exposure", rf"memory +text +{FREE_SHARE:.0%} of the free memory "),
        ("suffix_extraction", rf"memory +text +{FREE_SHARE:.0%} of the free memory "),
        ("suffix_extraction", rf"validation +int +0, trained: {VALIDATION} "),
        ("suffix_extraction", r"wrong +int +100, below 1000 pairs a tenth "),
        ("suffix_extraction", rf"prefix_length +int +all, of text {LENGTH} "),
        ("frankenstein-mlm", rf"bridge_size +int >= 1 +{SIZES['adapter']} or {SIZES['prompt']} "),
        ("classifier-scorer", r"truncate +bool +false"),
        ("soft-prompt", r"prompt +text +required"),
    ],
)
def test_of_one_its_options_are_shown_with_type_and_default(ran: Ran, name: str, line: str) -> None:
    out, _ = ran("options", name)
    assert re.search(rf"^  {line}", out, re.MULTILINE)


def test_an_unknown_name_is_one_line(refused: Refused) -> None:
    assert refused("options", "soft-promt").strip().endswith("did you mean 'soft-prompt'?")
