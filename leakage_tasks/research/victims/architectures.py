"""The lab's networks: those of The Secret Sharer's Table 1, and a transformer, of some 620,000 parameters each."""

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
"""The paper's (Table 1: "620K (+/- 5K)", with an output layer over some 50 characters)."""
_LEAST, _USUAL = 32, 128
_HEADS = 4


@dataclass(frozen=True)
class Architecture:
    """A network and what its configuration says."""

    model_type: str
    """Its name among the Auto classes."""
    layers: int
    units: int
    """In each layer."""
    more: Mapping[str, int | bool] = field(default_factory=dict)
    """Other settings."""
    fitted: str = "embedding_size"
    """The size that is chosen so that the whole comes to :data:`PARAMETERS`."""
    dropouts: tuple[str, ...] = ("dropout",)
    """The settings that dropout goes by."""

    def config(self, vocabulary: int, units: int, fitted: int, dropout: float = 0.0) -> PretrainedConfig:
        """The configuration with ``units`` in place of its own and its fitted size."""
        register()
        sizes = {"vocab_size": vocabulary, "hidden_size": units, "num_hidden_layers": self.layers, self.fitted: fitted}
        return AutoConfig.for_model(self.model_type, **sizes, **self.more, **dict.fromkeys(self.dropouts, dropout))

    def fit(self, vocabulary: int) -> int:
        """The fitted size for a vocabulary of so many tokens, at the architecture's own units.

        A vocabulary so large that this falls below 32 gets 128, and the network as many parameters as that makes.
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
    # The widths that need an embedding like the other networks' for 620,000 parameters. Dilations are as large as they
    # can be without passing over a place (27 characters seen), or doubled where that sees enough (94).
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
"""By name: the nine of Table 1, and a transformer of GPT-NeoX's shape (rotary positions)."""


def build(
    name: str, tokenizer: PreTrainedTokenizerBase, *, seed: int = 0, dropout: float = 0.0, units: int | None = None
) -> PreTrainedModel:
    """An untrained network over the tokenizer's tokens, the same for the same seed.

    ``units`` takes the place of the width in its name, everything else staying as it was, so the size changes with it.
    The caller's random state is left alone. Raises OptionError on an unknown name or sizes that make no network.
    """
    architecture = ARCHITECTURES.get(name)
    if architecture is None:
        raise OptionError(f"architecture is {name!r}: give one of {', '.join(ARCHITECTURES)}")
    units = architecture.units if units is None else units
    check_sizes(units=units)
    if not 0 <= dropout < 1:
        raise OptionError(f"dropout is {dropout}: give a share from 0 to below 1")
    if name == "transformer" and units % (2 * _HEADS):
        raise OptionError(f"units is {units}: a transformer's is a multiple of {2 * _HEADS}")
    config = architecture.config(len(tokenizer), units, architecture.fit(len(tokenizer)), dropout)
    return initialize(AutoModelForCausalLM, config, tokenizer, seed)
