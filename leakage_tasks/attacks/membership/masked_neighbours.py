"""Similar texts by a masked language model, which fills some masked tokens of a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from leakage_tasks.attacks.membership.neighbours import Similar, Spoken, fixed_words, number_changed, whole_text
from leakage_tasks.attacks.streams import stream_of
from leakage_tasks.core.errors import TargetError
from leakage_tasks.models.loading import read_model, read_tokenizer
from leakage_tasks.targets.devices import in_double, on_device

ROWS = 16
"""Number of masked texts in a forward pass."""


def masked_neighbours(name: str, device: Any = "cpu", spoken: Spoken = whole_text) -> Similar:
    """Return a function that replaces random tokens of a text by draws from the masked model ``name``.

    All chosen tokens of a copy are masked at once, and the original token is never drawn. Words that are not wholly
    ``spoken``, and the text after the beginning that the masked model can read, stay as they are. Raises TargetError if
    the model cannot be loaded, or if its tokenizer does not map tokens to characters.
    """
    from transformers import AutoModelForMaskedLM

    def failure(reason: str) -> TargetError:
        return TargetError(f"neighbours={name}: cannot be loaded ({reason}): give a masked language model, or words")

    model, missing = read_model(AutoModelForMaskedLM, name, failure=failure)
    tokenizer = read_tokenizer(name, failure=failure)
    if missing:
        raise failure(f"{missing[0]} is not in its weights")
    if tokenizer.mask_token_id is None or not tokenizer.is_fast:
        raise TargetError(f"neighbours={name}: has no mask token or no fast tokenizer: give another one, or words")
    return _Filler(model.to(device).eval(), tokenizer, device, spoken)


class _Filler:
    """A masked model with its tokenizer, as a function that makes similar texts."""

    def __init__(self, model: Any, tokenizer: Any, device: Any, spoken: Spoken) -> None:
        self._model, self._tokenizer, self._device, self._spoken = model, tokenizer, device, spoken
        positions = getattr(model.config, "max_position_embeddings", None) or tokenizer.model_max_length
        # Some models reserve positions for padding.
        self._most = min(int(positions) - 2, int(tokenizer.model_max_length))

    def __call__(self, text: str, number: int, seed: int) -> list[str]:
        generator = stream_of(f"neighbours:{seed}:{text}")
        encoded = self._tokenizer(
            text, truncation=True, max_length=self._most, return_offsets_mapping=True, return_special_tokens_mask=True
        )
        fixed = fixed_words(text, self._spoken)
        changeable = [
            index
            for index, special in enumerate(encoded["special_tokens_mask"])
            if not special and not _meets(encoded["offset_mapping"][index], fixed)
        ]
        if not changeable:
            return [text] * number
        changed = number_changed(len(changeable))
        chosen = [np.sort(generator.choice(changeable, changed, replace=False)).tolist() for _ in range(number)]
        uniforms = generator.random((number, len(chosen[0])))
        drawn = self._drawn(encoded["input_ids"], chosen, uniforms)
        spans = encoded["offset_mapping"]
        return [
            self._replaced(text, [spans[index] for index in indices], tokens)
            for indices, tokens in zip(chosen, drawn, strict=True)
        ]

    def _drawn(self, ids: Sequence[int], chosen: Sequence[Sequence[int]], uniforms: Any) -> list[list[int]]:
        """Return the tokens drawn at the chosen places of each copy."""
        tokens: list[list[int]] = []
        special = list(self._tokenizer.all_special_ids)
        for first in range(0, len(chosen), ROWS):
            places = torch.tensor(chosen[first : first + ROWS], device=self._device)
            rows = torch.tensor([list(ids)] * len(places), device=self._device)
            truth = rows.gather(1, places)
            rows.scatter_(1, places, self._tokenizer.mask_token_id)
            with torch.inference_mode():
                logits = self._model(input_ids=rows).logits.float()
            logits = logits.gather(1, places[..., None].expand(-1, -1, logits.shape[-1]))
            logits[..., special] = -torch.inf
            logits.scatter_(2, truth[..., None], -torch.inf)
            running = in_double(logits).softmax(-1).cumsum(-1)
            sought = on_device(uniforms[first : first + ROWS], running.device)[..., None] * running[..., -1:]
            ranks = torch.searchsorted(running, sought, right=True)[..., 0]
            tokens += ranks.clamp(max=logits.shape[-1] - 1).tolist()
        return tokens

    def _replaced(self, text: str, spans: Sequence[tuple[int, int]], tokens: Sequence[int]) -> str:
        parts, end = [], 0
        for (start, stop), token in zip(spans, tokens, strict=True):
            piece = self._tokenizer.convert_ids_to_tokens(token)
            spelt = self._tokenizer.decode([token]).strip()
            parts += [text[end:start], spelt.removeprefix("##") if piece.startswith("##") else spelt]
            end = stop
        return "".join([*parts, text[end:]])


def _meets(span: tuple[int, int], others: Sequence[tuple[int, int]]) -> bool:
    return any(span[0] < end and start < span[1] for start, end in others)
