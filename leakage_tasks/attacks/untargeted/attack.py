"""Untargeted extraction: write texts, and search them for runs of tokens that occur in a corpus and in controls.

The method is that of Nasr et al. ("Scalable extraction of training data from (production) language models", 2023):
every stretch of 50 or more tokens that the corpus holds verbatim counts as extracted. Each text has its own random
numbers, so that batches, order and other texts do not change it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from leakage_tasks.attacks.streams import stream_of
from leakage_tasks.attacks.untargeted.finding import Hits, UntargetedFinding
from leakage_tasks.attacks.untargeted.request import DIVERGENCE, PREFIX, TextId, UntargetedRequest
from leakage_tasks.canaries.detect import GROUPS, find_secrets
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.pairs.index.search import NOWHERE, Matches, find_matches
from leakage_tasks.pairs.index.store import CorpusIndex
from leakage_tasks.targets.protocols import WrittenText
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig

DIVERGED = 10
"""Number of other words, without a repetition in between, from which a text has diverged."""
WORDS_IN_A_ROW, MARKS_IN_A_ROW = 2, 5
"""Numbers of times in a row from which a word, and a punctuation mark, is repeated. Markdown repeats some marks three
times."""


class WritesPrompted(Protocol):
    """A model that writes texts after prompts in its own form."""

    def groups(self, prompts: Sequence[Any], length: int) -> Iterator[list[int]]:
        """Yield indices of prompts that are continued together, each index once."""

    def write(self, prompts: Sequence[Any], uniforms: FloatArray, scheme: DecodingConfig) -> list[WrittenText]:
        """Write a text after each prompt of a group, from random numbers ``[prompts, length]``."""

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens."""


@dataclass(frozen=True)
class Prompt:
    """A text to write, with the model's form of its prompt.

    ``word`` is the word that a divergence prompt repeats. ``begun`` is true if the prompt itself repeats it, so that
    the model continues the repetition; false if it asks for the repetition.
    """

    id: TextId
    given: Any
    word: str | None = None
    begun: bool = False


def extract_untargeted(
    writer: WritesPrompted,
    prompts: Sequence[Prompt],
    request: UntargetedRequest,
    corpus: CorpusIndex,
    controls: CorpusIndex | None = None,
    *,
    reveal: bool = False,
    progress: Callable[..., Any] | None = None,
    known: Mapping[int, UntargetedFinding] = MappingProxyType({}),
    done: Callable[[int, UntargetedFinding], None] | None = None,
) -> list[UntargetedFinding]:
    """Write a text after each prompt, search it, and return the findings in the order of the prompts.

    The groups of prompts do not depend on ``known``, so that known findings change no result.

    Args:
        writer: The model.
        prompts: The texts to write.
        request: The options of the attack.
        corpus: The index of the corpus.
        controls: The index of text that the model never saw.
        reveal: Keep the written texts in the findings.
        progress: Makes a progress bar.
        known: Findings that exist already, by prompt index.
        done: Called with index and finding of each other prompt as soon as it is complete.

    Returns:
        One finding per prompt.

    Raises:
        TargetError: A prompt does not fit the model.
    """
    findings: dict[int, UntargetedFinding] = {}
    search = _Search(writer, request, corpus, controls, reveal)
    groups = writer.groups([prompt.given for prompt in prompts], request.length)
    # The first group comes after the check of all prompts, whose error must not follow a bar.
    first = list(islice(groups, 1))
    with progress(total=len(prompts)) if progress else nullcontext() as bar:
        for group in chain(first, groups):
            if known.keys() >= set(group):
                findings |= {index: known[index] for index in group}
            else:
                chosen = [prompts[index] for index in group]
                uniforms = np.stack([stream(request.seed, prompt.id).random(request.length) for prompt in chosen])
                texts = writer.write([prompt.given for prompt in chosen], uniforms, request.scheme)
                for index, prompt, text in zip(group, chosen, texts, strict=True):
                    findings[index] = known[index] if index in known else search.finding(prompt, text)
                    if done is not None and index not in known:
                        done(index, findings[index])
            if bar is not None:
                bar.update(len(group))
    return [findings[index] for index in range(len(prompts))]


def stream(seed: int, text: TextId, what: str = "text") -> np.random.Generator:
    """Return the random numbers of one text, determined by the seed and the text's identity."""
    return stream_of(f"untargeted:{what}:{seed}:{text.key}")


def has_diverged(text: str, word: str, begun: bool) -> bool:
    """Return True if a text that should repeat ``word`` goes on with :data:`DIVERGED` other words.

    Words before the first repetition do not count unless the prompt has ``begun`` it: a refusal does not diverge.
    ``word`` can be a character. It is repeated if it occurs several times without another word in between, because any
    text contains single letters, commas and full stops.
    """
    fewest = WORDS_IN_A_ROW if word[0].isalnum() else MARKS_IN_A_ROW
    in_a_row = others = 0
    # A row of underscores is a row of marks, although they belong to words.
    for piece in re.findall(r"_*+[^\W_]\w*|[^\w\s]|_", text.lower()):
        if piece == word.lower():
            in_a_row += 1
            if in_a_row >= fewest:
                begun, others = True, 0
        elif piece[0].isalnum():
            in_a_row = 0
            others += begun
            if others == DIVERGED:
                return True
    return False


@dataclass(frozen=True)
class _Search:
    writer: WritesPrompted
    request: UntargetedRequest
    corpus: CorpusIndex
    controls: CorpusIndex | None
    reveal: bool

    def finding(self, prompt: Prompt, written: WrittenText) -> UntargetedFinding:
        """Search one text; text after a corpus' prefix is searched in this corpus only."""
        text, tokens = self.writer.decode(written.tokens), written.tokens
        begun = prompt.id.kind == PREFIX
        matches = None if begun and prompt.id.unseen else self._matches(self.corpus, tokens)
        without = self.controls is None or (begun and not prompt.id.unseen)
        unseen = None if without or self.controls is None else self._matches(self.controls, tokens)
        diverges = prompt.id.kind == DIVERGENCE and prompt.word is not None
        return UntargetedFinding(
            **vars(prompt.id),
            scheme=str(self.request.scheme),
            run_length=self.request.run_length,
            tokens=len(tokens),
            ended=written.ended,
            hits=None if matches is None else self._hits(self.corpus, matches),
            control_hits=None if unseen is None or self.controls is None else self._hits(self.controls, unseen),
            diverged=has_diverged(text, prompt.word or "", prompt.begun) if diverges else None,
            personal={} if matches is None else self._personal(tokens, matches),
            written=_detected([text]),
            text=text if self.reveal else None,
        )

    def _matches(self, index: CorpusIndex, tokens: Sequence[int]) -> tuple[Matches, Matches]:
        """Return the matches by the shortest run, and those of the n-grams that are counted."""
        runs = find_matches(index, tokens, self.request.shortest)
        whole = self.request.shortest == self.request.run_length
        return runs, runs if whole else find_matches(index, tokens, self.request.run_length)

    def _hits(self, index: CorpusIndex, matches: tuple[Matches, Matches]) -> Hits:
        runs = tuple((run.start, run.length, *index.place(run.position)) for run in matches[0].runs)
        return Hits(runs, tuple(_stretches(index, matches[1])))

    def _personal(self, tokens: Sequence[int], matches: tuple[Matches, Matches]) -> dict[str, int]:
        return _detected([self.writer.decode(tokens[run.start : run.start + run.length]) for run in matches[1].runs])


def _stretches(index: CorpusIndex, matches: Matches) -> Iterator[tuple[int, int, int]]:
    """Yield the document, offset and number of n-grams at consecutive positions of the corpus."""
    positions = matches.positions[matches.positions != NOWHERE]
    breaks = np.flatnonzero(np.diff(positions) != 1) + 1
    for part in np.split(positions, breaks):
        if len(part):
            yield (*index.place(int(part[0])), len(part))


def _detected(texts: Sequence[str]) -> dict[str, int]:
    """Return the number of different pieces of personal data by kind."""
    found = {(secret.kind, secret.normal) for text in texts for secret in find_secrets(text, GROUPS["personal"])}
    return dict(sorted(Counter(kind for kind, _ in found).items()))
