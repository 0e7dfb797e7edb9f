"""The callback in TRL's trainer in two processes, natural secrets watched: as in one process, told once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from transformers import AutoModelForCausalLM

from leakage_tasks.attacks import run_attack
from leakage_tasks.canaries import Canary, read_manifest, write_manifest
from leakage_tasks.targets import CausalTarget
from tests.conftest import PATHS
from tests.training.preflight.trainers import canaries, tokenizer

SECRET = "481516"
SCRIPT = """
import faulthandler, json, sys
from pathlib import Path

# A run that hangs ends with the place where each process waits.
faulthandler.dump_traceback_later(450, exit=True)
from leakage_tasks import ExposureCallback
from leakage_tasks.canaries import read_manifest
from tests.training.callback.training_runs import looks
from tests.training.preflight.trainers import sft, texts

folder, processes = Path(sys.argv[1]), int(sys.argv[2])
rows = [{"text": text} for text in texts([each for each in read_manifest(folder / "c.jsonl") if each.planted])]
out = folder / str(processes)
usual = {"num_train_epochs": 2, "learning_rate": 1e-2, "max_length": None, "logging_strategy": "epoch", "seed": 0}
trainer = sft(out, rows, per_device_train_batch_size=4 // processes, **usual)
assert trainer.accelerator.num_processes == processes
ExposureCallback(folder / "c.jsonl", share=None, budget=300, natural=True).attach(trainer)
trainer.train()
if trainer.is_world_process_zero():
    (out / "looks.json").write_text(json.dumps(looks(trainer)))
    trainer.save_state()
else:
    assert looks(trainer) == []
trainer.save_model(str(out))
"""


def launched(folder: Path, processes: int) -> str:
    """What a run in so many processes writes on the screen."""
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    environment = os.environ | {"PYTHONPATH": PATHS, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    words += [str(folder / "train.py"), str(folder), str(processes)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout + done.stderr


def told(folder: Path, processes: int, name: str) -> Any:
    return json.loads((folder / str(processes) / name).read_text())


@pytest.mark.slow
@pytest.mark.usefixtures("warm_python")
def test_two_processes_tell_once_what_one_tells(tmp_path: Path) -> None:
    natural = [
        Canary("mine", "call me at {digits:6} now", tuple(SECRET), repetitions=2, kind="natural"),
        Canary("never", "call us at {digits:6} now", tuple("777777"), repetitions=0, kind="natural", planted=False),
    ]
    write_manifest([*canaries(2, 3), *natural], tmp_path / "c.jsonl")
    (tmp_path / "train.py").write_text(SCRIPT)
    _, screen = (launched(tmp_path, processes) for processes in (1, 2))
    assert told(tmp_path, 1, "preflight.json") == told(tmp_path, 2, "preflight.json")
    assert (told(tmp_path, 2, "preflight.json")["rows"], screen.count("Preflight:   0%")) == (16, 1)

    one, two = (told(tmp_path, processes, "looks.json") for processes in (1, 2))
    assert two[0] == one[0]
    assert [each["step"] for each in two] == [each["step"] for each in one] == [0, 4, 8]
    saved = CausalTarget(AutoModelForCausalLM.from_pretrained(tmp_path / "2").eval(), tokenizer())
    planted = [each for each in read_manifest(tmp_path / "c.jsonl") if each.planted and each.kind != "natural"]
    found = run_attack("exposure", saved, planted, budget=300)
    assert two[-1]["leakage/exposure_mean"] == pytest.approx(fmean(each.exposure or 0 for each in found), abs=1e-3)

    assert "leakage/exposure_natural" in two[-1]
    files = [path.read_text() for path in (tmp_path / "2").glob("*.json") if path.name != "tokenizer.json"]
    assert all(SECRET not in text for text in (screen, *files))
