"""Soft prompts that draw a model's training data out of it: a few vectors tuned, the model itself left alone.

Prompt tuning (Lester et al. 2021) with Ethicist's (003) smoothing loss, Section 3.2 and Appendix A there.
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
from leakage_tasks.training.prompt.fit import check_fit, run_of
from leakage_tasks.training.prompt.forward import PromptPass, Rows, frozen, suffix_losses
from leakage_tasks.training.prompt.settings import PromptSettings

if TYPE_CHECKING:
    from torch import Tensor

    from leakage_tasks.pairs import Pair

OnEpoch = Callable[[int, "Tensor", Sequence[PromptEpoch]], None]
"""Called after each epoch with its number, the prompt [length, dimensions] then, and the losses so far."""


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
    """Tune a soft prompt after which ``model`` says each prefix' suffix, and return the best of all epochs.

    ``model`` is a causal `transformers` model on its device; it computes without dropout, and its weights and modes are
    as they were afterwards. The best prompt is that of lowest validation loss (Equation 3); ``patience`` epochs
    without a lower one end the run. After each epoch ``checkpoint`` is written, from which ``resume`` goes on; on a CPU
    with as many threads the prompt is then, to the bit, that of a run without a break. The caller's random state is
    left alone. Raises OptionError for pairs or settings that do not fit the model and for a checkpoint that is missing,
    in the way or of another run, and TargetError for a model that cannot be tuned or a loss that is no number.

    Examples:
        >>> from leakage_tasks import Pair, PromptSettings, tune_prompt
        >>> pairs = [Pair(place, (3, 4 + place), (5, 6)) for place in range(4)]
        >>> tuned = tune_prompt(model, pairs[:2], pairs[2:], PromptSettings(length=8, epochs=2), progress=False)
        >>> tuned.settings.length, tuned.prompt.shape[0]
        (8, 8)
    """
    settings, path = settings or PromptSettings(), None if checkpoint is None else Path(checkpoint)
    check_checkpoint(path, resume)
    check_fit(model, settings, pairs_train, pairs_validation)
    run = run_of(model, settings, pairs_train, pairs_validation)
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
    """The prompt, its optimiser and its losses."""

    def __init__(
        self, model: Any, training: Sequence[Pair], validation: Sequence[Pair], settings: PromptSettings
    ) -> None:
        self.settings = settings
        self.forward = PromptPass(model, bf16=settings.bf16)
        self.training, self.validation = (Rows(pairs, self.forward.device) for pairs in (training, validation))
        self.prompt = torch.nn.Parameter(first_prompt(self.forward, settings))
        self.epochs: list[PromptEpoch] = []
        self.stopping = EarlyStopping[PromptEpoch](
            settings.patience, lambda each: (each.validation.total,), lambda: {"prompt": self.prompt}
        )
        self.ended = False
        self.steps = settings.steps(len(self.training))
        self.steps_an_epoch = self.steps // settings.epochs
        settings.warmup_of(self.steps)
        # The rates are the learning rate's course itself.
        self.optimiser = torch.optim.AdamW([self.prompt], lr=1.0, weight_decay=settings.weight_decay)
        # Always asked of the first prompt and the first pairs, so that a resumed run computes as the first did.
        self.forward.share(self.prompt, self.training.batch(torch.arange(min(2, len(self.training)))))

    def progress(self) -> Progress:
        """What a checkpoint holds; the tensors are this tuner's own."""
        state = dict(self.optimiser.state[self.prompt])
        return Progress(self.prompt.detach(), self.stopping.weights["prompt"], state, list(self.epochs))

    def restore(self, progress: Progress) -> None:
        """Go on from a checkpoint."""
        with torch.no_grad():
            self.prompt.copy_(progress.prompt)
        self.epochs = progress.epochs
        for each in self.epochs:
            self.ended = self.stopping.update(each.epoch, each)
        self.stopping.weights = {"prompt": progress.best.to(self.forward.device)}
        state = self.optimiser.state_dict()
        self.optimiser.load_state_dict(state | {"state": {0: progress.optimiser}})

    def loop(self, on_epoch: Callable[[int, Any, Sequence[PromptEpoch]], None]) -> TrainingLoop[Tensor, PromptEpoch]:
        """What trains for the epochs that are left: all training pairs in a random order, then the validation pairs."""
        done = len(self.epochs) * self.steps_an_epoch
        return TrainingLoop(
            model=self.prompt,
            batches=self._batches,
            step=self._step,
            evaluate=self._evaluated,
            epochs=self.settings.epochs,
            rates=LambdaLR(self.optimiser, lambda step: self.settings.rate(done + step, self.steps)),
            train_mode=lambda: None,
            shown=lambda each: _words(each.validation) + " (validation)",
            running=lambda so_far: _words(self._losses(so_far.total / so_far.count)),
            on_epoch=on_epoch,
            stop=self.stopping.update,
            records=self.epochs,
        )

    def _batches(self, epoch: int) -> Sequence[Tensor]:
        order = torch.randperm(len(self.training), generator=_stream(self.settings.seed, epoch))
        return order.split(self.settings.batch_size)

    def _step(self, rows: Tensor) -> BatchLoss:
        """One step on these pairs; its total is their summed losses, MLE and smoothing, in nats [2]."""
        self.optimiser.zero_grad()
        mean, sums = torch.zeros(()), torch.zeros(2, device=self.forward.device)
        for part in rows.split(self.settings.part_size()):
            both = self._both(self.training, part)
            mean = self._total(both) / len(rows)
            mean.backward()
            sums += both.detach()
        self.optimiser.step()
        return BatchLoss(mean, sums, len(rows))

    def _both(self, of: Rows, rows: Tensor) -> Tensor:
        batch = of.batch(rows)
        costs = self.forward.costs(self.prompt, batch)
        return torch.stack([each.sum() for each in suffix_losses(costs, batch.targets, self.settings.hardest)])

    def _total(self, both: Tensor) -> Tensor:
        return both[0] + self.settings.alpha * both[1]

    @torch.no_grad()
    def validated(self) -> PromptLoss:
        """Losses on the validation pairs."""
        sums = torch.zeros(2, device=self.forward.device)
        for rows in torch.arange(len(self.validation)).split(self.settings.part_size()):
            sums += self._both(self.validation, rows)
        return self._losses(sums / len(self.validation))

    def _losses(self, means: Tensor) -> PromptLoss:
        mle, smoothing, total = (float(value) / log(2) for value in (*means, self._total(means)))
        return PromptLoss(mle, smoothing, total)

    def _evaluated(self, epoch: int, read: EpochLosses) -> PromptEpoch:
        losses = PromptEpoch(epoch, self._losses(read.total / read.count), self.validated())
        if not (isfinite(losses.training.total) and isfinite(losses.validation.total)):
            raise TargetError(
                f"epoch {losses.epoch}: the loss is {losses.training.total} in training and {losses.validation.total} "
                "on validation, no number to go on from: try a lower learning_rate, or without bf16"
            )
        return losses


def first_prompt(forward: PromptPass, settings: PromptSettings) -> Tensor:
    """The prompt before the first step, float32 [length, dimensions], on the model's device."""
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
    """The random stream of an epoch (0: of the first prompt), the same whatever came before."""
    state = np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(state[0]))


def _words(losses: PromptLoss) -> str:
    return f"MLE {losses.mle:.3f}, smoothing {losses.smoothing:.3f} bits/token"
