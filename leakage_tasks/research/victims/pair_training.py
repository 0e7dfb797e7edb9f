"""Training of small causal models from scratch until they have memorized part of their pairs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.progress import progress
from leakage_tasks.research.victims.base import initialize
from leakage_tasks.research.victims.pair_corpus import PairCorpus
from leakage_tasks.training.loop import BatchLoss, ClippedSteps, EpochLosses, TrainingLoop
from leakage_tasks.training.rows import check_sizes, linear_warmup_decay, select_device
from leakage_tasks.training.saved_model import Saved

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

PROBE = 300
"""Number of pairs for the greedy recall after each epoch; the first pairs are used."""
_READ_ROWS = 16
"""Rows per batch when a model is trained on other text after its pairs."""
_WARM_UP = 0.15


@dataclass(frozen=True, kw_only=True)
class PairTraining:
    """Size and training of a small GPT-NeoX of pairs, without dropout and with tied embeddings."""

    layers: int = 3
    """Number of layers."""
    hidden: int = 192
    """Units per layer."""
    heads: int = 4
    """Attention heads; ``hidden`` must be a multiple of twice their number."""
    positions: int = 256
    """Context length of the model."""
    epochs: int = 11
    """Maximum number of epochs; each epoch reads every pair once."""
    until: float | None = None
    """Greedy recall on the first 300 pairs at which training stops after an epoch; None: train all epochs."""
    learning_rate: float = 3e-3
    """Highest rate, which falls to 0 over ``epochs``."""
    batch_size: int = 16
    """Pairs per batch."""
    filler: tuple[int, int] = (0, 40)
    """The range of the number of tokens of other text before a pair, drawn for each batch.

    With this text a pair is learnt at any position, not only after an empty context.
    """


@dataclass(frozen=True)
class PairLM(Saved):
    """A trained model in evaluation mode, its tokenizer, and by epoch the mean loss (nats per token) and recall."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast
    losses: list[float]
    recalls: list[float]


class _Epoch(NamedTuple):
    loss: float
    recall: float


def train_pair_lm(
    corpus: PairCorpus,
    how: PairTraining,
    *,
    seed: int = 0,
    device: str | torch.device | None = None,
    bf16: bool | None = None,
) -> PairLM:
    """Train a model from scratch on each pair once per epoch, after some of the corpus' other text.

    Only suffixes contribute to the loss. The optimizer is AdamW. ``bf16`` concerns matrix products in training
    (default: if the device supports it); weights and the returned model are float32. On a CPU, equal arguments, thread
    counts and processors give equal models. The caller's random state does not change. Raises OptionError for sizes
    that do not fit together.
    """
    check_sizes(epochs=how.epochs, batch_size=how.batch_size)
    _check(corpus, how)
    torch_device = select_device(device)
    model = _fresh(how, corpus.tokenizer, seed)
    torch.nn.Module.to(model, torch_device)
    half = torch.autocast(
        torch_device.type, dtype=torch.bfloat16, enabled=has_bf16(torch_device) if bf16 is None else bf16
    )
    optimiser = torch.optim.AdamW(model.parameters(), how.learning_rate, (0.9, 0.98), weight_decay=0.0, fused=True)
    steps, suffix_length = how.epochs * -(-len(corpus) // how.batch_size), corpus.suffixes.shape[1]
    stream = np.random.default_rng([seed, len(corpus)])

    def loss(ids: torch.Tensor) -> BatchLoss:
        with half:
            logits = _logits(model, ids, suffix_length)
        batch_loss = cross_entropy(logits.flatten(0, 1).float(), ids[:, -suffix_length:].flatten())
        return BatchLoss(batch_loss, batch_loss.detach() * len(ids), len(ids))

    def evaluate(epoch: int, losses: EpochLosses) -> _Epoch:
        recall = greedy_recall(model, corpus.prefixes[:PROBE], corpus.suffixes[:PROBE])
        return _Epoch(float(losses.total) / losses.count, recall)

    loop = TrainingLoop(
        model=model,
        batches=lambda epoch: _batches(corpus, how, stream, torch_device),
        step=partial(ClippedSteps[torch.Tensor](optimiser).take, loss),
        evaluate=evaluate,
        epochs=how.epochs,
        rates=linear_warmup_decay(optimiser, steps, _WARM_UP),
        shown=lambda epoch_result: f"{epoch_result.loss:.2f} nats/token, recall {epoch_result.recall:.2f}",
        stop=lambda epoch, epoch_result: how.until is not None and epoch_result.recall >= how.until,
    )
    with plain_attention(model, torch_device):
        history = loop.run(progress(steps, "learning pairs"))
    return PairLM(
        model,
        corpus.tokenizer,
        [epoch_result.loss for epoch_result in history],
        [epoch_result.recall for epoch_result in history],
    )


def read_on(model: PreTrainedModel, corpus: PairCorpus, steps: int, learning_rate: float, seed: int = 0) -> None:
    """Train on ``steps`` batches of 16 rows of the corpus' other text with AdamW; all tokens are learnt.

    The model is left in evaluation mode. The caller's random state does not change.
    """
    optimiser = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.0)
    half = torch.autocast(model.device.type, dtype=torch.bfloat16, enabled=has_bf16(model.device))
    model.train()
    with plain_attention(model, model.device):
        for rows in rows_read(len(corpus.filler), steps, seed):
            ids = torch.from_numpy(corpus.filler[rows]).to(model.device)
            with half:
                logits = model(input_ids=ids[:, :-1], use_cache=False).logits
            loss = cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten())
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
    model.eval()


def rows_read(count: int, steps: int, seed: int = 0) -> np.ndarray:
    """Return the indices of the rows, of ``count``, that each step of :func:`read_on` reads [steps, 16]."""
    stream = np.random.default_rng([seed, steps])
    return np.array([stream.integers(count, size=_READ_ROWS) for _ in range(steps)])


@torch.no_grad()
def greedy_recall(model: PreTrainedModel, prefixes: np.ndarray, suffixes: np.ndarray, batch_size: int = 64) -> float:
    """Return the share of ``suffixes`` [n, m] that greedy decoding after ``prefixes`` [n, k] reproduces completely.

    Decoding reproduces a suffix if each of its tokens is the likeliest after the tokens before it, so one forward pass
    over the pair suffices. The model is left in evaluation mode.
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
    """Return logits for the ``last`` positions of ``ids`` [rows, length]: [rows, last, vocabulary].

    The vocabulary is large, so computing only these logits saves a third of the time.
    """
    return model(input_ids=ids[:, :-1], logits_to_keep=last, use_cache=False).logits


def _batches(
    corpus: PairCorpus, how: PairTraining, stream: np.random.Generator, device: torch.device
) -> Iterator[torch.Tensor]:
    """Yield every pair once in random order, each batch after a random number of tokens of other text."""
    pairs = np.concatenate([corpus.prefixes, corpus.suffixes], axis=1)
    order = stream.permutation(len(pairs))
    for first in range(0, len(order), how.batch_size):
        batch = order[first : first + how.batch_size]
        length = int(stream.integers(how.filler[0], how.filler[1] + 1))
        before = corpus.filler[stream.integers(max(len(corpus.filler), 1), size=len(batch))] if length else None
        rows = pairs[batch] if before is None else np.concatenate([before[:, -length:], pairs[batch]], axis=1)
        yield torch.from_numpy(rows).to(device)


def _check(corpus: PairCorpus, how: PairTraining) -> None:
    if how.until is not None and not 0 < how.until <= 1:
        raise OptionError(f"until is {how.until}: use a share of the pairs, above 0 and up to 1")
    fewest, most = how.filler
    available = corpus.filler.shape[1] if len(corpus.filler) else 0
    if not 0 <= fewest <= most <= available:
        raise OptionError(f"filler is {fewest} to {most}: use two numbers in order; this corpus has up to {available}")
    row = most + corpus.prefixes.shape[1] + corpus.suffixes.shape[1]
    if row > how.positions:
        raise OptionError(
            f"positions is {how.positions}: filler and pair have up to {row} tokens; use that number or more"
        )


def _fresh(how: PairTraining, tokenizer: PreTrainedTokenizerFast, seed: int) -> PreTrainedModel:
    """Return an untrained model. Raises OptionError for sizes that do not fit together."""
    from transformers import AutoModelForCausalLM, GPTNeoXConfig

    check_sizes(layers=how.layers, hidden=how.hidden, heads=how.heads, positions=how.positions)
    if how.hidden % (2 * how.heads):
        raise OptionError(
            f"hidden is {how.hidden} and heads {how.heads}: use a hidden size that is a multiple of twice the heads"
        )
    config = GPTNeoXConfig(
        vocab_size=len(tokenizer),
        hidden_size=how.hidden,
        num_hidden_layers=how.layers,
        num_attention_heads=how.heads,
        intermediate_size=4 * how.hidden,
        max_position_embeddings=how.positions,
        # Embeddings are most of a small model; one table is learnt faster than two.
        tie_word_embeddings=True,
    )
    return initialize(AutoModelForCausalLM, config, tokenizer, seed)


@contextmanager
def plain_attention(model: PreTrainedModel, device: torch.device) -> Iterator[None]:
    """Use plain matrix products for attention on a CPU, because the fused gradient is slower for few tokens."""
    fused = model.config._attn_implementation
    if device.type == "cpu":
        model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(fused)


def has_bf16(device: torch.device) -> bool:
    """Return True if ``device`` has instructions for bfloat16 products; older PyTorch reports False for CPUs."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return any(capabilities.get(name) for name in ("avx512_bf16", "amx_bf16", "sve_bf16"))
