"""What the study of free text makes of trials that are known, and of victims whose texts are."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from leakage_tasks.canaries.spaces import parse_template
from leakage_tasks.research.classifiers.experiment import ClassifierExperiment
from leakage_tasks.research.classifiers.lab_canaries import SMALL_TABLE
from leakage_tasks.research.framework.registry import StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Report
from leakage_tasks.research.mix_and_match.free_text import OTHERS, TEXT, WHOLE_TEXTS, free_text_report
from leakage_tasks.research.mix_and_match.free_text_trials import candidates_down_to, free_text, run, writer_of, writing
from tests.research.stored import verdicts

PLAN = StudyPlan("small")
SIZE = 6_000
NAMES = [each.target for each in SMALL_TABLE]
FEW, SOME, MANY = free_text(PLAN)[0]["texts"]
Pair = tuple[int | None, int | None]
CANDIDATES, MASKED, MORE = TEXT["template"]
START = f"{MANY:,} texts pruned to the template"


def report(
    template: Pair = (300, 60), few: Pair = (900, 90), candidates: Pair = (500, 80), held: tuple[int, int] = (40, 2)
) -> Report:
    """All canaries at the same places by each generator; ``held`` are texts kept, and with the token, of the most."""
    ranks: dict[str, list[Any]] = {"exhaustive": [SIZE, 900], "pretrained": [400, 90], "frankenstein": [500, 100]}
    ranks["causal"] = [600, 110]
    for number in (FEW, SOME, MANY):
        ranks[writing("candidates", number)] = list(few if number == FEW else candidates)
        ranks[writing("template", number)] = list(template if number == MANY else few)
    kept = {name: list(held) for name in ranks if "-" in name}
    result = {
        "ranks": dict.fromkeys(NAMES, ranks),
        "kept": dict.fromkeys(NAMES, kept),
        "controls": {f"control-{place}": {"exhaustive": [SIZE, SIZE // 2 + place]} for place in (0, 9)},
        "alphabet": SIZE,
    }
    return free_text_report([StudyTrial(config, result, 1.0) for config in free_text(PLAN)], PLAN)


def row_of(found: Report, generator: str, texts: int | None = None) -> dict[str, Any]:
    (row,) = [row for row in found.rows if (row["generator"], row["texts"]) == (generator, texts)]
    return row


# -- the report ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("template", "holds"), [((300, 60), True), ((5_000, 700), False), ((None, None), False)])
def test_claims_on_pruned_text_hold_and_fail(template: Pair, holds: bool) -> None:
    found = verdicts(report(template, held=(40, 2) if template[0] else (0, 0)))
    assert found[CANDIDATES.test(f"{MANY:,} texts need a third for most")] is holds
    assert found[MASKED.test(f"{MANY:,} texts rank most tokens higher than the Frankenstein model")] is holds
    assert found[MORE.test(f"{MANY:,} texts need fewer candidates for most than {FEW:,}")] is holds
    assert found[WHOLE_TEXTS.test(f"{MANY:,} texts rank most tokens higher")] is holds
    assert found[f"{START} need fewer candidates for most than pruned to the candidates"] is holds
    assert found[f"{START} rank most tokens higher than pruned to the candidates"] is holds


def test_places_that_are_the_same_tell_nothing() -> None:
    found = verdicts(report((500, 100), few=(500, 100), candidates=(500, 100)))
    assert found[MASKED.test(f"{MANY:,} texts rank most tokens higher than the Frankenstein model")] is None
    assert found[MORE.test(f"{MANY:,} texts need fewer candidates for most than {FEW:,}")] is None


def test_a_row_counts_places_from_nought_and_shares_within_so_many() -> None:
    row = row_of(report((300, 9)), "texts pruned to the template", MANY)
    assert (row["K"].value, row["beam"].value, row["kept"].value) == (300, 8, 40)
    assert [row[f"found@{best}"].value for best in (1, 10, 100)] == [0, 1, 1]
    assert (row["no text kept"].value, row["token in none"].value) == (0, 0)
    assert row["found@1"].count == row["token in none"].count == 3 * len(NAMES)


def test_where_no_text_is_kept_places_are_the_last_and_nothing_is_found() -> None:
    row = row_of(report((None, None), held=(0, 0)), "texts pruned to the template", MANY)
    assert (row["K"].value, row["beam"].value) == (SIZE, SIZE - 1)
    assert (row["no text kept"].value, row["token in none"].value, row["found@100"].value) == (1, 1, 0)


def test_a_token_in_no_text_is_not_found_however_high_its_class_loss_puts_it() -> None:
    row = row_of(report((SIZE, 1), held=(40, 0)), "texts pruned to the template", MANY)
    assert (row["no text kept"].value, row["token in none"].value) == (0, 1)
    assert (row["beam"].value, row["found@1"].value) == (0, 0)


def test_generators_that_write_nothing_have_no_texts() -> None:
    found = report()
    for words in OTHERS.values():
        row = row_of(found, words)
        assert (row["kept"], row["token in none"], row["no text kept"]) == (None, None, None)
    assert row_of(found, OTHERS["frankenstein"])["found@100"].value == 1


# -- the trial -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "down_to"), [("a", 1), ("b", 3), ("c", 3), ("d", 6), ("x", None)])
def test_values_in_as_many_texts_are_all_candidates(value: str, down_to: int | None) -> None:
    assert candidates_down_to(value, Counter("aaaabbccdef")) == down_to


@pytest.mark.slow
def test_a_trial_counts_what_pruning_leaves(tmp_path: Path) -> None:
    (config,) = free_text(StudyPlan("smoke"))
    found = run(config, tmp_path)
    assert len(found["ranks"]) == len(found["kept"]) == 14
    assert len(found["controls"]) == 7
    few, many = config["texts"]
    for name, kept in found["kept"].items():
        ranks = found["ranks"][name]
        assert set(ranks) == {"exhaustive", "pretrained", "frankenstein", "causal", *kept}
        for pruned in ("candidates", "template"):
            assert kept[writing(pruned, few)] <= kept[writing(pruned, many)]
        for generator, (texts, with_token) in kept.items():
            assert with_token <= texts <= int(generator.partition("-")[2])
            assert (ranks[generator] == [None, None]) is (texts == 0)
            if texts and not with_token:
                assert ranks[generator] == ranks["exhaustive"]
            if with_token:
                assert ranks[generator][1] <= ranks[generator][0] <= texts
        assert kept[writing("template", many)][0] <= kept[writing("candidates", many)][0]
    assert any(None in pair for own in found["ranks"].values() for pair in own.values())


@pytest.mark.slow
def test_the_writers_texts_end_as_templates_do(tmp_path: Path) -> None:
    from leakage_tasks.canaries.alphabets import tokenizer_words
    from leakage_tasks.research.classifiers.experiment import base_of
    from leakage_tasks.targets.classifier.text_generator import TextGenerator
    from leakage_tasks.targets.suffix.target import load_causal_target

    (config,) = free_text(StudyPlan("smoke"))
    ground = ClassifierExperiment(**config["ground"])
    name = writer_of(config["writer"], ground, tmp_path)
    assert name == writer_of(config["writer"], ground, tmp_path)
    target = load_causal_target(name, "writer")
    words = tokenizer_words("terms", base_of(ground, tmp_path), "words-and-numbers")
    space = parse_template("This is the default {terms} .", {"terms": words})
    made = TextGenerator(target, "text", texts=4_000, prune="template")
    kept = made.value_counts(space, (), 0)
    by_hand = Counter[str]()
    for text, number in made._written("This is the default ", " .", words):
        ended = re.match(r"(\S+?)\s*\.", text)
        if ended and ended[1] in words:
            by_hand[ended[1]] += number
    assert kept == by_hand
    assert kept.total() > 0
