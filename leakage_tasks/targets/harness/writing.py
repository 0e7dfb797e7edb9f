"""Texts written by harness models that take and return only text, such as servers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.harness.api import LM
from leakage_tasks.targets.harness.texts import HarnessTexts, TextTokens, requests_at_once
from leakage_tasks.targets.protocols import WrittenText
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig


class TextWriter:
    """A model that writes by ``generate_until``; its texts are tokenized with ``tokenizer``.

    Such a model uses its own random numbers; only some accept the seed of each text. A text counts as ended if it has
    fewer tokens than it may have.
    """

    def __init__(self, lm: LM, tokenizer: Any) -> None:
        self._lm = lm
        self._model = HarnessTexts(lm)
        self._tokens = TextTokens(tokenizer)

    def groups(self, prompts: Sequence[Any], length: int) -> Iterator[list[int]]:
        """Yield indices of prompts that are sent together."""
        size = requests_at_once(self._lm)
        indices = list(range(len(prompts)))
        yield from (indices[first : first + size] for first in range(0, len(indices), size))

    def write(self, prompts: Sequence[Any], uniforms: FloatArray, scheme: DecodingConfig) -> list[WrittenText]:
        """Write a text after each prompt. Raises TargetError for a model that cannot be sampled from."""
        length = uniforms.shape[1]
        rows = self._tokens.encode(self._model.sample(prompts, uniforms[:, 0], scheme, length))
        return [WrittenText(tuple(tokens[:length]), len(tokens) < length) for tokens in rows]

    def decode(self, tokens: Sequence[int]) -> str:
        return self._tokens.decode([tokens])[0]
