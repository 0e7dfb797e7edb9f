"""Training an NLU tagger: intents and slots together, early stopping, privately too."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import torch

from leakage_tasks.core.errors import LeakageError, OptionError
from leakage_tasks.core.progress import progress
from leakage_tasks.models.char_tokenizer import UNKNOWN
from leakage_tasks.training.dp.accounting import PrivacyGuarantee
from leakage_tasks.training.dp.private import DpConfig, PlainSteps, PrivateSteps, make_steps
from leakage_tasks.training.loop import BatchLoss, EarlyStopping, EpochLosses, TrainingLoop
from leakage_tasks.training.rows import allocations_told, chosen_device
from leakage_tasks.training.saved_model import Saved
from leakage_tasks.training.tagger.model import fresh_tagger, settle_unknown
from leakage_tasks.training.tagger.private import check_memory, reading_rows
from leakage_tasks.training.tagger.recipe import DEFAULT, NLURecipe
from leakage_tasks.training.tagger.rows import RowScores, TaggedRows, check_priced, score_tagger, scored

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from leakage_tasks.data.utterances import Utterance
    from leakage_tasks.models.nlu_tagger import NLUTagger

__all__ = ["NLURecipe", "OnEpoch", "RowScores", "TaggerScores", "TrainedTagger", "score_tagger", "train_tagger"]

CLIP = 5.0
"""The norm gradients are clipped to."""

_Steps = PlainSteps | PrivateSteps
_Reading = AbstractContextManager[None]


@dataclass(frozen=True)
class TaggerScores:
    """One epoch: losses in nats a row, intent accuracy and slot F1 on the validation rows, ε spent (None: not private).

    ``training`` is the mean over the epoch's steps, as the model was at each. Without validation rows the validation
    figures are None; see :class:`~leakage_tasks.training.tagger.rows.RowScores` for what they are.
    """

    training: float
    validation: float | None = None
    intent_accuracy: float | None = None
    slot_f1: float | None = None
    epsilon: float | None = None


@dataclass(frozen=True)
class TrainedTagger(Saved):
    """A model in evaluation mode with its tokenizer, every epoch's scores, and the epoch (from 1) the weights are of.

    ``promise`` is what DP-SGD promises for the training rows; None in ordinary training. The tokenizer holds every word
    of the training data: saved ``like`` them, the folder is for their readers alone.
    """

    model: NLUTagger
    tokenizer: PreTrainedTokenizerFast
    history: list[TaggerScores] = field(default_factory=list)
    best_epoch: int = 0
    promise: PrivacyGuarantee | None = None


OnEpoch = Callable[[int, "NLUTagger", Sequence[TaggerScores]], None]
"""Called after each epoch (counted from 1) with the model in evaluation mode and the scores so far."""


@allocations_told("lower --batch-size, --embedding-size or --hidden-size")
def train_tagger(
    rows: Sequence[Utterance],
    validation: Sequence[Utterance] = (),
    recipe: NLURecipe = DEFAULT,
    *,
    words: Iterable[str] = (),
    seed: int = 0,
    device: str | torch.device | None = None,
    private: DpConfig | None = None,
    on_epoch: OnEpoch | None = None,
) -> TrainedTagger:
    """Train a tagger on ``rows`` with Adam, in batches of like length, gradients clipped to a norm of 5.

    The loss is the paper's (section 4.1): cross-entropy of the intent plus the CRF's negative log-likelihood of the
    tags. ``words`` are known besides those of the rows: the values of a canary's slots, say. With ``recipe.patience``
    the weights are those of the lowest validation loss, else of the last epoch. Validation rows of an intent or a tag
    that the training rows lack have no loss: they are left out of it, with one warning, and count as wrong.
    ``private`` trains with DP-SGD, which promises something for the rows' gradients; vocabulary, intents, tags and the
    validation rows are outside that. Where no training row holds ``<unk>``, it gets the mean of all words' embeddings
    after each epoch. On a CPU the same arguments and thread count give the same model; the caller's random state is
    left alone. Raises OptionError on no rows, and on patience without validation rows that have a loss, LeakageError
    where DP-SGD cannot be done, memory does not suffice, or a loss or a weight is no finite number after an epoch.
    """
    if not rows:
        raise OptionError("there are no utterances to train on: give one of each intent at least")
    if recipe.patience is not None and not validation:
        raise OptionError("patience stops by the validation loss: give validation utterances too")
    run = _TaggerTraining(rows, validation, recipe, words, seed, chosen_device(device))
    steps, reading = run.steps(private)
    try:
        history = run.train(steps, reading, on_epoch)
    finally:
        with reading:
            steps.close()
    epoch = len(history) if run.stopping is None else run.stopping.restore(run.model)
    return TrainedTagger(run.model, run.tokenizer, history, epoch, steps.promise())


class _TaggerTraining:
    """A tagger, its rows on its device, and what stops its training."""

    def __init__(
        self,
        rows: Sequence[Utterance],
        validation: Sequence[Utterance],
        recipe: NLURecipe,
        words: Iterable[str],
        seed: int,
        place: torch.device,
    ) -> None:
        self.recipe, self.seed = recipe, seed
        self.model, self.tokenizer = fresh_tagger(rows, validation, recipe, words, seed)
        torch.nn.Module.to(self.model, place)
        self.training = TaggedRows(rows, self.tokenizer, self.model)
        self.checks = TaggedRows(validation, self.tokenizer, self.model) if validation else None
        if self.checks is not None:
            check_priced(self.checks, needed=recipe.patience is not None)
        self.stopping = None
        if recipe.patience is not None:
            self.stopping = EarlyStopping[TaggerScores](
                recipe.patience, lambda each: (each.validation,), self.model.state_dict
            )

    def steps(self, private: DpConfig | None) -> tuple[_Steps, _Reading]:
        """What takes the steps, and the context in which the model is trained."""
        model, recipe = self.model, self.recipe
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        optimiser = torch.optim.Adam(trained, lr=recipe.learning_rate, fused=True)
        reading: _Reading = nullcontext()
        if private is not None:
            check_memory(model, len(self.training), recipe.batch_size)
            reading = reading_rows(model.train())
        sizes = {"batch_size": recipe.batch_size, "epochs": recipe.epochs, "seed": self.seed}
        with reading:
            return make_steps(model, optimiser, private, self.training.lengths, **sizes, clip=CLIP), reading

    def train(self, steps: _Steps, reading: _Reading, on_epoch: OnEpoch | None) -> list[TaggerScores]:
        """Train till the epochs or the patience are at an end; every epoch's scores."""
        epochs, stream = self.recipe.epochs, random.Random(f"rows:{self.seed}")
        learnt = any(UNKNOWN in row.words for row in self.training.rows)

        def evaluate(epoch: int, losses: EpochLosses) -> TaggerScores:
            if not learnt:
                settle_unknown(self.model, self.tokenizer)
            scores = self._scores(float(losses.total) / max(losses.count, 1), steps.epsilon())
            self._check_finite(epoch, scores)
            return scores

        return TrainingLoop(
            model=self.model,
            batches=lambda epoch: steps.batches(stream),
            step=partial(steps.take, self._loss),
            evaluate=evaluate,
            epochs=epochs,
            dropout_seed=self.seed,
            reading=lambda: reading,
            shown=lambda scores: f"{scores.training:.2f} nats/row",
            on_epoch=on_epoch,
            stop=None if self.stopping is None else self.stopping.update,
        ).run(progress(epochs * steps.steps_an_epoch, "training"))

    def _loss(self, batch: list[int]) -> BatchLoss:
        loss = self.model(**self.training.batch(batch)).loss
        return BatchLoss(loss, loss.detach() * len(batch), len(batch))

    def _check_finite(self, epoch: int, last: TaggerScores) -> None:
        losses = [loss for loss in (last.training, last.validation) if loss is not None]
        # The last step's weights may be no numbers where no loss was worked out with them.
        if not (all(map(math.isfinite, losses)) and all(weight.isfinite().all() for weight in self.model.parameters())):
            rate = self.recipe.learning_rate
            raise LeakageError(f"the loss is no number after epoch {epoch}: lower --learning-rate (it is {rate:g})")

    def _scores(self, training: float, epsilon: float | None) -> TaggerScores:
        self.model.eval()
        if self.checks is None:
            return TaggerScores(training, epsilon=epsilon)
        found = scored(self.model, self.checks)
        return TaggerScores(training, found.loss, found.intent_accuracy, found.slot_f1, epsilon)
