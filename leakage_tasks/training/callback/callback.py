"""Exposure while a model trains: a callback of ``transformers.Trainer`` that measures it into the trainer's own log."""

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
from leakage_tasks.training.preflight.start import look_before_training

BUDGET = 2_000
"""Sequences scored a canary at each point: enough for a curve; ``lm_eval`` spends more on the trained model."""
WATCHED = ("random", "organic")
"""Kinds whose exposure can be read beside that of controls. Natural secrets were not drawn from their space: they are
watched where that is asked for, and told apart."""


class ExposureCallback(TrainerCallback):
    """Measures the exposure of a manifest's canaries before training, at every point of it and at its end.

    ``ExposureCallback("canaries.jsonl").attach(trainer)`` is all it takes: means and maximum go to
    ``trainer.state.log_history`` and to whatever the trainer reports to, as ``leakage/exposure_x1`` (planted once, the
    headline), ``leakage/exposure_x4`` and so on, ``leakage/exposure_mean`` (all together), ``leakage/exposure_max`` and
    ``leakage/exposure_controls``, in bits (The Secret Sharer, section 6.1). ``leakage/exposure_x1_at_least`` is
    logged if ``leakage/exposure_x1`` is a lower bound: the share of its canaries whose rank the budget could not
    estimate. The trained weights are the same to the bit as without it.

    ``every`` is ``"epoch"`` or a number of steps. A point is left out where measuring it would take more than ``share``
    of the time trained so far; the first look and the last are always taken, and None leaves none out. ``canaries`` is
    the most planted canaries to watch, and the most controls; ``controls=False`` watches none of these. ``budget`` is
    the most sequences scored for a canary at one point. ``context`` is what canaries are read after, as ``--metadata
    context=…`` takes it. ``chat`` says whether they are turns of a chat, by the tokenizer's template; None that they
    are where the record of planting says so and the tokenizer has a template. With ``natural=True`` natural secrets are
    watched too, told as samples tell them: ``leakage/exposure_natural`` is the mean of what the power of ten of each
    rank leaves, ``leakage/exposure_natural_controls`` that of their controls. ``tokenizer`` stands in for the trainer's
    ``processing_class``. ``plot`` is a picture of losses and exposure to write at the end, .png or .svg.

    Before the first step it looks whether the trainer's data holds the planted canaries, and their secrets in its loss
    (:func:`~leakage_tasks.training.preflight.preflight`), through ``preflight`` rows of it: all unless told otherwise,
    0 for no look. What it finds is written to ``preflight.json`` in the trainer's output folder. A canary that is
    absent from all of the data stops the training; with ``strict=False`` it is a warning.

    Raises ManifestError for a manifest that cannot be read and OptionError for one without canaries to watch or an
    unusable argument; ``trainer.train()`` raises LeakageError before the first step for a model that cannot be watched.

    Examples:
        >>> from leakage_tasks import ExposureCallback
        >>> watching = ExposureCallback("canaries.jsonl", every=100, share=None).attach(trainer)
        >>> watching in trainer.callback_handler.callbacks
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
        """Become one of ``trainer``'s callbacks and log through it; transformers tells no callback its trainer."""
        self._trainer = trainer
        if self not in trainer.callback_handler.callbacks:
            trainer.add_callback(self)
        return self

    # -- events of training ---------------------------------------------------------------------------------

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Take the first look, at the model as it starts; whatever stands in the way of watching shows here."""
        self._target, self._measured, self._skipped = None, None, set()
        if not state.is_world_process_zero:
            # Other processes wait for this one where they next exchange gradients.
            return
        if self.plot is not None:
            check_place(self.plot)
        if self._trainer is None:
            log.warning(
                "ExposureCallback does not know its trainer, so exposure goes to trainer.state.log_history alone, not "
                "to the screen or TensorBoard: use ExposureCallback(…).attach(trainer) instead of callbacks=[…]"
            )
        processing = self._tokenizer if self._tokenizer is not None else kwargs.get("processing_class")
        self._target = live_target(kwargs["model"], processing)
        self._watched = in_chat(self.manifest, self.canaries, self._target.tokenizer, self.context, self.chat)
        self._pace = TimeShare(self.share)
        found = self._look()
        if self._trainer is not None and self.preflight != 0:
            look_before_training(self._trainer, self.manifest, self.preflight, processing, self.strict)
        self._measured = state.global_step
        if not any(entry.get("step") == state.global_step and SKIPPED in entry for entry in state.log_history):
            # A run that goes on from a checkpoint has this look in the history that it was saved with.
            self._log(found, state, control)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Look where the number of steps says so, and after the last step, before its checkpoint is saved."""
        ending = _ending(state, control)
        if ending or (self.every != "epoch" and state.global_step % self.every == 0):
            self._reach(state, control, ending)

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Look where epochs count, and where something ended training within the epoch."""
        ending = _ending(state, control)
        if ending or self.every == "epoch":
            self._reach(state, control, ending)

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Take the last look where an evaluation ended training, before any release loads the best weights."""
        if control.should_training_stop:
            self._reach(state, control, last=True)

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Take the last look at the closing log if nothing told before that training is over."""
        if "train_runtime" in kwargs["logs"]:
            self._reach(state, control, last=True)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Write the picture. A place that has become unwritable is a warning: the model is not saved yet."""
        if self.plot is None or self._target is None:
            return
        curves = curves_of_log(state.log_history)
        try:
            if curves is not None:
                save(draw_training(curves), self.plot)
        except LeakageError as error:
            log.warning("ExposureCallback: %s", error)

    # -- looking ------------------------------------------------------------------------------------------------

    def _reach(self, state: TrainerState, control: TrainerControl, last: bool) -> None:
        """Measure and log a point, once, if it is the last of the run or there is time for it."""
        if self._target is None or self._measured == state.global_step:
            return
        if not (last or self._pace.affords()):
            self._skipped.add(state.global_step)
            return
        # Whatever comes of it, the events that follow on the same step do not try again.
        self._measured = state.global_step
        try:
            found = self._look()
        except Exception as error:  # a model that diverges or fills the memory must not lose its training to a look
            why = f"{type(error).__name__}: {first_line(error)}"
            log.warning("ExposureCallback: no exposure at step %d, training goes on (%s)", state.global_step, why)
            return
        self._skipped.discard(state.global_step)
        self._log(found, state, control)

    def _look(self) -> dict[str, float]:
        """The exposure of the watched canaries as it is now."""
        assert self._target is not None
        with self._pace.timed(), undisturbed(self._target.model):
            context, canaries = self._watched
            findings = run_attack(
                "exposure", self._target, canaries, budget=self.budget, seed=self.seed, context=context
            )
        return exposure_entry([coarsened(replace(each, near=self._near[each.canary])) for each in findings])

    def _log(self, found: dict[str, float], state: TrainerState, control: TrainerControl) -> None:
        entry = {**found, SKIPPED: len(self._skipped)}
        if NATURAL_MEAN not in found:
            # How long a search took says when it met the secret.
            entry[SECONDS] = self._pace.latest or 0.0
        self._measured, self._skipped = state.global_step, set()
        if self._trainer is None:
            state.log_history.append({**entry, "epoch": state.epoch, "step": state.global_step})
            return
        wanted = control.should_log
        self._trainer.log(entry)
        # Any log meets the wish for one, but that one was for the loss.
        control.should_log = wanted


class TimeShare:
    """Keeps the time that measuring takes within ``share`` of the time trained so far; None lets everything pass.

    A point is affordable if what was spent, and twice what the latest measurement took, is within the share: once for
    this point, and once for the last of the run, which is measured in any case. Time decides only which points are
    measured, never what a measurement says.
    """

    def __init__(self, share: float | None, clock: Callable[[], float] = time.perf_counter) -> None:
        self._share, self._clock = share, clock
        self._began = clock()
        self._spent = 0.0
        self.latest: float | None = None
        """Seconds that the latest measurement took; None before the first."""

    def affords(self) -> bool:
        """Whether one more point may be measured now. The first always may: what it costs is not known yet."""
        if self._share is None or self.latest is None:
            return True
        trained = self._clock() - self._began - self._spent
        return self._spent + 2 * self.latest <= self._share * trained

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count what happens inside as a measurement, also if it fails."""
        started = self._clock()
        try:
            yield
        finally:
            self.latest = self._clock() - started
            self._spent += self.latest


def watched_canaries(
    manifest: str | Path, most: int | None = None, controls: bool = True, seed: int = 0, natural: bool = False
) -> list[Canary]:
    """Planted canaries and controls of a manifest, in its order.

    Of the planted ones ``most`` at the most, as equally many of each number of repetitions as there are, and of the
    controls too; which, ``seed`` decides. ``natural`` ones only if so told. Raises ManifestError for a manifest that
    cannot be read, and OptionError for one without a planted canary of a kind that is watched.
    """
    kinds = (*WATCHED, NATURAL) if natural else WATCHED
    canaries = [canary for canary in read_manifest(manifest) if canary.kind in kinds]
    planted = [canary for canary in canaries if canary.planted]
    if not planted:
        raise OptionError(
            f"{manifest}: holds no planted canary of kind {' or '.join(kinds)}, so none to watch: make some with "
            "'leakage canaries'" + ("" if natural else ", or watch natural ones with natural=True")
        )
    never = [canary for canary in canaries if not canary.planted and controls]
    chosen = {canary.id for group in (planted, never) for canary in _spread(group, seed)[:most]}
    return [canary for canary in canaries if canary.id in chosen]


def _spread(canaries: Sequence[Canary], seed: int) -> list[Canary]:
    """The canaries in such an order that its beginning holds as many of each number of repetitions as it can."""
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
    """Raise OptionError for an argument of ExposureCallback that it cannot use."""
    if every != "epoch" and not _is_count(every):
        raise OptionError(f"every={every!r}: expected 'epoch' or a number of steps, 1 or more")
    if share is not None and not (isinstance(share, int | float) and 0 < share <= 1):
        raise OptionError(f"share={share!r}: expected a share of the training time above 0 and up to 1, or None")
    if canaries is not None and not _is_count(canaries):
        raise OptionError(f"canaries={canaries!r}: expected how many to watch, 1 or more, or None for all")
    if not _is_count(budget):
        raise OptionError(f"budget={budget!r}: expected how many sequences to score a canary, 1 or more")
    if plot is not None and Path(plot).suffix.lower() not in KINDS:
        raise OptionError(f"plot={str(plot)!r}: let it end in {' or '.join(KINDS)}")


def _check_rows(rows: Any) -> None:
    if rows is not None and rows != 0 and not _is_count(rows):
        raise OptionError(f"preflight={rows!r}: expected how many rows to look at, None for all or 0 for none")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
