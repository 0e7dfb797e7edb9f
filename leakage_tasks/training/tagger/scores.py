"""How well an NLU tagger does: its loss, intents that are right, slots that are right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from leakage_tasks.training.tagger.rows import TaggedRows

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from leakage_tasks.data.utterances import Utterance
    from leakage_tasks.models.nlu_tagger import NLUTagger


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
    was_training = model.training
    config: Any = model.config
    model.eval()
    try:
        return scored(model, TaggedRows(rows, tokenizer, config, model.device), batch_size)
    finally:
        model.train(was_training)


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


def _read(model: NLUTagger, batch: dict[str, torch.Tensor]) -> tuple[list[float], list[int], list[list[int]]]:
    """Cost, likeliest intent and likeliest tags of each row."""
    output = model(**{name: batch[name] for name in batch if name not in ("labels", "tags")})
    mask = batch["attention_mask"].bool()
    costs = model.costs(output.logits, output.emissions, mask, batch["labels"], batch["tags"])
    return costs.tolist(), output.logits.argmax(-1).tolist(), model.decode(output.emissions, mask)
