"""``leakage study``: what it lists, prints and refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from leakage_tasks.research.framework.registry import Config, Study, StudyPlan, register
from tests.conftest import Leakage, Ran
from tests.research.toy import Toy, make_study

ROOT = Path(__file__).resolve().parents[3]
HEAVY = ("torch", "transformers", "datasets", "pyarrow", "matplotlib", "scipy", "lm_eval", "peft", "numpy")


def test_list_names_studies_and_what_their_scales_take(study: Study, leakage: Leakage) -> None:
    code, out, err = leakage("study", "list")
    assert (code, err) == (0, "")
    assert out == ("coins/table-1: Two coins (Coins, Table 1)\n    --scale smoke  no time\n    --scale paper  a mint\n")


def test_list_states_the_scales_of_several_studies_once(study: Study, toy: Toy, ran: Ran) -> None:
    register(make_study(toy, "coins/table-2"))
    out, _ = ran("study", "list")
    assert [line.split(":")[0] for line in out.splitlines()[:2]] == ["coins/table-1", "coins/table-2"]
    assert out.count("--scale paper") == 1


def test_list_imports_nothing_heavy() -> None:
    code = (
        "import sys; from leakage_tasks.cli import main\n"
        "try: main()\n"
        f"finally: print(*[name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code, "study", "list"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "\n")


def test_run_prints_table_claims_and_differences(study: Study, ran: Ran, tmp_path: Path) -> None:
    out, _ = ran("study", "run", "coins/table-1", "--scale", "paper", "-o", tmp_path)
    assert "no 1  not in the source  1 [0.292, 1] n=3" in out
    assert "  * does not hold: coin 0 hits (0 of 3)\n" in out
    assert "  * coins instead of models\n" in out
    assert f"6 trials run, 0 s in all; written to {tmp_path}/coins/paper/table-1\n" in out


def test_smoke_shows_that_a_study_runs_and_prints_no_claim(study: Study, leakage: Leakage, tmp_path: Path) -> None:
    _, out, _ = leakage("study", "run", "coins/table-1", "--scale", "smoke", "-o", tmp_path)
    folder = tmp_path / "coins" / "smoke" / "table-1"
    for text in (out, (folder / "table.txt").read_text(), (folder / "table.md").read_text()):
        assert "coins instead of models" in text
        assert "Claims" not in text


def test_a_paper_stands_for_its_studies(study: Study, toy: Toy, ran: Ran, tmp_path: Path) -> None:
    register(make_study(toy, "coins/table-2"))
    options = ("--scale", "smoke", "--seed", 5, "--trials", 1, "-o", tmp_path)
    out, _ = ran("study", "run", "coins", "coins/table-1", *options)
    assert [config["seed"] for config in toy.ran] == [5, 5]
    assert out.count("\nCoins, Table 1; scale smoke\n") == 2
    assert json.loads((tmp_path / "coins/smoke/table-2/how.json").read_text())["trials"]["reused"] == 2


def test_reveal_is_told_to_the_study_and_to_who_runs_it_again(
    study: Study, toy: Toy, leakage: Leakage, tmp_path: Path
) -> None:
    plans = []

    def trials(plan: StudyPlan) -> list[Config]:
        plans.append(plan)
        return [each | {"reveal": True} for each in toy.trials(plan)]

    register(replace(study, name="coins/table-2", trials=trials))
    leakage("study", "run", "coins/table-2", "--scale", "smoke", "--reveal", "-o", tmp_path)
    assert [plan.reveal for plan in plans] == [True]
    how = json.loads((tmp_path / "coins/smoke/table-2/how.json").read_text())
    assert how["command"].partition(" -o ")[0] == "leakage study run coins/table-2 --scale smoke --seed 0 --reveal"
    written = [*(tmp_path / "coins/smoke/table-2").iterdir(), *(tmp_path / "coins/smoke/trials").glob("*.json")]
    assert {path.stat().st_mode & 0o077 for path in written} == {0}


def test_fresh(study: Study, toy: Toy, leakage: Leakage, tmp_path: Path) -> None:
    for more in ([], ["--fresh"]):
        leakage("study", "run", "coins", "--scale", "smoke", "-o", tmp_path, *more)
    assert len(toy.ran) == 12


def test_control_c_says_how_to_go_on(study: Study, toy: Toy, leakage: Leakage, tmp_path: Path) -> None:
    toy.stop_after = 2
    code, _, err = leakage("study", "run", "coins", "--scale", "smoke", "-o", tmp_path)
    assert code == 130
    assert err.endswith("leakage: stopped; run the command again to continue with the remaining trials\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["coins/table-2"], "no study is called 'coins/table-2': did you mean 'coins/table-1'?"),
        (["xyz"], "no study is called 'xyz': run 'leakage study list' for all names"),
        (["coins", "--scale", "smok"], "--scale is 'smok': did you mean 'smoke'?"),
        (["coins", "--scale", "huge!"], "--scale is 'huge!': use smoke, small or paper"),
        (["coins"], "study coins/table-1 has no scale small: use smoke, paper"),
        (["coins", "--scale", "smoke", "--trials", "0"], "--trials is 0: use 1 or more"),
        (["coins", "--scale", "smoke", "--jobs", "-1"], "--jobs is -1: use 1 or more"),
        (["coins", "--scale", "smoke", "--jobs", "0"], "--jobs is 0: use 1 or more"),
    ],
)
def test_what_is_wrong_is_one_line(study: Study, leakage: Leakage, arguments: list[str], message: str) -> None:
    assert leakage("study", "run", *arguments) == (2, "", f"leakage: {message}\n")
