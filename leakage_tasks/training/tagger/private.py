"""DP-SGD for the NLU tagger: layers with gradients a row on the tagger's own weights, and those of its CRF."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, pad

from leakage_tasks.core.errors import LeakageError
from leakage_tasks.models.nlu_tagger import CharacterLayer, NLUTagger
from leakage_tasks.models.tag_costs import TagCRF, sequence_costs
from leakage_tasks.training.dp.private import check_opacus
from leakage_tasks.training.dp.row_lstm import RowBiLSTM
from leakage_tasks.training.rows import memory_of

if TYPE_CHECKING:
    from torchcrf import CRF


def reading_rows(model: NLUTagger) -> AbstractContextManager[None]:
    """``model`` reads inside by layers whose gradients opacus can tell apart by row; they share the model's weights.

    Afterwards the model has its own layers and names of weights back, with what was learnt. The object may be entered
    again, and then the layers are the same, with opacus' hooks: make one for a whole training. It is made for
    :class:`~leakage_tasks.training.dp.private.PrivateSteps`: the embeddings have gradients a row alone inside. Raises
    LeakageError where opacus is missing.
    """
    check_opacus()
    _register_crf()
    return _RowReading(model)


def check_memory(model: NLUTagger, rows: int, batch_size: int) -> None:
    """Raise LeakageError where a large batch's gradients, one a row for every trained weight, do not fit into memory.

    Poisson sampling gives batches of ``batch_size`` of the ``rows`` on average; a large one is taken to have 6 standard
    deviations more.
    """
    rate = min(batch_size / rows, 1.0)
    largest = min(math.ceil(rate * rows + 6 * math.sqrt(rows * rate * (1 - rate))), rows)
    needed = largest * sum(each.numel() * each.element_size() for each in model.parameters() if each.requires_grad)
    there = memory_of(model.device)
    if needed > there:
        raise LeakageError(
            f"DP-SGD keeps a gradient for each row: {needed / 1e9:,.1f} GB for a batch of {largest:,}, and there are "
            f"{there / 1e9:,.1f} GB: lower --batch-size or --embedding-size, or keep word vectors with --frozen"
        )


class _RowReading(AbstractContextManager[None]):
    """Puts the layers that read by row in their places, and the model's own back."""

    def __init__(self, model: NLUTagger) -> None:
        self._model = model
        self._rows: dict[str, nn.Module] = {
            "embedding": _RowEmbedding(model.embedding),
            "lstms": nn.ModuleList(RowBiLSTM(cast(nn.LSTM, lstm)) for lstm in model.lstms),
        }
        if model.character_layer is not None:
            self._rows["character_layer"] = _RowCharacters(model.character_layer)
        self._own = {name: getattr(model, name) for name in self._rows}

    def __enter__(self) -> None:
        self._put(self._rows)

    def __exit__(self, *_: object) -> None:
        self._put(self._own)
        for layer in nn.ModuleDict(self._rows).modules():
            if isinstance(layer, _RowEmbedding):
                layer.restore_padding()

    def _put(self, layers: dict[str, nn.Module]) -> None:
        for name, layer in layers.items():
            setattr(self._model, name, layer.train(self._model.training))


class _RowEmbedding(nn.Module):
    """An ``nn.Embedding`` that keeps its gradients a row, of a mean loss, in one buffer [rows, words, size].

    opacus would write all of that anew at each step, though a batch has few of the words, and that takes longer than
    the rest of the step. The vector of the padding stays what it was: torch gives it no gradient, but opacus'
    optimiser adds noise to it.
    """

    def __init__(self, table: nn.Embedding) -> None:
        super().__init__()
        self.table, self._place = table, cast(int, table.padding_idx)
        self._padding = table.weight[self._place].detach().clone()
        self._buffer = table.weight.new_empty(0, *table.weight.shape)
        self._written = torch.empty(0, dtype=torch.long)

    def forward(self, ids: Tensor) -> Tensor:
        vectors = embedding(ids, self.table.weight.detach())
        if self.training and self.table.weight.requires_grad and torch.is_grad_enabled():
            vectors.requires_grad_().register_hook(partial(self._keep, ids))
        return torch.where(ids.eq(self._place).unsqueeze(-1), self._padding, vectors)

    def restore_padding(self) -> None:
        with torch.no_grad():
            self.table.weight[self._place] = self._padding

    def _keep(self, ids: Tensor, gradients: Tensor) -> None:
        weight: Any = self.table.weight
        if getattr(weight, "grad_sample", weight) is not None:
            raise LeakageError("a tagger that reads by rows is trained by PrivateSteps, one backward pass a step")
        rows, (words, size) = len(ids), weight.shape
        if len(self._buffer) < rows:
            self._buffer = weight.new_empty(0)
            self._buffer = weight.new_zeros(rows, words, size)
        else:
            self._buffer.view(-1, size)[self._written] = 0.0
        self._written = (torch.arange(rows, device=ids.device)[:, None] * words + ids.flatten(1)).flatten()
        self._buffer.view(-1, size).index_add_(0, self._written, gradients.reshape(-1, size) * rows)
        weight.grad_sample = self._buffer[:rows]


class _RowCharacters(CharacterLayer):
    """The character layer with one call of the convolution a row, instead of one a word: opacus adds up its places."""

    def __init__(self, layer: CharacterLayer) -> None:
        # Not CharacterLayer's, which would make weights of its own.
        nn.Module.__init__(self)
        self.embedding: nn.Module = _RowEmbedding(layer.embedding)  # type: ignore[assignment]
        self.convolution = layer.convolution

    def filtered(self, characters: Tensor) -> Tensor:
        """The words of a row stand one after another, so far apart that no filter sees two of them."""
        gap = self.convolution.kernel_size[0] // 2
        spaced = pad(self.embedding(characters), (0, 0, 0, gap))
        found = self.convolution(spaced.flatten(1, 2).transpose(1, 2)).unflatten(2, spaced.shape[1:3])
        return found[..., : characters.shape[2]].transpose(1, 2)


def _register_crf() -> None:
    """Tell opacus how to find the gradients a row of a CRF."""
    from opacus.grad_sample import register_grad_sampler
    from torchcrf import CRF

    register_grad_sampler([CRF, TagCRF])(_crf_row_gradients)


def _crf_row_gradients(crf: CRF, given: list[Tensor], backprops: Tensor) -> dict[nn.Parameter, Tensor]:
    """Gradients [batch, ...] of the CRF's parameters; ``given`` is what it was called with, ``backprops`` [batch]."""
    if not crf.batch_first or len(given) != 3 or backprops.dim() != 1:
        raise LeakageError(
            "DP-SGD has gradients a row of a CRF of batch_first=True that is called as "
            "crf(emissions, tags, mask, reduction='none') alone: call it so"
        )
    weights = [crf.start_transitions, crf.transitions, crf.end_transitions]
    with torch.enable_grad():
        rows = [weight.detach().expand(len(backprops), *weight.shape).requires_grad_() for weight in weights]
        emissions, tags, mask = given
        likelihoods = -sequence_costs(emissions, mask.bool(), tags, *rows)
        found = torch.autograd.grad(likelihoods.to(backprops.dtype), rows, backprops)
    return dict(zip(weights, found, strict=True))
