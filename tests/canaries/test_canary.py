"""Canaries: what they refuse, and their JSON form."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.canaries import Canary, canary_from_json, word_list
from leakage_tasks.canaries.alphabets import BUILT_IN, Alphabet
from leakage_tasks.canaries.canary import attacker_view
from leakage_tasks.core.errors import ManifestError, SpaceError

TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=8)
SOURCE = TEXT.map(lambda text: text.replace("{", "{{").replace("}", "}}").strip()).filter(bool)
PIN = {
    "schema": 1,
    "id": "a",
    "template": "My pin is {digits:2}.",
    "secret": ["1", "2"],
    "space": {"digits": {}},
    "repetitions": 1,
    "planted": True,
    "kind": "random",
}
VIEWED = Canary(
    "c", "my {{pin}} is {digits:2}, or {letters} {{maybe}}.", ("4", "2", "b"), known="is {digits:2}, or {letters}"
)


@st.composite
def canaries(draw: st.DrawFn) -> Canary:
    words = word_list("w", draw(st.lists(TEXT.filter(bool), min_size=1, max_size=4, unique=True)))
    before = draw(TEXT).replace("{", "").replace("}", "")
    repetitions = draw(st.integers(0, 5))
    supports = draw(st.none() | st.just("other"))
    return Canary(
        id=draw(TEXT.filter(lambda text: bool(text) and text.isprintable())),
        template=f"{before} {{w}} and {{digits:2}}.",
        secret=(draw(st.sampled_from(words.values)), "0", "9"),
        repetitions=repetitions,
        planted=repetitions > 0,
        kind="supporting" if supports else draw(st.sampled_from(["random", "organic", "natural"])),
        alphabets={"w": words},
        known=draw(st.sampled_from([None, "{w} and {digits:2}", " {w} and {digits:2}."])),
        label=draw(st.none() | TEXT),
        tags=draw(st.none() | st.lists(TEXT).map(tuple)),
        source=draw(st.none() | SOURCE | SOURCE.map(lambda text: f"{text} {{w}}, {{digits:2}}")),
        supports=supports,
    )


@given(canaries())
def test_json_round_trip(canary: Canary) -> None:
    assert canary_from_json(json.loads(json.dumps(canary.to_json()))) == canary


def test_text_and_attack_space() -> None:
    canary = Canary("a", "My pin is {digits:2}.", ("1", "2"), known="pin is {digits:2}")
    assert canary.text == "My pin is 12."
    assert canary.attack_space.fill(canary.secret) == "pin is 12"
    assert canary.space.size == canary.attack_space.size


def test_a_source_is_fixed_or_filled_with_the_same_secret() -> None:
    given_: dict[str, Any] = {"id": "a", "template": "{digits:2}.", "secret": ("1", "2")}
    fixed, filled = Canary(**given_, source="a {{brace}}"), Canary(**given_, source="so {digits}-{digits}")
    assert fixed.source_text == fixed.source_of(("3", "4")) == "a {brace}"
    assert filled.source_text == "so 1-2"
    assert filled.source_of(("3", "4")) == "so 3-4"
    assert Canary(**given_).source_text is None


@pytest.mark.parametrize(
    "alphabets",
    [{"pin": BUILT_IN["digits"]}, {"pin": Alphabet("x", tuple("0123"))}, {"pin": word_list("x", ["1", "2"])}],
)
def test_alphabets_under_another_name_survive(alphabets: dict[str, Alphabet]) -> None:
    canary = Canary("a", "My {pin:2}.", ("1", "2"), alphabets=alphabets)
    again = canary_from_json(json.loads(json.dumps(canary.to_json())))
    assert again.text == canary.text
    assert again.space.size == canary.space.size


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"repetitions": 0}, "repetitions"),
        ({"repetitions": -1}, "repetitions"),
        ({"planted": False}, "control"),
        ({"kind": "strange"}, "kind"),
        ({"kind": "supporting"}, "supports"),
        ({"supports": "b"}, "supports"),
        ({"uniform": True}, "uniform is True: it belongs to natural canaries only"),
        ({"known": "your pin is {digits:2}"}, "not a part"),
        ({"known": "{digits:1}"}, "not a part"),
        ({"secret": ("1", "x")}, "not in alphabet"),
        ({"source": ""}, "source '' is empty or begins or ends with white space"),
        ({"source": "ends so "}, "begins or ends with white space"),
        ({"source": "a {digits:3}"}, "source 'a {digits:3}' has other slots than template"),
        ({"source": "a {letters:2}"}, "has other slots than template"),
        ({"source": "a {strange}"}, "source 'a {strange}': unknown space"),
        ({"source": "a {"}, "source 'a {': a single '{' at 2: write it twice"),
        ({"id": ""}, "printable"),
        ({"id": "a\nb"}, "printable"),
    ],
)
def test_bad_canaries(change: dict[str, Any], message: str) -> None:
    given_ = {"id": "a", "template": "My pin is {digits:2}.", "secret": ("1", "2"), **change}
    with pytest.raises(SpaceError, match=message):
        Canary(**given_)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 2}, "field 'schema' is 2, this version reads 1: use the version that wrote it"),
        ({"schema": True}, "field 'schema': expected a whole number, found true or false"),
        ({"secret": "12"}, "field 'secret': expected a list, found text"),
        ({"secret": [1, 2]}, "field 'secret.0': expected text, found a number"),
        ({"secret": ["1", "x"]}, "field 'secret': 'x' is not in alphabet"),
        ({"secret": ["1"]}, "field 'secret': a filling of 1 slots"),
        ({"template": "no slot"}, "field 'template': template 'no slot' has no slot"),
        ({"template": "{nope}"}, "field 'template': .* unknown space 'nope'"),
        ({"template": "\ud800 {digits:2}"}, "field 'template' contains a lone surrogate"),
        ({"space": {"digits": {"kind": "odd"}}}, "field 'space': space 'digits': unknown kind 'odd'"),
        ({"space": {"digits": 3}}, "field 'space': 'digits' must be"),
        ({"repetitions": 1.5}, "field 'repetitions': expected a whole number, found a fraction"),
        ({"planted": 1}, "field 'planted': expected true or false, found a number"),
        ({"kind": "odd"}, "field 'kind' is not one of random, "),
        ({"known": "x {digits}"}, "field 'known': known"),
        ({"supports": "b"}, "field 'supports': supports"),
        ({"uniform": 1}, "field 'uniform': expected true or false, found a number"),
        ({"uniform": False}, "field 'uniform': uniform is False"),
        ({"source": "x {digits}"}, "field 'source': source 'x {digits}' has other slots"),
        ({"tags": [1]}, "field 'tags.0': expected text, found a number"),
        ({"extra": 1}, "unknown field 'extra'"),
    ],
)
def test_bad_json(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ManifestError, match="^here:3: ") as error:
        canary_from_json({**PIN, **change}, "here:3")
    error.match(message)


@pytest.mark.parametrize("name", sorted(PIN))
def test_missing_fields(name: str) -> None:
    with pytest.raises(ManifestError, match=f"field '{name}' is missing"):
        canary_from_json({key: value for key, value in PIN.items() if key != name})


@pytest.mark.parametrize("data", [None, [], "canary", 3])
def test_not_an_object(data: object) -> None:
    with pytest.raises(ManifestError, match="expected an object"):
        canary_from_json(data)


@pytest.mark.parametrize(
    ("known", "text"),
    [
        ("all", "my {pin} is 42, or b {maybe}."),
        ("before", "my {pin} is 42, or b"),
        ("after", "42, or b {maybe}."),
        ("none", "42, or b"),
    ],
)
def test_the_attacker_sees_the_slots_what_is_between_them_and_the_side_named(known, text):
    seen = attacker_view(VIEWED, known)
    assert seen.attack_space.fill(seen.secret) == text
    assert seen.text == VIEWED.text


@pytest.mark.parametrize("template", ["{digits}", "{digits} x", "x {digits}"])
@pytest.mark.parametrize("known", ["all", "before", "after", "none"])
def test_a_side_without_text_has_none_to_leave_out(template, known):
    seen = attacker_view(Canary("c", template, ("7",)), known).attack_space
    kept = {"all": ("x ", " x"), "before": ("x ", ""), "after": ("", " x"), "none": ("", "")}[known]
    assert seen.pieces == tuple(side if side and side in template else "" for side in kept)


@pytest.mark.parametrize(
    ("template", "known"), [("x {digits}", "before"), ("{digits} x", "after"), ("{digits}", "none")]
)
def test_what_leaves_nothing_out_is_the_canary_itself(template, known):
    canary = Canary("c", template, ("7",))
    assert attacker_view(canary, known) == attacker_view(canary, "all") == canary
