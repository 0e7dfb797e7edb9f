"""The showcase: what it says about its models, and the whole way on little text."""

from __future__ import annotations

import importlib.metadata
import json
import math
import sys
from pathlib import Path

import pytest

from leakage_tasks.attacks import Finding
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.research.demo.report import ModelResult, ShowcaseResult, show_showcase
from leakage_tasks.research.demo.settings import LabelledSizes, ShowcaseFiles, Sizes, TextSizes
from leakage_tasks.research.demo.showcase import showcase
from leakage_tasks.research.victims.harness_run import HarnessCommand

TEXT = {"characters": 20_000, "planted": 4, "controls": 3, "repetitions": (1, 30), "hidden": 24}
CORPUS = {"classes": 6, "samples": 200, "held_out": 60, "planted": 2, "controls": 3, "repetitions": (4, 20)}
CLASSIFIER = {"public_texts": 300, "vocabulary": 900, "hidden": 16, "pretraining": 1, "epochs": 3}
SMALL = Sizes(
    TextSizes(**TEXT, epochs=2, private_epochs=2, private_batch=64),
    LabelledSizes(**CORPUS, **CLASSIFIER),
    questions=50,
    budget=1_000,
)
TRAINING = {"seconds": 12.3, "parameters": 1234}
PROMISE = {"epsilon": 7.996, "delta": 1e-5, "rows": 4861, "epsilon_by_copies": {1: 26.2, 4: None}}


def finding(name: str, copies: int, rank: float) -> Finding:
    return Finding(name, "exposure", copies > 0, copies, "random", 10.0, rank=rank, method="exact")


@pytest.fixture
def measured(tmp_path):
    """A model's results as the harness leaves them: two canaries, one of them planted twice, and two controls."""
    folder = tmp_path / "results" / "lstm" / "model"
    folder.mkdir(parents=True)
    results = {
        "canary_exposure": {"exposure_x1,none": 7.0, "control_exposure,none": 1.25},
        "canary_extraction": {"extracted_x1,none": 0.5, "control_extracted,none": None},
    }
    (folder / "results_2024.json").write_text(json.dumps({"results": results}))
    found = [finding("a", 2, 1), finding("b", 1, 64), finding("c", 0, 512), finding("d", 0, 256)]
    lines = [json.dumps({"resps": [[each.to_json()]]}) for each in found]
    (folder / "samples_canary_exposure_2024.jsonl").write_text("\n".join(lines) + "\n")
    tasks = ("canary_exposure", "canary_extraction")
    return HarnessCommand(tmp_path / "lstm", tasks, {}, tmp_path / "results" / "lstm")


def said(capsys, tmp_path, model):
    show_showcase(ShowcaseResult(ShowcaseFiles.under(tmp_path), [model], 61.0))
    return capsys.readouterr().out


def test_it_shows_the_essentials_of_the_tasks_that_ran(measured, tmp_path, capsys):
    text = said(capsys, tmp_path, ModelResult("lstm", measured, "", 4.0, TRAINING))
    rows = [line.split() for line in text.split("\n")]
    assert ["exposure", "of", "the", "fewest", "copies,", "bits", "7.00"] in rows
    assert ["exposure", "of", "controls,", "bits", "1.25"] in rows
    assert ["extracted", "of", "the", "fewest", "copies,", "share", "0.50"] in rows
    assert ["controls", "extracted,", "share", "-"] in rows
    assert "held-out" not in text.split("Files, after")[0]
    assert "mean exposure in bits if planted 2x: 10.0, 1x: 4.0, never: 1.5" in text
    assert "lstm: 1,234 parameters, trained in 12 s, measured in 4 s" in text


def test_it_says_what_dp_sgd_promises_and_where_that_ends(measured, tmp_path, capsys):
    text = said(capsys, tmp_path, ModelResult("lstm-dp-sgd", measured, "", 4.0, {**TRAINING, **PROMISE}))
    assert "ε = 8.00 at δ = 1e-05 for one of 4,861 rows" in text
    assert "(two rows per copy): for 1 copy ε = 26; for 4 copies no bound" in text


def test_it_says_where_everything_is(measured, tmp_path, capsys):
    text = said(capsys, tmp_path, ModelResult("lstm", measured, "", 4.0, TRAINING))
    files = ShowcaseFiles.under(tmp_path)
    places = [files.text, files.labelled, files.tasks, files.training, files.private_lstm]
    assert all(str(place) in text for place in places)


def test_a_place_it_cannot_write_to_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LeakageError, match="cannot be made"):
        showcase(tmp_path / "file" / "showcase")


def test_missing_opacus_is_said_before_anything_long(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "opacus", None)
    with pytest.raises(LeakageError, match="needs opacus"):
        showcase(tmp_path / "showcase")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.usefixtures("warm_python")
def test_the_whole_way(tmp_path):
    """One run, as it takes long: its parts are checked in turn."""
    try:
        importlib.metadata.distribution("lm-eval-leakage")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the harness knows our tasks only where the package is installed")
    pytest.importorskip("opacus")
    done = showcase(tmp_path / "showcase", sizes=SMALL)
    assert [model.name for model in done.models] == ["lstm", "lstm-dp-sgd", "classifier"]
    for model in done.models:
        check_results(done.files, model)
    check_figures(*done.models)
    check_training(json.loads(done.files.training.read_text()))
    assert all(model.name in done.files.board.read_text(encoding="utf-8") for model in done.models)


def check_results(files, model):
    [results] = (files.results / model.name).rglob("results_*.json")
    asked = json.loads(results.read_text())["config"]["model_args"]["pretrained"]
    assert Path(asked).name == model.name
    exposures = [found.exposure for found in model.command.findings("canary_exposure")]
    assert all(math.isfinite(exposure) for exposure in exposures)
    assert len(model.command.findings("canary_extraction")) == len(exposures)
    assert all(task in model.table for task in model.command.tasks)


def check_figures(lstm, private, classifier):
    assert lstm.by_copies.keys() == private.by_copies.keys() == {30, 1, 0}
    assert classifier.by_copies.keys() == {20, 4, 0}
    # What was planted 30 times in a text this small is learnt by the ordinary model before most else.
    assert lstm.by_copies[30].bits > lstm.by_copies[0].bits + 2
    assert lstm.figures["held-out text, bits per byte"] < private.figures["held-out text, bits per byte"]
    assert 0 < classifier.figures["right label, share"] < 1
    one, two, three = (
        {found.manifest for found in model.command.findings("canary_exposure")} for model in (lstm, private, classifier)
    )
    assert one == two != three


def check_training(training):
    assert training.keys() == {"lstm", "lstm-dp-sgd", "classifier"}
    private = training["lstm-dp-sgd"]
    assert private["epsilon"] <= 8.0
    assert private["losses"][-1]["epsilon"] == pytest.approx(private["epsilon"])
    assert training["lstm"]["losses"][-1]["epsilon"] is None
    assert training["lstm"]["parameters"] == private["parameters"]
