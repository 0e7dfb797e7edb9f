"""A batch of pairs behind a soft prompt, through a frozen model, as costs of the suffixes' tokens, and their losses.

What a prompt is tuned to lower is the suffix' loss, and that of its hardest tokens once more: Ethicist (003), Section
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
from leakage_tasks.targets.causal.cache import RowState, of_prefixes
from leakage_tasks.training.prompt.fit import vocabulary_of
from leakage_tasks.training.rows import evaluating
from leakage_tasks.training.text_batches import IGNORED

if TYPE_CHECKING:
    from torch import Tensor

    from leakage_tasks.pairs import Pair

NEAR = {torch.float32: 1e-3, torch.bfloat16: 0.1}
"""How far two ways of computing a gradient may differ, as a share of its norm."""


@dataclass(frozen=True)
class PromptBatch:
    """Pairs padded on the right, where a causal model's earlier places cannot see it.

    ``ids`` [rows, width]; ``targets`` [rows, width − first], the ids of the columns from ``first`` on that belong to
    a suffix; ``first`` is where the earliest suffix begins.
    """

    ids: Tensor
    targets: Tensor
    first: int


class Rows:
    """Pairs as tensors on the model's device, from which batches are cut."""

    def __init__(self, pairs: Sequence[Pair], device: torch.device | str) -> None:
        self.starts = torch.tensor([len(pair.prefix) for pair in pairs])
        self.ends = torch.tensor([len(pair.prefix) + len(pair.suffix) for pair in pairs])
        width = int(self.ends.max())
        ids = torch.tensor([[*pair.prefix, *pair.suffix, *[0] * width][:width] for pair in pairs])
        places = torch.arange(width)
        wanted = (places >= self.starts[:, None]) & (places < self.ends[:, None])
        self.ids = ids.to(device)
        self.targets = ids.masked_fill(~wanted, IGNORED).to(device)

    def __len__(self) -> int:
        return len(self.ids)

    def batch(self, rows: Tensor) -> PromptBatch:
        """The pairs of these numbers [rows], no wider than the longest of them."""
        first, width = int(self.starts[rows].min()), int(self.ends[rows].max())
        picked = rows.to(self.ids.device)
        return PromptBatch(self.ids[picked, :width], self.targets[picked, first:width], first)


class PromptPass:
    """Runs batches through ``model``, whose weights get no gradient and whose last layer sees the suffixes alone.

    The prompt's own places are the same for all pairs of a batch, since a causal model reads them first. So they are
    computed once a batch and their attention cache is shared, if that proves to give the same gradient (see
    :meth:`share`). Raises TargetError for a model that takes no vectors in place of tokens.
    """

    def __init__(self, model: Any, *, bf16: bool = False) -> None:
        taken = inspect.signature(model.forward).parameters
        if "inputs_embeds" not in taken:
            raise TargetError(
                f"{type(model).__name__} takes no vectors in place of tokens (its forward lacks inputs_embeds), so no "
                "soft prompt can be put before its input: choose another model"
            )
        self.model = model
        self.embedding = model.get_input_embeddings()
        self.device = self.embedding.weight.device
        self.vocabulary = vocabulary_of(model)
        self.shared = False
        self._bf16 = bf16
        self._keeps = "logits_to_keep" in taken

    def costs(self, prompt: Tensor, batch: PromptBatch) -> Tensor:
        """−ln p of the batch' targets [rows, places], with a gradient for ``prompt`` [length, dimensions]."""
        kept = batch.targets.shape[1]
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self._bf16):
            words = self.words(batch.ids[:, :-1])  # the last token is predicted, never read
            vectors = prompt.to(words.dtype)[None]
            if self.shared and batch.first:
                out = self._after(vectors, words, kept)
            else:
                inputs = torch.cat([vectors.expand(len(words), -1, -1), words], dim=1)
                out = self.model(inputs_embeds=inputs, use_cache=False, **self._keep(kept))
        return token_costs(out.logits[:, -kept:], batch.targets)

    def words(self, ids: Tensor) -> Tensor:
        """The model's own vectors of tokens, without a gradient."""
        with torch.no_grad():
            return self.embedding(ids)

    def share(self, prompt: Tensor, batch: PromptBatch) -> None:
        """Compute the prompt's places once a batch from now on, if on this one the gradient is the same."""
        expected = self._gradient(prompt, batch)
        self.shared = True
        try:
            found = self._gradient(prompt, batch)
        except Exception as error:  # whatever a model's cache does not stand: the plain way always works
            log.debug("soft prompt: read anew for every pair (%s)", first_line(error))
            self.shared = False
            return
        coarse = self._bf16 or self.embedding.weight.dtype != torch.float32
        near = NEAR[torch.bfloat16 if coarse else torch.float32]
        self.shared = bool((found - expected).norm() <= near * expected.norm())

    def _gradient(self, prompt: Tensor, batch: PromptBatch) -> Tensor:
        leaf = prompt.detach().clone().requires_grad_()
        return torch.autograd.grad(self.costs(leaf, batch).sum(), leaf)[0]

    def _after(self, vectors: Tensor, words: Tensor, kept: int) -> Any:
        read = self.model(inputs_embeds=vectors, use_cache=True, **self._keep(1))
        (state,) = of_prefixes(read.past_key_values, [vectors.shape[1]])
        # Views: the model copies them once, when it puts its own keys and values behind them.
        rows = [tensor.expand(len(words), *tensor.shape[1:]) for tensor in state.prefix or state.tensors]
        cache = RowState(state.shell, rows).rebuild()
        return self.model(inputs_embeds=words, past_key_values=cache, use_cache=True, **self._keep(kept))

    def _keep(self, count: int) -> dict[str, int]:
        return {"logits_to_keep": count} if self._keeps else {}


@contextmanager
def frozen(model: Any) -> Iterator[None]:
    """The model without dropout and without gradients for its weights; as it was again afterwards."""
    learning = [weight for weight in model.parameters() if weight.requires_grad]
    for weight in learning:
        weight.requires_grad_(False)
    try:
        with evaluating(model):
            yield
    finally:
        for weight in learning:
            weight.requires_grad_(True)


def token_costs(logits: Tensor, targets: Tensor) -> Tensor:
    """−ln p of each target [rows, places], float32, from logits [rows, places, vocabulary]; 0 where ignored."""
    flat = cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), ignore_index=IGNORED, reduction="none")
    return flat.view(targets.shape)


def suffix_losses(costs: Tensor, targets: Tensor, hardest: int) -> tuple[Tensor, Tensor]:
    """Equations 1 and 2 of each row, [rows] each, in the unit of ``costs`` [rows, places].

    The N = ``hardest`` dearest tokens are those of these very costs; a suffix shorter than N gives all it has.
    """
    real = targets != IGNORED
    lengths = real.sum(1)
    mle = costs.sum(1) / lengths
    if not hardest:
        return mle, costs.new_zeros(len(costs))
    nothing = float("-inf")
    dearest = costs.masked_fill(~real, nothing).topk(min(hardest, costs.shape[1]), dim=1).values
    taken = dearest.masked_fill(dearest == nothing, 0.0)
    return mle, taken.sum(1) / lengths.clamp(max=hardest)
