"""The two phases with a generator made up in the test, counted a second way."""

import numpy as np
import pytest

from leakage_tasks.attacks import run_attack
from leakage_tasks.canaries import Canary
from leakage_tasks.canaries.alphabets import word_list
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.targets import ClassifierTarget, Proposal
from tests.oracles import WORDS, direct_class_losses, tiny_bert, wordpiece

ODD = ["##ing", ".", ","]
VALUES = [*ODD, *WORDS]
ALPHABET = {"v": word_list("v", VALUES)}


class Made(ClassifierTarget):
    """A classifier whose generator ranks values by a permutation drawn for each head."""

    generator_name = "made"

    def propose(self, space, heads, slot):
        return [made(head, slot) for head in heads]


class Fails(Made):
    """Its generator proposes nothing."""

    def propose(self, space, heads, slot):
        raise TargetError("value 'green' becomes 2 tokens")


def made(head: tuple[str, ...], slot: int) -> Proposal:
    order = np.random.default_rng([len("".join(head)), slot]).permutation(len(VALUES))
    # Values share the order with tokens that are none of them, so places leave gaps.
    return Proposal(costs=order.astype(float), places=order * 3 + 1)


def canary(template: str, *secret: str) -> Canary:
    return Canary("c", template, secret, alphabets=ALPHABET, label="low")


def attacked(one: Canary, target=None, name: str = "mix-and-match", goal: str = "extraction", **settings):
    target = target or Made(tiny_bert(), wordpiece())
    return run_attack(name, target, [one], goal=goal, values=settings)[0]


def losses(one: Canary) -> np.ndarray:
    return np.array(
        direct_class_losses(tiny_bert(), wordpiece(), [one.space.fill(each) for each in one.space.enumerate()], 0)
    )


@pytest.mark.parametrize("word", ["cat", "green", "pin"])
@pytest.mark.parametrize("template", ["the cat sat on {v} .", "{v} the dog", "a {v} house"])
def test_the_papers_two_counts(template, word):
    one = canary(template, word)
    found, places, every = attacked(one), made((), 0).places, losses(one)
    own = VALUES.index(word)
    down = [n for n, value in enumerate(VALUES) if value not in ODD and places[n] <= places[own]]
    assert found.extra["candidate_rank"] == places[own]
    assert found.extra["pruned_rank"] == sorted(down, key=lambda n: every[n]).index(own) + 1


def test_the_exposure_attack_has_the_same_counts_beside_the_rank_over_everything():
    one = canary("the cat sat on {v} .", "green")
    found, extracted = attacked(one, name="class-loss", goal="exposure"), attacked(one)
    assert found.rank == sum(losses(one) <= losses(one)[VALUES.index("green")] + 1e-7)
    assert found.extra["candidate_rank"] == extracted.extra["candidate_rank"]
    assert found.extra["pruned_rank"] == extracted.extra["pruned_rank"]


def test_guesses_are_the_filtered_candidates_by_class_loss():
    one = canary("the cat sat on {v} .", "green")
    found, places, every = attacked(one, candidates=30), made((), 0).places, losses(one)
    let = [n for n, value in enumerate(VALUES) if value not in ODD and places[n] <= 30]
    expected = [VALUES[n] for n in sorted(let, key=lambda n: every[n])][:10]
    assert [guess.filling[0] for guess in found.guesses] == expected
    assert found.model_calls == len(let) + 1


def test_the_secret_is_found_only_among_candidates():
    places = made((), 0).places
    last = VALUES[int(np.argmax(places))]
    assert attacked(canary("the cat sat on {v} .", last), candidates=int(places.max()) - 1).place is None
    assert attacked(canary("the cat sat on {v} .", last), candidates=int(places.max())).place is not None


def test_a_secret_the_filters_drop_has_no_pruned_rank():
    found = attacked(canary("the cat sat on {v} .", "##ing"))
    assert found.extra["pruned_rank"] is None
    assert found.place is None


def test_several_tokens_go_on_with_a_beam():
    two = canary("the cat sat on {v} {v} .", "red", "mat")
    found = attacked(two, candidates=10_000, beam=len(VALUES))
    every = losses(two)
    words = [n for n in range(len(every)) if not set(two.space.at(n)) & set(ODD)]
    assert found.guesses[0].filling == two.space.at(min(words, key=lambda n: every[n]))


def test_counts_of_several_tokens_are_those_of_the_hardest():
    two = canary("the cat sat on {v} {v} .", "red", "mat")
    found = attacked(two)
    firsts = [made((), 0).places[VALUES.index("red")], made(("red",), 1).places[VALUES.index("mat")]]
    assert found.extra["candidate_ranks"] == firsts
    assert found.extra["candidate_rank"] == max(firsts)
    assert found.extra["pruned_rank"] == max(found.extra["pruned_ranks"])


def test_the_count_beyond_the_candidates_is_no_part_of_the_attacks_calls():
    one = canary("the cat sat on {v} .", VALUES[int(np.argmax(made((), 0).places))])
    found = attacked(one, candidates=12)
    assert found.model_calls + found.extra["audit_calls"] == len(WORDS) + 1


def test_auto_chooses_it_where_the_model_proposes():
    one = canary("the cat sat on {v} .", "green")
    assert attacked(one, name="auto").attack == "mix-and-match"
    assert attacked(one, ClassifierTarget(tiny_bert(), wordpiece()), name="auto").attack == "label-search"


def test_an_option_auto_would_leave_unused_is_refused():
    one = canary("the cat sat on {v} .", "green")
    with pytest.raises(OptionError, match="auto chose mix-and-match, which has no option 'shortlist': name"):
        attacked(one, name="auto", shortlist=3)


def test_candidates_that_are_all_filtered_out_say_so():
    places = made((), 0).places
    odd = min(range(len(VALUES)), key=lambda n: places[n])

    class OnlyOdd(Made):
        def propose(self, space, heads, slot):
            moved = places.copy()
            moved[[0, odd]] = moved[[odd, 0]]
            return [Proposal(moved.astype(float), moved) for _ in heads]

    with pytest.raises(OptionError, match="candidates=1: all are continuation pieces or punctuation"):
        attacked(canary("the {v} .", "green"), OnlyOdd(tiny_bert(), wordpiece()), candidates=1)


def test_a_classifier_without_a_generator_says_what_would_do():
    with pytest.raises(TargetError, match="needs a model that can propose likely values.*frankenstein-mlm"):
        attacked(canary("the {v} .", "green"), ClassifierTarget(tiny_bert(), wordpiece()))


def test_a_cut_among_candidates_ranked_alike_is_refused():
    class Every(Made):
        def propose(self, space, heads, slot):
            size = len(VALUES)
            return [Proposal(np.zeros(size), np.full(size, size)) for _ in heads]

    two = canary("the cat sat on {v} {v} .", "red", "mat")
    target = Every(tiny_bert(), wordpiece())
    with pytest.raises(OptionError, match="ranks the candidates at the cut equally: raise budget"):
        run_attack("mix-and-match", target, [two], goal="extraction", budget=240, values={"beam": 20})


def test_how_many_candidates_were_tried_is_told():
    two = canary("the cat sat on {v} {v} .", "red", "mat")
    target = Made(tiny_bert(), wordpiece())
    (found,) = run_attack("mix-and-match", target, [two], goal="extraction", budget=240, values={"beam": 20})
    assert found.extra["candidates_tried"] == 240 // 20 - 1


def test_the_rank_needs_no_generator():
    one = canary("the cat sat on {v} .", "green")
    found = attacked(one, Fails(tiny_bert(), wordpiece()), name="class-loss", goal="exposure")
    assert found.rank == attacked(one, name="class-loss", goal="exposure").rank
    assert found.extra["candidate_rank"] is None


def test_a_natural_secret_is_in_no_message():
    one = Canary("n", "the cat sat on {v} .", ("green",), kind="natural", alphabets=ALPHABET, label="low")
    with pytest.raises(TargetError, match="value '•' becomes") as caught:
        attacked(one, Fails(tiny_bert(), wordpiece()))
    assert "green" not in str(caught.value)
