"""What a look before training found, read for the results of an audit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leakage_tasks.canaries import make_canaries, manifest_hash, write_manifest
from leakage_tasks.core.errors import OptionError
from leakage_tasks.report.card.sentences import what_was_tested
from leakage_tasks.tasks.canary_tasks import CanaryExposure
from leakage_tasks.tasks.preflight_file import copies_in_loss
from leakage_tasks.training.preflight import CanaryReading, Preflight

MADE = make_canaries("the pin of {unique} is {digits:4}", 4, controls=2, repetitions=[1, 3], seed=0)


def look(folder: Path, in_loss: dict[str, int] | None = None, **changed: Any) -> str:
    """The file of a look that found every copy in the loss, but for those of some canaries."""
    counts = {canary.id: canary.repetitions for canary in MADE} | (in_loss or {})
    readings = tuple(
        CanaryReading(canary.id, canary.repetitions, canary.kind, counts[canary.id], in_loss=counts[canary.id])
        for canary in MADE
    )
    path = folder / "preflight.json"
    Preflight(readings, 10, 10, manifest_hash(MADE)).write(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))
    return str(path)


def planted(times: int) -> list[str]:
    return [canary.id for canary in MADE if canary.repetitions == times]


def test_copies_are_counted_by_how_often_canaries_were_planted(tmp_path: Path) -> None:
    first, *_ = planted(3)
    found = copies_in_loss(look(tmp_path, {first: 1}), manifest_hash(MADE), MADE)
    assert found == {"1": [len(planted(1))] * 2, "3": [3 * len(planted(3)) - 2, 3 * len(planted(3))]}


def test_canaries_outside_the_loss_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first, *_ = planted(1)
    copies_in_loss(look(tmp_path, {first: 0}), manifest_hash(MADE), MADE)
    assert f"1 of 4 planted canaries ({first}) had no token of their secret in the loss" in caplog.text


def test_the_task_declares_it_and_the_card_says_it(tmp_path: Path) -> None:
    write_manifest(MADE, tmp_path / "canaries.jsonl")
    metadata = {"canaries": str(tmp_path / "canaries.jsonl"), "preflight": look(tmp_path, {planted(3)[0]: 1})}
    told = CanaryExposure({"task": "canary_exposure", "metadata": metadata}).tested()
    assert told["learnt_from"] == {"1": [2, 2], "3": [4, 6]}
    assert "learnt from 6 of 8 copies" in what_was_tested(told)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"manifest": "other"}, "about another manifest"),
        ({"total": 100}, "only a part of the data"),
        ({"total": None}, "only a part of the data"),
        ({"schema": "1"}, "not what 'leakage preflight -o' writes"),
        ({"canaries": []}, "not what 'leakage preflight -o' writes"),
        ({"canaries": [1]}, "not what 'leakage preflight -o' writes"),
        ({"canaries": None}, "not what 'leakage preflight -o' writes"),
    ],
)
def test_another_file_is_one_line(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        copies_in_loss(look(tmp_path, **changed), manifest_hash(MADE), MADE)


@pytest.mark.parametrize("content", ["", "[]", "{", "1", '"a"', "{}"])
def test_what_is_no_look_is_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "file.json").write_text(content)
    with pytest.raises(OptionError, match="not what 'leakage preflight -o' writes"):
        copies_in_loss(str(tmp_path / "file.json"), manifest_hash(MADE), MADE)


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="cannot read the file"):
        copies_in_loss(str(tmp_path / "none.json"), manifest_hash(MADE), MADE)
