"""Trials on a Dask cluster are those of one process, and what keeps them from it is one line."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakage_tasks.core import workers
from leakage_tasks.core.errors import LeakageError, OptionError, TargetError
from leakage_tasks.research.framework.jobs import TrialFailed, _run_in_worker, run_trials
from leakage_tasks.research.framework.registry import Config, Result, Study, StudyPlan
from leakage_tasks.research.framework.runner import run_studies
from leakage_tasks.research.framework.trials import TrialStore, versions
from tests.research.framework.test_jobs import wait_until

SMOKE = StudyPlan("smoke")


@pytest.fixture
def cluster(cluster_of_two: Any) -> str:
    """The address of a cluster whose two workers are there."""
    cluster_of_two.wait_for_workers(2)
    return str(cluster_of_two.scheduler_address)


@pytest.fixture(scope="module")
def cluster_of_two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two workers, and a scheduler that gives a trial up as soon as it ends one of them."""
    distributed = pytest.importorskip("distributed")
    import dask

    place = tmp_path_factory.mktemp("dask")
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", local_directory=str(place), silence_logs=50
        ) as local,
    ):
        yield local


def flip(config: Config, shared: Path) -> Result:
    """Draws with a generator of the process, as initializing a model does; Dask's threads draw from Python's own."""
    np.random.seed(config["seed"])
    time.sleep(0.05)
    return {"hit": config["coin"], "drawn": float(np.random.normal()), "in": os.getpid()}


def spoil(config: Config, shared: Path) -> Result:
    """The second fails in the way its coin names; the third would wait for it."""
    if config["seed"] == 1:
        if config["coin"] == "dies":
            os._exit(3)
        raise TargetError("the coin rolled away: pick it up")
    return {}


def hold(config: Config, shared: Path) -> Result:
    """All but the first end when they are let go."""
    (shared / f"began-{config['seed']}").touch()
    if config["seed"]:
        wait_until((shared / "go").exists)
    return {}


def coins(how: str, number: int) -> list[Config]:
    return [{"coin": how, "seed": seed} for seed in range(number)]


def written(folder: Path) -> dict[str, Any]:
    """Every file of a study by its path, without the times and processes that trials took."""
    files: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != "how.json":
            files[str(path.relative_to(folder))] = path.read_bytes()
    for name in [name for name in files if name.startswith("trials/")]:
        files[name] = json.loads(files[name])
        assert files[name].pop("seconds") >= 0
        assert files[name]["result"].pop("in") > 0
    return files


@pytest.mark.slow
def test_files_are_those_of_one_process(
    cluster: str, study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The workers' current folder is another one.
    monkeypatch.chdir(tmp_path)
    study = replace(study, run=flip)
    ways: dict[str, dict[str, Any]] = {"one": {}, "two": {"jobs": 2}, "cluster": {"dask": cluster}}
    runs = {name: next(run_studies([study], SMOKE, name, progress=False, **way)) for name, way in ways.items()}
    assert [(run.ran, run.reused) for run in runs.values()] == [(6, 0)] * 3
    files = {name: written(tmp_path / name / "coins" / "smoke") for name in ways}
    assert len([name for name in files["one"] if name.startswith("trials/")]) == 6
    assert files["one"] == files["two"] == files["cluster"]
    again = next(run_studies([study], SMOKE, "cluster", progress=False))
    assert (again.ran, again.reused, again.report) == (0, 6, runs["one"].report)


@pytest.mark.slow
def test_both_workers_run_them(cluster: str, study: Study, tmp_path: Path) -> None:
    trials = list(run_trials(TrialStore(tmp_path), replace(study, run=flip), coins("fair", 8), 1, cluster))
    assert len({trial.result["in"] for trial in trials} - {os.getpid()}) == 2


def test_what_is_saved_needs_no_cluster(study: Study, tmp_path: Path) -> None:
    list(run_studies([study], SMOKE, tmp_path, progress=False))
    again = next(run_studies([study], SMOKE, tmp_path, progress=False, dask="tcp://127.0.0.1:1"))
    assert (again.ran, again.reused) == (0, 6)


@pytest.mark.parametrize(
    ("how", "kind", "message"),
    [
        ("fails", TargetError, r'^study coins/table-1: the coin rolled away.* \(trial {"coin": "fails", "seed": 1}\)$'),
        ("dies", LeakageError, r"^tcp://.*: a trial ended its worker, .*: run the command again"),
    ],
)
def test_one_that_fails_stops_all(
    cluster: str, study: Study, tmp_path: Path, how: str, kind: type[Exception], message: str
) -> None:
    store = TrialStore(tmp_path)
    with pytest.raises(kind, match=message):
        list(run_trials(store, replace(study, run=spoil), coins(how, 2), 1, cluster))
    assert store.saved(spoil, coins(how, 2)[1]) is None


def test_an_end_withdraws_those_that_wait(cluster: str, study: Study, tmp_path: Path) -> None:
    store, configs = TrialStore(tmp_path), coins("held", 6)
    trials = run_trials(store, replace(study, run=hold), configs, 1, cluster)
    next(trials)
    wait_until((store.shared / "began-2").exists)
    trials.close()
    (store.shared / "go").touch()
    wait_until(lambda: all(store.saved(hold, config) is not None for config in configs[1:3]))
    assert sorted(path.name for path in store.shared.glob("began-*")) == ["began-0", "began-1", "began-2"]


def test_workers_of_other_versions_are_refused(cluster: str, study: Study, tmp_path: Path) -> None:
    store = TrialStore(tmp_path)
    store.versions = store.versions | {"torch": "1.0"}
    has = re.escape(
        f"has torch {versions()['torch']}, expected 1.0 as here: install the packages of this machine there"
    )
    with pytest.raises(LeakageError, match=f"^tcp://.*: {has}$"):
        next(run_trials(store, study, coins("fair", 2), 1, cluster))


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("tcp://127.0.0.1:1", "Timed out trying to connect to tcp://127.0.0.1:1"),
        ("nowhere://x", "unknown address scheme"),
    ],
)
def test_no_cluster_is_one_line(
    study: Study, leakage: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, why: str
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(workers, "GRACE", 0.5)
    code, out, err = leakage("study", "run", "coins", "--scale", "smoke", "--dask", address, "-o", tmp_path)
    assert (code, out) == (2, "")
    last = err.splitlines()[-1]
    assert last.startswith(f"leakage: --dask is {address!r}: no cluster responds there ({why}")
    assert last.endswith("start one with 'dask scheduler' and 'dask worker ADDRESS --nthreads 1'")


def test_a_malformed_address_starts_no_client(monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(distributed, "Client", None)
    with pytest.raises(OptionError, match="--dask is 'nowhere': no cluster responds there .missing port number"):
        workers.map_tasks(abs, [1], dask="nowhere")


def test_a_cluster_without_workers_is_one_line(study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(workers, "GRACE", 0.5)
    with distributed.LocalCluster(n_workers=0, dashboard_address=":0", silence_logs=50) as empty:
        trials = run_trials(TrialStore(tmp_path), study, coins("fair", 2), 1, empty.scheduler_address)
        with pytest.raises(OptionError, match="^--dask is 'tcp://.*': the cluster has no workers: start one with"):
            next(trials)


def test_without_dask_is_one_line(study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    trials = run_trials(TrialStore(tmp_path), study, coins("fair", 2), 1, "tcp://127.0.0.1:1")
    with pytest.raises(OptionError, match=r"^--dask needs dask \(.*\): install it with: pip install 'lm-eval-leakage"):
        next(trials)


def test_jobs_beside_a_cluster_are_refused(study: Study, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="^--jobs is 2 with --dask, whose workers run one trial each: remove one"):
        next(run_studies([study], SMOKE, tmp_path, jobs=2, dask="tcp://127.0.0.1:1"))


def test_threads_of_a_worker_run_one_at_once(tmp_path: Path) -> None:
    """A trial's seeds are those of its process."""
    store, drawn = TrialStore(tmp_path), dict[int, Any]()

    def ask(seed: int) -> None:
        drawn[seed] = _run_in_worker(store, "coins/table-1", flip, {"coin": "fair", "seed": seed}).result["drawn"]

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert drawn == {seed: flip({"coin": "fair", "seed": seed}, tmp_path)["drawn"] for seed in range(4)}


@pytest.mark.slow
def test_an_exit_within_a_trial_is_told(tmp_path: Path) -> None:
    def leave(config: Config, shared: Path) -> Result:
        raise SystemExit(3)

    with pytest.raises(TrialFailed, match=r"(?s)in another process:.*SystemExit: 3"):
        _run_in_worker(TrialStore(tmp_path), "coins/table-1", leave, {})
