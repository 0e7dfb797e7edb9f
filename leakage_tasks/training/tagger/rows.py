"""Tagged utterances encoded for an NLU tagger, and its scores on them."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.log import log
from leakage_tasks.models.nlu_inputs import nlu_inputs
from leakage_tasks.training.rows import evaluating

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from leakage_tasks.data.utterances import Utterance
    from leakage_tasks.models.nlu_tagger import NLUTagger


class TaggedRows:
    """Utterances on a device, as ids of words, tags and intents.

    A row has no loss if the model lacks its intent or a tag: :attr:`lacks` names this intent or tag, and in a batch it
    has the id 0. Each distinct word is encoded once, with its characters, and a batch looks it up.
    """

    def __init__(self, rows: Sequence[Utterance], tokenizer: PreTrainedTokenizerFast, model: NLUTagger) -> None:
        """Encode ``rows`` for ``model``, on its device. Raises OptionError without rows or if a row has no words."""
        if not rows or not all(row.words for row in rows):
            raise OptionError("there are no utterances, or an utterance has no words: give utterances with words")
        config: Any = model.config
        device = model.device
        self.rows = rows
        self.lengths = [len(row.words) for row in rows]
        words = dict.fromkeys(word for row in rows for word in row.words)
        encoded = nlu_inputs([list(words)], tokenizer, config)
        # Word number 0 is padding.
        self._ids = _with_padding(encoded["input_ids"][0], config.pad_token_id).to(device)
        self._characters = _with_padding(encoded["characters"][0], 0).to(device) if config.characters else None
        numbers = {word: number for number, word in enumerate(words, 1)}
        self._words = _padded([[numbers[word] for word in row.words] for row in rows], device)
        tags = {tag: number for number, tag in enumerate(config.tags)}
        self._tags = _padded([[tags.get(tag, 0) for tag in row.tags] for row in rows], device)
        intents: Any = config.label2id
        self._labels = torch.tensor([intents.get(row.intent, 0) for row in rows], device=device)
        self.lacks = [_lacking(row, intents, tags) for row in rows]

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, indices: Sequence[int]) -> dict[str, Tensor]:
        """Return the arguments of the model's ``forward`` for these rows, with labels and tags."""
        longest = max(self.lengths[index] for index in indices)
        chosen = torch.tensor(indices, device=self._words.device)
        words = self._words[chosen, :longest]
        inputs = {
            "input_ids": self._ids[words],
            "attention_mask": (words > 0).long(),
            "labels": self._labels[chosen],
            "tags": self._tags[chosen, :longest],
        }
        return inputs if self._characters is None else inputs | {"characters": self._characters[words]}


def check_losses(rows: TaggedRows, *, needed: bool) -> None:
    """Warn of validation rows without a loss. Raises OptionError if a loss is ``needed`` and no row has a loss."""
    without = [index for index, lacks in enumerate(rows.lacks) if lacks]
    if not without:
        return
    first = f"the first, number {without[0] + 1}, has {rows.lacks[without[0]]}"
    problem = f"{len(without):,} of {len(rows):,} validation utterances have an intent or a tag that is not in training"
    if needed and len(without) == len(rows):
        raise OptionError(
            f"{problem} ({first}), so patience has no loss: give other validation utterances, or more training data"
        )
    log.warning("%s (%s): they are left out of the loss, and count as wrong", problem, first)


def _lacking(row: Utterance, intents: Container[str], tags: Container[str]) -> str | None:
    """Return the intent or the first tag that the model lacks, as text for a message; None if it has all."""
    if row.intent not in intents:
        return f"intent {row.intent!r}"
    return next((f"tag {tag!r}" for tag in row.tags if tag not in tags), None)


def _with_padding(values: Tensor, padding: int) -> Tensor:
    """Return ``values`` [n, …] with an additional first entry of ``padding``."""
    return torch.cat([torch.full_like(values[:1], padding), values])


def _padded(rows: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True).to(device)


@dataclass(frozen=True)
class RowScores:
    """Scores on ``rows`` utterances, ``intents_right`` of them with the right intent.

    ``loss`` is the mean of −ln P(intent, tags | words) in nats over the ``priced`` rows, whose intent and tags the
    model has; None if there are no such rows. ``slot_f1`` is the F1 score of whole slots as in conlleval (seqeval's
    default), and 1 if there are neither slots nor predictions.
    """

    loss: float | None
    slot_f1: float
    intents_right: int
    rows: int
    priced: int

    @property
    def intent_accuracy(self) -> float:
        """Share of the rows with a right intent. Intents that the model lacks count as wrong."""
        return self.intents_right / self.rows


def score_tagger(
    model: NLUTagger, tokenizer: PreTrainedTokenizerFast, rows: Sequence[Utterance], *, batch_size: int = 256
) -> RowScores:
    """Compute the scores of ``model`` on ``rows``, which may have intents and tags that the model lacks.

    Args:
        model: The tagger.
        tokenizer: Its tokenizer.
        rows: The utterances.
        batch_size: Number of rows in a batch.

    Returns:
        The scores.

    Raises:
        OptionError: There are no rows.
    """
    with evaluating(model):
        return scored(model, TaggedRows(rows, tokenizer, model), batch_size)


@torch.no_grad()
def scored(model: NLUTagger, rows: TaggedRows, batch_size: int = 256) -> RowScores:
    """Compute the scores of a model in evaluation mode."""
    from seqeval.metrics import f1_score

    order = sorted(range(len(rows)), key=lambda index: rows.lengths[index])
    config: Any = model.config
    total, right = 0.0, 0
    predicted: list[list[str]] = [[] for _ in order]
    for start in range(0, len(order), batch_size):
        indices = order[start : start + batch_size]
        costs, guesses, paths = _predict(model, rows.batch(indices))
        for index, cost, guess, path in zip(indices, costs, guesses, paths, strict=True):
            total += 0.0 if rows.lacks[index] else cost
            right += config.id2label[guess] == rows.rows[index].intent
            predicted[index] = [config.tags[number] for number in path]
    priced = rows.lacks.count(None)
    truth = [list(row.tags) for row in rows.rows]
    # With zero_division=1, F1 is 1 if there are neither slots nor predictions.
    f1 = f1_score(truth, predicted, zero_division=1)
    return RowScores(total / priced if priced else None, float(f1), right, len(order), priced)


def _predict(model: NLUTagger, batch: dict[str, Tensor]) -> tuple[list[float], list[int], list[list[int]]]:
    """Return the cost, the most likely intent and the most likely tags of each row."""
    output = model(**{name: batch[name] for name in batch if name not in ("labels", "tags")})
    mask = batch["attention_mask"].bool()
    costs = model.costs(output.logits, output.emissions, mask, batch["labels"], batch["tags"])
    return costs.tolist(), output.logits.argmax(-1).tolist(), model.decode(output.emissions, mask)
