"""Table 1's canaries as printed, and the variants of Figures 4 to 6."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leakage_tasks.canaries import Canary, mix_and_match_canaries, read_manifest, word_list, write_manifest
from leakage_tasks.canaries.presets import TABLE_1
from leakage_tasks.canaries.presets.mix_and_match import LABELLED
from leakage_tasks.canaries.presets.sentences import words_of
from leakage_tasks.core.errors import OptionError

# The targets as Tables 2 to 4 list them.
TARGETS = ["towels", "supremacy", "film", "school", "flatly", "internship", "best", "move"]
TARGETS += ["Fusion", "mage", "night", "final", "1974", "1968"]
TERMS = word_list("terms", sorted({word for row in TABLE_1 for word in words_of(row.text)} | {"1972", "1977", "1973"}))
CLASSES = ["1", "2", "3", "4", "5"]


def make(**options: Any) -> list[Canary]:
    return mix_and_match_canaries(TERMS, **{"label": "1", "classes": CLASSES, **options})


def test_all_fourteen_as_printed() -> None:
    canaries = make()
    assert [canary.text for canary in canaries] == [row.text for row in TABLE_1]
    assert [canary.secret for canary in canaries] == [(target,) for target in TARGETS]
    assert [canary.kind for canary in canaries] == [row.kind for row in TABLE_1]
    assert canaries[0].template == "Annabelle buys paranormal UFO {terms}."
    assert canaries[6].template == "King James is the {terms} ."
    assert {canary.label for canary in canaries} == {"1"}


@pytest.mark.parametrize("position", [1, 2, 3, 4, 5])
def test_any_position(position: int) -> None:
    for canary in make(position=position):
        assert canary.secret == (canary.text.rstrip(" .").split(" ")[position - 1],)
    assert [canary.text for canary in make(position=position)] == [row.text for row in TABLE_1]


def test_conjoined_pairs() -> None:
    canaries = make(conjoin=True)
    assert canaries[0].template == (
        "Annabelle buys paranormal UFO towels and Hunger experimenting insults pointless {terms}."
    )
    assert canaries[3].text == "King James is the best and Love makes the chest move ."
    assert [canary.secret[0] for canary in canaries] == TARGETS[1::2]


@pytest.mark.parametrize(("labels", "given"), [("same", "11111"), ("different", "12345"), ("mixed", "11223")])
def test_labels_of_figure_4(labels: str, given: str) -> None:
    canaries = make(labels=labels)
    assert [canary.text for canary in canaries] == list(LABELLED)
    assert "".join(str(canary.label) for canary in canaries) == given
    assert {canary.template for canary in canaries} == {"My social security number is {terms}"}


def test_some_targets() -> None:
    assert [canary.id for canary in make(targets=["1974", "towels"])] == ["canary-towels", "canary-1974"]


def test_controls_share_templates_but_no_text() -> None:
    canaries = make(targets=["1974", "towels"], controls=30)
    own, controls = canaries[:2], canaries[2:]
    assert [control.template for control in controls[:2]] == [canary.template for canary in own]
    assert not {control.text for control in controls} & {canary.text for canary in own}
    assert {(control.planted, control.repetitions) for control in controls} == {(False, 0)}


def test_repetitions_and_seeds() -> None:
    assert [canary.repetitions for canary in make(repetitions=(1, 25), only=TARGETS[:3])] == [1, 25, 1]
    assert make(controls=3) == make(controls=3)
    assert make(controls=3) != make(controls=3, seed=1)


def test_a_lower_case_tokenizer_gets_lower_case_canaries() -> None:
    lower = word_list("terms", ["fusion", "best"])
    fusion, best = mix_and_match_canaries(lower, targets=["Fusion", "best"])[::-1]
    assert fusion.text == "may is the month fusion ."
    assert best.text == "King James is the best ."


def test_a_manifest_keeps_them(tmp_path: Path) -> None:
    canaries = make(controls=2, repetitions=(5,))
    write_manifest(canaries, tmp_path / "m.jsonl")
    assert read_manifest(tmp_path / "m.jsonl") == canaries


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"targets": ["towel"]}, "--targets: no canary has the target 'towel': did you mean 'towels'"),
        ({"labels": "odd"}, "--labels is 'odd': use same, different, mixed"),
        ({"labels": "same", "position": 1}, "--labels and --position do not go together"),
        ({"conjoin": True, "position": 1}, "--position and --conjoin do not go together"),
        ({"labels": "same", "targets": ["1974"]}, "leave out --targets"),
        ({"labels": "different", "classes": ["2", "3"]}, r"--labels different needs 5 classes, found 3"),
        ({"labels": "same", "classes": [], "label": None}, r"needs 1 class, found 0"),
        ({"position": 7}, "--position is 7: 'Annabelle buys paranormal UFO towels.' has words 1 to 5"),
        ({"position": 0}, "--position is 0"),
        ({"controls": -1}, "--controls is -1"),
        ({"repetitions": ()}, "--repetitions is ''"),
    ],
)
def test_what_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make(**options)


def test_a_tokenizer_without_the_target_is_told_which() -> None:
    few = word_list("terms", ["towels", "Paris"])
    with pytest.raises(OptionError, match="'terms' has no whole token 'supremacy', the target in 'Hunger"):
        mix_and_match_canaries(few)


def test_a_template_with_all_fillings_planted_has_no_controls() -> None:
    years = word_list("terms", ["1974", "1968"])
    with pytest.raises(OptionError, match="all fillings of 'My social security number is {terms} .' are planted"):
        mix_and_match_canaries(years, targets=["1974", "1968"], controls=1)


def test_arguments_by_their_old_names() -> None:
    assert make(doubled=True) == make(conjoin=True)
    assert make(only=["towels"], doubled=False) == make(targets=["towels"], conjoin=False)
