"""Costs of suffix tokens after a soft prompt, computed by a frozen model, and the losses of the tuning.

The loss of a prompt is the suffix' mean cost plus the weighted mean cost of its hardest tokens: Ethicist, Section
3.2, Equations 1 to 3.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import cross_entropy

from leakage_tasks.core.errors import TargetError
from leakage_tasks.core.log import first_line, log
from leakage_tasks.targets.causal.cache import filled, hollow, tensors_of
from leakage_tasks.training.prompt.fit import vocabulary_of
from leakage_tasks.training.rows import evaluating
from leakage_tasks.training.text_batches import IGNORED

if TYPE_CHECKING:
    from torch import Tensor

    from leakage_tasks.pairs import Pair

NEAR = {torch.float32: 1e-3, torch.bfloat16: 0.1}
"""Tolerance between two computations of a gradient, relative to its norm."""


@dataclass(frozen=True)
class PromptBatch:
    """A batch of pairs, padded on the right: earlier positions of a causal model do not depend on the padding.

    ``ids`` has shape [rows, width]. ``first`` is the column in which the earliest suffix begins. ``targets``
    [rows, width − first] are the ids of suffix tokens from this column on, and ``IGNORED`` elsewhere.
    """

    ids: Tensor
    targets: Tensor
    first: int


class Rows:
    """Pairs as tensors on the model's device."""

    def __init__(self, pairs: Sequence[Pair], device: torch.device | str) -> None:
        self.starts = torch.tensor([len(pair.prefix) for pair in pairs])
        self.ends = torch.tensor([len(pair.prefix) + len(pair.suffix) for pair in pairs])
        width = int(self.ends.max())
        ids = torch.tensor([[*pair.prefix, *pair.suffix, *[0] * width][:width] for pair in pairs])
        columns = torch.arange(width)
        in_suffix = (columns >= self.starts[:, None]) & (columns < self.ends[:, None])
        self.ids = ids.to(device)
        self.targets = ids.masked_fill(~in_suffix, IGNORED).to(device)

    def __len__(self) -> int:
        return len(self.ids)

    def batch(self, rows: Tensor) -> PromptBatch:
        """Return the pairs with the indices ``rows`` [rows], as wide as the longest of them."""
        first, width = int(self.starts[rows].min()), int(self.ends[rows].max())
        picked = rows.to(self.ids.device)
        return PromptBatch(self.ids[picked, :width], self.targets[picked, first:width], first)


class PromptPass:
    """Forward passes of ``model`` with a soft prompt. Weights get no gradient; logits are computed for suffixes only.

    A causal model reads the prompt first, so its hidden states are equal for all pairs of a batch. They are computed
    once per batch and their KV cache is shared, after a check that this gives an equal gradient (see :meth:`share`).
    Raises TargetError for a model that accepts token ids only.
    """

    def __init__(self, model: Any, *, bf16: bool = False) -> None:
        parameters = inspect.signature(model.forward).parameters
        if "inputs_embeds" not in parameters:
            raise TargetError(
                f"{type(model).__name__} takes token ids only (its forward method has no inputs_embeds), so it cannot "
                "read a soft prompt: choose another model"
            )
        self.model = model
        self.embedding = model.get_input_embeddings()
        self.device = self.embedding.weight.device
        self.vocabulary = vocabulary_of(model)
        self.shared = False
        self._bf16 = bf16
        self._keeps = "logits_to_keep" in parameters

    def costs(self, prompt: Tensor, batch: PromptBatch) -> Tensor:
        """Return −ln p of the targets [rows, positions], with a gradient for ``prompt`` [length, dimensions]."""
        count = batch.targets.shape[1]
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self._bf16):
            words = self.words(batch.ids[:, :-1])  # the last token is only predicted
            vectors = prompt.to(words.dtype)[None]
            if self.shared and batch.first:
                out = self._after(vectors, words, count)
            else:
                inputs = torch.cat([vectors.expand(len(words), -1, -1), words], dim=1)
                out = self.model(inputs_embeds=inputs, use_cache=False, **self._keep(count))
        return token_costs(out.logits[:, -count:], batch.targets)

    def words(self, ids: Tensor) -> Tensor:
        """Return the model's embeddings of tokens, without a gradient."""
        with torch.no_grad():
            return self.embedding(ids)

    def share(self, prompt: Tensor, batch: PromptBatch) -> None:
        """Share the prompt's KV cache from now on if this gives an equal gradient for ``batch``."""
        expected = self._gradient(prompt, batch)
        self.shared = True
        try:
            gradient = self._gradient(prompt, batch)
        except Exception as error:  # models' caches fail with any error; unshared passes always work
            log.debug("soft prompt: read for every pair separately (%s)", first_line(error))
            self.shared = False
            return
        coarse = self._bf16 or self.embedding.weight.dtype != torch.float32
        near = NEAR[torch.bfloat16 if coarse else torch.float32]
        self.shared = bool((gradient - expected).norm() <= near * expected.norm())

    def _gradient(self, prompt: Tensor, batch: PromptBatch) -> Tensor:
        leaf = prompt.detach().clone().requires_grad_()
        return torch.autograd.grad(self.costs(leaf, batch).sum(), leaf)[0]

    def _after(self, vectors: Tensor, words: Tensor, count: int) -> Any:
        read = self.model(inputs_embeds=vectors, use_cache=True, **self._keep(1))
        # These are views. The model copies them once, when it appends keys and values.
        rows = [tensor.expand(len(words), *tensor.shape[1:]) for tensor in tensors_of(read.past_key_values)]
        cache = filled(hollow(read.past_key_values), rows)
        return self.model(inputs_embeds=words, past_key_values=cache, use_cache=True, **self._keep(count))

    def _keep(self, count: int) -> dict[str, int]:
        return {"logits_to_keep": count} if self._keeps else {}


@contextmanager
def frozen(model: Any) -> Iterator[None]:
    """Disable dropout and the gradients of weights inside the block, and restore both afterwards."""
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    for weight in trained:
        weight.requires_grad_(False)
    try:
        with evaluating(model):
            yield
    finally:
        for weight in trained:
            weight.requires_grad_(True)


def token_costs(logits: Tensor, targets: Tensor) -> Tensor:
    """Return −ln p of each target [rows, positions], float32, from logits [rows, positions, vocabulary].

    Ignored targets have the cost 0.
    """
    flat = cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), ignore_index=IGNORED, reduction="none")
    return flat.view(targets.shape)


def suffix_losses(costs: Tensor, targets: Tensor, hardest: int) -> tuple[Tensor, Tensor]:
    """Return the losses of Equations 1 and 2 for each row, [rows] each, in the unit of ``costs`` [rows, positions].

    Equation 2 is the mean of the N = ``hardest`` highest costs, or of all costs of a shorter suffix.
    """
    real = targets != IGNORED
    lengths = real.sum(1)
    mle = costs.sum(1) / lengths
    if not hardest:
        return mle, costs.new_zeros(len(costs))
    ignored = float("-inf")
    highest = costs.masked_fill(~real, ignored).topk(min(hardest, costs.shape[1]), dim=1).values
    highest = highest.masked_fill(highest == ignored, 0.0)
    return mle, highest.sum(1) / lengths.clamp(max=hardest)
