"""Texts written by a causal model on token ids, by the engine that draws suffixes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.pairs import Pair
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
from leakage_tasks.targets.suffix.target import CausalSuffixes
from leakage_tasks.targets.writing import WrittenText


class CausalWriter:
    """A causal model that writes after prompts of token ids; a text ends at the first of the tokens ``ends``."""

    def __init__(self, target: CausalSuffixes, ends: Collection[int]) -> None:
        self._target = target
        self._ends = frozenset(ends)

    def groups(self, prompts: Sequence[Sequence[int]], length: int) -> Iterator[list[int]]:
        """Yield indices of prompts of one length that fill a forward pass.

        Raises TargetError for prompts that leave no room for ``length`` tokens.
        """
        by_length: dict[int, list[int]] = {}
        for index, prompt in enumerate(prompts):
            by_length.setdefault(len(prompt), []).append(index)
        most = self._target.max_length
        longest = max(by_length, default=0)
        if most is not None and longest + length > most:
            raise TargetError(
                f"a prompt of {longest} tokens and length={length} exceed the model's context of {most} tokens: lower "
                "length, or use shorter prompts"
            )
        for indices in by_length.values():
            prompt = tuple(prompts[indices[0]])
            size = self._target.pairs_at_once(Pair(0, prompt, (0,) * length), 1)
            yield from (indices[first : first + size] for first in range(0, len(indices), size))

    def write(
        self, prompts: Sequence[Sequence[int]], uniforms: FloatArray, scheme: DecodingConfig
    ) -> list[WrittenText]:
        drawn = self._target.draw([list(prompt) for prompt in prompts], uniforms[:, None], scheme, self._ends)
        return [self._cut(samples.tokens[samples.of_draw[0]].tolist()) for samples in drawn]

    def decode(self, tokens: Sequence[int]) -> str:
        return self._target.decode([tokens])[0]

    def _cut(self, tokens: Sequence[int]) -> WrittenText:
        end = next((place for place, token in enumerate(tokens) if token in self._ends), None)
        return WrittenText(tuple(tokens[:end]), end is not None)
