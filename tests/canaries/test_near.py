"""Near copies: how they differ from their canary, that nothing else changes, and that audits count them."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.canaries import make_canaries, plant, read_manifest, verify, write_manifest
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.near import near_counts, with_near_copies
from leakage_tasks.canaries.proof import planting_of
from leakage_tasks.core.errors import OptionError, SpaceError
from leakage_tasks.report.power import plan_of_manifest
from tests.conftest import Leakage

TEMPLATE = "The secret number of {unique} in room {{7}} is {digits:4}, they say."
WORDS = ["".join(pair) for pair in zip("bcdfghjklmnpqrstvwxz" * 8, "aeiou" * 32, strict=True)]
WORDS = sorted({first + second for first in WORDS for second in WORDS})[:300]


def canaries(**more: object) -> list[Canary]:
    return make_canaries(TEMPLATE, 3, repetitions=(1, 5), controls=2, seed=1, **more)  # type: ignore[arg-type]


@given(st.integers(1, 9), st.integers(0, 99))
def test_a_near_copy_has_the_secret_and_so_many_other_words(changed: int, seed: int) -> None:
    own = canaries()
    found = with_near_copies(own, changed, WORDS, seed)
    by_id = {each.id: each for each in own}
    near = [each for each in found if each.kind == "near"]
    assert len(near) == 4
    for each in near:
        canary = by_id[str(each.supports)]
        assert each.secret == canary.secret
        pairs = list(zip(each.text.split(), canary.text.split(), strict=True))
        assert sum(one != other for one, other in pairs) == changed
        assert "{7}" in each.text
    assert len({each.text for each in near}) == len(near)


def test_what_is_planted_once_and_what_is_never_planted_stay() -> None:
    own = canaries()
    found = [each for each in with_near_copies(own, 2, WORDS, 0) if each.kind != "near"]
    assert [(each.id, each.text, each.planted) for each in found] == [
        (each.id, each.text, each.planted) for each in own
    ]
    assert all(each.repetitions == int(each.planted) for each in found)


def test_copies_are_as_many_as_before() -> None:
    own, found = canaries(), with_near_copies(canaries(), 2, WORDS, 0)
    near = near_counts(found)
    assert {each.id: each.repetitions + near[each.id] for each in found if each.kind != "near"} == {
        each.id: each.repetitions for each in own
    }


@pytest.mark.parametrize(
    ("changed", "words", "told"),
    [
        (0, WORDS, "--near-copies is 0: give the number of words to change in a copy, 1 or more"),
        (12, WORDS, "has 10 words around its secret: give a lower number"),
        (2, WORDS[:5], "the data have 5 words that occur twice, 100 are needed"),
    ],
)
def test_what_cannot_be_is_one_line(changed: int, words: list[str], told: str) -> None:
    with pytest.raises(OptionError, match=told):
        with_near_copies(canaries(), changed, words, 0)


@pytest.mark.parametrize("changed", [1, 2])
def test_all_different_near_copies_can_be_made_and_more_are_declined(changed: int) -> None:
    """A template of two words and 100 words of the data, one of which is in the template."""
    words = ["pin", *WORDS[:99]]
    most = 99 + 100 if changed == 1 else 99 * 100
    (canary,) = make_canaries("Pin code {digits:4}!", 1, repetitions=(1 + most,))
    if changed == 1:
        found = with_near_copies([canary], changed, words, 0)
        assert len({each.text for each in found}) == 1 + most
    with pytest.raises(OptionError, match=f"needs {most + 1:,} near copies, and 100 words of the data make {most:,}"):
        with_near_copies([replace(canary, repetitions=2 + most)], changed, words, 0)


def test_near_copies_of_near_copies_are_declined() -> None:
    with pytest.raises(OptionError, match="has near copies already"):
        with_near_copies(with_near_copies(canaries(), 2, WORDS, 0), 2, WORDS, 0)


def test_a_near_copy_belongs_to_a_canary() -> None:
    with pytest.raises(SpaceError, match="only supporting and near canaries need it"):
        Canary("a", "x {digits:2}", ("1", "2"), kind="near")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path, stream = tmp_path / "d.txt", random.Random(0)
    path.write_text("".join(" ".join(stream.choices(WORDS, k=6)) + ".\n" for _ in range(300)))
    return path


def test_planted_verified_and_rewritten(data: Path, tmp_path: Path, leakage: Leakage) -> None:
    manifest, output = tmp_path / "c.jsonl", tmp_path / "p.txt"
    write_manifest(canaries(), manifest)
    code, out, err = leakage("plant", manifest, data, "--near-copies", 3, "--seed", 2, "-o", output)
    assert (code, err) == (0, "")
    assert "7 copies of 7 canaries" in out
    assert verify(output, manifest).ok
    lines = output.read_text().splitlines()
    for each in read_manifest(manifest):
        assert lines.count(each.text) == each.repetitions
    secret = "".join(canaries()[1].secret)
    assert sum(f"{secret}," in line for line in lines) == 5


def test_the_share_of_the_text_and_the_power_count_near_copies_as_copies(data: Path, tmp_path: Path) -> None:
    manifest, output = tmp_path / "c.jsonl", tmp_path / "p.txt"
    write_manifest(canaries(), manifest)
    plant(manifest, data, output, near_copies=3)
    rewritten, whole = read_manifest(manifest), len(output.read_text())
    once, often = (
        [each for each in rewritten if each.planted and (each.supports or each.id) in names]
        for names in ({canaries()[0].id, canaries()[2].id}, {canaries()[1].id})
    )
    lengths = {1: sum(len(each.text) for each in once), 5: sum(len(each.text) for each in often)}
    assert len(often) == 5
    assert planting_of(manifest, rewritten).shares == pytest.approx({n: size / whole for n, size in lengths.items()})
    assert plan_of_manifest(manifest).planted == {1: 2, 5: 1}


def test_the_same_seed_plants_the_same_by_either_name_of_the_argument(data: Path, tmp_path: Path) -> None:
    outputs = []
    for name, argument in (("a", "near_copies"), ("b", "near_copies"), ("c", "fuzzy")):
        manifest, output = tmp_path / f"{name}.jsonl", tmp_path / f"{name}.txt"
        write_manifest(canaries(), manifest)
        plant(manifest, data, output, seed=2, **{argument: 3})
        outputs.append((manifest.read_bytes(), output.read_bytes()))
    assert outputs[0] == outputs[1] == outputs[2]


def test_not_with_a_validation_part(data: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "c.jsonl"
    write_manifest(canaries(), manifest)
    before = manifest.read_bytes()
    with pytest.raises(OptionError, match="--near-copies and --validation do not go together"):
        plant(manifest, data, tmp_path / "p.txt", near_copies=1, validation=data, validation_output=tmp_path / "v.txt")
    assert manifest.read_bytes() == before
    assert not (tmp_path / "p.txt").exists()
