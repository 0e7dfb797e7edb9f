"""The notebooks of ``examples/`` run as they are, and their figures are those of the command line."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.conftest import HARNESS, ROOT

EXAMPLES = ROOT / "examples"


def run(name: str, folder: Path) -> Any:
    """The notebook after it has run in ``folder``."""
    shutil.copy(EXAMPLES / "stand_in.py", folder)
    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", 4)
    resources = {"metadata": {"path": str(folder)}}
    return NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources).execute()


def pictures(notebook: Any) -> int:
    return sum("image/png" in each.get("data", {}) for cell in notebook.cells for each in cell.get("outputs", []))


CANARIES = "canary_extraction,canary_exposure"


def compared(folder: Path, model: str, *words: str, tasks: str = CANARIES) -> None:
    """What a notebook found is what `lm_eval` finds in the model that it saved."""
    words = ("--model", "hf", "--model_args", model, "--tasks", tasks, *words)
    command = [sys.executable, "-c", HARNESS, *words, "--device", "cpu", "--output_path", "results"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    mine, theirs = (
        json.loads(next((folder / name).rglob("results_*.json")).read_text()) for name in ("audit", "results")
    )
    for task, rows in theirs["results"].items():
        for name, value in rows.items():
            same = pytest.approx(value, abs=1e-3) if isinstance(value, float) else value
            assert mine["results"][task][name] == same, name


@pytest.mark.slow
@pytest.mark.usefixtures("warm_python")
def test_an_audit_in_ten_lines_has_the_figures_of_the_command_line(tmp_path: Path) -> None:
    assert pictures(run("audit_my_model", tmp_path)) == 1
    assert (tmp_path / "README.md").exists()
    assert (tmp_path / "leakage.html").exists()
    compared(tmp_path, "pretrained=model", "--metadata", "canaries=canaries.jsonl,seed=0")


@pytest.mark.slow
@pytest.mark.usefixtures("warm_python")
def test_a_fine_tune_of_a_chat_model_has_the_figures_of_the_command_line(tmp_path: Path) -> None:
    assert pictures(run("audit_a_chat_fine_tune", tmp_path)) == 1
    given = "canaries=canaries.jsonl,seed=0,signal=calibrated,preflight=out/preflight.json"
    compared(tmp_path, "pretrained=base,peft=adapter", "--metadata", given, "--apply_chat_template")


@pytest.mark.slow
@pytest.mark.usefixtures("warm_python")
def test_an_audit_of_a_finished_model_has_the_figures_of_the_command_line(tmp_path: Path) -> None:
    assert pictures(run("public_model", tmp_path)) == 1
    assert "memorized_exact" in (tmp_path / "README.md").read_text()
    given = "data=seen.jsonl,controls=unseen.jsonl,prefix=15,suffix=15,rows=all"
    compared(tmp_path, "pretrained=model,dtype=float32", "--metadata", given, tasks="memorization")


@pytest.mark.slow
@pytest.mark.usefixtures("warm_python")
def test_an_attack_of_ones_own_runs_beside_the_others(tmp_path: Path) -> None:
    assert pictures(run("my_own_attack", tmp_path)) == 1


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.stem)
def test_what_is_shown_was_made_by_what_stands_there(path: Path) -> None:
    notebook = nbformat.read(path, 4)
    outputs = [each for cell in notebook.cells for each in cell.get("outputs", [])]
    assert pictures(notebook)
    assert not [each for each in outputs if each.output_type in ("stream", "error")]
