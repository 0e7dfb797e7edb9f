"""Near copies and families in results: tiers, counts, and what is told of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lm_eval.models.huggingface import HFLM

from leakage_tasks import audit
from leakage_tasks.canaries import Canary, make_canaries, write_manifest
from leakage_tasks.canaries.near import with_near_copies
from leakage_tasks.report.card.tested import describe_tested
from leakage_tasks.report.load.results_file import every_row
from tests.oracles import letters, tiny_gpt2

WORDS = [first + second + third for first in "bdfg" for second in "aeiou" for third in "klmnpr"]


def audited(canaries: list[Canary], folder: Path) -> tuple[dict[str, Any], dict[str, Any], Any]:
    """Rows, what was tested, and the audit."""
    write_manifest(canaries, folder / "c.jsonl")
    lm = HFLM(pretrained=tiny_gpt2(letters()), tokenizer=letters(), batch_size=4)
    found = audit(lm, canaries=folder / "c.jsonl", tasks=["canary_exposure"], output=folder / "out")
    declared = found.results["configs"]["canary_exposure"]["leakage"]
    return found.results["results"]["canary_exposure"], declared["tested"], found


@pytest.fixture
def canaries() -> list[Canary]:
    return make_canaries("pin of {unique} is {digits:1}", 3, repetitions=(1, 4), controls=2, seed=1)


def test_near_copies_count_for_the_tier_and_are_told(canaries: list[Canary], tmp_path: Path) -> None:
    exact, tested, _ = audited(canaries, tmp_path)
    folder = tmp_path / "near"
    folder.mkdir()
    near, told, found = audited(with_near_copies(canaries, 1, WORDS, 0), folder)
    assert near["exposure_x4,none"] == exact["exposure_x4,none"]
    assert (near["n_planted,none"], near["n_controls,none"]) == (3, 2)
    assert told == {**tested, "near_copies": 3}
    assert [each.near for each in found.findings["canary_exposure"] if each.planted] == [0, 3, 0]


def test_a_card_tells_how_many_copies_are_near(canaries: list[Canary], tmp_path: Path) -> None:
    _, tested, _ = audited(with_near_copies(canaries, 1, WORDS, 0), tmp_path)
    assert "3 of the copies have other words around the secret" in describe_tested(tested)


def test_families_are_rows_of_the_task(canaries: list[Canary], tmp_path: Path) -> None:
    planted = [each for each in canaries if each.planted]
    families = {planted[0].id: "typical", planted[1].id: "bigram", planted[2].id: "typical"}
    made = [replace(each, family=families.get(each.id, "typical")) for each in canaries]  # type: ignore[arg-type]
    rows, tested, found = audited(made, tmp_path)
    bits = {each.canary: each.exposure for each in found.findings["canary_exposure"]}
    assert rows["exposure_bigram,none"] == pytest.approx(bits[planted[1].id])
    assert rows["exposure_typical,none"] == pytest.approx((bits[planted[0].id] + bits[planted[2].id]) / 2)
    assert tested["families"] == {"typical": 2, "bigram": 1}
    assert every_row(found.results, "canary_exposure")["n_bigram"] == 1


def test_what_families_take_from_data_is_no_example(canaries: list[Canary], tmp_path: Path) -> None:
    _, tested, _ = audited([replace(each, family="typical") for each in canaries], tmp_path)
    assert "example" not in tested
    assert "families: 3 typical" in describe_tested(tested)
