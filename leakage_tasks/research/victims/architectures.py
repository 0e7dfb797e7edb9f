"""Networks of about 620,000 parameters each: the nine of The Secret Sharer's Table 1, and a transformer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from leakage_tasks.core.errors import OptionError
from leakage_tasks.models import register
from leakage_tasks.research.victims.base import initialize
from leakage_tasks.training.rows import check_sizes

PARAMETERS = 620_000
"""The paper's number (Table 1: "620K (+/- 5K)", with an output layer over some 50 characters)."""
_LEAST, _USUAL = 32, 128
_HEADS = 4


@dataclass(frozen=True)
class Architecture:
    """A network and its configuration."""

    model_type: str
    """Name of the model type among the Auto classes."""
    layers: int
    units: int
    """Units per layer."""
    more: Mapping[str, int | bool] = field(default_factory=dict)
    """Other fields of the configuration."""
    fitted: str = "embedding_size"
    """The size that is adjusted so that the network has :data:`PARAMETERS` parameters."""
    dropouts: tuple[str, ...] = ("dropout",)
    """The fields that set dropout."""

    def config(self, vocabulary: int, units: int, fitted: int, dropout: float = 0.0) -> PretrainedConfig:
        """Return the configuration with these ``units`` and this fitted size."""
        register()
        sizes = {"vocab_size": vocabulary, "hidden_size": units, "num_hidden_layers": self.layers, self.fitted: fitted}
        return AutoConfig.for_model(self.model_type, **sizes, **self.more, **dict.fromkeys(self.dropouts, dropout))

    def fit(self, vocabulary: int) -> int:
        """Return the fitted size for a vocabulary of this many tokens, with the architecture's own units.

        If a large vocabulary makes it fall below 32, return 128; the network then has more parameters.
        """
        small, large = (self._parameters(vocabulary, size) for size in (1, 2))
        size = 1 + round((PARAMETERS - small) / (large - small))
        return size if size >= _LEAST else _USUAL

    def _parameters(self, vocabulary: int, fitted: int) -> int:
        with torch.device("meta"):
            config = self.config(vocabulary, self.units, fitted)
            return AutoModelForCausalLM.from_config(config, trust_remote_code=False).num_parameters()


ARCHITECTURES: Mapping[str, Architecture] = {
    "gru-1x370": Architecture("char_gru", 1, 370),
    "gru-2x235": Architecture("char_gru", 2, 235),
    "lstm-1x320": Architecture("char_lstm", 1, 320),
    "lstm-2x200": Architecture("char_lstm", 2, 200),
    "cnn-1x436": Architecture("char_cnn", 1, 436),
    "cnn-2x188": Architecture("char_cnn", 2, 188),
    "cnn-4x122": Architecture("char_cnn", 4, 122),
    # Widths for which 620,000 parameters leave an embedding like the other networks'. Dilations are as large as
    # possible without gaps (27 characters of context), or doubled if that suffices (94).
    "wavenet-2x188": Architecture("char_wavenet", 2, 188, {"kernel_size": 3, "dilation_base": 3}),
    "wavenet-4x122": Architecture("char_wavenet", 4, 122, {"kernel_size": 4, "dilation_base": 2}),
    "transformer": Architecture(
        "gpt_neox",
        3,
        128,
        {"num_attention_heads": _HEADS, "max_position_embeddings": 2048, "tie_word_embeddings": False},
        "intermediate_size",
        ("hidden_dropout", "attention_dropout"),
    ),
}
"""Architectures by name: the nine of Table 1, and a transformer of GPT-NeoX's shape (rotary positions)."""


def build(
    name: str, tokenizer: PreTrainedTokenizerBase, *, seed: int = 0, dropout: float = 0.0, units: int | None = None
) -> PreTrainedModel:
    """Return an untrained network over the tokenizer's tokens; equal seeds give equal weights.

    ``units`` replaces the width in the name and changes the network's size; other fields stay. The caller's random
    state does not change. Raises OptionError for an unknown name or for sizes that do not fit together.
    """
    architecture = ARCHITECTURES.get(name)
    if architecture is None:
        raise OptionError(f"architecture is {name!r}: use one of {', '.join(ARCHITECTURES)}")
    units = architecture.units if units is None else units
    check_sizes(units=units)
    if not 0 <= dropout < 1:
        raise OptionError(f"dropout is {dropout}: use a share from 0 to below 1")
    if name == "transformer" and units % (2 * _HEADS):
        raise OptionError(f"units is {units}: a transformer needs a multiple of {2 * _HEADS}")
    config = architecture.config(len(tokenizer), units, architecture.fit(len(tokenizer)), dropout)
    return initialize(AutoModelForCausalLM, config, tokenizer, seed)
