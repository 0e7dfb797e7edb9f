"""Training an encoder to fill masks: all of it, or only the parts that are not frozen.

Mix and Match (001), section 4.3.1, advises to train a classifier's generation head alone, with the encoder frozen.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import cross_entropy

from leakage_tasks.core.errors import OptionError
from leakage_tasks.data import Columns, format_of
from leakage_tasks.models.frankenstein import fresh_head
from leakage_tasks.training.learn_rows import Course, Shown, learn_rows
from leakage_tasks.training.loop import BatchLoss
from leakage_tasks.training.rows import check_length, check_sizes, chosen_device, padded, token_rows
from leakage_tasks.training.text_batches import IGNORED

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

MASKED, REPLACED_BY_MASK, REPLACED_AT_RANDOM = 0.15, 0.8, 0.1
"""BERT's shares: of tokens to predict; of those, shown as the mask; of those, shown as a random token."""
WORDS = 80
"""Words of a text to learn from at once."""
TOKENS = 128


@dataclass(frozen=True, kw_only=True)
class MaskedRecipe(Course):
    """How an encoder learns to fill masks: a course, on masks drawn anew each epoch."""

    max_length: int = 64
    """In tokens; texts are cut there."""
    device: str | torch.device | None = None
    """None: the first GPU, or the CPU."""


@dataclass(frozen=True)
class MaskedTraining:
    """A trained masked language model and its mean training loss in nats a masked token, one an epoch."""

    model: PreTrainedModel
    losses: list[float]


def train_head(
    classifier: Any,
    tokenizer: Any,
    text: str | Path,
    *,
    base: str | Path | None = None,
    epochs: int = 3,
    seed: int = 0,
    room: int | None = None,
    trust_remote_code: bool = False,
) -> MaskedTraining:
    """The classifier's encoder, bit for bit as it was, under a head trained to fill masks in the file ``text``.

    The head starts as that of the masked language model ``base``, or at random. ``room`` is the most tokens the
    encoder reads. Raises TargetError as :func:`~leakage_tasks.models.frankenstein.fresh_head`, OptionError for a
    tokenizer without mask token or a file without text, and PlantingError for a file that cannot be read.
    """
    texts = texts_of(text, "head")
    model = fresh_head(classifier, base, tokenizer=tokenizer, seed=seed, trust_remote_code=trust_remote_code)
    how = MaskedRecipe(epochs=epochs, max_length=min(TOKENS, room or TOKENS), seed=seed, device=model.device)
    return train_masked_lm(model, tokenizer, texts, how)


def texts_of(text: str | Path, what: str) -> list[str]:
    """The texts of a file for training a ``what``. Raises OptionError for none, and as :func:`public_texts`."""
    if found := list(public_texts(Path(text))):
        return found
    raise OptionError(f"text={text}: holds no text: give a public text to train the {what} on")


def public_texts(path: Path) -> Iterator[str]:
    """The texts of a file, cut every 80 words: a ``.txt`` as one running text, of other kinds the column ``text``.

    Raises PlantingError for a file of no known kind or one that cannot be read.
    """
    kind, wanted = format_of(path), Columns()
    rows = kind.texts(path, kind.survey(path, wanted), wanted)
    texts = (turn for turns in rows for turn in turns)
    for whole in ["".join(texts)] if kind.running else texts:
        words = iter(whole.split())
        while piece := list(islice(words, WORDS)):
            yield " ".join(piece)


def train_masked_lm(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], how: MaskedRecipe
) -> MaskedTraining:
    """Go on training ``model`` (in place) to fill masks in ``texts``, only those parameters that require a gradient.

    15 % of the tokens are predicted, masked afresh each epoch (80 % shown as the mask, 10 % as a random token, 10 %
    as they are). Modules whose parameters are all frozen stay in evaluation mode, without dropout. The model is
    returned in evaluation mode. On a CPU the same arguments and thread count give the same model; the caller's random
    state is left alone. Raises OptionError on a tokenizer without a mask token, no text, or nothing left to train.
    """
    check_sizes(epochs=how.epochs, batch_size=how.batch_size, max_length=how.max_length)
    check_length(how.max_length, getattr(model.config, "max_position_embeddings", None))
    _check(model, tokenizer, texts)
    place = chosen_device(how.device)
    torch.nn.Module.to(model, place)
    losses = learn_rows(
        model,
        token_rows(tokenizer, texts, how.max_length),
        partial(_loss, model, tokenizer),
        how,
        random.Random(f"masked:{how.seed}"),
        Shown(name="filling masks", unit="mask"),
        device=place,
        train_mode=lambda: train_unfrozen(model),
    )
    return MaskedTraining(model, losses)


def train_unfrozen(model: torch.nn.Module) -> None:
    """Put ``model`` into training mode, but for the modules whose parameters, if any, are all frozen.

    A module without parameters (dropout) goes with the one it stands in.
    """
    model.train()
    for module in model.modules():
        if {parameter.requires_grad for parameter in module.parameters()} == {False}:
            module.eval()


def mask_tokens(
    ids: torch.Tensor, maskable: torch.Tensor, mask: int, vocabulary: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """(shown, targets), both like ``ids`` [rows, length]; targets are ``IGNORED`` where nothing is to be predicted.

    ``maskable`` says which tokens may be chosen. Random tokens come from the whole vocabulary, as BERT's do.
    """
    chosen = (torch.rand(ids.shape, device=ids.device) < MASKED) & maskable
    fate = torch.rand(ids.shape, device=ids.device)
    shown = ids.masked_fill(chosen & (fate < REPLACED_BY_MASK), mask)
    at_random = chosen & (fate >= REPLACED_BY_MASK) & (fate < REPLACED_BY_MASK + REPLACED_AT_RANDOM)
    shown = torch.where(at_random, torch.randint(vocabulary, ids.shape, device=ids.device), shown)
    return shown, ids.masked_fill(~chosen, IGNORED)


def _loss(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: Sequence[Sequence[int]]) -> BatchLoss:
    """The loss of ``rows`` with tokens masked afresh: summed nats and how many are masked."""
    batch = padded(rows, tokenizer.pad_token_id, model.device)
    ids = batch["input_ids"]
    special = torch.tensor(tokenizer.all_special_ids, device=model.device)
    # With [PAD] among the special tokens nothing of the padding is chosen.
    shown, targets = mask_tokens(ids, ~torch.isin(ids, special), tokenizer.mask_token_id, len(tokenizer))
    chosen = targets != IGNORED
    loss = cross_entropy(_logits_at(model, chosen, shown, batch["attention_mask"]), targets[chosen], reduction="sum")
    counted = chosen.sum()
    return BatchLoss(loss / counted.clamp(min=1), loss.detach(), counted)


def _logits_at(
    model: PreTrainedModel, chosen: torch.Tensor, ids: torch.Tensor, attention_mask: torch.Tensor
) -> torch.Tensor:
    """The logits [chosen, vocabulary] at the places ``chosen`` [rows, length], in float32.

    The vocabulary is wide: projecting on it nothing but the chosen places makes a small model five times faster.
    """
    projection = model.get_output_embeddings()
    narrowed = projection and projection.register_forward_pre_hook(lambda _, inputs: (inputs[0][chosen],))
    try:
        logits = model(input_ids=ids, attention_mask=attention_mask).logits
    finally:
        if narrowed:
            narrowed.remove()
    return (logits[chosen] if logits.dim() == 3 else logits).float()


def _check(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> None:
    if tokenizer.mask_token_id is None or tokenizer.pad_token_id is None:
        raise OptionError("the tokenizer has no mask or no padding token: give one of a masked language model")
    if not texts:
        raise OptionError("there is no text to train on: give one at least")
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise OptionError("every parameter of the model is frozen: leave some to be trained")
