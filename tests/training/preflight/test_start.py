"""The look that the callback takes before the first step."""

from __future__ import annotations

import json
import logging

import pytest

from leakage_tasks import ExposureCallback
from leakage_tasks.canaries import write_manifest
from leakage_tasks.core.errors import OptionError, PlantingError
from tests.training.preflight.trainers import canaries, sft, texts

pytest.importorskip("trl")


def trained(folder, manifest_of=None, rows=None, watch=None, **how):
    found = canaries()
    write_manifest(manifest_of or found, folder / "canaries.jsonl")
    trainer = sft(folder / "out", [{"text": row} for row in rows or texts(found)], max_steps=1, **how)
    ExposureCallback(folder / "canaries.jsonl", **(watch or {})).attach(trainer)
    trainer.train()
    return trainer


def test_what_is_found_is_written_beside_the_model(tmp_path):
    trained(tmp_path)
    found = json.loads((tmp_path / "out" / "preflight.json").read_text())
    assert [each["state"] for each in found["canaries"]] == ["in the loss"] * 2 + ["absent"] * 2


def test_a_planted_canary_that_is_absent_stops_before_the_first_step(tmp_path):
    with pytest.raises(PlantingError, match=r"canary-0, canary-1: no whole copy .* strict=False trains anyway"):
        trained(tmp_path, max_length=20)
    assert (tmp_path / "out" / "preflight.json").exists()


@pytest.mark.parametrize(
    ("watch", "rows"), [({"strict": False}, "in the training data"), ({"preflight": 4}, "among these rows")]
)
def test_or_warns_and_so_it_does_after_a_sample(tmp_path, caplog, watch, rows):
    with caplog.at_level(logging.WARNING):
        trainer = trained(tmp_path, max_length=20, watch=watch)
    assert trainer.state.global_step == 1
    assert f"no whole copy {rows}" in caplog.text


def test_no_look_is_taken_where_none_is_wanted(tmp_path):
    trained(tmp_path, max_length=20, watch={"preflight": 0})
    assert not (tmp_path / "out" / "preflight.json").exists()


@pytest.mark.parametrize("rows", [-1, 1.5, "all", True])
def test_another_number_of_rows_is_one_line(tmp_path, rows):
    write_manifest(canaries(), tmp_path / "canaries.jsonl")
    with pytest.raises(OptionError, match="preflight="):
        ExposureCallback(tmp_path / "canaries.jsonl", preflight=rows)


def test_an_absent_canary_stops_before_the_model_is_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(ExposureCallback, "_measure_baseline", lambda _: pytest.fail("measured first"))
    with pytest.raises(PlantingError, match="no whole copy"):
        trained(tmp_path, max_length=20)
