"""The package that docs/extending.md describes: built, installed beside ours, and used by the commands it names."""

from __future__ import annotations

import json
import math
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Environment

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "extending.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^```\w+\n# (\S+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
DOORS = {"attack", "model", "task", "scoring", "pipes", "pins", "board", "command"}
Installed = tuple["Environment", Path]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Installed:
    """An environment with both packages, and a folder to work in."""
    from tests.conftest import make_environment

    folder = tmp_path_factory.mktemp("extending")
    for name, text in FILES.items():
        path = folder / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "source" / "my_leaks" / "__init__.py").touch()
    environment = make_environment(folder / "venv")
    environment.install(wheel)
    environment.install(folder / "source")
    return environment, folder


def run(installed: Installed, name: str, *words: str | Path) -> str:
    """What ``leakage`` or ``lm_eval`` says."""
    environment, folder = installed
    program = ["-m", "lm_eval"] if name == "lm_eval" else [environment.folder / "bin" / name]
    command = [str(word) for word in (environment.python, *program, *words)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def manifest(installed: Installed) -> Path:
    """Canaries of the package's own preset."""
    path = installed[1] / "canaries.jsonl"
    words = ("--preset", "my-pins", "--count", "2", "--controls", "2", "--set", "digits=3", "-o", path)
    run(installed, "leakage", "canaries", *words)
    return path


def test_each_example_is_short() -> None:
    assert {Path(name).stem for name in FILES if name.endswith(".py")} == DOORS
    assert all(len(text.splitlines()) < 40 for text in FILES.values())


@pytest.mark.slow
def test_the_preset_takes_its_own_option(manifest: Path) -> None:
    canaries = [json.loads(line) for line in manifest.read_text().splitlines()]
    assert [len(each["secret"]) for each in canaries if "secret" in each] == [3] * 4


@pytest.mark.slow
def test_the_format_is_planted_in(installed: Installed, manifest: Path) -> None:
    folder = installed[1]
    (folder / "train.pipes").write_text("".join(f"{number}|a text\n" for number in range(20)))
    run(installed, "leakage", "plant", manifest, "train.pipes", "-o", "planted.pipes")
    rows = (folder / "planted.pipes").read_text().splitlines()
    assert len(rows) == 22
    assert sum(row.startswith("new|The pin of") for row in rows) == 2


@pytest.mark.slow
def test_lm_eval_runs_its_task_with_its_attack_on_its_model_and_the_board_is_written(
    installed: Installed, manifest: Path
) -> None:
    folder = installed[1]
    secrets = " ".join(json.loads(line)["template"] for line in manifest.read_text().splitlines())
    (folder / "train.pipes").write_text(f"1|{secrets} 1234567890 0246813579\n")
    metadata = json.dumps({"canaries": str(manifest), "first-guess.tries": 1000})
    words = (
        "--model",
        "bigrams",
        "--model_args",
        "text=train.pipes",
        "--tasks",
        "my_extraction,canary_exposure",
        "--metadata",
        metadata,
    )
    run(installed, "lm_eval", *words, "--output_path", "results", "--log_samples")
    (path,) = (folder / "results").rglob("results_*.json")
    results = json.loads(path.read_text())
    attacks = results["configs"]["my_extraction"]["leakage"]["attacks"]
    assert [each["attack"] for each in attacks] == ["first-guess"]
    (samples,) = (folder / "results").rglob("samples_my_extraction_*.jsonl")
    found = [json.loads(json.loads(line)["resps"][0][0]) for line in samples.read_text().splitlines()]
    assert [each["model_calls"] for each in found] == [1000] * 4
    assert 0 < results["results"]["canary_exposure"]["control_exposure,none"] < math.log2(1000)
    run(installed, "leakage", "leaderboard", "results", "-o", "board.tsv")
    head, line = (folder / "board.tsv").read_text().splitlines()
    assert head.startswith("model\t")
    said = run(installed, "leakage", "score", "results")
    assert "my_extraction, 4 documents" in said
    assert "first_slot" in said
    assert "not scored" not in said
    assert "differs from" not in said
    assert len(line.split("\t")) == len(head.split("\t"))


@pytest.mark.slow
def test_all_of_it_is_listed(installed: Installed) -> None:
    assert run(installed, "leakage", "hello", "you") == "hello you\n"
    assert "tries  int >= 1  50" in run(installed, "leakage", "options", "first-guess")
    said = run(installed, "leakage", "doctor")
    for each in (
        "attack first-guess of my-leaks can be used",
        "target my_leaks.model.Bigrams of my-leaks can be used",
        "format pipes of my-leaks can be used",
        "preset my-pins of my-leaks can be used",
        "board output tsv of my-leaks can be used",
        "scoring my_extraction of my-leaks can be used",
        "command hello of my-leaks can be used",
        "--model bigrams of my-leaks can be imported",
        "1 tasks of my-leaks in",
    ):
        assert f"ok       {each}" in said
    assert "PROBLEM" not in said
