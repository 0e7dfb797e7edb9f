"""``leakage checkpoints``: the words of the command, its table, its plot and its exit codes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from leakage_tasks.api import checkpoints
from leakage_tasks.canaries import write_manifest
from tests.api.checkpoint_runs import Harness, training_run
from tests.conftest import Leakage, Ran, Refused
from tests.training.callback.training_runs import canaries, model, trainer_of


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(checkpoints, "run_command", Harness("checkpoint-20"))
    return training_run(tmp_path / "run")


def test_table_plot_and_the_one_left_out(run: Path, leakage: Leakage) -> None:
    code, out, err = leakage("checkpoints", run, "--metadata", "budget=5")
    assert code == 1
    assert [line.split()[:2] for line in out.splitlines()[1:3]] == [["10", "checkpoint-10"], ["100", "checkpoint-100"]]
    assert f"wrote {run / 'leakage' / 'checkpoints.png'}" in out
    assert (run / "leakage" / "checkpoints.png").read_bytes().startswith(b"\x89PNG")
    assert "checkpoint-20 (2 of 3): left out: lm_eval ended with code 1: OSError: no weights" in err


def test_further_options_reach_lm_eval(run: Path, ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness()
    monkeypatch.setattr(checkpoints, "run_command", harness)
    words = ("--model_args", "dtype=float32", "--device", "cpu", "--batch_size", "8", "--", "--limit", "4")
    ran("checkpoints", run, "-o", run / "out", "--plot", run / "plot.svg", *words)
    assert {"--device": "cpu", "--batch_size": "8", "--limit": "4"}.items() <= harness.commands[0].items()
    assert harness.commands[0]["--model_args"].endswith(",dtype=float32")
    assert (run / "plot.svg").is_file()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--model_args", "pretrained=x"), "--model_args pretrained=…: each checkpoint is the model"),
        (("--model_args", "dtype"), "--model_args dtype: give name=value,… or a JSON object"),
        (("--metadata", "[1]"), "--metadata [1]: give name=value,… or a JSON object"),
        (("--plot", "plot.pdf"), "--plot plot.pdf: use a name that ends in .png or .svg"),
    ],
)
def test_wrong_words_are_one_line(run: Path, refused: Refused, words: tuple[str, ...], message: str) -> None:
    assert refused("checkpoints", run, *words).startswith(f"leakage: {message}")


@pytest.mark.slow
@pytest.mark.usefixtures("warm_python")
def test_real_checkpoints_are_audited_by_lm_eval(tmp_path: Path, leakage: Leakage) -> None:
    from peft import LoraConfig, get_peft_model

    write_manifest(canaries(), tmp_path / "canaries.jsonl")
    base = tmp_path / "base"
    net = model()
    net.save_pretrained(base)
    trainer = trainer_of(tmp_path, net, save_strategy="epoch", num_train_epochs=2)
    trainer.processing_class.save_pretrained(base)
    trainer.train()
    tuned = get_peft_model(model(), LoraConfig(target_modules=["c_attn"], task_type="CAUSAL_LM"))
    tuned.peft_config["default"].base_model_name_or_path = str(base)
    tuned.save_pretrained(tmp_path / "run" / "checkpoint-12")
    shutil.copytree(tmp_path / "run" / "checkpoint-8", tmp_path / "run" / "checkpoint-16")
    (tmp_path / "run" / "checkpoint-16" / "model.safetensors").write_bytes(b"torn")
    words = ("--metadata", f"canaries={tmp_path / 'canaries.jsonl'},budget=200", "--device", "cpu")
    code, out, err = leakage("checkpoints", tmp_path / "run", *words)
    assert code == 1, err
    assert [line.split()[0] for line in out.splitlines()[1:4]] == ["4", "8", "12"]
    assert "checkpoint-16 (4 of 4): left out: lm_eval ended with code 1: " in err
    (adapted,) = (tmp_path / "run" / "leakage" / "checkpoint-12").rglob("results_*.json")
    assert json.loads(adapted.read_text())["config"]["model_args"]["peft"] == str(tmp_path / "run" / "checkpoint-12")
