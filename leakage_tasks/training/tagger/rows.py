"""Tagged utterances as an NLU tagger reads them, encoded once, gathered by the batch; and how well it does on them."""

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
    """Utterances on a device: the number of each word, of each tag and of the intent.

    A row whose intent or one of whose tags the model lacks has no loss: :attr:`lacks` names what is lacking, and in a
    batch number 0 stands for it. Each distinct word is encoded once, its characters too, so that a batch only looks
    them up.
    """

    def __init__(self, rows: Sequence[Utterance], tokenizer: PreTrainedTokenizerFast, model: NLUTagger) -> None:
        """Encoded for ``model``, on its device. Raises OptionError where there are no rows, or one without words."""
        if not rows or not all(row.words for row in rows):
            raise OptionError("utterances are missing, or one has no words: give one at least, each with its words")
        config: Any = model.config
        device = model.device
        self.rows = rows
        self.lengths = [len(row.words) for row in rows]
        words = dict.fromkeys(word for row in rows for word in row.words)
        encoded = nlu_inputs([list(words)], tokenizer, config)
        # Number 0 is the place after an utterance's end.
        self._ids = _after_nothing(encoded["input_ids"][0], config.pad_token_id).to(device)
        self._characters = _after_nothing(encoded["characters"][0], 0).to(device) if config.characters else None
        places = {word: place for place, word in enumerate(words, 1)}
        self._words = _padded([[places[word] for word in row.words] for row in rows], device)
        tags = {tag: number for number, tag in enumerate(config.tags)}
        self._tags = _padded([[tags.get(tag, 0) for tag in row.tags] for row in rows], device)
        intents: Any = config.label2id
        self._labels = torch.tensor([intents.get(row.intent, 0) for row in rows], device=device)
        self.lacks = [_lacking(row, intents, tags) for row in rows]

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, places: Sequence[int]) -> dict[str, Tensor]:
        """What the model's ``forward`` takes for these rows, labels and tags included, as long as the longest is."""
        longest = max(self.lengths[place] for place in places)
        chosen = torch.tensor(places, device=self._words.device)
        words = self._words[chosen, :longest]
        found = {
            "input_ids": self._ids[words],
            "attention_mask": (words > 0).long(),
            "labels": self._labels[chosen],
            "tags": self._tags[chosen, :longest],
        }
        return found if self._characters is None else found | {"characters": self._characters[words]}


def check_priced(rows: TaggedRows, *, needed: bool) -> None:
    """Warn of validation rows without a loss. Raises OptionError where a loss is ``needed`` and no row has one."""
    without = [place for place, lacks in enumerate(rows.lacks) if lacks]
    if not without:
        return
    first = f"the first, number {without[0] + 1}, has {rows.lacks[without[0]]}"
    left = f"{len(without):,} of {len(rows):,} validation utterances have an intent or a tag that no training one has"
    if needed and len(without) == len(rows):
        raise OptionError(f"{left} ({first}), and patience stops by their loss: give others, or more to train on")
    log.warning("%s (%s): they are outside the loss, and count as wrong", left, first)


def _lacking(row: Utterance, intents: Container[str], tags: Container[str]) -> str | None:
    """The intent or the first tag that is not among those known; None where all are."""
    if row.intent not in intents:
        return f"intent {row.intent!r}"
    return next((f"tag {tag!r}" for tag in row.tags if tag not in tags), None)


def _after_nothing(values: Tensor, nothing: int) -> Tensor:
    """``values`` [n, …] with a first one more, all ``nothing``."""
    return torch.cat([torch.full_like(values[:1], nothing), values])


def _padded(rows: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True).to(device)


@dataclass(frozen=True)
class RowScores:
    """Scores on ``rows`` utterances, of which the intents of ``intents_right`` are right.

    ``loss`` is the mean of −ln P(intent, tags | words) in nats over the ``priced`` rows, those whose intent and tags
    the model knows; None where there is none. ``slot_f1`` is that of whole slots as conlleval counts them (seqeval's
    default), 1 where there are no slots and none is found.
    """

    loss: float | None
    slot_f1: float
    intents_right: int
    rows: int
    priced: int

    @property
    def intent_accuracy(self) -> float:
        """Share of the rows whose intent is found; one the model lacks is never."""
        return self.intents_right / self.rows


def score_tagger(
    model: NLUTagger, tokenizer: PreTrainedTokenizerFast, rows: Sequence[Utterance], *, batch_size: int = 256
) -> RowScores:
    """Scores of ``model`` on ``rows``, whose intents and tags it need not know; see :class:`RowScores`.

    Raises OptionError on no rows.
    """
    with evaluating(model):
        return scored(model, TaggedRows(rows, tokenizer, model), batch_size)


@torch.no_grad()
def scored(model: NLUTagger, rows: TaggedRows, batch_size: int = 256) -> RowScores:
    """Scores of a model in evaluation mode."""
    from seqeval.metrics import f1_score

    order = sorted(range(len(rows)), key=lambda place: rows.lengths[place])
    config: Any = model.config
    total, right = 0.0, 0
    found: list[list[str]] = [[] for _ in order]
    for start in range(0, len(order), batch_size):
        places = order[start : start + batch_size]
        costs, guesses, paths = _read(model, rows.batch(places))
        for place, cost, guess, path in zip(places, costs, guesses, paths, strict=True):
            total += 0.0 if rows.lacks[place] else cost
            right += config.id2label[guess] == rows.rows[place].intent
            found[place] = [config.tags[number] for number in path]
    priced = rows.lacks.count(None)
    truth = [list(row.tags) for row in rows.rows]
    # With 1 for a share of nothing, F1 is 0 unless there are neither slots nor guesses.
    f1 = f1_score(truth, found, zero_division=1)
    return RowScores(total / priced if priced else None, float(f1), right, len(order), priced)


def _read(model: NLUTagger, batch: dict[str, Tensor]) -> tuple[list[float], list[int], list[list[int]]]:
    """Cost, likeliest intent and likeliest tags of each row."""
    output = model(**{name: batch[name] for name in batch if name not in ("labels", "tags")})
    mask = batch["attention_mask"].bool()
    costs = model.costs(output.logits, output.emissions, mask, batch["labels"], batch["tags"])
    return costs.tolist(), output.logits.argmax(-1).tolist(), model.decode(output.emissions, mask)
