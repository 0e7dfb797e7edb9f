"""A run with canaries, usefulness and controls, and its evidence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leakage_tasks.report.evidence.files import Files
from leakage_tasks.report.evidence.gather import gather
from leakage_tasks.report.evidence.record import Evidence, Settings
from tests.report.pages import usual_canaries, write_run

SETTINGS = Settings("My model", "open weights", 1e-5, ("exposure_max=25",), ("planting-claimed",))
ENVIRONMENT = """PyTorch version: 2.9.0
OS: Debian GNU/Linux 12
Python version: 3.11.7 (64-bit runtime)
GPU models and configuration: GPU 0: A big one
CPU(s):                                  2
Model name:                              Some CPU
"""


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the results of one run: both canary tasks, and one benchmark."""
    folder = tmp_path_factory.mktemp("evidence")
    file = write_run(folder, "models/one", usual_canaries(0.9), useful={"arc": 0.61})
    content = json.loads(file.read_text())
    content["pretty_env_info"] = ENVIRONMENT
    content["total_evaluation_time_seconds"] = "12.4"
    content["config"] |= {"model_num_parameters": 1234567, "model_sha": "ab" * 20, "random_seed": 7}
    content["git_hash"] = "0123abc"
    file.write_text(json.dumps(content))
    return file.parent


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files of a model, and other files."""
    folder = tmp_path_factory.mktemp("model")
    for name in ("model.safetensors", "config.json", "tokenizer.model", "README.md"):
        (folder / name).write_text(name)
    return folder


@pytest.fixture(scope="session")
def selftest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of ``leakage selftest -o``."""
    path = tmp_path_factory.mktemp("selftest") / "selftest.json"
    rows = [
        {"check": "chance", "verdict": "held", "words": "mean exposure 1.4 bits", "figures": {}},
        {"check": "batch size", "verdict": "did not hold", "words": "costs differ <by> 2 bits", "figures": {}},
    ]
    path.write_text(json.dumps({"schema": 1, "model": "hf", "model_args": "pretrained=m", "checks": rows}))
    return path


@pytest.fixture(scope="session")
def evidence(results: Path, model: Path, selftest: Path) -> Evidence:
    """The evidence on :func:`results`, with hashes of the model and a self-test."""
    return gather(results, SETTINGS, Files(model=(model,), selftest=selftest))
