"""What is kept of a training on its way: the best epoch's weights, and a folder an epoch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from leakage_tasks.core.atomic import check_place
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.training.saved_model import save

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

R = TypeVar("R")


class EarlyStopping(Generic[R]):
    """Keeps the weights of the best epoch (of equal ones the first), and tells when ``patience`` has brought none."""

    def __init__(
        self,
        patience: int | None,
        score: Callable[[R], Sequence[float | None]],
        weights: Callable[[], Mapping[str, torch.Tensor]],
    ) -> None:
        """``score`` is what an epoch's record is judged by: lower is better.

        Further numbers of it decide where the first are equal; what is missing or no number is worst. ``weights`` gives
        those of now. Without ``patience`` no epoch is the last.
        """
        self._patience, self._score_of, self._weights_of = patience, score, weights
        self._score: tuple[float, ...] = ()
        self.best_epoch = 0
        self.weights: dict[str, torch.Tensor] = {}

    def update(self, epoch: int, record: R) -> bool:
        """Note an epoch (from 1); whether training ends with it."""
        score = tuple(math.inf if each is None or math.isnan(each) else each for each in self._score_of(record))
        if not self.best_epoch or score < self._score:
            self.best_epoch, self._score = epoch, score
            self.weights = {name: value.detach().clone() for name, value in self._weights_of().items()}
        return self._patience is not None and epoch - self.best_epoch >= self._patience

    def restore(self, model: PreTrainedModel) -> int:
        """Give ``model`` the best weights; the epoch they are of."""
        model.load_state_dict(self.weights)
        return self.best_epoch


class Checkpoints:
    """A folder of models with their tokenizers, ``epoch-01`` and so on, each written whole or not at all."""

    def __init__(self, folder: Path) -> None:
        """Make the folder if it is not there. Raises LeakageError where it cannot be written to."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror
            raise LeakageError(f"{folder}: cannot be made ({reason}): give another folder for checkpoints") from None
        self._folder = folder
        check_place(self._place(1))

    def save(self, epoch: int, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        """Save an epoch's model, in place of an older one of that number."""
        save(model, tokenizer, self._place(epoch))

    def _place(self, epoch: int) -> Path:
        return self._folder / f"epoch-{epoch:02d}"
