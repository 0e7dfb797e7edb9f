"""Trials in several processes are those of one, and none outlives an end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from leakage_tasks.core.atomic import replacing
from leakage_tasks.core.errors import LeakageError, TargetError
from leakage_tasks.research.framework.jobs import run_trials
from leakage_tasks.research.framework.registry import Config, Result, Study, StudyPlan
from leakage_tasks.research.framework.runner import run_studies
from leakage_tasks.research.framework.shared import create_once
from leakage_tasks.research.framework.trials import TrialStore
from tests.conftest import ROOT
from tests.research.toy import Toy, make_study

SMOKE = StudyPlan("smoke")
PAIR = [{"coin": 1, "seed": 0}, {"coin": 1, "seed": 1}]


def wait_until(holds: Callable[[], bool]) -> None:
    for _ in range(600):
        if holds():
            return
        time.sleep(0.1)
    raise TimeoutError


def meet(config: Config, shared: Path) -> Result:
    """Ends only while another trial runs too; says if a bar would be shown."""
    from tqdm import tqdm

    (shared / f"here-{config['seed']}").touch()
    wait_until((shared / f"here-{1 - config['seed']}").exists)
    return {"process": os.getpid(), "silent": tqdm([]).disable}


def stop_second(config: Config, shared: Path) -> Result:
    """The first ends, the second stops all in the way its config names, a third hangs, leaving an unfinished folder."""
    (shared / f"began-{config['seed']}").write_text(str(os.getpid()))
    if config["seed"] == 0:
        return {}
    if config["seed"] == 2:
        with replacing(shared / "model") as beside:
            beside.mkdir()
            (shared / "hanging").touch()
            time.sleep(600)
    wait_until((shared / "hanging").exists)
    if config["coin"] == "fails":
        raise TargetError("the coin rolled away: pick it up")
    if config["coin"] == "breaks":
        raise ZeroDivisionError("a coin of no value")
    if config["coin"] == "is odd":
        raise OddError(1, 2)
    if config["coin"] == "leaves":
        os._exit(3)
    if config["coin"] == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600)
    return {}


class OddError(TargetError):
    """Made of other things than a message."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} is not {two}")


def stopping(how: str) -> list[Config]:
    """More trials than two processes take before the second is stopped."""
    return [{"coin": how, "seed": seed} for seed in (0, 1, 2, 3, 4, 5)]


def both_hang(shared: Path) -> None:
    wait_until((shared / "hanging").exists)
    wait_until((shared / "began-1").exists)


def nothing_is_left(shared: Path) -> None:
    """None of the trials that waited was begun, no process is there, and the one that hung has cleaned up."""
    assert sorted(path.name for path in shared.iterdir()) == ["began-0", "began-1", "began-2", "hanging"]
    processes = [int(path.read_text()) for path in shared.glob("began-*")]
    wait_until(lambda: all(map(gone, processes)))


def gone(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


def with_run(study: Study, run: Callable[[Config, Path], Result]) -> Study:
    return replace(study, run=run)


def test_they_run_at_once_and_bars_are_silent(study: Study, tmp_path: Path) -> None:
    trials = list(run_trials(TrialStore(tmp_path), with_run(study, meet), PAIR, 2))
    assert len({trial.result["process"] for trial in trials} - {os.getpid()}) == 2
    assert all(trial.result["silent"] for trial in trials)


def test_the_report_is_that_of_one_process(study: Study, tmp_path: Path) -> None:
    one, two = (next(run_studies([study], SMOKE, tmp_path / str(jobs), progress=False, jobs=jobs)) for jobs in (1, 2))
    assert two.report == one.report
    assert (two.ran, two.reused) == (6, 0)
    names = [sorted(path.name for path in (tmp_path / f"{jobs}/coins/smoke/trials").iterdir()) for jobs in (1, 2)]
    assert names[0] == names[1]


def test_studies_of_one_paper_share_trials_afresh(study: Study, toy: Toy, tmp_path: Path) -> None:
    studies = [study, make_study(toy, "coins/table-2")]
    runs = list(run_studies(studies, SMOKE, tmp_path, fresh=True, progress=False, jobs=2))
    assert [(done.ran, done.reused) for done in runs] == [(6, 0), (0, 6)]


@pytest.mark.parametrize(
    ("how", "kind", "message"),
    [
        ("fails", TargetError, r'^study coins/table-1: the coin rolled away.* \(trial {"coin": "fails", "seed": 1}\)$'),
        pytest.param(
            *("is odd", OddError, r'^study coins/table-1: 1 is not 2 \(trial {"coin": "is odd", "seed": 1}\)$'),
            marks=pytest.mark.slow,
        ),
        ("breaks", RuntimeError, r"(?s)^in another process:.*stop_second.*ZeroDivisionError: a coin of no value"),
        pytest.param(
            *("leaves", LeakageError, r"^one of 2 processes ended by itself \(exit 3; .*: run it with --jobs 1$"),
            marks=pytest.mark.slow,
        ),
        ("dies", LeakageError, r"^one of 2 processes was killed, .* give fewer --jobs; finished trials are kept"),
    ],
)
def test_one_that_fails_stops_all(study: Study, tmp_path: Path, how: str, kind: type[Exception], message: str) -> None:
    store, configs = TrialStore(tmp_path), stopping(how)
    with pytest.raises(kind, match=message):
        list(run_trials(store, with_run(study, stop_second), configs, 2))
    nothing_is_left(store.shared)
    assert [store.saved(stop_second, config) is not None for config in configs] == [True] + [False] * 5


def test_an_end_stops_the_others(study: Study, tmp_path: Path) -> None:
    store = TrialStore(tmp_path)
    trials = run_trials(store, with_run(study, stop_second), stopping("hangs"), 2)
    next(trials)
    both_hang(store.shared)
    trials.close()
    nothing_is_left(store.shared)


@pytest.mark.parametrize(
    "told", [signal.SIGINT, *(pytest.param(each, marks=pytest.mark.slow) for each in (signal.SIGTERM, signal.SIGKILL))]
)
def test_no_process_outlives_the_first(tmp_path: Path, told: signal.Signals) -> None:
    """Ctrl-C reaches all processes; what ends the first alone leaves the others to themselves."""
    code = (
        "from pathlib import Path; from tests.research.framework.test_jobs import *\n"
        # Programs that a shell starts in the background are told to let Ctrl-C pass.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "study = with_run(make_study(Toy()), stop_second)\n"
        "if __name__ == '__main__': list(run_trials(TrialStore(Path(sys.argv[1])), study, stopping('hangs'), 2))"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    shared = TrialStore(tmp_path).shared
    both_hang(shared)
    if told == signal.SIGINT:
        os.killpg(running.pid, told)
    else:
        running.send_signal(told)
    _, said = running.communicate(timeout=60)
    assert said.count("Traceback") == (told == signal.SIGINT)
    nothing_is_left(shared)


def test_one_makes_what_several_need(tmp_path: Path) -> None:
    place, told = tmp_path / "model", list[bool]()

    def ask() -> None:
        with create_once(place) as missing:
            told.append(missing)

    with create_once(place) as missing:
        asking = threading.Thread(target=ask)
        asking.start()
        asking.join(0.3)
        assert missing
        assert asking.is_alive()
        place.mkdir()
    asking.join()
    assert told == [False]


def test_a_place_that_cannot_be_locked_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    place = tmp_path / "file" / "model"
    with pytest.raises(LeakageError, match=r"cannot be locked .*: choose another --output"), create_once(place):
        pytest.fail("locked")


def test_a_maker_that_fails_leaves_it_to_the_next(tmp_path: Path) -> None:
    place = tmp_path / "model"
    with pytest.raises(RuntimeError), create_once(place):
        raise RuntimeError
    with create_once(place) as missing:
        assert missing
