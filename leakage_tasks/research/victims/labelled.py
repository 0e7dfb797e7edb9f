"""Labelled rows as a classifier reads them, and how well it does on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch.nn.functional import cross_entropy

from leakage_tasks.core.errors import OptionError
from leakage_tasks.research.victims.docstrings import Row
from leakage_tasks.training.rows import padded, token_rows

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def accuracy(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[Row],
    *,
    max_length: int = 128,
    batch_size: int = 128,
) -> float:
    """Share of ``rows`` whose label ``model`` finds likeliest. Raises OptionError on no rows or a label it lacks."""
    if not rows:
        raise OptionError("there are no rows to judge the classifier by: give one at least")
    named = {int(number): label for number, label in (model.config.id2label or {}).items()}
    names = [named[number] for number in sorted(named)]
    labelled = LabelledRows(tokenizer, rows, names, max_length, model.device)
    was_training = model.training
    model.eval()
    try:
        return scores(model, labelled, batch_size)[1]
    finally:
        model.train(was_training)


class LabelledRows:
    """Token rows and the numbers of their labels, ready to be put on a device by the batch."""

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        rows: Sequence[Row],
        labels: Sequence[str],
        max_length: int,
        device: torch.device,
    ) -> None:
        """Raises OptionError on a label that is not among ``labels`` and on a tokenizer that cannot pad."""
        if tokenizer.pad_token_id is None:
            raise OptionError("the tokenizer has no padding token: set one (tokenizer.pad_token = tokenizer.eos_token)")
        numbers = {label: number for number, label in enumerate(labels)}
        unknown = next((label for _, label in rows if label not in numbers), None)
        if unknown is not None:
            raise OptionError(f"label {unknown!r} is not among the {len(labels)} labels: add it, or correct the row")
        self.rows = token_rows(tokenizer, [text for text, _ in rows], max_length)
        self.lengths = [len(row) for row in self.rows]
        self._numbers = torch.tensor([numbers[label] for _, label in rows], dtype=torch.long)
        self._padding, self._device = int(tokenizer.pad_token_id), device

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, places: Sequence[int]) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        """The model's inputs for these rows, and their labels' numbers [rows]."""
        inputs = padded([self.rows[place] for place in places], self._padding, self._device)
        return inputs, self._numbers[list(places)].to(self._device)


@torch.no_grad()
def scores(model: PreTrainedModel, rows: LabelledRows, batch_size: int = 128) -> tuple[float, float]:
    """(mean loss in nats, share of rows that are right) of a model in evaluation mode."""
    order = sorted(range(len(rows)), key=lambda place: rows.lengths[place])
    loss, right = 0.0, 0
    for start in range(0, len(order), batch_size):
        inputs, labels = rows.batch(order[start : start + batch_size])
        logits = model(**inputs).logits.float()
        loss += float(cross_entropy(logits, labels, reduction="sum"))
        right += int((logits.argmax(-1) == labels).sum())
    return loss / len(order), right / len(order)
