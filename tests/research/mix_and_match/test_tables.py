"""What the studies of Mix and Match make of trials that are known, and which class each canary gets."""

from types import SimpleNamespace
from typing import Any

import pytest

from leakage_tasks.canaries.alphabets import word_list
from leakage_tasks.canaries.presets.mix_and_match import LABELLED, TABLE_1
from leakage_tasks.canaries.presets.sentences import words_of
from leakage_tasks.research.classifiers.lab_canaries import SMALL_LABELLED, SMALL_TABLE, words
from leakage_tasks.research.framework.registry import StudyPlan, StudyTrial
from leakage_tasks.research.mix_and_match import bars
from leakage_tasks.research.mix_and_match import figures as mix_and_match_figures
from leakage_tasks.research.mix_and_match import tables as mix_and_match
from leakage_tasks.research.mix_and_match.published import TABLES
from leakage_tasks.research.mix_and_match.trials import GENERATORS, PAPER, SMALL, trial_canaries, victims
from leakage_tasks.stats.multiple import holm

PLAN = StudyPlan("small")
TERMS = word_list("terms", words())
CLASSES = [f"class-{number}" for number in range(9)]
TEXTS = [(f"text {place} {copy}", label) for place, label in enumerate(CLASSES) for copy in range(place + 1)]
ROWS = SimpleNamespace(training=TEXTS, labels=tuple(CLASSES))
SIZE = 6_000


def planted(position: int | None = None, **changed: Any):
    config = victims(PLAN, **changed)[0]
    return [each for each in trial_canaries(config, SMALL, TERMS, ROWS, position) if each.planted]


def trial(ranks: dict[str, tuple[int, int, int]], **changed: Any) -> StudyTrial:
    """For each canary: the pruned rank over everything, and the language model's two numbers."""
    found = {
        name: {"exhaustive": [SIZE, every], "pretrained": [top, pruned], "frankenstein": [top, pruned]}
        for name, (every, top, pruned) in ranks.items()
    }
    controls = {"control-0": {"exhaustive": [SIZE, SIZE // 2]}, "control-1": {"exhaustive": [SIZE, SIZE // 2 + 9]}}
    return StudyTrial(victims(PLAN, **changed)[0], {"ranks": found, "controls": controls, "alphabet": SIZE}, 1.0)


def test_neighbours_share_one_of_the_rarest_classes():
    labels = [each.label for each in planted()]
    assert labels == [CLASSES[place // 2] for place in range(14)]


def test_doubled_canaries_have_the_classes_of_their_category():
    assert [each.label for each in planted(doubled=True)] == CLASSES[:7]


def test_some_of_the_canaries_keep_their_classes():
    only = [SMALL_TABLE[place].target for place in mix_and_match_figures.FOUR]
    assert [each.label for each in planted(only=only)] == [CLASSES[place // 2] for place in mix_and_match_figures.FOUR]


def test_another_position_leaves_text_and_class_as_they_were():
    first, last = planted(position=1), planted()
    assert [each.text for each in first] == [each.text for each in last]
    assert [each.label for each in first] == [each.label for each in last]
    assert {each.secret for each in first} != {each.secret for each in last}


def test_label_patterns_are_left_as_they_are():
    assert len({each.label for each in planted(labels="different")}) == 5
    assert len({each.label for each in planted(labels="same")}) == 1


def test_the_labs_canaries_are_of_the_papers_make():
    assert [(each.kind, each.frequency) for each in SMALL_TABLE] == [(each.kind, each.frequency) for each in TABLE_1]
    assert [len(words_of(text)) for text in SMALL_LABELLED] == [len(words_of(text)) for text in LABELLED]


@pytest.mark.parametrize("repetitions", [5, 25, 100])
def test_published_rows_are_in_the_order_of_table_1(repetitions):
    assert list(TABLES[repetitions]) == [each.target for each in TABLE_1]


def test_some_published_figures_typed_again():
    assert TABLES[5]["towels"]["yelp"] == ((22413, 3390), (3066, 400), (11856, 1098))
    assert TABLES[25]["move"]["reddit"] == ((22413, 472), (10, 0), (774, 10))
    assert TABLES[100]["1968"]["yelp"] == ((22413, 202), (7156, 71), (2394, 16))


def report(ranks: dict[str, tuple[int, int, int]]):
    return mix_and_match.table_report([trial(ranks), trial(ranks)], PLAN, published=TABLES[25])


def test_beam_sizes_count_from_nought_and_stand_beside_their_category():
    row = report({"gateway": (101, 400, 11), "value": (3, 9, 1)}).rows[0]
    assert row["target"] == "gateway (towels)"
    assert (row["all beam"].value, row["LM beam"].value, row["LM K"]) == (100, 10, 400)
    assert row["Frank. K*"].value == 9173


@pytest.mark.parametrize(("top", "pruned", "expected"), [(400, 11, [True, True]), (3000, 90, [False, False])])
def test_claims_on_generators_can_hold_and_fail(top, pruned, expected):
    claims = report({"gateway": (101, top, pruned), "labels": (99, top, pruned)}).claims
    assert [claim.holds for claim in claims[:2]] == expected


@pytest.mark.parametrize(("different", "holds"), [(10, True), (900, False)])
def test_the_claim_on_labels_follows_the_places(different, holds):
    places = {"same": 1000, "mixed": 500, "different": different}
    trials = [trial({"2001": (place, 50, 5)}, labels=labels) for labels, place in places.items()]
    assert mix_and_match_figures.label_report(trials, PLAN).claims[0].holds is holds


@pytest.mark.parametrize(("factor", "holds"), [(1, True), (5, False)])
def test_the_claim_on_length_follows_the_ratio(factor, holds):
    trials = [
        trial({"value": (100, 50, 20 * (factor if doubled else 1))}, repetitions=copies, doubled=doubled)
        for copies in (5, 25, 100)
        for doubled in (False, True)
    ]
    assert mix_and_match_figures.length_report(trials, PLAN).claims[0].holds is holds


def test_copies_of_each_table_stay_apart():
    copies = {
        config["repetitions"]
        for table in (5, 25, 100)
        for config in mix_and_match.table_trials(PLAN, repetitions=table)
    }
    assert copies == {2, 8, 30}
    assert PAPER.copies(25) == 25


def crossed(random: float, organic: float) -> bool | None:
    """The verdict where the Frankenstein model needs so many times the language model's candidates, on average."""
    found = trial({each.target: (9, 100, 9) for each in SMALL_TABLE})
    for place, each in enumerate(SMALL_TABLE):
        factor = random if each.kind == "random" else organic
        found.result["ranks"][each.target]["frankenstein"][0] = 100 * factor * (1 + place / 100)
    claims = mix_and_match.table_report([found], PLAN, published=TABLES[25]).claims
    (claim,) = [each for each in claims if mix_and_match.KINDS_DIFFER.is_tested_by(each.words)]
    return claim.holds


@pytest.mark.parametrize(
    ("random", "organic", "holds"), [(0.5, 2.0, True), (2.0, 0.5, False), (0.5, 0.8, None), (1.0, 1.0, None)]
)
def test_each_generator_is_the_better_one_for_canaries_of_its_kind_or_not(random, organic, holds):
    assert crossed(random, organic) is holds


def test_the_claim_on_kinds_has_the_p_of_all_ways_to_rank_them():
    """Four random canaries before ten organic ones: the two ends of the 1,001 ways to place four."""
    found = trial({each.target: (9, 100, 9) for each in SMALL_TABLE})
    for place, each in enumerate(SMALL_TABLE):
        found.result["ranks"][each.target]["frankenstein"][0] = (50 if each.kind == "random" else 200) + place
    claim = mix_and_match.generator_claims([found], [each.target for each in SMALL_TABLE], "docstrings")[-1]
    assert claim.p == pytest.approx(2 / 1001)


def test_the_paper_s_own_figures_do_not_tell_its_claims_by_the_same_tests():
    """What the page says of them; by the places alone they would, before the correction."""
    p_values = []
    for table in TABLES.values():
        for data in ("yelp", "reddit"):
            figures = {target: dict(zip(GENERATORS, row[data], strict=True)) for target, row in table.items()}
            ranks = {
                target: {name: [top, place + 1] for name, (top, place) in found.items()}
                for target, found in figures.items()
            }
            printed = StudyTrial({}, {"ranks": ranks, "controls": {}, "alphabet": 22_413}, 1.0)
            own = mix_and_match.generator_claims([printed], list(ranks), data)
            p_values.append([each.p for each in own])
            assert bars._alike([printed], list(ranks), data).holds is None
    needs, halves, needs_of_lm, _, crossing = zip(*p_values, strict=True)
    assert min(needs) > 0.05
    assert min(needs_of_lm) > 0.05
    assert min(crossing) > 0.05
    assert min(halves) < 0.05 < min(holm([p for each in p_values for p in each]))
