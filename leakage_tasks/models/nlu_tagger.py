"""Joint intent classification and slot tagging: embeddings, bi-LSTM layers, a linear layer for the intent, a CRF.

The victim of "Canary Extraction in Natural Language Understanding Models" (Parikh, Dupuy and Gupta, 2022), section 4.1,
with the character layer of its section 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import PretrainedConfig, PreTrainedModel
from transformers.utils.generic import ModelOutput

from leakage_tasks.models.kernels import kernels_for
from leakage_tasks.models.tag_costs import TagCRF


class NLUTaggerConfig(PretrainedConfig):
    """Sizes and names of an :class:`NLUTagger`.

    ``id2label`` has the intents, ``tags`` the slot tags in the BIO scheme. ``hidden_size`` is the number of units per
    direction. ``characters`` is the alphabet of the character layer, whose features are appended to each word's
    embedding; if it is empty, there is no character layer. ``dropout`` applies in training to the input of the first
    layer and to the output of every layer.
    """

    model_type = "nlu-tagger"

    def __init__(
        self,
        vocab_size: int = 1000,
        embedding_size: int = 100,
        hidden_size: int = 100,
        num_hidden_layers: int = 2,
        dropout: float = 0.0,
        tags: Sequence[str] = ("O",),
        characters: str = "",
        character_size: int = 30,
        character_filters: int = 30,
        character_kernel: int = 3,
        max_word_length: int = 32,
        max_position_embeddings: int = 512,
        pad_token_id: int = 0,
        **kwargs: Any,
    ) -> None:
        self.vocab_size = vocab_size
        self.embedding_size = embedding_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.dropout = dropout
        self.tags = list(tags)
        self.characters = characters
        self.character_size = character_size
        self.character_filters = character_filters
        self.character_kernel = character_kernel
        self.max_word_length = max_word_length
        self.max_position_embeddings = max_position_embeddings
        self.pad_token_id = pad_token_id
        super().__init__(**kwargs)


@dataclass
class NLUTaggerOutput(ModelOutput):
    """Outputs: intent ``logits`` [batch, intents], tag ``emissions`` [batch, length, tags], and ``loss`` in nats."""

    loss: Tensor | None = None
    logits: Tensor | None = None
    emissions: Tensor | None = None


class NLUTagger(PreTrainedModel):
    """A tagger: word embeddings and character features, bi-LSTM layers, mean over words → intent, CRF → tags."""

    config_class = NLUTaggerConfig
    main_input_name = "input_ids"
    _input_embed_layer = "embedding"

    def __init__(self, config: NLUTaggerConfig) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocab_size, config.embedding_size, padding_idx=config.pad_token_id)
        self.character_layer = CharacterLayer(config) if config.characters else None
        features = config.embedding_size + (config.character_filters if config.characters else 0)
        self.lstms = nn.ModuleList(
            nn.LSTM(features if number == 0 else 2 * config.hidden_size, config.hidden_size, batch_first=True,
                    bidirectional=True)
            for number in range(config.num_hidden_layers)
        )  # fmt: skip
        # nn.Dropout(0) would still consume random numbers.
        self.dropout = nn.Dropout(config.dropout) if config.dropout else nn.Identity()
        self.intent = nn.Linear(2 * config.hidden_size, len(config.id2label or ()))
        self.emission = nn.Linear(2 * config.hidden_size, len(config.tags))
        self.crf = TagCRF(len(config.tags))
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        characters: Tensor | None = None,
        labels: Tensor | None = None,
        tags: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> NLUTaggerOutput:
        """Compute intents and tags.

        Args:
            input_ids: Word ids [batch, length], padded on the right.
            attention_mask: [batch, length], 0 for padding.
            characters: Character ids [batch, length, characters], for a model with a character layer.
            labels: Intents [batch].
            tags: Tags [batch, length].
            inputs_embeds: The result of :meth:`embed`, instead of ``input_ids`` and ``characters``.

        Returns:
            Logits and emissions; with ``labels`` and ``tags`` also the mean of :meth:`costs` as the loss.
        """
        embedded = self.embed(input_ids, characters) if inputs_embeds is None else inputs_embeds
        mask = embedded.new_ones(embedded.shape[:2]) if attention_mask is None else attention_mask
        logits, emissions = self.read(embedded, mask.bool())
        loss = None
        if labels is not None and tags is not None:
            loss = self.costs(logits, emissions, mask.bool(), labels, tags).mean()
        return NLUTaggerOutput(loss=loss, logits=logits, emissions=emissions)

    def embed(self, input_ids: Tensor | None, characters: Tensor | None = None) -> Tensor:
        """Return the input of the first layer [batch, length, features]: word embeddings, then character features."""
        words = self.embedding(input_ids)
        if self.character_layer is None:
            return words
        if characters is None:
            raise ValueError("a model with a character layer needs characters=: compute them with nlu_inputs")
        return torch.cat([words, self.character_layer(characters)], dim=-1)

    def read(self, embedded: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return intent logits [batch, intents] and emissions [batch, length, tags] for the result of :meth:`embed`."""
        hidden = self.dropout(embedded)
        whole = bool(mask.all())
        lengths = mask.sum(dim=1).cpu()
        for lstm in self.lstms:
            with kernels_for(hidden):
                if whole:
                    hidden, _ = lstm(hidden)
                else:
                    packed = pack_padded_sequence(hidden, lengths, batch_first=True, enforce_sorted=False)
                    hidden, _ = pad_packed_sequence(lstm(packed)[0], batch_first=True, total_length=mask.shape[1])
            hidden = self.dropout(hidden)
        pooled = hidden.sum(dim=1) / mask.sum(dim=1, keepdim=True).to(hidden.dtype)
        return self.intent(pooled), self.emission(hidden)

    def costs(self, logits: Tensor, emissions: Tensor, mask: Tensor, labels: Tensor, tags: Tensor) -> Tensor:
        """Return −ln P(intent, tags | words) of each row, in nats [batch]: the training objective (section 4.1).

        Args:
            logits: Intent logits [batch, intents].
            emissions: Tag emissions [batch, length, tags].
            mask: Boolean, [batch, length], false for padding.
            labels: Intents [batch].
            tags: Tags [batch, length].

        Returns:
            Tensor of shape [batch].
        """
        return cross_entropy(logits, labels, reduction="none") - self.crf(emissions, tags, mask, reduction="none")

    def decode(self, emissions: Tensor, mask: Tensor) -> list[list[int]]:
        """Return the most likely tags of each row (Viterbi), without padding."""
        return self.crf.decode(emissions, mask)

    def _init_weights(self, module: nn.Module) -> None:
        # PyTorch's default initialization, as in the other recurrent models; Ma and Hovy's for characters.
        if isinstance(module, nn.Embedding | nn.RNNBase | nn.Linear | nn.Conv1d | TagCRF):
            module.reset_parameters()
        if self.character_layer is not None and module is self.character_layer.embedding:
            reach = (3 / module.embedding_dim) ** 0.5
            nn.init.uniform_(module.weight, -reach, reach)
            module._fill_padding_idx_with_zero()


class CharacterLayer(nn.Module):
    """A convolution over each word's characters, with max pooling (Ma and Hovy, 2016, section 2.1).

    Character embeddings are initialized uniformly between ±√(3/size) (section 3.1 of the paper).
    """

    def __init__(self, config: NLUTaggerConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(config.characters) + 2, config.character_size, padding_idx=0)
        self.convolution = nn.Conv1d(
            config.character_size, config.character_filters, config.character_kernel, padding="same"
        )

    def forward(self, characters: Tensor) -> Tensor:
        """Return features [batch, length, filters] of ``characters`` [batch, length, characters]; 0 is padding."""
        present = (characters > 0).unsqueeze(2)
        # Without the mask, features would depend on the length of the longest word in the batch.
        largest = self.filtered(characters).masked_fill(~present, -torch.inf).amax(dim=-1)
        return largest.masked_fill(~present.any(dim=-1), 0.0)

    def filtered(self, characters: Tensor) -> Tensor:
        """Return the output of each filter at each character [batch, length, filters, characters]."""
        embedded = self.embedding(characters.flatten(0, 1))
        return self.convolution(embedded.transpose(1, 2)).unflatten(0, characters.shape[:2])
