"""Choosing attacks, and their options."""

import pytest

from leakage_tasks.attacks import ATTACKS, run_attack
from leakage_tasks.attacks.registry import TASK_OPTIONS, AttackRequest, register
from leakage_tasks.canaries import Canary
from leakage_tasks.core.errors import TargetError
from leakage_tasks.core.option import Option
from leakage_tasks.core.registry import PluginError
from leakage_tasks.tasks.options import CANARY_OPTIONS
from tests.attacks.causal.test_sampled import Scores

CANARY = Canary("c-1", "pin {digits:2}", ("1", "2"))


def test_auto_never_picks_less_than_it_could():
    ranked = [attack for attack in ATTACKS.without_plugins().values() if attack.auto is not None]
    order = sorted(ranked, key=lambda attack: attack.auto)
    exposing = [attack.name for attack in order if attack.goal == "exposure"]
    extracting = [attack.name for attack in order if attack.goal == "extraction"]
    assert [name for name in exposing if name in ("exposure", "rank-sample")] == ["exposure", "rank-sample"]
    text = ("shortest-path", "sample-text", "brute-force", "greedy", "beam", "sample-tokens")
    assert [name for name in extracting if name in text] == list(text)
    assert [name for name in extracting if name not in text] == ["mix-and-match", "inversion", "label-search"]


def test_a_model_that_offers_nothing_is_refused():
    with pytest.raises(TargetError, match="supports no attack for"):
        run_attack("auto", object(), [CANARY])


def test_options_of_one_name_are_one():
    found = {}
    for attack in ATTACKS.without_plugins().values():
        for each in attack.options:
            assert found.setdefault(each.name, each) is each


def refused(name="odd", goal="extraction", options=()):
    """The message by which an attack is refused at registration."""
    with pytest.raises(PluginError) as error:
        register(name, goal, object, remedy="use another model", options=options)(lambda request: {})
    assert name not in ATTACKS.names()
    return str(error.value)


@pytest.mark.parametrize("name", ["", "x y", "x.y", "a=b", "a,b", "-a", "a\n"])
def test_a_name_that_no_option_can_give_is_refused(name):
    assert "no name that attack=… can give" in refused(name)


def test_the_name_auto_is_refused():
    with pytest.raises(
        PluginError, match="attack 'auto': attack=auto chooses among all attacks: give this one another"
    ):
        register("auto", "exposure", object, remedy="use another model")(lambda request: {})


def test_an_unknown_goal_is_refused():
    assert refused(goal="extract") == (
        "attack 'odd': goal 'extract' is unknown: use exposure or extraction; did you mean 'extraction'?"
    )


@pytest.mark.parametrize("name", sorted(CANARY_OPTIONS))
def test_an_option_that_shadows_the_tasks_own_is_refused(name):
    option = Option(name, int, 1, "a number")
    assert refused(options=[option]) == (
        f"attack 'odd': option {name!r} is the task's own: give the option another name"
    )


def test_all_names_of_the_tasks_options_are_reserved_and_no_others():
    assert set(CANARY_OPTIONS) == TASK_OPTIONS


def test_an_option_declared_twice_is_refused():
    assert "option 'tries' is declared twice" in refused(options=[Option("tries", int, 1, "a number")] * 2)


def test_an_option_that_metadata_cannot_give_is_refused():
    assert "option 'my tries'" in refused(options=[Option("my tries", int, 1, "a number")])


# -- old names ----------------------------------------------------------------------------------------------

TRIES = Option("tries", int, 7, "a number")


def odd(requests):
    for request in requests:
        yield {"model_calls": request.settings["tries"]}


@pytest.mark.parametrize("names", [{"settings": [TRIES], "together": True}, {"options": [TRIES], "batched": True}])
def test_an_attack_is_registered_by_old_and_new_names(names):
    register("odd", "exposure", Scores, remedy="use another model", **names)(odd)
    try:
        attack = ATTACKS["odd"]
        assert (attack.options, attack.settings, attack.batched, attack.together) == ((TRIES,), (TRIES,), True, True)
        assert run_attack("odd", Scores(), [CANARY])[0].model_calls == 7
        assert run_attack("odd", Scores(), [CANARY], values={"tries": 3})[0].model_calls == 3
        assert run_attack("odd", Scores(), [CANARY], settings={"tries": 3})[0].model_calls == 3
    finally:
        del ATTACKS._items["odd"]


def test_a_request_has_values_by_their_old_name():
    request = AttackRequest(Scores(), CANARY, 10, "0", settings={"tries": 3})
    assert request.values == request.settings == {"tries": 3}
