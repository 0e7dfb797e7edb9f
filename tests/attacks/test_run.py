"""Running attacks: what is refused before any model is asked, and what a model reads for each canary."""

import dataclasses
import time
import weakref

import numpy as np
import pytest

from leakage_tasks.attacks import ATTACKS, run_attack
from leakage_tasks.attacks.causal.search_tree import SearchTree
from leakage_tasks.attacks.redact import NamingCanary
from leakage_tasks.attacks.registry import register
from leakage_tasks.attacks.run import Hooks
from leakage_tasks.canaries import Canary, make_canaries
from leakage_tasks.core.errors import LeakageError, OptionError, TargetError
from leakage_tasks.core.registry import PluginError
from leakage_tasks.targets import CausalTarget
from tests.attacks.causal.test_sampled import Scores
from tests.oracles import letters, tiny_gpt2

CANARY = Canary("c-1", "pin {digits:2}", ("1", "2"))


@pytest.mark.parametrize("budget", [0, -5])
def test_a_budget_below_one_is_refused(budget):
    with pytest.raises(OptionError, match=f"budget={budget} must be 1 or more"):
        run_attack("auto", Scores(), [CANARY], budget=budget)


def test_a_canary_longer_than_the_context_is_refused_before_any_attack():
    canary = Canary("long", "a" * 80 + " {digits:2}", ("1", "2"))
    target = CausalTarget(tiny_gpt2(letters()), letters())
    with pytest.raises(TargetError, match="canary 'long' is 83 tokens long, but the model reads at most 64"):
        run_attack("exposure", target, [CANARY, canary])


def test_a_tokenizer_that_fails_names_the_canary():
    canary = Canary("odd", "été {digits:9}", tuple("123456789"))
    with pytest.raises(TargetError, match="canary 'odd': the tokenizer"):
        run_attack("exposure", CausalTarget(tiny_gpt2(letters()), letters()), [canary])


TRANSLATED = Canary("t-1", "pin {digits:2}", ("1", "2"), source="pino")


def test_a_source_sentence_on_a_model_that_reads_none_is_refused():
    with pytest.raises(TargetError, match="canary 't-1' has a source sentence, .*backend=seq2seq.*without --source"):
        run_attack("auto", Scores(), [CANARY, TRANSLATED])


def test_a_model_that_reads_a_source_wants_one_of_every_canary():
    with pytest.raises(TargetError, match="canary 'c-1' has no source sentence, .*leakage canaries --source"):
        run_attack("auto", Reader(), [TRANSLATED, CANARY])


def test_each_canary_is_attacked_after_its_own_source():
    reader = Reader()
    other = dataclasses.replace(TRANSLATED, id="t-2", source="uno")
    assert [found.rank for found in run_attack("rank-sample", reader, [TRANSLATED, other])] == [13, 100 - 12]
    assert reader.read == ["pino", "uno"]


class Reader:
    """Reads a source; after ``uno`` it costs least what costs most after any other."""

    def __init__(self):
        self.read = []

    def given(self, canary):
        self.read.append(canary.source_text)
        return Numbers(-1 if canary.source_text == "uno" else 1)


class Numbers(Scores):
    """A text costs the number it ends in."""

    def __init__(self, sign):
        super().__init__()
        self.sign = sign

    def log_perplexity(self, texts):
        return np.array([200 + self.sign * int(text.split()[-1]) for text in texts], dtype=float)


@pytest.mark.parametrize("method", ["length", "given"])
@pytest.mark.parametrize("error", [ValueError, TargetError])
def test_no_error_before_an_attack_shows_a_natural_canary(method, error):
    def broken(asked):
        raise error(f"cannot read {getattr(asked, 'text', asked)!r}")

    target = Scores() if method == "length" else Reader()
    setattr(target, method, broken)
    source = None if method == "length" else "pino"
    canary = Canary("n-1", "the walrus pays {digits:2}", ("1", "2"), kind="natural", source=source)
    with pytest.raises(LeakageError, match="canary 'n-1'") as caught:
        run_attack("rank-sample", target, [canary])
    assert "walrus" not in str(caught.value)


# -- attacks on many canaries at once -----------------------------------------------------------------------

MANY = [dataclasses.replace(CANARY, id=f"c-{number}") for number in range(4)]


@pytest.fixture
def batched():
    """Registers a function as an attack on all canaries at once, for one test."""
    yield register("at-once", "exposure", Scores, auto=9, remedy="none", batched=True)
    del ATTACKS._items["at-once"]


def test_an_attack_on_all_canaries_is_handed_them_once_and_shares_its_time(batched):
    handed = []

    def run(requests):
        handed.append([request.canary.id for request in requests])
        time.sleep(0.08)
        for place, _ in enumerate(requests):
            yield {"rank": place + 1}

    batched(run)
    found = run_attack("at-once", Scores(), MANY)
    assert handed == [[each.id for each in MANY]]
    assert [(each.canary, each.rank) for each in found] == [(each.id, n) for n, each in enumerate(MANY, 1)]
    assert len({each.seconds for each in found}) == 1
    assert sum(each.seconds for each in found) >= 0.08


def test_an_attack_on_all_canaries_hands_out_each_finding_before_it_makes_the_next(batched):
    seen, done = [], []

    def run(requests):
        for request in requests:
            done.append(request.canary.id)
            yield {}

    batched(run)
    run_attack("at-once", Scores(), MANY, hooks=Hooks(done=lambda number, _: seen.append((number, len(done)))))
    assert seen == [(0, 1), (1, 2), (2, 3), (3, 4)]


@pytest.mark.parametrize(
    ("results", "what"), [([{"place": 1, "rnak": 2}] * 4, "rnak"), ([None] * 4, "NoneType"), ([{}], "NoneType")]
)
def test_a_result_that_is_no_finding_is_one_line_that_names_the_attack(batched, results, what):
    batched(lambda requests: iter(results))
    with pytest.raises(PluginError, match=rf"^attack 'at-once' returned {what}: return a dictionary with fields of"):
        run_attack("at-once", Scores(), MANY)


def test_an_error_of_many_names_the_canary_at_fault_alone(batched):
    def run(requests):
        yield {}
        with NamingCanary(requests[2].canary):
            raise TargetError("cannot be read")

    batched(run)
    with pytest.raises(TargetError, match="^canary 'c-2': cannot be read$"):
        run_attack("at-once", Scores(), MANY)


@pytest.mark.parametrize("error", [ValueError, TargetError])
def test_an_error_of_many_shows_no_natural_one(batched, error):
    def run(requests):
        raise error("cannot read 'the walrus pays 12'")
        yield

    batched(run)
    natural = Canary("n-1", "the walrus pays {digits:2}", ("1", "2"), kind="natural")
    with pytest.raises(LeakageError) as caught:
        run_attack("at-once", Scores(), [*MANY, natural])
    assert "walrus" not in str(caught.value)


def test_each_finding_is_told_as_soon_as_it_is_complete():
    canaries = [Canary(name, "pin {digits:2}", tuple(name)) for name in ("12", "34", "56")]
    seen, target = [], CausalTarget(tiny_gpt2(letters()), letters())
    found = run_attack("auto", target, canaries, hooks=Hooks(done=lambda *of: seen.append(of)))
    assert seen == [*enumerate(found)]


def test_a_finding_is_published_once_before_anything_else_sees_it(batched):
    """The mean of the seconds of a batched attack must not bring back seconds that were removed."""
    published, seen = [], []

    def publish(finding):
        published.append(finding.canary)
        return dataclasses.replace(finding, seconds=None if finding.canary == MANY[0].id else 0.5, rank=1)

    batched(lambda requests: ({"rank": 9} for _ in requests))
    hooks = Hooks(publish, done=lambda _, finding: seen.append(finding))
    found = run_attack("at-once", Scores(), MANY, hooks=hooks)
    assert published == [each.canary for each in seen] == [each.id for each in MANY]
    assert {each.rank for each in (*seen, *found)} == {1}
    assert [each.seconds is None for each in found] == [True, False, False, False]
    assert len({each.seconds for each in found[1:]}) == 1


@pytest.mark.parametrize(("attack", "goal"), [("exposure", "exposure"), ("shortest-path", "extraction")])
def test_an_attack_that_has_ended_keeps_nothing_of_its_search(attack, goal, monkeypatch):
    made, live, made_tree = weakref.WeakSet(), [], SearchTree.__init__

    def noted(tree, *arguments):
        made_tree(tree, *arguments)
        made.add(tree)

    monkeypatch.setattr(SearchTree, "__init__", noted)
    target = CausalTarget(tiny_gpt2(letters()), letters())
    canaries = make_canaries("the pin of {unique} is {digits:5}.", 6, controls=6, seed=1)
    # The results that are yielded are kept, and their trees are not.
    run_attack(attack, target, canaries, goal=goal, budget=200, hooks=Hooks(done=lambda *_: live.append(len(made))))
    assert all(trees <= len(canaries) - ended for ended, trees in enumerate(live, 1))
    assert (len(made), target.engine.tree.used) == (0, 1)
