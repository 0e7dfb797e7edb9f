"""ExposureCallback in runs of a real Trainer: what it logs, when, and that it changes nothing else."""

from __future__ import annotations

import copy
import dataclasses
import json
import logging
import math
import os
import random
import statistics
import subprocess
import sys
from collections import Counter
from functools import lru_cache
from statistics import fmean

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import EarlyStoppingCallback, Trainer, TrainerCallback, TrainerControl, TrainerState

from leakage_tasks import ExposureCallback
from leakage_tasks.attacks import Finding, run_attack
from leakage_tasks.canaries import Canary, make_canaries, write_manifest
from leakage_tasks.canaries.context import Context
from leakage_tasks.core.errors import LeakageError, ManifestError, OptionError
from leakage_tasks.targets import CausalTarget
from leakage_tasks.training.callback import callback as module
from leakage_tasks.training.callback.before_training import watched_canaries
from leakage_tasks.training.callback.time_share import OutOfTime, TimeShare
from tests.conftest import PATHS
from tests.oracles import brute_rank, letters
from tests.training.callback.training_runs import (
    TEXTS,
    Listener,
    canaries,
    looks,
    manifest,
    model,
    trainer_of,
    watched,
)


def exposures(net) -> dict[str, float]:
    """Exposure of each canary by brute force, with transformers alone."""
    return {each.id: math.log2(100) - math.log2(brute_rank(net.eval(), letters(), each)[0]) for each in canaries()}


@lru_cache
def findings() -> list[Finding]:
    """What a look at the untrained model finds."""
    return run_attack("exposure", CausalTarget(model().eval(), letters()), canaries(), budget=300)


@pytest.fixture
def quick(monkeypatch):
    """Findings made once stand for every look."""
    found = findings()
    monkeypatch.setattr(module, "run_attack", lambda *given, **named: found)


@pytest.fixture(scope="module")
def listener() -> Listener:
    """It stands before the callback in ``trainer``."""
    return Listener()


@pytest.fixture(scope="module")
def trainer(tmp_path_factory, listener):
    """A run that is watched with the defaults; no test changes it."""
    return watched(tmp_path_factory.mktemp("watched"), callbacks=[listener])


def test_the_log_holds_what_brute_force_finds_in_the_trained_model(trainer):
    once, often, control = exposures(trainer.model).values()
    last = looks(trainer)[-1]
    assert last["leakage/exposure_mean"] == pytest.approx(fmean([once, often]), abs=1e-9)
    assert last["leakage/exposure_max"] == pytest.approx(max(once, often), abs=1e-9)
    assert last["leakage/exposure_x1"] == pytest.approx(once, abs=1e-9)
    assert last["leakage/exposure_x4"] == pytest.approx(often, abs=1e-9)
    assert last["leakage/exposure_controls"] == pytest.approx(control, abs=1e-9)
    assert last["leakage/exposure_bound"] == pytest.approx(math.log2(100))
    assert (last["epoch"], last["step"]) == (2, 8)


def test_the_first_look_is_of_the_model_before_training(tmp_path):
    first = looks(watched(tmp_path, watch={"baseline": 100}))[0]
    once, often, _ = exposures(model()).values()
    assert first["leakage/exposure_mean"] == pytest.approx(fmean([once, often]), abs=1e-9)
    assert (first["epoch"], first["step"]) == (0, 0)


def test_few_sequences_are_scored_before_the_first_step(tmp_path, monkeypatch):
    calls = []

    def counted(*given, **named):
        findings = run_attack(*given, **named)
        calls.append([each.model_calls for each in findings])
        return findings

    monkeypatch.setattr(module, "run_attack", counted)
    first, *later = looks(watched(tmp_path))
    # A uniform sample of 31 fillings and the secret; a filling that is the secret is left out.
    assert all(31 <= number <= 32 for number in calls[0])
    assert len(calls) == 1 + len(later) == 3
    sampled = run_attack("rank-sample", CausalTarget(model().eval(), letters()), canaries(), budget=32)
    assert first["leakage/exposure_controls"] == pytest.approx(sampled[-1].exposure, abs=1e-9)


def test_canaries_are_read_after_the_context_asked_for(tmp_path):
    options = {"budget": 300, "context": Context(before="x\n")}
    expected = run_attack("exposure", CausalTarget(model().eval(), letters()), canaries(), **options)
    first = looks(watched(tmp_path, watch={"context": "x\\n", "budget": 300, "baseline": 300}))[0]
    assert first["leakage/exposure_controls"] == pytest.approx(expected[-1].exposure, abs=1e-9)
    assert first["leakage/exposure_controls"] != pytest.approx(findings()[-1].exposure, abs=1e-3)


def test_loggers_that_stand_before_it_hear_the_same(trainer, listener):
    heard = [{**logs, "step": step} for step, logs in listener.heard if "leakage/exposure_mean" in logs]
    assert heard == looks(trainer)
    assert all(isinstance(value, int | float) for entry in heard for value in entry.values())


def test_tensorboard_gets_it(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    trainer = watched(tmp_path, report_to="tensorboard")
    (written,) = (tmp_path / "run" / "runs").iterdir()
    events = EventAccumulator(str(written)).Reload().Scalars("train/leakage/exposure_mean")
    assert [event.value for event in events] == pytest.approx(
        [entry["leakage/exposure_mean"] for entry in looks(trainer)]
    )


@pytest.mark.usefixtures("quick")
def test_no_loss_is_missing_from_the_log_for_it(tmp_path):
    plain = trainer_of(tmp_path, model(), logging_strategy="steps", logging_steps=1)
    plain.train()
    trainer = watched(tmp_path, watch={"every": 1}, logging_strategy="steps", logging_steps=1)
    lost, kept = ([entry["loss"] for entry in each.state.log_history if "loss" in entry] for each in (trainer, plain))
    assert lost == kept
    assert len(kept) == 8


# -- which points ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("watch", "arguments", "steps"),
    [
        ({}, {}, [0, 4, 8]),
        ({"every": 3}, {}, [0, 3, 6, 8]),
        ({}, {"max_steps": 6}, [0, 4, 6]),
        ({"every": 100}, {"gradient_accumulation_steps": 2}, [0, 4]),
        ({"baseline": 0}, {}, [4, 8]),
        ({"every": 3, "last": False}, {}, [0, 3, 6]),
        ({"last": False}, {}, [0, 4, 8]),
    ],
)
@pytest.mark.usefixtures("quick")
def test_points_are_measured_once_where_they_are_due_and_at_the_ends_if_wanted(tmp_path, watch, arguments, steps):
    assert [entry["step"] for entry in looks(watched(tmp_path, watch=watch, **arguments))] == steps


@pytest.mark.usefixtures("quick")
def test_a_point_that_exceeds_its_share_is_stopped_and_counted_as_skipped(tmp_path, monkeypatch):
    """At every point but the last; the run goes on to the last point, which has no limit."""
    found, stopped = findings(), []

    def slow(*given, hooks, **named):
        if len(stopped) < 3:
            stopped.append(None)
            monkeypatch.setattr(TimeShare, "check", raises)
        hooks.on_rows(0, 1)
        return found

    def raises(self):
        raise OutOfTime

    monkeypatch.setattr(TimeShare, "affords", lambda self: True)
    monkeypatch.setattr(module, "run_attack", slow)
    entries = looks(watched(tmp_path, watch={"every": 2}))
    assert [(entry["step"], entry["leakage/skipped"]) for entry in entries] == [(0, 0), (8, 3)]


def cost_lines(caplog):
    return [record for record in caplog.records if "measurements" in record.getMessage()]


@pytest.fixture
def slow(monkeypatch):
    """A clock that passes 4 seconds in each measurement and 1 second in each step."""
    clock, found = Clock(), findings()

    def taking(*given, **named):
        clock.now += 4.0
        return found

    class Stepping(TrainerCallback):
        def on_step_begin(self, *given, **named):
            clock.now += 1.0

    monkeypatch.setattr(module, "TimeShare", lambda share: TimeShare(share, clock))
    monkeypatch.setattr(module, "run_attack", taking)
    return Stepping()


@pytest.mark.parametrize(
    ("every", "steps", "remedy"),
    [(2, [0, 2, 4, 6, 8], "raise every=2, lower budget"), ("epoch", [0, 4, 8], "lower budget")],
)
def test_without_a_limit_every_point_is_measured_and_a_warning_states_the_share_once(
    tmp_path, caplog, slow, every, steps, remedy
):
    with caplog.at_level(logging.INFO, "lm_eval.leakage"):
        trainer = trainer_of(tmp_path, model(), callbacks=[slow])
        ExposureCallback(manifest(tmp_path), every=every, share=None).attach(trainer)
        trainer.train()
    assert [entry["step"] for entry in looks(trainer)] == steps
    warned, ended = cost_lines(caplog)
    assert (warned.levelname, ended.levelname) == ("WARNING", "INFO")
    assert warned.getMessage().startswith("ExposureCallback: measurements take ")
    assert warned.getMessage().endswith(f" % of the training time so far: {remedy}=2000, or limit them with share=0.05")
    cost = f"{len(steps)} measurements took {4 * len(steps)}.0 s, {50 * len(steps)} %"
    assert ended.getMessage() == f"ExposureCallback: {cost} of the training time"


def test_default_points_that_exceed_the_share_are_skipped_and_the_cost_of_the_others_is_a_warning(
    tmp_path, caplog, slow
):
    with caplog.at_level(logging.INFO, "lm_eval.leakage"):
        trainer = trainer_of(tmp_path, model(), callbacks=[slow])
        ExposureCallback(manifest(tmp_path)).attach(trainer)
        trainer.train()
    assert [entry["step"] for entry in looks(trainer)] == [0, 8]
    (ended,) = cost_lines(caplog)
    assert ended.levelname == "WARNING"
    assert ended.getMessage().startswith("ExposureCallback: 2 measurements took 8.0 s, 100 % of the training time: the")
    assert ended.getMessage().endswith("; 1 point skipped: share=None measures every point")


def test_the_cost_line_has_no_seconds_if_natural_secrets_are_watched(tmp_path, caplog, slow):
    own = [_natural(each) for each in canaries()]
    with caplog.at_level(logging.INFO, "lm_eval.leakage"):
        trainer = trainer_of(tmp_path, model(), callbacks=[slow])
        ExposureCallback(manifest(tmp_path, own), natural=True, preflight=0).attach(trainer)
        trainer.train()
    (ended,) = cost_lines(caplog)
    assert ended.getMessage().startswith("ExposureCallback: 2 measurements 100 % of the training time")


def test_without_time_for_more_the_first_and_the_last_point_are_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(TimeShare, "affords", lambda self: False)
    first, last = looks(watched(tmp_path, watch={"every": 1}))
    assert (first["step"], first["leakage/skipped"]) == (0, 0)
    assert (last["step"], last["leakage/skipped"]) == (8, 7)


@pytest.mark.parametrize("best_first", [False, True])
def test_where_an_evaluation_ends_training_the_last_weights_are_measured_not_the_best(
    tmp_path, monkeypatch, best_first
):
    """``best_first`` has the trainer load the best weights before its closing log, as transformers 5.0 does."""
    monkeypatch.setattr(TimeShare, "affords", lambda self: False)
    weights = {}

    def logged(trainer, logs, *others, closing_log=Trainer.log):
        if "train_runtime" in logs:
            weights.update(copy.deepcopy(trainer.model.state_dict()))
            if best_first:
                trainer._load_best_model()
        closing_log(trainer, logs, *others)

    monkeypatch.setattr(Trainer, "log", logged)
    evaluated = {"eval_strategy": "epoch", "save_strategy": "epoch", "num_train_epochs": 3}
    # The loss falls, which counts as getting worse here.
    best = {"load_best_model_at_end": True, "metric_for_best_model": "loss", "greater_is_better": True}
    trainer = watched(tmp_path, callbacks=[EarlyStoppingCallback(1)], **evaluated, **best)
    assert trainer.state.global_step == 8 > trainer.state.best_global_step
    net = model()
    net.load_state_dict(weights)
    last = looks(trainer)[-1]
    assert (last["step"], last["leakage/skipped"]) == (8, 1)
    assert last["leakage/exposure_x4"] == pytest.approx(list(exposures(net).values())[1], abs=1e-9)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("saved", [{"save_strategy": "epoch"}, {"save_strategy": "steps", "save_steps": 8}])
def test_the_last_checkpoint_knows_the_last_point(tmp_path, saved):
    watched(tmp_path, **saved)
    state = json.loads((tmp_path / "run" / "checkpoint-8" / "trainer_state.json").read_text())
    assert [entry["step"] for entry in state["log_history"] if "leakage/exposure_mean" in entry] == [0, 4, 8]


@pytest.mark.usefixtures("quick")
def test_training_again_watches_again(tmp_path):
    trainer = watched(tmp_path)
    trainer.train()
    assert [entry["step"] for entry in looks(trainer)] == [0, 4, 8]


@pytest.mark.parametrize(("every", "saved", "skipped"), [(1, 3, 7), ("epoch", 4, 1)])
@pytest.mark.usefixtures("quick")
def test_a_resumed_run_logs_no_second_baseline_and_counts_points_skipped_before(
    tmp_path, monkeypatch, every, saved, skipped
):
    monkeypatch.setattr(TimeShare, "affords", lambda self: False)
    watched(tmp_path, watch={"every": every}, save_strategy="steps", save_steps=saved)
    trainer = trainer_of(tmp_path, model())
    ExposureCallback(manifest(tmp_path), every=every).attach(trainer)
    trainer.train(resume_from_checkpoint=str(tmp_path / "run" / f"checkpoint-{saved}"))
    assert [(entry["step"], entry["leakage/skipped"]) for entry in looks(trainer)] == [(0, 0), (8, skipped)]


@pytest.mark.usefixtures("quick")
def test_a_run_resumed_before_any_measurement_counts_all_skipped_points(tmp_path, monkeypatch):
    monkeypatch.setattr(TimeShare, "affords", lambda self: False)
    watch = {"every": 1, "baseline": 0}
    watched(tmp_path, watch=watch, save_strategy="steps", save_steps=3)
    trainer = trainer_of(tmp_path, model())
    ExposureCallback(manifest(tmp_path), **watch).attach(trainer)
    trainer.train(resume_from_checkpoint=str(tmp_path / "run" / "checkpoint-3"))
    assert [(entry["step"], entry["leakage/skipped"]) for entry in looks(trainer)] == [(8, 7)]


# -- that nothing else changes ---------------------------------------------------------------------------------------


def _lora(net):
    from peft import LoraConfig, get_peft_model

    return get_peft_model(net, LoraConfig(r=2, lora_dropout=0.2, target_modules=["c_attn"], task_type="CAUSAL_LM"))


SETUPS = {
    "dropout": ({}, None),
    "accumulation": ({"gradient_accumulation_steps": 2}, None),
    "checkpointing": ({"gradient_checkpointing": True}, None),
    "bf16": ({"bf16": True}, None),
    "bf16 weights": ({}, lambda net: net.bfloat16()),
    "lora": ({}, _lora),
}


@pytest.mark.parametrize("setup", SETUPS)
def test_a_watched_run_ends_at_the_same_weights_to_the_bit(tmp_path, setup):
    arguments, wrapped = SETUPS[setup]
    torch.manual_seed(1)
    one, other = (wrapped(model()) if wrapped else model() for _ in "ab")
    other.load_state_dict(one.state_dict())
    trainer_of(tmp_path, one, **arguments).train()
    before = one.config.use_cache
    trainer = watched(tmp_path, other, watch={"every": 3}, **arguments)
    assert len(looks(trainer)) >= 3
    assert all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True))
    assert other.config.use_cache == before


def test_modes_gradients_and_random_states_are_as_before(tmp_path):
    net = model()
    net.transformer.h[0].eval()
    modes = [each.training for each in net.modules()]
    gradients = [torch.full_like(each, 0.5) for each in net.parameters()]
    for parameter, gradient in zip(net.parameters(), gradients, strict=True):
        parameter.grad = gradient.clone()
    callback = ExposureCallback(manifest(tmp_path))
    before = (torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate())
    callback.on_train_begin(None, TrainerState(max_steps=3), TrainerControl(), model=net, processing_class=letters())
    after = (torch.get_rng_state(), np.random.get_state()[1], random.getstate())
    assert torch.equal(before[0], after[0])
    assert (before[1] == after[1]).all()
    assert before[2] == after[2]
    assert [each.training for each in net.modules()] == modes
    assert all(torch.equal(each.grad, one) for each, one in zip(net.parameters(), gradients, strict=True))
    assert all(each.requires_grad for each in net.parameters())


def test_two_watched_runs_log_the_same_figures(tmp_path, trainer):
    times = ("leakage/seconds",)
    one, other = (
        [{key: value for key, value in entry.items() if key not in times} for entry in looks(each)]
        for each in (trainer, watched(tmp_path))
    )
    assert one == other


# -- what goes wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"every": 0}, "every=0: expected 'epoch' or a number of steps, 1 or more"),
        ({"every": "step"}, "every='step': expected 'epoch'"),
        ({"every": True}, "every=True: expected"),
        ({"share": 0}, "share=0: expected a share of the training time above 0 and up to 1, or None"),
        ({"share": math.nan}, "share=nan: expected a share"),
        ({"share": "all"}, "share='all': expected a share"),
        ({"baseline": -1}, "baseline=-1: expected the number of sequences per canary, or 0 for none"),
        ({"canaries": 0}, "canaries=0: expected the number of canaries"),
        ({"budget": 0}, "budget=0: expected the number of sequences"),
        ({"plot": "figure.pdf"}, "plot='figure.pdf': use a name that ends in .png or .svg"),
    ],
)
def test_arguments_it_cannot_use_are_one_line(tmp_path, arguments, words):
    with pytest.raises(OptionError) as raised:
        ExposureCallback(manifest(tmp_path), **arguments)
    assert str(raised.value).startswith(words)


def test_a_missing_manifest_is_told_when_the_callback_is_made(tmp_path):
    with pytest.raises(ManifestError, match="none.jsonl: cannot read the manifest"):
        ExposureCallback(tmp_path / "none.jsonl")


@pytest.mark.parametrize(
    ("template", "watch", "words"),
    [
        (
            "{unique} pin {digits:2}." + " and so on" * 6,
            {},
            "canary 'canary-0' is 7\\d tokens long, but the model reads at most 64",
        ),
        (None, {"plot": "nowhere/figure.png"}, "nowhere/figure.png: cannot be written .no folder"),
    ],
)
def test_what_cannot_be_watched_stops_before_the_first_step(tmp_path, template, watch, words):
    trainer = trainer_of(tmp_path, model())
    made = None if template is None else make_canaries(template, 1)
    ExposureCallback(manifest(tmp_path, made), **watch).attach(trainer)
    with pytest.raises(LeakageError, match=words):
        trainer.train()
    assert trainer.state.global_step == 0


def test_canaries_that_are_never_in_the_loss_are_no_tier(tmp_path):
    trainer = trainer_of(tmp_path, model(), num_train_epochs=1)
    _, *often = trainer.train_dataset[len(TEXTS) :]
    trainer.train_dataset = trainer.train_dataset[: len(TEXTS)] + [
        {**row, "labels": torch.full_like(row["labels"], -100)} for row in often
    ]
    ExposureCallback(manifest(tmp_path), share=None, baseline=0, strict=False).attach(trainer).budget = 200
    trainer.train()
    (entry,) = looks(trainer)
    means = [value for name, value in entry.items() if name in ("leakage/exposure_context", "leakage/exposure_absent")]
    assert len(means) == 2
    assert entry["leakage/exposure_mean"] == pytest.approx(fmean(means))
    assert not [name for name in entry if name.startswith("leakage/exposure_x")]


@pytest.mark.parametrize(("failed", "step"), [([2], 4), ([3], 8)])
def test_a_look_that_fails_costs_a_warning_and_no_training(tmp_path, monkeypatch, caplog, failed, step):
    calls = []

    def failing(*given, **named):
        calls.append(1)
        if len(calls) in failed:
            raise RuntimeError("out of memory\nand more")
        return found

    found = findings()
    monkeypatch.setattr(module, "run_attack", failing)
    with caplog.at_level(logging.WARNING, "lm_eval.leakage"):
        trainer = watched(tmp_path)
    assert [entry["step"] for entry in looks(trainer)] == [each for each in (0, 4, 8) if each != step]
    # On a busy machine a warning about the time of the looks can follow.
    (line,) = [record.getMessage() for record in caplog.records if "no exposure" in record.getMessage()]
    assert line == f"ExposureCallback: no exposure at step {step}, training continues (RuntimeError: out of memory)"


def test_without_its_trainer_it_warns_and_logs_to_the_history_alone(tmp_path, caplog, trainer):
    listener = Listener()
    given = [listener, ExposureCallback(manifest(tmp_path), share=None)]
    alone = trainer_of(tmp_path, model(), callbacks=given)
    with caplog.at_level(logging.WARNING, "lm_eval.leakage"):
        alone.train()
    keys = ("leakage/exposure_mean", "epoch", "step")
    one, other = ([[entry[key] for key in keys] for entry in looks(each)] for each in (alone, trainer))
    assert one == other
    assert not any("leakage/exposure_mean" in logs for _, logs in listener.heard)
    assert sum(".attach(trainer)" in record.getMessage() for record in caplog.records) == 1


def test_attaching_adds_it_once(tmp_path):
    callback = ExposureCallback(manifest(tmp_path))
    trainer = trainer_of(tmp_path, model(), callbacks=[callback])
    assert callback.attach(trainer) is callback.attach(trainer) is callback
    assert trainer.callback_handler.callbacks.count(callback) == 1


# -- the picture -----------------------------------------------------------------------------------------------------


def test_the_picture_is_that_of_the_saved_state(tmp_path):
    from leakage_tasks.report.load.training_log import read_curves
    from leakage_tasks.report.plots.style import save
    from leakage_tasks.report.plots.training import draw_training

    trainer = watched(tmp_path, watch={"plot": tmp_path / "figure.svg"}, eval_strategy="epoch")
    trainer.save_state()
    save(draw_training(read_curves(tmp_path / "run")), tmp_path / "again.svg")
    assert (tmp_path / "figure.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()


@pytest.mark.usefixtures("quick")
def test_a_picture_that_cannot_be_written_any_more_is_a_warning(tmp_path, caplog):
    place = tmp_path / "pictures"
    place.mkdir()

    class Remover(Listener):
        def on_epoch_end(self, *given, **named):
            if place.exists():
                place.rmdir()

    with caplog.at_level(logging.WARNING, "lm_eval.leakage"):
        trainer = watched(tmp_path, watch={"plot": place / "figure.svg"}, callbacks=[Remover()])
    assert trainer.state.global_step == 8
    assert any("no folder" in record.getMessage() for record in caplog.records)


# -- several processes -----------------------------------------------------------------------------------------------


def test_any_process_but_the_first_does_nothing(tmp_path):
    callback = ExposureCallback(manifest(tmp_path), plot=tmp_path / "figure.png")
    state, control = TrainerState(max_steps=1, global_step=1, is_world_process_zero=False), TrainerControl()
    callback.on_train_begin(None, state, control, model=torch.nn.Linear(1, 1), processing_class=None)
    callback.on_step_end(None, state, control)
    callback.on_epoch_end(None, state, control)
    callback.on_log(None, state, control, logs={"train_runtime": 1.0})
    callback.on_train_end(None, state, control)
    assert state.log_history == []
    assert not (tmp_path / "figure.png").exists()


DISTRIBUTED = """
import faulthandler, sys
from pathlib import Path

# A run that hangs ends with the place where each process waits.
faulthandler.dump_traceback_later(240, exit=True)
import torch
from tests.training.callback.training_runs import looks, model, trainer_of, watched

folder, how = Path(sys.argv[1]), sys.argv[2]
trainer = watched(folder, watch={"every": 1}) if how == "watched" else trainer_of(folder, model())
if how != "watched":
    trainer.train()
assert trainer.accelerator.num_processes == 2 and hasattr(trainer.model_wrapped, "module")
assert len(looks(trainer)) == (5 if how == "watched" and trainer.is_world_process_zero() else 0)
torch.save(trainer.model.state_dict(), folder / f"{how}-{trainer.accelerator.process_index}.pt")
"""


@pytest.mark.slow
@pytest.mark.usefixtures("warm_python")
def test_two_processes_train_as_without_it_and_one_of_them_logs(tmp_path):
    (tmp_path / "train.py").write_text(DISTRIBUTED)
    launched = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = os.environ | {"PYTHONPATH": PATHS, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    for how in ("watched", "plain"):
        words = [*launched, str(tmp_path / "train.py"), str(tmp_path), how]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-3000:]
    names = ("watched-0", "watched-1", "plain-0")
    first, *others = [torch.load(tmp_path / f"{name}.pt", weights_only=True) for name in names]
    assert all(torch.equal(first[name], other[name]) for other in others for name in first)


MADE = make_canaries("{unique}: {digits:3}", 9, repetitions=(1, 1, 10), controls=4, seed=0)


@pytest.fixture
def written(tmp_path):
    def write(canaries: list[Canary]):
        write_manifest(canaries, tmp_path / "c.jsonl")
        return tmp_path / "c.jsonl"

    return write


def test_all_are_watched_in_their_order_and_controls_if_wanted(written):
    assert watched_canaries(written(MADE)) == MADE
    assert watched_canaries(written(MADE), controls=False) == MADE[:9]


@pytest.mark.parametrize(
    ("most", "counts"), [(1, {10: 1}), (4, {1: 2, 10: 2}), (7, {1: 4, 10: 3}), (50, {1: 6, 10: 3})]
)
def test_some_are_as_many_of_each_number_of_repetitions_as_there_are(written, most, counts):
    found = watched_canaries(written(MADE), most)
    assert Counter(each.repetitions for each in found if each.planted) == counts
    assert sum(not each.planted for each in found) == min(most, 4)
    assert found == [each for each in MADE if each in found]


def test_the_seed_decides_which(written):
    path = written(MADE)
    chosen = {tuple(each.id for each in watched_canaries(path, 2, seed=seed)) for seed in range(8)}
    assert watched_canaries(path, 2, seed=3) == watched_canaries(path, 2, seed=3)
    assert len(chosen) > 1


def test_natural_and_supporting_canaries_are_left_out(written):
    natural = dataclasses.replace(MADE[0], id="someone", kind="natural")
    helper = dataclasses.replace(MADE[1], id="helper", kind="supporting", supports=MADE[1].id)
    assert watched_canaries(written([natural, MADE[1], helper])) == [MADE[1]]


@pytest.mark.parametrize("kinds", ["natural", "supporting", "controls"])
def test_a_manifest_with_none_to_watch_is_one_line(written, kinds):
    natural = dataclasses.replace(MADE[0], id="someone", kind="natural")
    helper = dataclasses.replace(MADE[1], id="helper", kind="supporting", supports="someone")
    left = {"natural": [natural], "supporting": [natural, helper], "controls": MADE[9:]}
    with pytest.raises(OptionError, match="contains no planted canary of kind random or organic"):
        watched_canaries(written(left[kinds]))


SECONDS = st.floats(0.01, 10.0)


class Clock:
    """Time that passes only when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def measured(pace: TimeShare, clock: Clock, seconds: float) -> float:
    with pace.timed():
        clock.now += seconds
    return seconds


@given(st.lists(st.tuples(SECONDS, SECONDS), min_size=1, max_size=40), SECONDS, st.floats(0.01, 1.0))
def test_no_run_spends_more_than_its_share_on_looks_other_than_the_first_and_the_last(steps, first, share):
    """Looks of any cost, which read rows for a hundredth of it at a time. The last look is made after these steps."""
    clock = Clock()
    pace = TimeShare(share, clock)
    measured(pace, clock, first)
    trained, longest = 0.0, 0.0
    for step, cost in steps:
        clock.now, trained = clock.now + step, trained + step
        longest = max(longest, cost)
        if not pace.affords():
            continue
        try:
            with pace.timed():
                for _ in range(100):
                    clock.now += cost / 100
                    pace.check()
        except OutOfTime:
            pass
        assert pace.spent <= max(share * trained, first) + longest / 100 + 1e-9
        assert pace.trained == pytest.approx(trained)
        assert pace.taken == pytest.approx(pace.spent / trained)


def test_a_point_is_taken_as_soon_as_it_and_the_last_are_within_the_share():
    clock = Clock()
    pace = TimeShare(0.1, clock)
    measured(pace, clock, 2.0)
    clock.now += 59.9
    assert not pace.affords()
    clock.now += 0.2
    assert pace.affords()


def test_the_next_look_is_expected_to_take_more_time_than_the_smaller_first_and_one_that_was_stopped():
    clock = Clock()
    pace = TimeShare(0.1, clock)
    with pace.timed(growth=8.0):
        clock.now += 1.0
    assert pace.expected == 8.0
    clock.now += 1000.0

    def stop() -> None:
        with pace.timed():
            clock.now += 5.0
            raise OutOfTime

    with pytest.raises(OutOfTime):
        stop()
    assert (pace.expected, pace.made, pace.spent) == (10.0, 1, 6.0)


def test_a_look_that_failed_is_paid_for_too():
    clock = Clock()
    pace = TimeShare(0.5, clock)

    def fail() -> None:
        with pace.timed():
            clock.now += 4.0
            raise ValueError("late")

    with pytest.raises(ValueError, match="late"):
        fail()
    assert pace.latest == 4.0
    clock.now += 23.0
    assert not pace.affords()


def test_without_a_share_and_before_the_first_look_everything_is_affordable():
    clock = Clock()
    assert TimeShare(1e-9, clock).affords()
    pace = TimeShare(None, clock)
    measured(pace, clock, 1e6)
    assert pace.affords()


# -- natural secrets -------------------------------------------------------------------------------------------------


def _natural(canary: Canary) -> Canary:
    return dataclasses.replace(canary, kind="natural", salt="salt")


def test_natural_ones_are_watched_when_told_so(written):
    path = written([_natural(each) for each in MADE])
    assert [each.id for each in watched_canaries(path, natural=True)] == [each.id for each in MADE]


def test_natural_ones_have_entries_of_their_own_that_tell_the_power_of_ten_alone(tmp_path):
    made = canaries()
    exact = looks(watched(tmp_path, watch={"every": 3}))[-1]
    own = [_natural(each) if each.planted and each.repetitions == 1 else each for each in made]
    folder = tmp_path / "natural"
    folder.mkdir()
    trainer = trainer_of(folder, model())
    ExposureCallback(manifest(folder, own), every=3, share=None, natural=True, preflight=0).attach(trainer)
    trainer.train()
    last = looks(trainer)[-1]
    rank = 100 / 2 ** exact["leakage/exposure_x1"]
    band = range(1, 11) if rank <= 10 + 1e-6 else range(11, 101)
    assert last["leakage/exposure_natural"] == pytest.approx(math.log2(100 / statistics.geometric_mean(band)))
    assert last["leakage/exposure_mean"] == pytest.approx(exact["leakage/exposure_x4"])
    assert "leakage/exposure_x1" not in last
    assert "leakage/seconds" not in last


def test_without_being_told_so_the_log_says_nothing_of_them(tmp_path):
    own = [_natural(each) if each.repetitions == 1 else each for each in canaries()]
    trainer = trainer_of(tmp_path, model())
    ExposureCallback(manifest(tmp_path, own), share=None, preflight=0).attach(trainer)
    trainer.train()
    assert not any("natural" in name for entry in looks(trainer) for name in entry)
