"""Trials in several processes are those of one, and none outlives an end."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from leakage_tasks.errors import LeakageError, OptionError, TargetError
from leakage_tasks.studies import Config, Plan, Result, Study, run_studies
from leakage_tasks.studies.jobs import trials_run
from leakage_tasks.studies.shared import sole_maker
from leakage_tasks.studies.trials import TrialStore
from tests.studies.toy import Toy, make_study

SMOKE = Plan("smoke")
PAIR = [{"coin": 1, "seed": 0}, {"coin": 1, "seed": 1}]


def wait_for(path: Path) -> None:
    for _ in range(600):
        if path.exists():
            return
        time.sleep(0.1)
    raise TimeoutError(path)


def meet(config: Config, shared: Path) -> Result:
    """Ends only while another trial runs too."""
    (shared / f"here-{config['seed']}").touch()
    wait_for(shared / f"here-{1 - config['seed']}")
    return {"process": os.getpid()}


def fail(config: Config, shared: Path) -> Result:
    raise TargetError("the coin rolled away: pick it up")


def die_second(config: Config, shared: Path) -> Result:
    if config["seed"] == 0:
        return {}
    wait_for(shared.parents[1] / "trials")
    while not list((shared.parents[1] / "trials").glob("*.json")):
        time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def hang_second(config: Config, shared: Path) -> Result:
    if config["seed"] == 0:
        wait_for(shared / "hanging")
        return {}
    try:
        (shared / "hanging").touch()
        time.sleep(600)
    finally:
        (shared / "cleaned").touch()
    return {}


def bars(config: Config, shared: Path) -> Result:
    from tqdm import tqdm

    return {"silent": tqdm([]).disable}


def with_run(study: Study, run: Callable[[Config, Path], Result]) -> Study:
    return replace(study, run=run)


def test_they_run_at_once(study: Study, tmp_path: Path) -> None:
    trials = list(trials_run(TrialStore(tmp_path), with_run(study, meet), PAIR, 2))
    assert len({trial.result["process"] for trial in trials} - {os.getpid()}) == 2


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


def test_bars_are_silent(study: Study, tmp_path: Path) -> None:
    trials = trials_run(TrialStore(tmp_path), with_run(study, bars), PAIR, 2)
    assert [trial.result for trial in trials] == [{"silent": True}] * 2


def test_a_failing_trial_is_named(study: Study, tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r'^study coins/table-1, trial {"coin": 1, "seed": \d}: the coin rolled away'):
        list(trials_run(TrialStore(tmp_path), with_run(study, fail), PAIR, 2))


def test_a_killed_process_is_told_and_what_ended_is_kept(study: Study, tmp_path: Path) -> None:
    dying, store = with_run(study, die_second), TrialStore(tmp_path)
    with pytest.raises(LeakageError, match=r"^one of 2 processes was killed, .* give fewer --jobs; the trials that"):
        list(trials_run(store, dying, PAIR, 2))
    assert [store.saved(die_second, config) is not None for config in PAIR] == [True, False]


def test_an_end_stops_the_others_and_lets_them_clean_up(study: Study, tmp_path: Path) -> None:
    store = TrialStore(tmp_path)
    trials = trials_run(store, with_run(study, hang_second), PAIR, 2)
    next(trials)
    started = time.monotonic()
    trials.close()  # type: ignore[attr-defined]
    assert time.monotonic() - started < 60
    assert (store.shared / "cleaned").exists()
    assert not multiprocessing.active_children()


def test_no_jobs_are_refused(study: Study, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="^--jobs is 0: give 1 or more$"):
        next(run_studies([study], SMOKE, tmp_path, jobs=0))


def test_one_makes_what_several_need(tmp_path: Path) -> None:
    place, told = tmp_path / "model", list[bool]()

    def ask() -> None:
        with sole_maker(place) as missing:
            told.append(missing)

    with sole_maker(place) as missing:
        asking = threading.Thread(target=ask)
        asking.start()
        asking.join(0.3)
        assert missing
        assert asking.is_alive()
        place.mkdir()
    asking.join()
    assert told == [False]


def test_a_maker_that_fails_leaves_it_to_the_next(tmp_path: Path) -> None:
    place = tmp_path / "model"
    with pytest.raises(RuntimeError), sole_maker(place):
        raise RuntimeError
    with sole_maker(place) as missing:
        assert missing
