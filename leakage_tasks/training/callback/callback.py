"""A callback of ``transformers.Trainer`` that measures exposure during training and logs it with the trainer's log."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from leakage_tasks.attacks import Finding, run_attack
from leakage_tasks.attacks.coarse import NATURAL, coarsened
from leakage_tasks.attacks.finding import TrainingExposure
from leakage_tasks.attacks.run import Hooks
from leakage_tasks.attacks.selection import AttackSettings, chosen_attacks
from leakage_tasks.canaries import read_manifest
from leakage_tasks.canaries.context import read_context
from leakage_tasks.canaries.near import near_counts
from leakage_tasks.core.atomic import check_place
from leakage_tasks.core.errors import LeakageError, OptionError
from leakage_tasks.core.log import first_line, log
from leakage_tasks.core.nouns import counted
from leakage_tasks.report.load.training_log import NATURAL_MEAN, SECONDS, SKIPPED, curves_of_log, exposure_entry
from leakage_tasks.report.plots.style import KINDS, save
from leakage_tasks.report.plots.training import draw_training
from leakage_tasks.targets import CausalTarget
from leakage_tasks.tasks.progress import CanariesBar
from leakage_tasks.training.callback.before_training import announce_baseline, check_before_training, watched_canaries
from leakage_tasks.training.callback.target import in_chat, live_target, preserved_training_state
from leakage_tasks.training.callback.time_share import GROWTH, OutOfTime, TimeShare
from leakage_tasks.training.sharding import check_whole

BUDGET = 2_000
"""Number of sequences scored per canary and measurement: enough for a curve. ``lm_eval`` uses more by default."""
BASELINE = 32
"""Number of sequences scored per canary before the first step: a uniform sample that shows ranks at chance level."""
SHARE = 0.05
"""Largest share of the training time that measurements may take by default."""


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
    the trainer's output folder. Training stops if a canary is absent from all of the data. Canaries that are never in
    the loss have means of their own: ``leakage/exposure_context``, and ``leakage/exposure_absent`` for absent ones.

    Args:
        manifest: The path of the manifest.
        every: ``"epoch"``, or a number of steps between measurements.
        share: Largest share of the training time that measurements may take; points that would exceed it are skipped.
            The first and the last measurement are made in any case. None skips no point. By default 0.05 if ``every``
            is ``"epoch"``, and None if it is a number: a warning then states a larger share.
        baseline: Largest number of sequences scored for a canary before the first step: a uniform sample of the
            fillings, or all of them. 0 for no measurement before the first step.
        last: Measure after the last step in any case.
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
        share: float | Literal["auto"] | None = "auto",
        baseline: int = BASELINE,
        last: bool = True,
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
        if baseline != 0 and not _is_count(baseline):
            raise OptionError(f"baseline={baseline!r}: expected the number of sequences per canary, or 0 for none")
        _check_rows(preflight)
        self.manifest, self.preflight, self.strict = manifest, preflight, strict
        self.every, self.budget, self.seed, self.baseline, self.last = every, budget, seed, baseline, last
        self.share = (SHARE if every == "epoch" else None) if share == "auto" else share
        self.context, self.chat = read_context(context), chat
        self.canaries = watched_canaries(manifest, canaries, controls, seed, natural)
        self._near = near_counts(read_manifest(manifest))
        self._readings: Mapping[str, TrainingExposure] = {}
        self.plot = None if plot is None else Path(plot)
        self._tokenizer = tokenizer
        self._trainer: Trainer | None = None
        self._target: CausalTarget | None = None
        self._watched = self.context, self.canaries
        self._pace = TimeShare(self.share)
        self._measured: int | None = None
        self._skipped: set[int] = set()
        self._skipped_in_run = 0
        """Number of points skipped before the latest measurement of this run."""
        self._skipped_before = 0
        """Number of points skipped after the last measurement before the checkpoint of a resumed run."""
        self._warned = self._shows_bar = False

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
        self._target, self._measured, self._skipped, self._warned = None, None, set(), False
        self._skipped_before = self._skipped_in_run = 0
        self._shows_bar = sys.stderr.isatty() and not getattr(args, "disable_tqdm", True)
        # All processes raise it: a process that trained on would wait for the others forever.
        check_whole(kwargs["model"], None if self._trainer is None else self._trainer.accelerator)
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
        self._check_canaries()
        if self._trainer is not None and self.preflight != 0:
            self._readings = check_before_training(
                self._trainer, self.manifest, self.preflight, processing, self.strict
            )
        # A run resumed from a checkpoint already has measurements in its log history.
        latest = next((entry for entry in reversed(state.log_history) if SKIPPED in entry), None)
        metrics = self._measure_baseline() if latest is None else None
        self._measured = state.global_step
        if latest is not None:
            self._skipped_before = self._points(state.epoch, state.global_step) - self._points(
                latest["epoch"], latest["step"]
            )
        elif metrics:
            self._log(metrics, state, control)
        else:
            # Without a measurement before the first step, an interrupted run may have skipped all points so far.
            self._skipped_before = self._points(state.epoch or 0, state.global_step)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Measure every ``every`` steps, and after the last step, before its checkpoint is saved."""
        ending = self.last and _ending(state, control)
        if ending or (self.every != "epoch" and state.global_step % self.every == 0):
            self._measure_and_log(state, control, ending)

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Measure if ``every`` is ``"epoch"``, or if training ended within the epoch."""
        ending = self.last and _ending(state, control)
        if ending or self.every == "epoch":
            self._measure_and_log(state, control, ending)

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Take the last measurement if an evaluation ended training, before the trainer loads the best weights."""
        if self.last and control.should_training_stop:
            self._measure_and_log(state, control, last=True)

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Take the last measurement at the closing log if no earlier event reported the end of training."""
        if self.last and "train_runtime" in kwargs["logs"]:
            self._measure_and_log(state, control, last=True)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Log the time of the measurements and write the plot.

        An error is only a warning, because the model is not saved yet.
        """
        if self._target is None:
            return
        self._log_cost()
        if self.plot is None:
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
        if not self._shows_bar:
            measured = counted(len(self._watched[1]), "canary")
            print(f"ExposureCallback: measuring {measured} at step {state.global_step}", file=sys.stderr, flush=True)
        try:
            metrics = self._measure("exposure", self.budget, limited=not last)
        except OutOfTime:
            self._skipped.add(state.global_step)
            # The last step is measured without a limit if a later event reports that training ends.
            self._measured = None
            return
        except Exception as error:  # training must not fail if the model diverges or memory is full
            reason = f"{type(error).__name__}: {first_line(error)}"
            log.warning("ExposureCallback: no exposure at step %d, training continues (%s)", state.global_step, reason)
            return
        self._skipped.discard(state.global_step)
        self._log(metrics, state, control)
        self._warn_of_cost()

    def _points(self, epoch: float, step: float) -> int:
        return int(epoch if self.every == "epoch" else step // self.every)

    def _check_canaries(self) -> None:
        assert self._target is not None
        context, canaries = self._watched
        settings = AttackSettings("exposure", budget=self.budget, seed=self.seed, context=context)
        with preserved_training_state(self._target.model):
            chosen_attacks(settings, self._target, canaries)

    def _measure_baseline(self) -> dict[str, float] | None:
        """Measure the model before its first step, with few sequences; return None if ``baseline`` is 0."""
        if not self.baseline:
            return None
        if not self._shows_bar:
            assert self._target is not None
            with preserved_training_state(self._target.model):
                announce_baseline(self._target, self._watched[1], min(self.baseline, self.budget))
        if self.baseline >= self.budget:
            return self._measure("exposure", self.budget)
        return self._measure("rank-sample", self.baseline, growth=min(GROWTH, self.budget / self.baseline))

    def _measure(self, attack: str, budget: int, growth: float = 1.0, limited: bool = False) -> dict[str, float]:
        """Measure the current exposure of the watched canaries.

        Raises OutOfTime if ``limited`` is true and the measurement exceeds its share of the time.
        """
        assert self._target is not None
        context, canaries = self._watched
        bar = CanariesBar(canaries, "Measuring exposure", shown=self._shows_bar, leave=False)

        def read(index: int, rows: int) -> None:
            bar.read(index, rows)
            if limited:
                self._pace.check()

        def published(finding: Finding) -> Finding:
            reading = self._readings.get(finding.canary, "")
            return coarsened(replace(finding, near=self._near[finding.canary], reading=reading))

        with self._pace.timed(growth), preserved_training_state(self._target.model), bar.closing():
            hooks = Hooks(published, done=bar.done, on_rows=read)
            findings = run_attack(
                attack, self._target, canaries, budget=budget, seed=self.seed, context=context, hooks=hooks
            )
        return exposure_entry(findings)

    def _warn_of_cost(self) -> None:
        """Warn once if the share is not limited and measurements take more than the default share."""
        if self.share is None and not self._warned and self._pace.taken > SHARE:
            self._warned = True
            fewer = "" if self.every == "epoch" else f"raise every={self.every}, "
            log.warning(
                "ExposureCallback: measurements take %.0f %% of the training time so far: %slower budget=%d, or limit "
                "them with share=%s",
                100 * self._pace.taken,
                fewer,
                self.budget,
                SHARE,
            )

    def _log_cost(self) -> None:
        natural = any(canary.kind == NATURAL for canary in self.canaries)
        # The exact duration of a search would reveal when it found a natural secret.
        seconds = "" if natural else f" took {self._pace.spent:.1f} s,"
        over = self.share is not None and self._pace.taken > self.share
        skipped = self._skipped_in_run + len(self._skipped)
        log.log(
            logging.WARNING if over else logging.INFO,
            "ExposureCallback: %d measurements%s %.0f %% of the training time%s%s",
            self._pace.made,
            seconds,
            100 * self._pace.taken,
            ": the first and the last are made in any case; baseline=0, last=False or a lower budget=… costs less"
            if over
            else "",
            f"; {counted(skipped, 'point')} skipped: share=None measures every point" if skipped else "",
        )

    def _log(self, metrics: dict[str, float], state: TrainerState, control: TrainerControl) -> None:
        entry = {**metrics, SKIPPED: self._skipped_before + len(self._skipped)}
        if NATURAL_MEAN not in metrics:
            # The duration of a search would reveal when it found a natural secret.
            entry[SECONDS] = self._pace.latest or 0.0
        self._skipped_in_run += len(self._skipped)
        self._measured, self._skipped, self._skipped_before = state.global_step, set(), 0
        if self._trainer is None:
            state.log_history.append({**entry, "epoch": state.epoch, "step": state.global_step})
            return
        wanted = control.should_log
        self._trainer.log(entry)
        # Logging resets this flag, but it was set for the loss.
        control.should_log = wanted


def _ending(state: TrainerState, control: TrainerControl) -> bool:
    return control.should_training_stop or state.global_step >= state.max_steps


def _check_arguments(every: Any, share: Any, canaries: Any, budget: Any, plot: Any) -> None:
    if every != "epoch" and not _is_count(every):
        raise OptionError(f"every={every!r}: expected 'epoch' or a number of steps, 1 or more")
    if share is not None and share != "auto" and not (isinstance(share, int | float) and 0 < share <= 1):
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
