"""Choosing attacks, and their settings."""

import pytest

from leakage_tasks.attacks import ATTACKS, run_attack
from leakage_tasks.canaries import Canary
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.targets import CausalTarget
from tests.attacks.causal.test_sampled import Scores
from tests.oracles import letters, tiny_gpt2

CANARY = Canary("c-1", "pin {digits:2}", ("1", "2"))


def test_auto_searches_where_it_can():
    target = CausalTarget(tiny_gpt2(letters()), letters())
    assert run_attack("auto", target, [CANARY], goal="extraction")[0].attack == "shortest-path"
    assert run_attack("auto", target, [CANARY], goal="exposure")[0].attack == "exposure"


def test_auto_never_picks_less_than_it_could():
    ranked = [attack for attack in ATTACKS.own().values() if attack.auto is not None]
    order = sorted(ranked, key=lambda attack: attack.auto)
    exposing = [attack.name for attack in order if attack.goal == "exposure"]
    extracting = [attack.name for attack in order if attack.goal == "extraction"]
    assert [name for name in exposing if name in ("exposure", "sampled")] == ["exposure", "sampled"]
    text = ("shortest-path", "text-sampling", "brute-force", "greedy", "beam", "sampling")
    assert [name for name in extracting if name in text] == list(text)
    assert [name for name in extracting if name not in text] == ["mix-and-match", "inversion", "label-search"]


def test_an_unknown_attack_names_the_known_ones():
    with pytest.raises(OptionError, match="attack='magic' is unknown: use auto, .*shortest-path"):
        run_attack("magic", Scores(), [CANARY])


def test_a_model_that_offers_nothing_is_refused():
    with pytest.raises(TargetError, match="offers nothing"):
        run_attack("auto", object(), [CANARY])


def test_settings_of_one_name_are_one():
    found = {}
    for attack in ATTACKS.own().values():
        for each in attack.settings:
            assert found.setdefault(each.name, each) is each
