"""Training of an NLU tagger: joint loss of intents and slots, early stopping, optionally DP-SGD."""

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
from leakage_tasks.training.rows import explain_out_of_memory, select_device
from leakage_tasks.training.saved_model import Saved
from leakage_tasks.training.tagger.model import fresh_tagger, set_unknown_embedding
from leakage_tasks.training.tagger.private import check_memory, use_row_layers
from leakage_tasks.training.tagger.recipe import DEFAULT, NLURecipe
from leakage_tasks.training.tagger.rows import RowScores, TaggedRows, check_losses, score_tagger, scored

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from leakage_tasks.data.utterances import Utterance
    from leakage_tasks.models.nlu_tagger import NLUTagger

__all__ = ["NLURecipe", "OnEpoch", "RowScores", "TaggerScores", "TrainedTagger", "score_tagger", "train_tagger"]

CLIP = 5.0
"""Maximum norm of the gradients."""

_Steps = PlainSteps | PrivateSteps
_EpochContext = AbstractContextManager[None]


@dataclass(frozen=True)
class TaggerScores:
    """Scores of one epoch: losses in nats per row, intent accuracy and slot F1 on the validation rows, and ε.

    ``training`` is the mean of the losses during the epoch's steps. Validation scores are as in
    :class:`~leakage_tasks.training.tagger.rows.RowScores`, and None without validation rows. ``epsilon`` is None in
    ordinary training.
    """

    training: float
    validation: float | None = None
    intent_accuracy: float | None = None
    slot_f1: float | None = None
    epsilon: float | None = None


@dataclass(frozen=True)
class TrainedTagger(Saved):
    """A model in evaluation mode with its tokenizer, the scores of every epoch, and the epoch (from 1) of its weights.

    ``guarantee`` is DP-SGD's guarantee for the training rows; None in ordinary training. The tokenizer contains every
    word of the training data: pass their path as ``like`` to :meth:`save`, so that only their readers can read it.
    """

    model: NLUTagger
    tokenizer: PreTrainedTokenizerFast
    history: list[TaggerScores] = field(default_factory=list)
    best_epoch: int = 0
    guarantee: PrivacyGuarantee | None = None


OnEpoch = Callable[[int, "NLUTagger", Sequence[TaggerScores]], None]
"""A function that is called after each epoch (counted from 1) with the model in evaluation mode and the scores so
far."""


@explain_out_of_memory("lower --batch-size, --embedding-size or --hidden-size")
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
    """Train a tagger with Adam, in batches of rows of similar length, with gradients clipped to a norm of 5.

    The loss is the paper's (section 4.1): the cross-entropy of the intent plus the CRF's negative log-likelihood of the
    tags. If no training row contains ``<unk>``, it gets the mean of all words' embeddings after each epoch. On a CPU
    the result is reproducible with equal arguments and thread counts. Torch's global random state is unchanged.

    Args:
        rows: The training rows.
        validation: The validation rows. Rows with an intent or a tag that is not in ``rows`` are left out of the loss,
            with one warning, and count as wrong.
        recipe: Options of the model and the training. With ``patience`` the model has the weights of the epoch with the
            lowest validation loss, otherwise of the last epoch.
        words: Additional texts whose words the model must know, such as the values of a canary's slots.
        seed: Random seed.
        device: By default the first GPU, or the CPU.
        private: Options of DP-SGD. Its guarantee covers the rows' gradients; vocabulary, intents, tags and validation
            rows are not covered.
        on_epoch: Called after each epoch.

    Returns:
        The model, its tokenizer and its scores.

    Raises:
        OptionError: There are no rows, or there is patience without a validation row that has a loss.
        LeakageError: DP-SGD does not support the model, memory is too small, or a loss or weight is not finite.
    """
    if not rows:
        raise OptionError("there are no utterances to train on: give at least one utterance of each intent")
    if recipe.patience is not None and not validation:
        raise OptionError("patience needs the validation loss: give validation utterances too")
    run = _TaggerTraining(rows, validation, recipe, words, seed, select_device(device))
    steps, context = run.steps(private)
    try:
        history = run.train(steps, context, on_epoch)
    finally:
        with context:
            steps.close()
    epoch = len(history) if run.stopping is None else run.stopping.restore(run.model)
    return TrainedTagger(run.model, run.tokenizer, history, epoch, steps.guarantee())


class _TaggerTraining:
    """A tagger, its encoded rows, and early stopping."""

    def __init__(
        self,
        rows: Sequence[Utterance],
        validation: Sequence[Utterance],
        recipe: NLURecipe,
        words: Iterable[str],
        seed: int,
        device: torch.device,
    ) -> None:
        self.recipe, self.seed = recipe, seed
        self.model, self.tokenizer = fresh_tagger(rows, validation, recipe, words, seed)
        torch.nn.Module.to(self.model, device)
        self.training = TaggedRows(rows, self.tokenizer, self.model)
        self.checks = TaggedRows(validation, self.tokenizer, self.model) if validation else None
        if self.checks is not None:
            check_losses(self.checks, needed=recipe.patience is not None)
        self.stopping = None
        if recipe.patience is not None:
            self.stopping = EarlyStopping[TaggerScores](
                recipe.patience, lambda scores: (scores.validation,), self.model.state_dict
            )

    def steps(self, private: DpConfig | None) -> tuple[_Steps, _EpochContext]:
        """Return the optimizer's steps, and the context for training."""
        model, recipe = self.model, self.recipe
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        optimiser = torch.optim.Adam(trained, lr=recipe.learning_rate, fused=True)
        context: _EpochContext = nullcontext()
        if private is not None:
            check_memory(model, len(self.training), recipe.batch_size)
            context = use_row_layers(model.train())
        sizes = {"batch_size": recipe.batch_size, "epochs": recipe.epochs, "seed": self.seed}
        with context:
            return make_steps(model, optimiser, private, self.training.lengths, **sizes, clip=CLIP), context

    def train(self, steps: _Steps, context: _EpochContext, on_epoch: OnEpoch | None) -> list[TaggerScores]:
        """Train until all epochs are done or patience ends. Return every epoch's scores."""
        epochs, stream = self.recipe.epochs, random.Random(f"rows:{self.seed}")
        unknown_trained = any(UNKNOWN in row.words for row in self.training.rows)

        def evaluate(epoch: int, losses: EpochLosses) -> TaggerScores:
            if not unknown_trained:
                set_unknown_embedding(self.model, self.tokenizer)
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
            epoch_context=lambda: context,
            shown=lambda scores: f"{scores.training:.2f} nats/row",
            on_epoch=on_epoch,
            stop=None if self.stopping is None else self.stopping.update,
        ).run(progress(epochs * steps.steps_an_epoch, "training"))

    def _loss(self, batch: list[int]) -> BatchLoss:
        loss = self.model(**self.training.batch(batch)).loss
        return BatchLoss(loss, loss.detach() * len(batch), len(batch))

    def _check_finite(self, epoch: int, last: TaggerScores) -> None:
        losses = [loss for loss in (last.training, last.validation) if loss is not None]
        # The weights after the last step may be NaN without affecting a loss.
        if not (all(map(math.isfinite, losses)) and all(weight.isfinite().all() for weight in self.model.parameters())):
            rate = self.recipe.learning_rate
            raise LeakageError(f"the loss is not finite after epoch {epoch}: lower --learning-rate (it is {rate:g})")

    def _scores(self, training: float, epsilon: float | None) -> TaggerScores:
        self.model.eval()
        if self.checks is None:
            return TaggerScores(training, epsilon=epsilon)
        scores = scored(self.model, self.checks)
        return TaggerScores(training, scores.loss, scores.intent_accuracy, scores.slot_f1, epsilon)
