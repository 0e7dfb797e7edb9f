"""Former names of attacks are accepted and not shown."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from leakage_tasks.attacks import ATTACKS, finding_from_json, run_attack
from leakage_tasks.attacks.registry import option_of
from leakage_tasks.canaries import Canary
from leakage_tasks.core import former_names
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.registry import Registry
from leakage_tasks.tasks.canary_tasks import CanaryExposure
from leakage_tasks.tasks.options import read_options
from tests.attacks.causal.test_sampled import Scores

CANARY = Canary("c-1", "pin {digits:2}", ("1", "2"))


@pytest.mark.parametrize(("former", "current"), former_names.ATTACKS.items())
def test_a_former_name_finds_the_attack_and_is_not_listed(former: str, current: str):
    assert ATTACKS[former] is ATTACKS[current]
    assert former in ATTACKS
    assert former not in {*ATTACKS, *ATTACKS.names(), *ATTACKS.without_plugins()}
    assert ATTACKS.package_of(former) == ATTACKS.package_of(current)


def test_a_run_by_the_former_name_finds_the_same_under_the_current_one():
    former, current = (
        run_attack(name, Scores(), [CANARY], budget=50, settings={f"{name}.histogram": 5})[0]
        for name in ("sampled", "rank-sample")
    )
    assert former.attack == "rank-sample"
    assert replace(former, seconds=0) == replace(current, seconds=0)


def test_a_saved_finding_is_read_with_the_current_name():
    found = run_attack("rank-sample", Scores(), [CANARY])[0]
    written = json.dumps({**json.loads(found.to_json()), "attack": "sampled"})
    assert finding_from_json(written) == found


@pytest.mark.parametrize("own", [False, True])
def test_metadata_takes_the_former_name_of_an_attack_and_of_its_options(own: bool):
    given = {"attack": "sampling", "sampling.draws": 7}
    read = read_options({"canary_extraction": given} if own else given, "canary_extraction")
    assert (read.attack, dict(read.values)) == ("sample-tokens", {"draws": 7})
    assert option_of("sampling.draws") == option_of("sample-tokens.draws")


def test_a_task_takes_the_former_name():
    task = CanaryExposure({"task": "canary_exposure", "metadata": {"attack": "sampled"}})
    assert task.task_settings["attack"] == "rank-sample"


def test_an_unknown_attack_is_told_the_current_names_alone():
    with pytest.raises(OptionError, match="attack='magic' is unknown: use auto, .*rank-sample") as raised:
        run_attack("magic", Scores(), [CANARY])
    assert not [name for name in former_names.ATTACKS if f" {name}," in str(raised.value)]


def test_a_package_that_uses_a_former_name_keeps_it():
    things: Registry[str] = Registry("thing", former={"old": "new"})
    things.register("new", "ours")
    assert things["old"] == "ours"
    things.register("old", "theirs")
    assert (things["old"], things["new"]) == ("theirs", "ours")
    with pytest.raises(OptionError, match="thing 'other' is unknown: use new, old"):
        things["other"]
