"""A callback of ``transformers.Trainer`` that measures exposure during training and logs it with the trainer's log."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, Literal

from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from leakage_tasks.attacks import run_attack
from leakage_tasks.attacks.coarse import NATURAL, coarsened
from leakage_tasks.canaries import Canary, read_manifest
from leakage_tasks.canaries.context import read_context
from leakage_tasks.canaries.near import near_counts
from leakage_tasks.core.atomic import check_place
from leakage_tasks.core.errors import LeakageError, OptionError
from leakage_tasks.core.log import first_line, log
from leakage_tasks.report.load.training_log import NATURAL_MEAN, SECONDS, SKIPPED, curves_of_log, exposure_entry
from leakage_tasks.report.plots.style import KINDS, save
from leakage_tasks.report.plots.training import draw_training
from leakage_tasks.targets import CausalTarget
from leakage_tasks.training.callback.target import in_chat, live_target, undisturbed
from leakage_tasks.training.preflight.start import check_before_training

BUDGET = 2_000
"""Number of sequences scored per canary and measurement: enough for a curve. ``lm_eval`` uses more by default."""
WATCHED = ("random", "organic")
"""Kinds of canaries whose exposure is comparable with the controls. Natural secrets were not drawn at random from their
space: they are watched only on request and reported separately."""


class ExposureCallback(TrainerCallback):
    """A callback that measures the exposure of canaries before, during and after training.

    Add it with ``ExposureCallback("canaries.jsonl").attach(trainer)``. It logs exposure in bits (The Secret Sharer,
    section 6.1) to ``trainer.state.log_history`` and to the trainer's reporting tools, such as TensorBoard:
    ``leakage/exposure_x1`` is the mean of canaries that were planted once (the primary metric), ``leakage/exposure_x4``
    of canaries with 4 copies, and so on; ``leakage/exposure_mean`` and ``leakage/exposure_max`` are over all planted
    canaries, ``leakage/exposure_controls`` is the mean of the controls. If ``leakage/exposure_x1`` is a lower bound,
    ``leakage/exposure_x1_at_least`` is the share of its canaries whose rank the budget could not estimate. The callback
    does not change the trained weights.

    Before the first step it checks that the trainer's data contain the planted canaries and that the loss includes
    their secrets (:func:`~leakage_tasks.training.preflight.preflight`). The result is written to ``preflight.json`` in
    the trainer's output folder. Training stops if a canary is absent from all of the data.

    Args:
        manifest: The path of the manifest.
        every: ``"epoch"``, or a number of steps between measurements.
        share: Largest share of the training time that measurements may take; later measurements are skipped. The first
            and the last measurement are always made. None skips no measurement.
        canaries: Largest number of planted canaries to watch, and of controls; by default all.
        controls: Watch controls.
        budget: Largest number of sequences scored for a canary in a measurement.
        seed: Random seed.
        context: Text before the canaries, as in ``--metadata context=…``.
        chat: Score canaries as turns of a chat in the tokenizer's template. By default they are turns if the record of
            planting says so and the tokenizer has a template.
        natural: Also watch natural secrets. Their exposure is computed from ranks rounded to powers of ten, as in
            samples: ``leakage/exposure_natural`` is their mean, ``leakage/exposure_natural_controls`` the mean of
            their controls.
        tokenizer: Tokenizer to use instead of the trainer's ``processing_class``.
        plot: File for a plot of losses and exposure, .png or .svg, written when training ends.
        preflight: Number of rows of the training data to check; by default all, 0 for no check.
        strict: If false, an absent canary is a warning.

    Raises:
        ManifestError: The manifest cannot be read.
        OptionError: The manifest has no canaries to watch, or an argument is invalid.
        LeakageError: Raised by ``trainer.train()`` before the first step if the model is not supported.

    Examples:
        >>> from leakage_tasks import ExposureCallback
        >>> callback = ExposureCallback("canaries.jsonl", every=100, share=None).attach(trainer)
        >>> callback in trainer.callback_handler.callbacks
        True
    """

    def __init__(
        self,
        manifest: str | Path,
        *,
        every: int | Literal["epoch"] = "epoch",
        share: float | None = 0.05,
        canaries: int | None = None,
        controls: bool = True,
        budget: int = BUDGET,
        seed: int = 0,
        context: str | Mapping[str, str] = "auto",
        chat: bool | None = None,
        natural: bool = False,
        tokenizer: Any = None,
        plot: str | Path | None = None,
        preflight: int | None = None,
        strict: bool = True,
    ) -> None:
        _check_arguments(every, share, canaries, budget, plot)
        _check_rows(preflight)
        self.manifest, self.preflight, self.strict = manifest, preflight, strict
        self.every, self.share, self.budget, self.seed = every, share, budget, seed
        self.context, self.chat = read_context(context), chat
        self.canaries = watched_canaries(manifest, canaries, controls, seed, natural)
        self._near = near_counts(read_manifest(manifest))
        self.plot = None if plot is None else Path(plot)
        self._tokenizer = tokenizer
        self._trainer: Trainer | None = None
        self._target: CausalTarget | None = None
        self._watched = self.context, self.canaries
        self._pace = TimeShare(share)
        self._measured: int | None = None
        self._skipped: set[int] = set()

    def attach(self, trainer: Trainer) -> ExposureCallback:
        """Add this callback to ``trainer`` and log through it. Transformers does not pass the trainer to callbacks."""
        self._trainer = trainer
        if self not in trainer.callback_handler.callbacks:
            trainer.add_callback(self)
        return self

    # -- events of training ---------------------------------------------------------------------------------

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Measure the model before its first step, so that an unsupported model is an error before training."""
        self._target, self._measured, self._skipped = None, None, set()
        if not state.is_world_process_zero:
            # Other processes wait for this process when gradients are exchanged.
            return
        if self.plot is not None:
            check_place(self.plot)
        if self._trainer is None:
            log.warning(
                "ExposureCallback does not know its trainer, so exposure is logged only to trainer.state.log_history, "
                "not to the screen or TensorBoard: use ExposureCallback(…).attach(trainer) instead of callbacks=[…]"
            )
        processing = self._tokenizer if self._tokenizer is not None else kwargs.get("processing_class")
        self._target = live_target(kwargs["model"], processing)
        self._watched = in_chat(self.manifest, self.canaries, self._target.tokenizer, self.context, self.chat)
        self._pace = TimeShare(self.share)
        metrics = self._measure()
        if self._trainer is not None and self.preflight != 0:
            check_before_training(self._trainer, self.manifest, self.preflight, processing, self.strict)
        self._measured = state.global_step
        if not any(entry.get("step") == state.global_step and SKIPPED in entry for entry in state.log_history):
            # A run resumed from a checkpoint already has this measurement in its log history.
            self._log(metrics, state, control)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Measure every ``every`` steps, and after the last step, before its checkpoint is saved."""
        ending = _ending(state, control)
        if ending or (self.every != "epoch" and state.global_step % self.every == 0):
            self._measure_and_log(state, control, ending)

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Measure if ``every`` is ``"epoch"``, or if training ended within the epoch."""
        ending = _ending(state, control)
        if ending or self.every == "epoch":
            self._measure_and_log(state, control, ending)

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Take the last measurement if an evaluation ended training, before the trainer loads the best weights."""
        if control.should_training_stop:
            self._measure_and_log(state, control, last=True)

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Take the last measurement at the closing log if no earlier event reported the end of training."""
        if "train_runtime" in kwargs["logs"]:
            self._measure_and_log(state, control, last=True)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Write the plot. An error is only a warning, because the model is not saved yet."""
        if self.plot is None or self._target is None:
            return
        curves = curves_of_log(state.log_history)
        try:
            if curves is not None:
                save(draw_training(curves), self.plot)
        except LeakageError as error:
            log.warning("ExposureCallback: %s", error)

    # -- measuring ----------------------------------------------------------------------------------------------

    def _measure_and_log(self, state: TrainerState, control: TrainerControl, last: bool) -> None:
        """Measure and log once per step, if it is the last step of the run or the share of time allows it."""
        if self._target is None or self._measured == state.global_step:
            return
        if not (last or self._pace.affords()):
            self._skipped.add(state.global_step)
            return
        # Later events of this step do not try again, even if the measurement fails.
        self._measured = state.global_step
        try:
            metrics = self._measure()
        except Exception as error:  # training must not fail if the model diverges or memory is full
            reason = f"{type(error).__name__}: {first_line(error)}"
            log.warning("ExposureCallback: no exposure at step %d, training continues (%s)", state.global_step, reason)
            return
        self._skipped.discard(state.global_step)
        self._log(metrics, state, control)

    def _measure(self) -> dict[str, float]:
        """Measure the current exposure of the watched canaries."""
        assert self._target is not None
        with self._pace.timed(), undisturbed(self._target.model):
            context, canaries = self._watched
            findings = run_attack(
                "exposure", self._target, canaries, budget=self.budget, seed=self.seed, context=context
            )
        return exposure_entry([coarsened(replace(finding, near=self._near[finding.canary])) for finding in findings])

    def _log(self, metrics: dict[str, float], state: TrainerState, control: TrainerControl) -> None:
        entry = {**metrics, SKIPPED: len(self._skipped)}
        if NATURAL_MEAN not in metrics:
            # The duration of a search would reveal when it found a natural secret.
            entry[SECONDS] = self._pace.latest or 0.0
        self._measured, self._skipped = state.global_step, set()
        if self._trainer is None:
            state.log_history.append({**entry, "epoch": state.epoch, "step": state.global_step})
            return
        wanted = control.should_log
        self._trainer.log(entry)
        # Logging resets this flag, but it was set for the loss.
        control.should_log = wanted


class TimeShare:
    """A limit on the time of measurements: ``share`` of the training time so far; None is no limit.

    A measurement is allowed if the time spent so far plus twice the time of the latest measurement is within the share:
    once for this measurement, and once for the last of the run, which is always made. Time affects only which
    measurements are made, never their results.
    """

    def __init__(self, share: float | None, clock: Callable[[], float] = time.perf_counter) -> None:
        self._share, self._clock = share, clock
        self._began = clock()
        self._spent = 0.0
        self.latest: float | None = None
        """Duration of the latest measurement in seconds; None before the first."""

    def affords(self) -> bool:
        """Return True if a measurement is allowed now. The first always is, because its duration is unknown."""
        if self._share is None or self.latest is None:
            return True
        trained = self._clock() - self._began - self._spent
        return self._spent + 2 * self.latest <= self._share * trained

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count the time inside the block as a measurement, even if it fails."""
        started = self._clock()
        try:
            yield
        finally:
            self.latest = self._clock() - started
            self._spent += self.latest


def watched_canaries(
    manifest: str | Path, most: int | None = None, controls: bool = True, seed: int = 0, natural: bool = False
) -> list[Canary]:
    """Choose the canaries to watch.

    Args:
        manifest: The path of the manifest.
        most: Largest number of planted canaries, spread evenly over their numbers of repetitions, and of controls.
        controls: Include controls.
        seed: Random seed of the choice.
        natural: Include natural secrets.

    Returns:
        Planted canaries and controls, in the order of the manifest.

    Raises:
        ManifestError: The manifest cannot be read.
        OptionError: The manifest has no planted canary of a suitable kind.
    """
    kinds = (*WATCHED, NATURAL) if natural else WATCHED
    canaries = [canary for canary in read_manifest(manifest) if canary.kind in kinds]
    planted = [canary for canary in canaries if canary.planted]
    if not planted:
        raise OptionError(
            f"{manifest}: contains no planted canary of kind {' or '.join(kinds)}: make canaries with 'leakage "
            "canaries'" + ("" if natural else ", or watch natural secrets with natural=True")
        )
    never = [canary for canary in canaries if not canary.planted and controls]
    chosen = {canary.id for group in (planted, never) for canary in _alternate_repetitions(group, seed)[:most]}
    return [canary for canary in canaries if canary.id in chosen]


def _alternate_repetitions(canaries: Sequence[Canary], seed: int) -> list[Canary]:
    """Return the canaries in a random order in which all numbers of repetitions alternate."""
    groups: dict[int, list[Canary]] = {}
    for canary in canaries:
        groups.setdefault(canary.repetitions, []).append(canary)
    for times, group in groups.items():
        random.Random(f"watched:{seed}:{times}").shuffle(group)
    turns = zip_longest(*(groups[times] for times in sorted(groups, reverse=True)))
    return [canary for canary in chain.from_iterable(turns) if canary is not None]


def _ending(state: TrainerState, control: TrainerControl) -> bool:
    return control.should_training_stop or state.global_step >= state.max_steps


def _check_arguments(every: Any, share: Any, canaries: Any, budget: Any, plot: Any) -> None:
    """Raise OptionError for an invalid argument of ExposureCallback."""
    if every != "epoch" and not _is_count(every):
        raise OptionError(f"every={every!r}: expected 'epoch' or a number of steps, 1 or more")
    if share is not None and not (isinstance(share, int | float) and 0 < share <= 1):
        raise OptionError(f"share={share!r}: expected a share of the training time above 0 and up to 1, or None")
    if canaries is not None and not _is_count(canaries):
        raise OptionError(
            f"canaries={canaries!r}: expected the number of canaries to watch, 1 or more, or None for all"
        )
    if not _is_count(budget):
        raise OptionError(f"budget={budget!r}: expected the number of sequences per canary, 1 or more")
    if plot is not None and Path(plot).suffix.lower() not in KINDS:
        raise OptionError(f"plot={str(plot)!r}: use a name that ends in {' or '.join(KINDS)}")


def _check_rows(rows: Any) -> None:
    if rows is not None and rows != 0 and not _is_count(rows):
        raise OptionError(f"preflight={rows!r}: expected the number of rows to check, None for all, or 0 for no check")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
