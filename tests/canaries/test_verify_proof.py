"""Whether canaries were planted: proven by data, claimed by the manifest, or not at all."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from leakage_tasks.canaries import Canary, make_canaries, plant, write_manifest
from leakage_tasks.canaries.proof import PlantingProof, planting_of
from leakage_tasks.canaries.sidecar import sha256_of, sidecar_path
from leakage_tasks.core.errors import OptionError

TEMPLATE = "The pin of {unique} is {digits:4}."


@pytest.fixture
def canaries() -> list[Canary]:
    """Two to plant and a control."""
    return make_canaries(TEMPLATE, 2, controls=1)


@pytest.fixture
def manifest(tmp_path: Path, canaries: list[Canary]) -> Path:
    """Their manifest."""
    write_manifest(canaries, tmp_path / "canaries.jsonl")
    return tmp_path / "canaries.jsonl"


@pytest.fixture
def planted(tmp_path: Path, manifest: Path) -> Path:
    """A text with them, and the record beside it."""
    source = tmp_path / "train.txt"
    source.write_text("".join(f"line {n}\n" for n in range(20)))
    plant(manifest, source, tmp_path / "planted.txt")
    return tmp_path / "planted.txt"


def test_data_beside_the_manifest_that_are_as_planted_prove_it(manifest: Path, planted: Path, canaries) -> None:
    found = planting_of(manifest, canaries)
    assert replace(found, shares={}) == PlantingProof("proven", "planted.txt", sha256_of(planted))


def test_the_share_of_the_text_that_canaries_are_is_counted_in_characters(
    manifest: Path, planted: Path, canaries
) -> None:
    text, own = planted.read_text(), Counter()
    for canary in canaries:
        own[canary.repetitions] += text.count(canary.text) * len(canary.text)
    expected = {times: length / len(text) for times, length in own.items() if length}
    assert expected
    assert planting_of(manifest, canaries).shares == pytest.approx(expected)
    assert planting_of(manifest, canaries, planted).shares == pytest.approx(expected)


def test_the_validation_part_is_no_training_text(tmp_path: Path) -> None:
    often = make_canaries(TEMPLATE, 2, repetitions=(1, 20))
    write_manifest(often, tmp_path / "c.jsonl")
    for name in ("train.txt", "held.txt"):
        (tmp_path / name).write_text("line\n" * 20)
    plant(
        tmp_path / "c.jsonl",
        tmp_path / "train.txt",
        tmp_path / "planted.txt",
        validation=tmp_path / "held.txt",
        validation_output=tmp_path / "also-held.txt",
    )
    found = planting_of(tmp_path / "c.jsonl", often)
    assert found.data == "planted.txt"
    assert set(found.shares) == {1, 20}
    assert planting_of(tmp_path / "c.jsonl", often, tmp_path / "also-held.txt").shares == {}


def test_named_data_prove_it_wherever_they_are_and_without_a_record(
    tmp_path: Path, manifest: Path, planted: Path, canaries
) -> None:
    sidecar_path(planted).unlink()
    elsewhere = tmp_path / "else" / "mine.txt"
    elsewhere.parent.mkdir()
    planted.rename(elsewhere)
    assert planting_of(manifest, canaries) == PlantingProof("claimed")
    assert planting_of(manifest, canaries, elsewhere) == PlantingProof("proven", "mine.txt", sha256_of(elsewhere))


@pytest.mark.parametrize("what", ["changed", "gone", "of another manifest"])
def test_a_record_alone_proves_nothing(tmp_path: Path, manifest: Path, planted: Path, canaries, what: str) -> None:
    if what == "changed":
        planted.write_text(planted.read_text() + "more\n")
    elif what == "gone":
        planted.unlink()
    else:
        canaries = make_canaries(TEMPLATE, 2, controls=1, seed=1)
        write_manifest(canaries, manifest)
    assert planting_of(manifest, canaries) == PlantingProof("claimed")


def test_named_data_without_the_canaries_are_refused_in_one_line(tmp_path: Path, manifest: Path, canaries) -> None:
    other = tmp_path / "other.txt"
    other.write_text("nothing\n")
    with pytest.raises(OptionError, match=r"planted=.*other.txt: does not hold the canaries of .*canary-0.*and 1 more"):
        planting_of(manifest, canaries, other)


def test_controls_alone_are_not_planted(tmp_path: Path) -> None:
    controls = make_canaries(TEMPLATE, 0, controls=2)
    assert planting_of(tmp_path / "canaries.jsonl", controls) == PlantingProof("none")


def test_natural_secrets_alone_have_no_planting_to_prove(tmp_path: Path, manifest: Path, canaries) -> None:
    natural = Canary("n", "card {digits:4}", tuple("4929"), kind="natural")
    assert planting_of(tmp_path / "n.jsonl", [natural]) == PlantingProof("none")
    assert planting_of(manifest, [natural, *canaries]) == PlantingProof("claimed")
