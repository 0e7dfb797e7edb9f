"""What is kept of a training on its way: the best epoch's weights, and a folder an epoch."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from leakage_tasks.core.atomic import check_place, replacing
from leakage_tasks.core.errors import LeakageError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


class Best:
    """The weights of the epoch of least validation loss (of equal ones the first), till patience is at an end."""

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self._epoch, self._loss = 0, math.inf
        self._weights: dict[str, torch.Tensor] = {}

    def is_past(self, epoch: int, loss: float, model: PreTrainedModel) -> bool:
        """Whether the best of the epochs so far is ``patience`` of them back; ``epoch`` ended with ``loss``."""
        if not self._epoch or loss < self._loss:
            self._epoch, self._loss = epoch, math.inf if math.isnan(loss) else loss
            self._weights = {name: value.clone() for name, value in model.state_dict().items()}
        return epoch - self._epoch >= self._patience

    def restored(self, model: PreTrainedModel) -> int:
        """Give ``model`` the best weights; the epoch they are of."""
        model.load_state_dict(self._weights)
        return self._epoch


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
        with replacing(self._place(epoch)) as beside:
            model.save_pretrained(beside)
            tokenizer.save_pretrained(beside)

    def _place(self, epoch: int) -> Path:
        return self._folder / f"epoch-{epoch:02d}"
