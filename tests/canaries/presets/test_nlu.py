"""The canaries of Parikh et al., beside the paper's Table 1 and appendix A."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import chisquare

from leakage_tasks.canaries import Canary, nlu_canaries, read_manifest, write_manifest
from leakage_tasks.core.errors import OptionError

ALONE = pytest.mark.filterwarnings("error")
MANY = pytest.mark.filterwarnings("ignore:the template has no .unique.")

COLORS = ["red", "green", "lilac", "blue", "yellow", "brown", "cyan", "magenta", "orange", "pink", "purple", "mauve"]
DIGITS = list("0123456789")


@ALONE
@pytest.mark.parametrize("unknown", [4, 6, 8, 10])
@pytest.mark.parametrize(
    ("pattern", "words", "values", "intent"),
    [
        ("call", "call", DIGITS, "CallIntent"),
        ("pin", "my pin code is", DIGITS, "PinIntent"),
        ("color", "color", COLORS, "ColorIntent"),
    ],
)
def test_the_papers_patterns(pattern: str, words: str, values: list[str], intent: str, unknown: int) -> None:
    (canary,) = nlu_canaries(pattern, 1, unknown)
    known = words.split()
    assert canary.text.split(" ") == [*known, *canary.secret]
    assert len(canary.secret) == unknown
    assert [list(slot.values) for slot in canary.space.slots] == [values] * unknown
    assert canary.space.size == len(values) ** unknown
    assert canary.tags == ("O",) * len(known) + ("B-canary",) + ("I-canary",) * (unknown - 1)
    assert (canary.label, canary.repetitions, canary.planted) == (intent, 100, True)


@ALONE
def test_four_words_are_unknown_unless_said_otherwise() -> None:
    assert len(nlu_canaries("pin")[0].secret) == 4
    assert [len(nlu_canaries("call", unknown=number)[0].secret) for number in (1, 20)] == [1, 20]


@ALONE
def test_an_area_code_is_known_and_inside_the_entity() -> None:
    (canary,) = nlu_canaries("call", area_code="206")
    assert canary.template == "call 2 0 6 {digit_words:7}"
    assert canary.tags == ("O", "B-canary", *["I-canary"] * 9)
    assert canary.space.size == 10**7
    assert nlu_canaries("call", 1, 7, area_code="206") == [canary]


@MANY
def test_a_random_area_code_is_the_seeds() -> None:
    def prefixes(seed: int) -> set[str]:
        return {canary.space.prefix for canary in nlu_canaries("call", 3, area_code="random", controls=1, seed=seed)}

    found = [prefixes(seed) for seed in range(20)]
    assert all(len(each) == 1 for each in found)
    assert prefixes(3) == found[3]
    words = [prefix.split() for each in found for prefix in each]
    assert all(len(each) == 4 and set(each[1:]) <= set(DIGITS) for each in words)
    assert len({tuple(each) for each in words}) > 15


@MANY
def test_secrets_are_uniform_distinct_and_controls_are_never_planted() -> None:
    canaries = nlu_canaries("color", 1500, 3, controls=228, seed=2)
    assert len({canary.secret for canary in canaries}) == 12**3
    assert [canary.planted for canary in canaries] == [True] * 1500 + [False] * 228
    assert {(control.repetitions, control.label, control.tags) for control in canaries[1500:]} == {
        (0, "ColorIntent", ("O", "B-canary", "I-canary", "I-canary"))
    }
    counts = Counter(word for seed in range(400) for word in nlu_canaries("color", 1, seed=seed)[0].secret)
    assert chisquare([counts[color] for color in COLORS]).pvalue > 0.001


@MANY
def test_each_canary_has_a_stream_of_its_own() -> None:
    def of(canary: Canary) -> tuple[Any, ...]:
        return canary.id, canary.secret, canary.repetitions

    ten = nlu_canaries("pin", 10, 8, controls=2, seed=5, repetitions=(1, 10), id_prefix="x-")
    assert [of(canary) for canary in nlu_canaries("pin", 3, 8, seed=5, repetitions=(1, 10), id_prefix="x-")] == [
        of(canary) for canary in ten[:3]
    ]
    assert [canary.repetitions for canary in ten[:4]] == [1, 10, 1, 10]
    assert ten[-1].id == "x-control-1"


def test_canaries_that_compete_are_warned_about() -> None:
    with pytest.warns(UserWarning, match="2 canaries share a prefix and compete"):
        nlu_canaries("pin", 2)


@ALONE
def test_another_label() -> None:
    assert nlu_canaries("pin", label="GetWeather")[0].label == "GetWeather"


@MANY
def test_a_manifest_keeps_them(tmp_path: Path) -> None:
    canaries = nlu_canaries("color", 2, controls=2)
    write_manifest(canaries, tmp_path / "m.jsonl")
    assert read_manifest(tmp_path / "m.jsonl") == canaries


@pytest.mark.parametrize(
    ("pattern", "options", "message"),
    [
        ("pins", {}, "unknown NLU pattern 'pins': use call, pin, color"),
        ("pin", {"unknown": 0}, r"--unknown is 0: give 1 to 20 \(the paper's are 4, 6, 8 and 10\)"),
        ("pin", {"unknown": 21}, "--unknown is 21"),
        ("pin", {"area_code": "206"}, "--area-code goes with --preset nlu-call, not with nlu-pin"),
        ("call", {"area_code": "206", "unknown": 4}, "--unknown is 4: with --area-code 7 of 10 digits are unknown"),
        ("call", {"area_code": "20"}, "--area-code is '20': give three digits, or random"),
        ("call", {"area_code": "2O6"}, "--area-code is '2O6'"),
        ("call", {"area_code": "٢٠٦"}, "--area-code is"),
        ("call", {"count": 0}, "--count and --controls are both 0"),
        ("call", {"repetitions": (0,)}, "--repetitions is '0'"),
    ],
)
def test_what_cannot_be(pattern: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        nlu_canaries(pattern, **options)
