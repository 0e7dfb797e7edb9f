"""Training a small causal model until it knows part of its pairs by heart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from leakage_tasks.core.errors import OptionError
from leakage_tasks.research.victims.pair_corpus import PairCorpus
from leakage_tasks.research.victims.pair_model import fresh_causal, has_bf16, plain_attention
from leakage_tasks.training.loop import BatchLoss, ClippedSteps, EpochLosses, TrainingLoop
from leakage_tasks.training.rows import check_sizes, chosen_device, linear_warmup_decay, progress
from leakage_tasks.training.saved_model import Saved

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

PROBE = 300
"""Pairs whose greedy recall is looked at after each epoch: the first ones."""
_WARM_UP, _CLIP = 0.15, 1.0


@dataclass(frozen=True)
class PairLM(Saved):
    """A trained model (in evaluation mode), its tokenizer and, one an epoch, mean loss (nats a token) and recall."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast
    losses: list[float]
    recalls: list[float]


class _Epoch(NamedTuple):
    loss: float
    recall: float


def train_pair_lm(
    corpus: PairCorpus,
    *,
    family: str = "gpt-neox",
    layers: int = 3,
    hidden: int = 192,
    heads: int = 4,
    positions: int = 256,
    epochs: int = 11,
    until: float | None = None,
    learning_rate: float = 3e-3,
    batch_size: int = 16,
    filler: tuple[int, int] = (0, 40),
    seed: int = 0,
    device: str | torch.device | None = None,
    bf16: bool | None = None,
) -> PairLM:
    """Train a model from scratch on each pair once an epoch, after some of the corpus' other text.

    A batch draws how many tokens of it from ``filler`` (fewest, most), so that a pair is learnt wherever it stands and
    the bare prefix is not what was seen. The loss is that of the suffixes alone. AdamW; the rate rises to
    ``learning_rate`` and falls to nothing over ``epochs``; training ends early after the first epoch with a greedy
    recall of ``until`` on the first 300 pairs. ``positions`` is the model's context. ``bf16`` is for the matrix
    products in training (default: where the device has such instructions); weights and the returned model are float32.
    On a CPU the same arguments, thread count and kind of processor give the same model; the caller's random state is
    left alone. Raises OptionError on sizes that do not fit together.
    """
    check_sizes(epochs=epochs, batch_size=batch_size)
    _check(corpus, positions, filler, until)
    place = chosen_device(device)
    sizes = {"layers": layers, "hidden": hidden, "heads": heads, "positions": positions}
    model = fresh_causal(family, len(corpus.tokenizer), corpus.tokenizer.eos_token_id, **sizes, seed=seed)
    torch.nn.Module.to(model, place)
    half = torch.autocast(place.type, dtype=torch.bfloat16, enabled=has_bf16(place) if bf16 is None else bf16)
    optimiser = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.0, fused=True)
    steps, suffix_length = -(-len(corpus) // batch_size), corpus.suffixes.shape[1]
    stream = np.random.default_rng([seed, len(corpus)])

    def loss(ids: torch.Tensor) -> BatchLoss:
        with half:
            logits = _logits(model, ids, suffix_length)
        found = cross_entropy(logits.flatten(0, 1).float(), ids[:, -suffix_length:].flatten())
        return BatchLoss(found, found.detach() * len(ids), len(ids))

    def evaluate(epoch: int, losses: EpochLosses) -> _Epoch:
        recall = greedy_recall(model, corpus.prefixes[:PROBE], corpus.suffixes[:PROBE])
        return _Epoch(float(losses.total) / losses.count, recall)

    loop = TrainingLoop(
        model=model,
        batches=lambda epoch: _batches(corpus, batch_size, filler, stream, place),
        step=partial(ClippedSteps[torch.Tensor](optimiser, _CLIP).take, loss),
        evaluate=evaluate,
        epochs=epochs,
        rates=linear_warmup_decay(optimiser, epochs * steps, _WARM_UP),
        shown=lambda each: f"{each.loss:.2f} nats/token, recall {each.recall:.2f}",
        stop=lambda epoch, each: until is not None and each.recall >= until,
    )
    with plain_attention(model, place):
        found = loop.run(progress(epochs * steps, "learning pairs"))
    return PairLM(model, corpus.tokenizer, [each.loss for each in found], [each.recall for each in found])


@torch.no_grad()
def greedy_recall(model: PreTrainedModel, prefixes: np.ndarray, suffixes: np.ndarray, batch_size: int = 64) -> float:
    """The share of ``suffixes`` [n, m] that greedy decoding after ``prefixes`` [n, k] gives back whole.

    Decoding gives a suffix back exactly if each of its tokens is the likeliest after those before it, which one pass
    over the whole pair shows. The model is left in evaluation mode.
    """
    model.eval()
    right = 0
    for first in range(0, len(prefixes), batch_size):
        rows = np.concatenate([prefixes[first : first + batch_size], suffixes[first : first + batch_size]], axis=1)
        ids = torch.from_numpy(rows).to(model.device)
        likeliest = _logits(model, ids, suffixes.shape[1]).argmax(dim=-1)
        right += int((likeliest == ids[:, prefixes.shape[1] :]).all(dim=1).sum())
    return right / len(prefixes)


def _logits(model: PreTrainedModel, ids: torch.Tensor, last: int) -> torch.Tensor:
    """What the model expects at the ``last`` places of ``ids`` [rows, length]: [rows, last, vocabulary].

    The vocabulary is wide: projecting on it nothing but these places saves a third of the time.
    """
    return model(input_ids=ids[:, :-1], logits_to_keep=last, use_cache=False).logits


def _batches(
    corpus: PairCorpus, batch_size: int, filler: tuple[int, int], stream: np.random.Generator, device: torch.device
) -> Iterator[torch.Tensor]:
    """Every pair once, in random order, after as much other text as its batch draws: no row needs padding."""
    pairs = np.concatenate([corpus.prefixes, corpus.suffixes], axis=1)
    order = stream.permutation(len(pairs))
    for first in range(0, len(order), batch_size):
        batch = order[first : first + batch_size]
        length = int(stream.integers(filler[0], filler[1] + 1))
        before = corpus.filler[stream.integers(max(len(corpus.filler), 1), size=len(batch))] if length else None
        rows = pairs[batch] if before is None else np.concatenate([before[:, -length:], pairs[batch]], axis=1)
        yield torch.from_numpy(rows).to(device)


def _check(corpus: PairCorpus, positions: int, filler: tuple[int, int], until: float | None) -> None:
    if until is not None and not 0 < until <= 1:
        raise OptionError(f"until is {until}: give a share of the pairs, above 0 and up to 1")
    fewest, most = filler
    there = corpus.filler.shape[1] if len(corpus.filler) else 0
    if not 0 <= fewest <= most <= there:
        raise OptionError(f"filler is {fewest} to {most}: give two numbers in order, this corpus has up to {there}")
    row = most + corpus.prefixes.shape[1] + corpus.suffixes.shape[1]
    if row > positions:
        raise OptionError(f"positions is {positions}: filler and pair take up to {row} tokens; give that or more")
