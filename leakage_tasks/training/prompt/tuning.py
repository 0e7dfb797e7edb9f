"""Tuning of soft prompts that extract a model's training data. The model itself does not change.

This is prompt tuning (Lester et al. 2021) with Ethicist's smoothing loss (Section 3.2 and Appendix A).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from math import isfinite, log
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.optim.lr_scheduler import LambdaLR

from leakage_tasks.core.errors import TargetError
from leakage_tasks.core.progress import progress as progress_bar
from leakage_tasks.training.loop import BatchLoss, EarlyStopping, EpochLosses, TrainingLoop
from leakage_tasks.training.prompt.files import (
    Progress,
    PromptEpoch,
    PromptLoss,
    TunedPrompt,
    check_checkpoint,
    load_checkpoint,
    save_checkpoint,
)
from leakage_tasks.training.prompt.fit import check_fit, describe_run
from leakage_tasks.training.prompt.forward import PromptPass, Rows, frozen, suffix_losses
from leakage_tasks.training.prompt.settings import PromptSettings

if TYPE_CHECKING:
    from torch import Tensor

    from leakage_tasks.pairs import Pair

OnEpoch = Callable[[int, "Tensor", Sequence[PromptEpoch]], None]
"""A function that is called after each epoch with its number, the current prompt [length, dimensions], and the losses
so far."""


def tune_prompt(
    model: Any,
    pairs_train: Sequence[Pair],
    pairs_validation: Sequence[Pair],
    settings: PromptSettings | None = None,
    *,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    on_epoch: OnEpoch | None = None,
    progress: bool = True,
) -> TunedPrompt:
    """Tune a soft prompt that makes ``model`` continue each prefix with its suffix. Return the best prompt.

    The best prompt is the prompt with the lowest validation loss (Equation 3). Tuning ends after ``patience`` epochs
    without a lower loss. Dropout is disabled. On a CPU with an equal number of threads, a resumed run gives bit for bit
    the prompt of an uninterrupted run. Torch's global random state is unchanged.

    Args:
        model: A causal `transformers` model on its device; its weights and modes are unchanged afterwards.
        pairs_train: The training pairs.
        pairs_validation: The validation pairs.
        settings: Settings; by default Ethicist's.
        checkpoint: File to which the state is saved after each epoch.
        resume: Continue from ``checkpoint``.
        on_epoch: Called after each epoch.
        progress: Show a progress bar.

    Returns:
        The best prompt, with losses and settings.

    Raises:
        OptionError: Pairs or settings do not fit the model, or the checkpoint is missing, from another run, or would be
            overwritten.
        TargetError: The model cannot be tuned, or a loss is not finite.

    Examples:
        >>> from leakage_tasks import Pair, PromptSettings, tune_prompt
        >>> pairs = [Pair(index, (3, 4 + index), (5, 6)) for index in range(4)]
        >>> tuned = tune_prompt(model, pairs[:2], pairs[2:], PromptSettings(length=8, epochs=2), progress=False)
        >>> tuned.settings.length, tuned.prompt.shape[0]
        (8, 8)
    """
    settings, path = settings or PromptSettings(), None if checkpoint is None else Path(checkpoint)
    check_checkpoint(path, resume)
    check_fit(model, settings, pairs_train, pairs_validation)
    run = describe_run(model, settings, pairs_train, pairs_validation)
    started = time.perf_counter()
    with frozen(model):
        tuner = _Tuner(model, pairs_train, pairs_validation, settings)
        if path is not None and resume:
            tuner.restore(load_checkpoint(path, run))

        def note(epoch: int, _: Any, epochs: Sequence[PromptEpoch]) -> None:
            if path is not None:
                save_checkpoint(path, tuner.progress(), run)
            if on_epoch is not None:
                on_epoch(epoch, tuner.prompt.detach().clone(), epochs)

        if not tuner.ended:
            done = len(tuner.epochs) * tuner.steps_an_epoch
            tuner.loop(note).run(progress_bar(tuner.steps, initial=done, unit="step", disable=not progress))
    ended = tuner.progress()
    seconds = time.perf_counter() - started
    return TunedPrompt(ended.best, tuple(ended.epochs), ended.best_epoch, settings, run, model.config, seconds)


class _Tuner:
    """The prompt, its optimizer and its losses."""

    def __init__(
        self, model: Any, training: Sequence[Pair], validation: Sequence[Pair], settings: PromptSettings
    ) -> None:
        self.settings = settings
        self.forward = PromptPass(model, bf16=settings.bf16)
        self.training, self.validation = (Rows(pairs, self.forward.device) for pairs in (training, validation))
        self.prompt = torch.nn.Parameter(first_prompt(self.forward, settings))
        self.epochs: list[PromptEpoch] = []
        self.stopping = EarlyStopping[PromptEpoch](
            settings.patience, lambda epoch: (epoch.validation.total,), lambda: {"prompt": self.prompt}
        )
        self.ended = False
        self.steps = settings.steps(len(self.training))
        self.steps_an_epoch = self.steps // settings.epochs
        settings.warmup_of(self.steps)
        # With lr=1, the factors of LambdaLR are the learning rates.
        self.optimiser = torch.optim.AdamW([self.prompt], lr=1.0, weight_decay=settings.weight_decay)
        # Always checked with the initial prompt and the first pairs, so that a resumed run makes the same choice.
        self.forward.share(self.prompt, self.training.batch(torch.arange(min(2, len(self.training)))))

    def progress(self) -> Progress:
        """Return the content of a checkpoint. Its tensors share memory with this object."""
        state = dict(self.optimiser.state[self.prompt])
        return Progress(self.prompt.detach(), self.stopping.weights["prompt"], state, list(self.epochs))

    def restore(self, progress: Progress) -> None:
        """Continue from a checkpoint."""
        with torch.no_grad():
            self.prompt.copy_(progress.prompt)
        self.epochs = progress.epochs
        for record in self.epochs:
            self.ended = self.stopping.update(record.epoch, record)
        self.stopping.weights = {"prompt": progress.best.to(self.forward.device)}
        state = self.optimiser.state_dict()
        self.optimiser.load_state_dict(state | {"state": {0: progress.optimiser}})

    def loop(self, on_epoch: Callable[[int, Any, Sequence[PromptEpoch]], None]) -> TrainingLoop[Tensor, PromptEpoch]:
        """Return a loop over the remaining epochs: all training pairs in random order, then the validation pairs."""
        done = len(self.epochs) * self.steps_an_epoch
        return TrainingLoop(
            model=self.prompt,
            batches=self._batches,
            step=self._step,
            evaluate=self._evaluate,
            epochs=self.settings.epochs,
            rates=LambdaLR(self.optimiser, lambda step: self.settings.rate(done + step, self.steps)),
            train_mode=lambda: None,
            shown=lambda epoch: _words(epoch.validation) + " (validation)",
            running=lambda so_far: _words(self._losses(so_far.total / so_far.count)),
            on_epoch=on_epoch,
            stop=self.stopping.update,
            records=self.epochs,
        )

    def _batches(self, epoch: int) -> Sequence[Tensor]:
        order = torch.randperm(len(self.training), generator=_stream(self.settings.seed, epoch))
        return order.split(self.settings.batch_size)

    def _step(self, rows: Tensor) -> BatchLoss:
        """Take one step on these pairs. The total is the sum of their losses, MLE and smoothing, in nats [2]."""
        self.optimiser.zero_grad()
        mean, sums = torch.zeros(()), torch.zeros(2, device=self.forward.device)
        for part in rows.split(self.settings.part_size()):
            both = self._both(self.training, part)
            mean = self._total(both) / len(rows)
            mean.backward()
            sums += both.detach()
        self.optimiser.step()
        return BatchLoss(mean, sums, len(rows))

    def _both(self, pairs: Rows, rows: Tensor) -> Tensor:
        batch = pairs.batch(rows)
        costs = self.forward.costs(self.prompt, batch)
        return torch.stack([losses.sum() for losses in suffix_losses(costs, batch.targets, self.settings.hardest)])

    def _total(self, both: Tensor) -> Tensor:
        return both[0] + self.settings.alpha * both[1]

    @torch.no_grad()
    def validate(self) -> PromptLoss:
        """Compute the losses on the validation pairs."""
        sums = torch.zeros(2, device=self.forward.device)
        for rows in torch.arange(len(self.validation)).split(self.settings.part_size()):
            sums += self._both(self.validation, rows)
        return self._losses(sums / len(self.validation))

    def _losses(self, means: Tensor) -> PromptLoss:
        mle, smoothing, total = (float(value) / log(2) for value in (*means, self._total(means)))
        return PromptLoss(mle, smoothing, total)

    def _evaluate(self, epoch: int, sums: EpochLosses) -> PromptEpoch:
        losses = PromptEpoch(epoch, self._losses(sums.total / sums.count), self.validate())
        if not (isfinite(losses.training.total) and isfinite(losses.validation.total)):
            raise TargetError(
                f"epoch {losses.epoch}: the loss is {losses.training.total} in training and {losses.validation.total} "
                "on validation, which is not finite: try a lower learning_rate, or without bf16"
            )
        return losses


def first_prompt(forward: PromptPass, settings: PromptSettings) -> Tensor:
    """Return the initial prompt, float32 [length, dimensions], on the model's device."""
    stream, vocabulary = _stream(settings.seed, 0), forward.vocabulary
    if settings.init_tokens:
        repeated = np.resize(settings.init_tokens, settings.length)
        return forward.words(torch.from_numpy(repeated).to(forward.device)).float().clone()
    tokens = torch.randint(vocabulary, (settings.length,), generator=stream).to(forward.device)
    words = forward.words(tokens).float().clone()
    if settings.init == "vocabulary":
        return words
    return torch.randn(words.shape, generator=stream).to(forward.device)


def _stream(seed: int, epoch: int) -> torch.Generator:
    """Return the random generator of an epoch (0: of the initial prompt). It does not depend on earlier draws."""
    state = np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(state[0]))


def _words(losses: PromptLoss) -> str:
    return f"MLE {losses.mle:.3f}, smoothing {losses.smoothing:.3f} bits/token"
