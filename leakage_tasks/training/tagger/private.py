"""DP-SGD for the NLU tagger: layers and a CRF with per-row gradients, on the tagger's weights."""

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


def use_row_layers(model: NLUTagger) -> AbstractContextManager[None]:
    """Replace layers of ``model`` inside the block by layers with per-row gradients that share the model's weights.

    Afterwards the model has its own layers and names of weights again, with the trained values. The context can be
    entered repeatedly with the same layers and Opacus' hooks: create a single context for a training. Inside, the
    embeddings have per-row gradients only, so :class:`~leakage_tasks.training.dp.private.PrivateSteps` must take the
    steps. Raises LeakageError if Opacus is missing.
    """
    check_opacus()
    _register_crf()
    return _RowLayers(model)


def check_memory(model: NLUTagger, rows: int, batch_size: int) -> None:
    """Raise LeakageError if the per-row gradients of a large batch do not fit into memory.

    Poisson sampling draws batches of ``batch_size`` rows on average; a large batch has 6 standard deviations more.
    """
    rate = min(batch_size / rows, 1.0)
    largest = min(math.ceil(rate * rows + 6 * math.sqrt(rows * rate * (1 - rate))), rows)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    needed = largest * sum(parameter.numel() * parameter.element_size() for parameter in trained)
    available = memory_of(model.device)
    if needed > available:
        raise LeakageError(
            f"DP-SGD keeps a gradient for each row: {needed / 1e9:,.1f} GB for a batch of {largest:,}, and there are "
            f"{available / 1e9:,.1f} GB: lower --batch-size or --embedding-size, or keep word vectors with --frozen"
        )


class _RowLayers(AbstractContextManager[None]):
    """A context that replaces the model's layers by layers with per-row gradients, and restores them."""

    def __init__(self, model: NLUTagger) -> None:
        self._model = model
        self._rows: dict[str, nn.Module] = {
            "embedding": _RowEmbedding(model.embedding),
            "lstms": nn.ModuleList(RowBiLSTM(cast(nn.LSTM, lstm)) for lstm in model.lstms),
        }
        if model.character_layer is not None:
            self._rows["character_layer"] = _RowCharacters(model.character_layer)
        self._original = {name: getattr(model, name) for name in self._rows}

    def __enter__(self) -> None:
        self._put(self._rows)

    def __exit__(self, *_: object) -> None:
        self._put(self._original)
        for layer in nn.ModuleDict(self._rows).modules():
            if isinstance(layer, _RowEmbedding):
                layer.restore_padding()

    def _put(self, layers: dict[str, nn.Module]) -> None:
        for name, layer in layers.items():
            setattr(self._model, name, layer.train(self._model.training))


class _RowEmbedding(nn.Module):
    """An ``nn.Embedding`` with the per-row gradients of a mean loss in one buffer [rows, words, size].

    Opacus would write the whole buffer at each step, although a batch has few of the words; this would take longer than
    the rest of the step. The padding's vector does not change: torch gives it no gradient, but Opacus' optimizer adds
    noise to it.
    """

    def __init__(self, table: nn.Embedding) -> None:
        super().__init__()
        self.table, self._padding_id = table, cast(int, table.padding_idx)
        self._padding = table.weight[self._padding_id].detach().clone()
        self._buffer = table.weight.new_empty(0, *table.weight.shape)
        self._written = torch.empty(0, dtype=torch.long)

    def forward(self, ids: Tensor) -> Tensor:
        vectors = embedding(ids, self.table.weight.detach())
        if self.training and self.table.weight.requires_grad and torch.is_grad_enabled():
            vectors.requires_grad_().register_hook(partial(self._keep, ids))
        return torch.where(ids.eq(self._padding_id).unsqueeze(-1), self._padding, vectors)

    def restore_padding(self) -> None:
        with torch.no_grad():
            self.table.weight[self._padding_id] = self._padding

    def _keep(self, ids: Tensor, gradients: Tensor) -> None:
        weight: Any = self.table.weight
        if getattr(weight, "grad_sample", weight) is not None:
            raise LeakageError(
                "layers with per-row gradients need PrivateSteps: call backward once, then PrivateSteps.step"
            )
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
    """The character layer with one convolution per row instead of per word; Opacus sums over its positions."""

    def __init__(self, layer: CharacterLayer) -> None:
        # CharacterLayer.__init__ would create new weights.
        nn.Module.__init__(self)
        self.embedding: nn.Module = _RowEmbedding(layer.embedding)  # type: ignore[assignment]
        self.convolution = layer.convolution

    def filtered(self, characters: Tensor) -> Tensor:
        """Apply the convolution to the concatenated words of each row, with gaps so that no filter covers two words."""
        gap = self.convolution.kernel_size[0] // 2
        spaced = pad(self.embedding(characters), (0, 0, 0, gap))
        outputs = self.convolution(spaced.flatten(1, 2).transpose(1, 2)).unflatten(2, spaced.shape[1:3])
        return outputs[..., : characters.shape[2]].transpose(1, 2)


def _register_crf() -> None:
    from opacus.grad_sample import register_grad_sampler
    from torchcrf import CRF

    register_grad_sampler([CRF, TagCRF])(_crf_row_gradients)


def _crf_row_gradients(crf: CRF, inputs: list[Tensor], backprops: Tensor) -> dict[nn.Parameter, Tensor]:
    """Return the per-row gradients [batch, ...] of the CRF's parameters.

    ``inputs`` are the arguments of its call, ``backprops`` [batch] the gradients of its outputs.
    """
    if not crf.batch_first or len(inputs) != 3 or backprops.dim() != 1:
        raise LeakageError(
            "DP-SGD supports a CRF only with batch_first=True, called with a mask and without a reduction over rows: "
            "change the call"
        )
    weights = [crf.start_transitions, crf.transitions, crf.end_transitions]
    with torch.enable_grad():
        rows = [weight.detach().expand(len(backprops), *weight.shape).requires_grad_() for weight in weights]
        emissions, tags, mask = inputs
        likelihoods = -sequence_costs(emissions, mask.bool(), tags, *rows)
        gradients = torch.autograd.grad(likelihoods.to(backprops.dtype), rows, backprops)
    return dict(zip(weights, gradients, strict=True))
