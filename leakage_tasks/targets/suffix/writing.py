"""Texts written by a causal model on token ids, by the engine that draws suffixes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.pairs import Pair
from leakage_tasks.targets.protocols import WrittenText
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
from leakage_tasks.targets.suffix.target import CausalSuffixes

AT_ONCE = 256
"""Maximum number of texts that are written, and become known, together."""


class CausalWriter:
    """A causal model that writes after prompts of token ids; a text ends at the first of the tokens ``ends``."""

    def __init__(self, target: CausalSuffixes, ends: Collection[int]) -> None:
        self._target = target
        self._ends = frozenset(ends)

    def groups(self, prompts: Sequence[Sequence[int]], length: int) -> Iterator[list[int]]:
        """Yield indices of prompts that fill a forward pass and differ by at most ``length`` tokens.

        Raises TargetError for prompts that leave no room for ``length`` tokens.
        """
        order = sorted(range(len(prompts)), key=lambda index: len(prompts[index]))
        longest = len(prompts[order[-1]]) if order else 0
        most = self._target.max_length
        if most is not None and longest + length > most:
            raise TargetError(
                f"a prompt of {longest} tokens and length={length} exceed the model's context of {most} tokens: lower "
                "length, or use shorter prompts"
            )
        while order:
            reach = len(prompts[order[0]]) + length
            group = [index for index in order[:AT_ONCE] if len(prompts[index]) <= reach]
            size = self._target.pairs_at_once(Pair(0, tuple(prompts[group[-1]]), (0,) * length), 1)
            yield group[:size]
            order = order[len(group[:size]) :]

    def write(
        self, prompts: Sequence[Sequence[int]], uniforms: FloatArray, scheme: DecodingConfig
    ) -> list[WrittenText]:
        # A search reads prompts of one length only.
        lengths = [0 if scheme.decoding == "sample" else len(prompt) for prompt in prompts]
        texts: dict[int, WrittenText] = {}
        for length in dict.fromkeys(lengths):
            chosen = [index for index, other in enumerate(lengths) if other == length]
            drawn = self._target.draw(
                [list(prompts[index]) for index in chosen], uniforms[chosen, None], scheme, self._ends
            )
            rows = [samples.tokens[samples.of_draw[0]].tolist() for samples in drawn]
            texts |= dict(zip(chosen, map(self._cut, rows), strict=True))
        return [texts[index] for index in range(len(prompts))]

    def decode(self, tokens: Sequence[int]) -> str:
        return self._target.decode([tokens])[0]

    def _cut(self, tokens: Sequence[int]) -> WrittenText:
        end = next((place for place, token in enumerate(tokens) if token in self._ends), None)
        return WrittenText(tuple(tokens[:end]), end is not None)
