"""The harness in two and three processes: the figures of one, and an end where a process dies."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leakage_tasks.core.journal import FILES
from tests.launched import CASES, SPREAD, found_in, launch, make_inputs, start

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("warm_python")]
ON_CPU = {"ACCELERATE_USE_CPU": "true"}
"""With it accelerate knows that there are several processes, and the harness parts documents for all but ``hf``."""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    make_inputs(folder)
    return folder


@pytest.fixture(scope="module")
def alone(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return launch(inputs, tmp_path_factory.mktemp("alone"), 1, CASES)


@pytest.mark.parametrize(("processes", "environment"), [(2, {}), (3, ON_CPU)], ids=["two", "three"])
def test_every_task_and_attack_gives_the_figures_of_one_process(
    inputs: Path, alone: dict[str, Any], tmp_path: Path, processes: int, environment: dict[str, str]
) -> None:
    shared = launch(inputs, tmp_path, processes, CASES, environment)
    assert shared.keys() == alone.keys() == CASES.keys()
    for name, one in alone.items():
        assert list(differences(one["results"], shared[name]["results"])) == [], name
        assert list(differences(answers(one), answers(shared[name]))) == [], name


NOT_ELSEWHERE = {"tags"}
"""The second device has no gradients, which the attack on taggers needs."""
IN_DOUBLE = {"exposure", "suffixes", "memorization", "membership", "untargeted", "contamination"}
IN_DOUBLE |= {"labels", "mix-and-match", "masked"}
"""Cases that compute in double precision on devices that have it, but for the first."""


@pytest.mark.parametrize(
    ("names", "environment"),
    [(CASES.keys() - NOT_ELSEWHERE, {}), (IN_DOUBLE, {"LEAKAGE_TEST_NO_DOUBLE": "1"})],
    ids=["all", "without double precision"],
)
def test_every_task_and_attack_gives_the_figures_of_the_cpu_on_another_device(
    inputs: Path, alone: dict[str, Any], tmp_path: Path, names: set[str], environment: dict[str, str]
) -> None:
    elsewhere = launch(inputs, tmp_path, 1, names, {"LEAKAGE_TEST_DEVICE": "second", **environment})
    for name in names:
        assert list(differences(alone[name]["results"], elsewhere[name]["results"])) == [], name
        assert list(differences(answers(alone[name]), answers(elsewhere[name]))) == [], name
    # All models keep the fastest passes.
    assert not re.search("as slowly|as long", (tmp_path / "log.txt").read_text())


def test_a_model_in_parts_has_the_figures_of_a_whole_one_and_goes_on(inputs: Path, tmp_path: Path) -> None:
    """Tensor parallelism: both processes ask the same, one keeps what is found; whole ones take a half each."""
    shared = launch(inputs, tmp_path, 2, SPREAD)
    for name in SPREAD:
        if name.endswith("whole"):
            in_parts = shared[name.replace("whole", "in parts")]
            assert list(differences(shared[name]["results"], in_parts["results"])) == [], name
            assert list(differences(answers(shared[name]), answers(in_parts))) == [], name
    folder = tmp_path / "in-parts"
    lines = {file: file.read_text().splitlines(keepends=True) for file in folder.glob(FILES)}
    for file, every in lines.items():
        file.write_text("".join(every[:-3]))
    again = launch(inputs, tmp_path, 2, SPREAD)
    assert list(differences(answers_of_all(shared), answers_of_all(again))) == []
    assert sum(each.read_text().count("\n") for each in folder.glob(FILES)) == sum(map(len, lines.values()))


def answers_of_all(runs: dict[str, Any]) -> dict[str, Any]:
    return {name: answers(run) for name, run in runs.items()}


def answers(run: dict[str, Any]) -> dict[str, Any]:
    """What was found out about each document of a run."""
    samples = ((task, sample) for task, every in run["samples"].items() for sample in every)
    found = [(f"{task} {sample['doc_id']} {sample['filter']}", sample["resps"][0][0]) for task, sample in samples]
    assert len(dict(found)) == len(found)
    return {name: json.loads(each) if isinstance(each, str) else each for name, each in found}


def differences(one: Any, other: Any, place: str = "") -> Any:
    """Places where two runs differ by more than 1e-5 of a number, but for how long something took."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in {*one, *other} - {"seconds"}:
            yield from differences(one.get(name), other.get(name), f"{place} {name}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, pair in enumerate(zip(one, other, strict=True)):
            yield from differences(*pair, f"{place} {number}")
    elif isinstance(one, float):
        if other != pytest.approx(one, rel=1e-5, abs=1e-5):
            yield place, one, other
    elif one != other:
        yield place, one, other


# -- a process that dies ------------------------------------------------------------------------------------


def kept(folder: Path) -> list[int]:
    """How many findings each process that has written any has kept."""
    return [file.read_text().count("\n") for file in (folder / "kept").glob(FILES)]


def wait_for(what: Callable[[], bool], running: list[subprocess.Popen[str]]) -> None:
    while not what():
        assert all(each.poll() is None for each in running), [each.communicate()[1] for each in running]
        time.sleep(0.05)


@pytest.fixture(scope="module")
def undisturbed(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return launch(inputs, tmp_path_factory.mktemp("undisturbed"), 1, ["kept"])


@pytest.mark.parametrize("dies", [0, 1])
def test_a_killed_process_ends_the_run_within_a_minute_and_the_next_goes_on(
    inputs: Path, undisturbed: dict[str, Any], tmp_path: Path, dies: int
) -> None:
    running = start(inputs, tmp_path, 2, ["kept"])
    wait_for(lambda: len(kept(tmp_path)) == 2 and sum(kept(tmp_path)) > 5, running)
    running[dies].send_signal(signal.SIGKILL)
    killed = time.monotonic()
    log = running[1 - dies].communicate(timeout=60)[1]
    running[dies].communicate()
    assert time.monotonic() - killed < 60
    assert running[1 - dies].returncode == 1
    told = [line for line in log.splitlines() if "leakage: " in line]
    if dies == 1:
        assert "process 1 of 2 gave no sign of life" in told[-1]
    else:
        assert "the other processes cannot be reached" in told[-1]
    there = sum(kept(tmp_path))
    every = 2 * len((inputs / "many.jsonl").read_text().splitlines())
    assert 0 < there < every
    again = start(inputs, tmp_path, 2, ["kept"])
    logs = [each.communicate()[1] for each in again]
    assert [each.returncode for each in again] == [0, 0], logs
    assert sum(kept(tmp_path)) == every
    assert list(differences(answers(undisturbed["kept"]), answers(found_in(tmp_path)["kept"]))) == []
