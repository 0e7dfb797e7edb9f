"""The command on real models: causal, translation, classifier and tagger; its file, its exit codes and its errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leakage_tasks.cli import selftest as command
from leakage_tasks.selftest import run
from leakage_tasks.selftest.rows import BROKEN, HELD, NOT_APPLICABLE, SelfTestRow
from tests.conftest import Leakage, Refused
from tests.oracles import letters, tiny_bert, tiny_gpt2, wordpiece
from tests.taggers import tiny_tagger, words_tokenizer

FEW = ("--device", "cpu", "--canaries", 12, "--samples", 50, "--budget", 500, "--batch_size", 64)


def saved(folder: Path, model: Any, tokenizer: Any) -> str:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return f"pretrained={folder}"


def test_a_causal_model(leakage: Leakage, tmp_path: Path) -> None:
    given = saved(tmp_path / "mine", tiny_gpt2(letters()), letters())
    found = tmp_path / "found.json"
    told = leakage("selftest", "--model_args", given, *FEW, "--template", "pin {digits:5}", "--output", found)
    report = json.loads(found.read_text())
    assert (told[0], report["held"], report["model"], report["canaries"]) == (0, True, "hf", 12)
    assert [row["verdict"] for row in report["checks"]] == [HELD] * 4
    assert [line.split("  ")[0] for line in told[1].splitlines() if line[0] != " "][:4] == [
        "controls at chance",
        "estimates' intervals",
        "fast against plain",
        "batch size",
    ]
    assert "all 4 checks held" in told[1]
    assert report["checks"][2]["figures"]["largest_difference"] < 1e-3


@pytest.mark.parametrize("kind", ["classifier-scorer", "nlu-tagger"])
def test_models_that_give_labels(leakage: Leakage, tmp_path: Path, kind: str) -> None:
    made = (tiny_bert(), wordpiece()) if kind == "classifier-scorer" else (tiny_tagger(), words_tokenizer())
    given = saved(tmp_path / "mine", *made)
    found = tmp_path / "found.json"
    code, _, _ = leakage("selftest", "--model", kind, "--model_args", given, *FEW, "-o", found)
    verdicts = [row["verdict"] for row in json.loads(found.read_text())["checks"]]
    assert (code, verdicts) == (0, [HELD, NOT_APPLICABLE, HELD, HELD])


@pytest.mark.slow
def test_a_translation_model(leakage: Leakage, tmp_path: Path) -> None:
    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    torch.manual_seed(0)
    size = {"d_model": 16, "d_ff": 32, "d_kv": 8, "num_layers": 1, "num_heads": 2, "vocab_size": len(letters())}
    model = T5ForConditionalGeneration(T5Config(**size, decoder_start_token_id=0, pad_token_id=0, eos_token_id=0))
    given = saved(tmp_path / "mine", model, letters()) + ",backend=seq2seq"
    options = ("--template", "pin {digits:3}", "--source", "the pin")
    code, out, _ = leakage("selftest", "--model_args", given, *FEW, *options)
    assert (code, out.count("  held  ")) == (0, 4)


def test_what_did_not_hold_is_exit_code_1(leakage: Leakage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [SelfTestRow("batch size", BROKEN, "off by a bit"), SelfTestRow("other", HELD, "fine")]
    monkeypatch.setattr(run, "run_checks", lambda lm, settings: rows)
    monkeypatch.setattr(run, "load_model", lambda *arguments: None)
    code, out, _ = leakage("selftest", "-o", tmp_path / "found.json")
    assert (code, out.splitlines()[-1]) == (1, "1 of 2 checks did not hold")
    assert json.loads((tmp_path / "found.json").read_text())["held"] is False


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--model", "nonsense"), "--model nonsense: the harness knows no such model"),
        (("--model_args", "pretrained=/nowhere/at/all"), "cannot load a hf model from these arguments"),
        (("--canaries", "3"), "--canaries is 3: give 10 or more"),
        (("--seed", "-1"), "--seed is -1: give 0 or more"),
        (("--template", "pin {nonsense:3}"), "nonsense"),
        (("-o", "/nowhere/at/all.json"), "no folder"),
    ],
)
def test_errors_are_one_line_and_exit_code_2(refused: Refused, arguments: tuple[str, ...], message: str) -> None:
    assert message in refused("selftest", *arguments)


def test_the_device_is_that_of_the_harness_own_command_line() -> None:
    from lm_eval.config.evaluate_config import EvaluatorConfig

    assert EvaluatorConfig().device == command.DEVICE
