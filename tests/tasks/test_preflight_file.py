"""What a look before training found, read for the results of an audit."""

from __future__ import annotations

import json
import string
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from lm_eval.models.huggingface import HFLM

from leakage_tasks.attacks import finding_from_json
from leakage_tasks.canaries import Canary, make_canaries, manifest_hash, write_manifest
from leakage_tasks.canaries.near import with_near_copies
from leakage_tasks.core import log as notices
from leakage_tasks.core.errors import OptionError
from leakage_tasks.metrics.scoring import CANARY_EXPOSURE, Answered, score
from leakage_tasks.report.card.tested import describe_tested
from leakage_tasks.tasks.canary_tasks import CanaryExposure
from leakage_tasks.tasks.preflight_file import read_preflight
from leakage_tasks.training.preflight import CanaryCounts, Preflight
from tests.oracles import letters, tiny_gpt2
from tests.tasks.test_canary_tasks import BOTH, evaluate

MADE = make_canaries("the pin of {unique} is {digits:4}", 4, controls=2, repetitions=[1, 3], seed=0)


def look(folder: Path, in_loss: dict[str, int] | None = None, **changed: Any) -> str:
    """The file of a look that found every copy in the loss, but for those of some canaries."""
    counts = {canary.id: canary.repetitions for canary in MADE} | (in_loss or {})
    readings = tuple(
        CanaryCounts(canary.id, canary.repetitions, canary.kind, counts[canary.id], in_loss=counts[canary.id])
        for canary in MADE
    )
    path = folder / "preflight.json"
    Preflight(readings, 10, 10, manifest_hash(MADE)).write(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))
    return str(path)


def test_near_copies_count_as_copies_that_were_learnt_from(tmp_path: Path) -> None:
    def first(canary: Canary) -> bool:
        return canary.id.endswith("near-1")

    made = with_near_copies(MADE, 1, [f"{letter}word" for letter in string.ascii_lowercase] * 4, 0)
    readings = tuple(
        CanaryCounts(
            each.id, each.repetitions, each.kind, each.repetitions, in_loss=int(not each.id.endswith("near-1"))
        )
        for each in made
    )
    Preflight(readings, 10, 10, manifest_hash(made)).write(tmp_path / "preflight.json")
    exact, near = ([each for each in made if (each.kind == "near") is kind] for kind in (False, True))
    found = read_preflight(str(tmp_path / "preflight.json"), manifest_hash(made), exact, near)
    # Of canaries planted three times one exact copy and one of two near copies were in the loss.
    assert found.learnt == {"1": [2, 2], "3": [4, 6]}


def planted(times: int) -> list[str]:
    return [canary.id for canary in MADE if canary.repetitions == times]


def test_copies_are_counted_by_how_often_canaries_were_planted(tmp_path: Path) -> None:
    first, *_ = planted(3)
    found = read_preflight(look(tmp_path, {first: 1}), manifest_hash(MADE), MADE)
    assert found.readings == {}
    assert found.learnt == {"1": [len(planted(1))] * 2, "3": [3 * len(planted(3)) - 2, 3 * len(planted(3))]}


def test_canaries_outside_the_loss_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first, *_ = planted(1)
    read_preflight(look(tmp_path, {first: 0}), manifest_hash(MADE), MADE)
    assert f"1 of 4 planted canaries ({first}) had no token of their secret in the training loss" in caplog.text


def test_the_task_declares_it_and_the_card_says_it(tmp_path: Path) -> None:
    write_manifest(MADE, tmp_path / "canaries.jsonl")
    metadata = {"canaries": str(tmp_path / "canaries.jsonl"), "preflight": look(tmp_path, {planted(3)[0]: 1})}
    told = CanaryExposure({"task": "canary_exposure", "metadata": metadata}).tested()
    assert told["learnt_from"] == {"1": [2, 2], "3": [4, 6]}
    assert "learnt from 6 of 8 copies" in describe_tested(told)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"manifest": "other"}, "made with another manifest"),
        ({"total": 100}, "only a part of the data"),
        ({"total": None}, "only a part of the data"),
        ({"schema": "1"}, "not a file of 'leakage preflight -o' for these canaries"),
        ({"canaries": []}, "not a file of 'leakage preflight -o' for these canaries"),
        ({"canaries": [1]}, "not a file of 'leakage preflight -o' for these canaries"),
        ({"canaries": None}, "not a file of 'leakage preflight -o' for these canaries"),
    ],
)
def test_another_file_is_one_line(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        read_preflight(look(tmp_path, **changed), manifest_hash(MADE), MADE)


@pytest.mark.parametrize("content", ["", "[]", "{", "1", '"a"', "{}"])
def test_what_is_no_look_is_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "file.json").write_text(content)
    with pytest.raises(OptionError, match="not a file of 'leakage preflight -o' for these canaries"):
        read_preflight(str(tmp_path / "file.json"), manifest_hash(MADE), MADE)


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="cannot read the file"):
        read_preflight(str(tmp_path / "none.json"), manifest_hash(MADE), MADE)


MANY = make_canaries("pin {unique} is {digits:2}", 12, controls=4, repetitions=[1, 3], seed=0)
READ = {"loss": (2, 2), "context": (2, 0), "absent": (0, 0)}
"""By how a canary was read: whole copies, and those in the loss."""


def evaluated(folder: Path, readings: dict[str, str]) -> Any:
    """Results of both tasks for canaries that were read so; the others were in the loss."""
    notices.warn_once.cache_clear()
    write_manifest(MANY, folder / "c.jsonl")
    read = {canary.id: READ[readings.get(canary.id, "loss")] for canary in MANY if canary.planted}
    records = tuple(
        CanaryCounts(each.id, each.repetitions, each.kind, whole=read[each.id][0], in_loss=read[each.id][1])
        for each in MANY
        if each.planted
    )
    controls = tuple(CanaryCounts(each.id, 0, each.kind) for each in MANY if not each.planted)
    Preflight((*records, *controls), 10, 10, manifest_hash(MANY)).write(folder / "preflight.json")
    given = {"canaries": str(folder / "c.jsonl"), "preflight": str(folder / "preflight.json"), "rows": "all"}
    return evaluate(HFLM(pretrained=tiny_gpt2(letters()), tokenizer=letters(), batch_size=16), BOTH, given)


def test_canaries_read_in_the_context_only_are_a_tier_of_their_own(tmp_path: Path) -> None:
    once = [each.id for each in MANY if each.repetitions == 1]
    results = evaluated(tmp_path, {once[0]: "context", once[1]: "context", once[2]: "absent"})
    samples = results["samples"]["canary_exposure"]
    bits = {each["doc"]["id"]: finding_from_json(each["resps"][0][0]).exposure for each in samples}
    row, told = results["results"]["canary_exposure"], results["configs"]["canary_exposure"]["leakage"]
    assert row["exposure_context,none"] == pytest.approx(fmean(bits[name] for name in once[:2]))
    assert row["exposure_x1,none"] == pytest.approx(fmean(bits[name] for name in once[3:]))
    assert row["n_context,none"] == 2
    assert (told["rows"]["exposure_x1"]["headline"], told["rows"]["exposure_context"].get("headline", False)) == (
        True,
        False,
    )
    assert told["tested"]["learnt_from"]["0"] == [0, 2]
    answers = [Answered(each["resps"][0][0], "none", {}) for each in samples]
    assert score(CANARY_EXPOSURE, answers)["none"]["exposure_context"] == pytest.approx(row["exposure_context,none"])


def test_canaries_outside_the_loss_set_a_run_apart(tmp_path: Path) -> None:
    write_manifest(MADE, tmp_path / "canaries.jsonl")

    def protocol(in_loss: dict[str, int] | None) -> dict[str, Any]:
        named = {} if in_loss is None else {"preflight": look(tmp_path, in_loss)}
        metadata = {"canaries": str(tmp_path / "canaries.jsonl"), **named}
        return CanaryExposure({"task": "canary_exposure", "metadata": metadata}).protocol()

    first, second, *_ = planted(1)
    assert protocol({}) == protocol(None)  # every metric is over the same canaries
    assert len({protocol(outside)["preflight"] for outside in ({first: 0}, {second: 0}, {first: 0, second: 0})}) == 3


def test_where_no_secret_was_in_the_loss_no_figure_stands_for_the_model(tmp_path: Path) -> None:
    results = evaluated(tmp_path, {each.id: "context" for each in MANY if each.planted})
    told = results["configs"]["canary_exposure"]["leakage"]
    assert told["no_headline"].startswith("preflight found no planted canary's secret in the training loss")
    assert "exposure_context,none" in results["results"]["canary_exposure"]


def test_copies_that_no_weight_learns_from_do_not_count_as_learnt(tmp_path: Path) -> None:
    path, (first, *_) = Path(look(tmp_path)), planted(3)
    told = json.loads(path.read_text())
    for each in told["canaries"]:
        if each["canary"] == first:
            each |= {"reached": False, "state": "in the context only"}
    path.write_text(json.dumps(told))
    found = read_preflight(str(path), manifest_hash(MADE), MADE)
    assert found.readings == {first: "context"}
    assert found.learnt["0"] == [0, 3]
