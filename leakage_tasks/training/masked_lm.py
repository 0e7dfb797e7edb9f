"""Training of an encoder, or of its parts that are not frozen, to fill masks.

Mix and Match, section 4.3.1, recommends training only a classifier's generation head, with the encoder frozen.
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
from leakage_tasks.training.learn_rows import AdamWConfig, ProgressLabels, learn_rows
from leakage_tasks.training.loop import BatchLoss
from leakage_tasks.training.rows import check_length, check_sizes, padded, select_device, token_rows
from leakage_tasks.training.text_batches import IGNORED

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

MASKED, REPLACED_BY_MASK, REPLACED_AT_RANDOM = 0.15, 0.8, 0.1
"""BERT's shares: tokens to predict; share of these replaced by the mask; share of these replaced by a random token."""
WORDS = 80
"""Number of words in a piece of a text."""
TOKENS = 128


@dataclass(frozen=True, kw_only=True)
class MaskedRecipe(AdamWConfig):
    """Options of training an encoder to fill masks. Each epoch has new random masks."""

    max_length: int = 64
    """Maximum number of tokens; longer texts are truncated."""
    device: str | torch.device | None = None
    """Device; None means the first GPU, or the CPU."""


@dataclass(frozen=True)
class MaskedTraining:
    """A trained masked language model and the mean training loss of each epoch, in nats per masked token."""

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
    max_tokens: int | None = None,
    trust_remote_code: bool = False,
) -> MaskedTraining:
    """Train a masked-language head for the classifier's frozen encoder on the file ``text``.

    Args:
        classifier: The classifier.
        tokenizer: Its tokenizer.
        text: File with public text.
        base: Model whose head is the initial head; by default the head starts at random.
        epochs: Number of epochs.
        seed: Random seed.
        max_tokens: Maximum number of tokens that the encoder reads.
        trust_remote_code: Run code that comes with ``base``.

    Returns:
        The model with the classifier's unchanged encoder and the new head, and its losses.

    Raises:
        TargetError: See :func:`~leakage_tasks.models.frankenstein.fresh_head`.
        OptionError: The tokenizer has no mask token, or the file has no text.
        PlantingError: The file cannot be read.
    """
    texts = training_texts(text, "head")
    model = fresh_head(classifier, base, tokenizer=tokenizer, seed=seed, trust_remote_code=trust_remote_code)
    recipe = MaskedRecipe(epochs=epochs, max_length=min(TOKENS, max_tokens or TOKENS), seed=seed, device=model.device)
    return train_masked_lm(model, tokenizer, texts, recipe)


def training_texts(text: str | Path, part: str) -> list[str]:
    """Return the texts of a file. ``part`` names the trained part of the model in the error.

    Raises OptionError if there is no text, and errors of :func:`public_texts`.
    """
    if texts := list(public_texts(Path(text))):
        return texts
    raise OptionError(f"text={text}: contains no text: give a public text to train the {part} on")


def public_texts(path: Path) -> Iterator[str]:
    """Yield the texts of a file, cut every 80 words. A ``.txt`` file is one text; other files have a column ``text``.

    Raises PlantingError if the file cannot be read or its kind is unknown.
    """
    kind, wanted = format_of(path), Columns()
    rows = kind.texts(path, kind.survey(path, wanted), wanted)
    texts = (turn for turns in rows for turn in turns)
    for whole in ["".join(texts)] if kind.running else texts:
        words = iter(whole.split())
        while piece := list(islice(words, WORDS)):
            yield " ".join(piece)


def train_masked_lm(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], recipe: MaskedRecipe
) -> MaskedTraining:
    """Train ``model`` in place to fill masks in ``texts``. Only parameters that require a gradient change.

    In each epoch 15 % of the tokens are chosen at random and predicted: 80 % of them are replaced by the mask, 10 % by
    a random token, 10 % stay unchanged. Modules with only frozen parameters stay in evaluation mode, without dropout.
    On a CPU the result is reproducible with equal arguments and thread counts. Torch's global random state is
    unchanged.

    Args:
        model: The masked language model; it is left in evaluation mode.
        tokenizer: Its tokenizer.
        texts: The training texts.
        recipe: Options of the training.

    Returns:
        The model and its losses.

    Raises:
        OptionError: The tokenizer has no mask or padding token, there is no text, or all parameters are frozen.
    """
    check_sizes(epochs=recipe.epochs, batch_size=recipe.batch_size, max_length=recipe.max_length)
    check_length(recipe.max_length, getattr(model.config, "max_position_embeddings", None))
    _check(model, tokenizer, texts)
    device = select_device(recipe.device)
    torch.nn.Module.to(model, device)
    losses = learn_rows(
        model,
        token_rows(tokenizer, texts, recipe.max_length),
        partial(_loss, model, tokenizer),
        recipe,
        random.Random(f"masked:{recipe.seed}"),
        ProgressLabels(name="filling masks", unit="mask"),
        device=device,
        train_mode=lambda: train_unfrozen(model),
    )
    return MaskedTraining(model, losses)


def train_unfrozen(model: torch.nn.Module) -> None:
    """Put ``model`` into training mode, except modules whose parameters are all frozen.

    A module without parameters, such as dropout, has the mode of the module that contains it.
    """
    model.train()
    for module in model.modules():
        if {parameter.requires_grad for parameter in module.parameters()} == {False}:
            module.eval()


def mask_tokens(
    ids: torch.Tensor, maskable: torch.Tensor, mask: int, vocabulary: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Mask random tokens as BERT does.

    Args:
        ids: Token ids [rows, length].
        maskable: Boolean, [rows, length]: tokens that may be chosen.
        mask: Id of the mask token.
        vocabulary: Size of the vocabulary that random tokens are drawn from.

    Returns:
        The masked ids, and the targets, which are ``IGNORED`` for tokens that were not chosen; both [rows, length].
    """
    chosen = (torch.rand(ids.shape, device=ids.device) < MASKED) & maskable
    fate = torch.rand(ids.shape, device=ids.device)
    shown = ids.masked_fill(chosen & (fate < REPLACED_BY_MASK), mask)
    at_random = chosen & (fate >= REPLACED_BY_MASK) & (fate < REPLACED_BY_MASK + REPLACED_AT_RANDOM)
    shown = torch.where(at_random, torch.randint(vocabulary, ids.shape, device=ids.device), shown)
    return shown, ids.masked_fill(~chosen, IGNORED)


def _loss(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: Sequence[Sequence[int]]) -> BatchLoss:
    """Compute the loss of ``rows`` with new random masks: the sum in nats and the number of chosen tokens."""
    batch = padded(rows, tokenizer.pad_token_id, model.device)
    ids = batch["input_ids"]
    special = torch.tensor(tokenizer.all_special_ids, device=model.device)
    # Padding is never chosen, because [PAD] is a special token.
    shown, targets = mask_tokens(ids, ~torch.isin(ids, special), tokenizer.mask_token_id, len(tokenizer))
    chosen = targets != IGNORED
    loss = cross_entropy(_logits_at(model, chosen, shown, batch["attention_mask"]), targets[chosen], reduction="sum")
    counted = chosen.sum()
    return BatchLoss(loss / counted.clamp(min=1), loss.detach(), counted)


def _logits_at(
    model: PreTrainedModel, chosen: torch.Tensor, ids: torch.Tensor, attention_mask: torch.Tensor
) -> torch.Tensor:
    """Return the logits [chosen, vocabulary] at the positions ``chosen`` [rows, length], in float32.

    Projecting only these positions to the large vocabulary makes a small model five times as fast.
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
        raise OptionError("the tokenizer has no mask or padding token: give the tokenizer of a masked language model")
    if not texts:
        raise OptionError("there is no text to train on: give at least one text")
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise OptionError("every parameter of the model is frozen: unfreeze the parameters to train")
