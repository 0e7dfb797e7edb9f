"""An audit in one call, against the command line on the same model and manifest."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from lm_eval.models.huggingface import HFLM
from transformers import AutoModelForMaskedLM, CanineConfig, CanineForSequenceClassification

from adapters.masked_lm import MaskedLM
from leakage_tasks import Audit, audit, make_canaries, verify_report, write_manifest
from leakage_tasks.attacks import finding_from_json
from leakage_tasks.core.errors import LeakageError, OptionError
from tests.chats import chat_model, chat_tokenizer
from tests.conftest import HARNESS
from tests.encoders import digits_wordpiece, save_base
from tests.oracles import letters, tiny_gpt2
from tests.tasks.test_canary_tasks import evaluate

pytestmark = pytest.mark.usefixtures("kept_page_parts")
CANARIES = make_canaries("the pin of {unique} is {digits:2}.", 3, controls=3, seed=1)


@pytest.fixture(scope="module")
def found() -> Audit:
    return audit(tiny_gpt2(letters()), letters(), CANARIES, seed=3, batch_size=8)


@pytest.mark.slow
@pytest.mark.usefixtures("warm_python")
def test_the_numbers_are_those_of_the_command_line(found: Audit, tmp_path: Path) -> None:
    tiny_gpt2(letters()).save_pretrained(tmp_path / "model")
    letters().save_pretrained(tmp_path / "model")
    write_manifest(CANARIES, tmp_path / "canaries.jsonl")
    words = ["--model", "hf", "--model_args", f"pretrained={tmp_path / 'model'}", "--batch_size", "8"]
    words += ["--device", "cpu", "--tasks", "canary_extraction,canary_exposure", "--output_path", str(tmp_path / "out")]
    words += ["--metadata", f"canaries={tmp_path / 'canaries.jsonl'},seed=3"]
    subprocess.run([sys.executable, "-c", HARNESS, *words], check=True, capture_output=True)
    (path,) = (tmp_path / "out").rglob("results_*.json")
    results = json.loads(path.read_text())["results"]
    assert set(results) == set(found.results["results"])
    for task, rows in results.items():
        mine = found.results["results"][task]
        assert set(rows) == set(mine)
        for name, value in rows.items():
            same = pytest.approx(value, abs=1e-9) if isinstance(value, float) else value
            assert mine[name] == same, name


def test_figures_have_intervals_controls_and_counts(found: Audit) -> None:
    figures = found.figures
    assert figures["canary_exposure/missed_below"] == figures["canary_exposure/min_detectable_exposure"]
    assert figures["canary_extraction/missed_below"] == figures["canary_extraction/min_detectable_rate"]
    assert figures["canary_exposure/exposure_known_x1"] == figures["canary_exposure/share_with_interval_x1"]
    with pytest.raises(KeyError, match="canary_exposure/missed"):
        figures["canary_exposure/missed"]
    figure = found.figures["canary_exposure/exposure_x1"]
    assert figure.value == found.results["results"]["canary_exposure"]["exposure_x1,none"]
    assert figure.control == found.results["results"]["canary_exposure"]["control_exposure,none"]
    assert figure.count == 3


def test_the_frame_has_a_row_a_canary_and_task(found: Audit) -> None:
    frame = found.to_frame()
    assert sorted(frame.canary[frame.task == "canary_exposure"]) == sorted(each.id for each in CANARIES)
    planted = frame[(frame.task == "canary_exposure") & frame.planted]
    assert planted.exposure.mean() == pytest.approx(found.figures["canary_exposure/exposure_x1"].value)
    assert set(frame.extracted[frame.task == "canary_extraction"]) <= {True, False}


def test_card_and_page_are_those_of_the_commands(found: Audit, tmp_path: Path) -> None:
    found.to_card(tmp_path / "README.md", name="tiny")
    found.to_html(tmp_path / "board.html")
    assert "model-index" in (tmp_path / "README.md").read_text()
    assert "<html" in (tmp_path / "board.html").read_text()


def test_the_report_is_verified_by_its_results(found: Audit, tmp_path: Path) -> None:
    found.to_report(tmp_path / "report.html", name="tiny", release="open weights")
    assert "open weights" in (tmp_path / "report.html").read_text()
    assert all(outcome.passed for outcome in verify_report(tmp_path / "report.html", results=found.file))


def test_it_shows_itself_in_notebooks_and_terminals(found: Audit) -> None:
    shown = found._repr_html_()
    assert shown.count("<tr>") >= 3
    assert "Exposure" in shown
    assert "Exposure" in str(found)
    assert "GPT2LMHeadModel" in str(found)
    assert found.verdicts


def test_results_go_where_they_are_wanted(tmp_path: Path) -> None:
    made = audit(tiny_gpt2(letters()), letters(), CANARIES, tasks=["canary_exposure"], output=tmp_path, budget=200)
    assert list(tmp_path.rglob("results_*.json"))
    assert list(made.findings) == ["canary_exposure"]
    again = audit(tiny_gpt2(letters()), letters(), CANARIES, tasks=["canary_exposure"], output=tmp_path, budget=100)
    assert len(list(tmp_path.rglob("results_*.json"))) == 2
    assert len(again.to_frame()) == len(made.to_frame()) == len(CANARIES)


def test_a_masked_model_is_taken_by_its_own_adapter(tmp_path: Path) -> None:
    model = AutoModelForMaskedLM.from_pretrained(save_base(tmp_path, tokenizer=digits_wordpiece())).eval()
    pins = make_canaries("the pin is {digits:2}.", 1, controls=1, seed=1)
    made = audit(model, digits_wordpiece(), pins, tasks=["canary_exposure"])
    by_command = MaskedLM(str(tmp_path), device="cpu")
    again = audit(by_command, canaries=pins, tasks=["canary_exposure"])
    assert made.findings["canary_exposure"][0].rank == again.findings["canary_exposure"][0].rank


def test_a_classifier_without_a_table_of_embeddings_is_read() -> None:
    size = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    model = CanineForSequenceClassification(CanineConfig(**size, pad_token_id=0)).eval()
    pins = [replace(pin, label="LABEL_1") for pin in make_canaries("the pin is {digits:2}.", 1, controls=1, seed=1)]
    made = audit(model, digits_wordpiece(), pins, tasks=["canary_exposure"])
    assert made.findings["canary_exposure"][0].method == "exact"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"canaries": []}, "^canaries is empty: give a manifest or canaries"),
        ({"tasks": ["canary_exposur"]}, "did you mean 'canary_exposure'"),
        ({"tasks": []}, "^audit: tasks is empty"),
        ({"tokenizer": None}, "pass tokenizer= too"),
        ({"model": 3}, "^audit: model is a int: give a transformers model"),
        ({"tokenizer": 3}, "^audit: tokenizer is a int"),
        ({"widht": 3}, "did you mean 'width'"),
        ({"attack": "magic"}, "attack='magic' is unknown"),
    ],
)
def test_what_cannot_be_is_one_line(given: dict[str, object], message: str) -> None:
    usual = {"model": tiny_gpt2(letters()), "tokenizer": letters(), "canaries": CANARIES}
    with pytest.raises(LeakageError, match=message):
        audit(**{**usual, **given})


def test_a_tokenizer_of_another_model_is_one_line() -> None:
    small = copy.deepcopy(tiny_gpt2(letters()))
    small.resize_token_embeddings(5)
    with pytest.raises(OptionError, match="tokens, the model embeddings of 5: they do not belong together"):
        audit(small, letters(), CANARIES)


def test_tasks_of_packages_that_extend_this_one_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "theirs.yaml").write_text(
        "task: theirs\nclass: !function leakage_tasks.tasks.canary_tasks.CanaryExposure\n"
    )
    entry = EntryPoint("theirs", "their_tasks", "lm_eval.tasks")
    missing = EntryPoint("gone", "nowhere_to_be_found", "lm_eval.tasks")
    monkeypatch.setattr("leakage_tasks.harness.run.other_packages", lambda group: [entry, missing])
    found = {"their_tasks": tmp_path}

    def folder_of(entry: EntryPoint) -> Path:
        try:
            return found[entry.value]
        except KeyError:
            raise ImportError(entry.value) from None

    monkeypatch.setattr("leakage_tasks.harness.run.folder_of", folder_of)
    made = audit(tiny_gpt2(letters()), letters(), CANARIES, tasks=["theirs", "canary_exposure"], budget=50)
    rows = made.results["results"]
    same = {name: value for name, value in rows["canary_exposure"].items() if isinstance(value, float)}
    assert same == {name: rows["theirs"][name] for name in same}


def test_turns_of_a_chat_are_those_of_the_harness(tmp_path: Path) -> None:
    canaries = make_canaries("The pin of {unique} is {digits:2}.", 2, seed=1)
    write_manifest(canaries, tmp_path / "c.jsonl")
    model, tokenizer = chat_model("chatml"), chat_tokenizer("chatml")
    said = {"apply_chat_template": True, "system_instruction": "Be kind."}
    lm, given = HFLM(pretrained=model, tokenizer=tokenizer), {"canaries": str(tmp_path / "c.jsonl"), "role": "user"}
    samples = evaluate(lm, ["canary_exposure"], given, **said)["samples"]["canary_exposure"]
    ranks = {each["doc"]["id"]: finding_from_json(each["resps"][0][0]).rank for each in samples}
    found = audit(model, tokenizer, canaries, tasks=["canary_exposure"], role="user", **said)
    assert {each.canary: each.rank for each in found.findings["canary_exposure"]} == ranks
    plain = audit(model, tokenizer, canaries, tasks=["canary_exposure"])
    assert {each.canary: each.rank for each in plain.findings["canary_exposure"]} != ranks


def test_defaults_that_a_task_does_not_take_cause_no_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = [{"prefix": [3, number, 5], "suffix": [6, 7, number]} for number in (3, 4, 5)]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = {"data": str(tmp_path / "pairs.jsonl"), "prefix": 3, "suffix": 3}
    audit(tiny_gpt2(letters()), letters(), tasks=["memorization"], **options)
    assert "no effect" not in caplog.text
    audit(tiny_gpt2(letters()), letters(), tasks=["memorization"], attack="beam", **options)
    assert "--metadata attack=… has no effect here" in caplog.text
