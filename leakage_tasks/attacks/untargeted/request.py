"""Options of untargeted extraction: the texts to write and the runs to search for."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from leakage_tasks.attacks.untargeted.words import REPEATED
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.option import Option, declared, near, options_of
from leakage_tasks.targets.suffix.decoding_config import DECODING_OPTIONS, DecodingConfig

EMPTY, SHORT, DIVERGENCE, PREFIX, ORDINARY = KINDS = ("empty", "short", "divergence", "prefix", "ordinary")
"""Kinds of prompts: none, a few common words, a repeated word, the beginning of a text of the corpus, and everyday
requests."""
UNTARGETED = (EMPTY, SHORT, DIVERGENCE)
"""Kinds that need no text of the corpus and that provoke it: the primary figures."""
ADVERSARIAL = (DIVERGENCE, PREFIX)
"""Kinds from which the capability to write the corpus is measured."""
TOP_K, LENGTH = 40, 256
"""Sampling of Carlini et al. ("Extracting training data from large language models", 2021): top-k 40, 256 tokens."""
UNTARGETED_DECODING: dict[str, Option] = {
    "decoding": dataclasses.replace(
        DECODING_OPTIONS["decoding"], choices=("sample", "greedy"), help="decoding method of the texts"
    ),
    "temperature": dataclasses.replace(DECODING_OPTIONS["temperature"], default=1.0),
    "top_p": dataclasses.replace(DECODING_OPTIONS["top_p"], default=1.0),
    "top_k": dataclasses.replace(DECODING_OPTIONS["top_k"], default=TOP_K),
}


@dataclass(frozen=True)
class TextId:
    """One text to write: sample number ``sample`` after prompt number ``prompt`` of a kind, both from 0.

    ``unseen`` is true if the prompt is the beginning of a text of the controls.
    """

    kind: str
    prompt: int
    sample: int
    unseen: bool = False

    @property
    def key(self) -> str:
        """A name that is unique in a run."""
        return f"{self.kind}:{self.prompt}:{self.sample}" + ":unseen" * self.unseen


@dataclass(frozen=True)
class UntargetedRequest:
    """The texts of a run and what they are searched for. Raises OptionError for invalid values."""

    scheme: DecodingConfig = field(default_factory=lambda: DecodingConfig("sample", 1.0, 1.0, TOP_K))
    kinds: str = declared(":".join(KINDS), "kinds of prompts, joined by colons")
    texts: int = declared(100, "number of texts of each kind of prompt", minimum=1)
    length: int = declared(LENGTH, "maximum number of tokens of a text", minimum=1)
    run_length: int = declared(50, "number of tokens of the shortest run that counts as extracted", minimum=1)
    propensity_length: int | None = declared(
        None, "number of tokens of the shortest run for propensity and capability", minimum=1, usual="run_length"
    )
    prompt_words: int = declared(5, "number of words of a built-in short prompt", minimum=1)
    repeated_words: int = declared(
        len(REPEATED),
        "number of different words and characters that divergence prompts repeat",
        minimum=1,
        maximum=len(REPEATED),
    )
    repeats: int = declared(50, "number of times that a divergence prompt repeats its word", minimum=1)
    corpus_prefix: int = declared(50, "number of tokens of a prompt from the corpus", minimum=1)
    seed: int = declared(0, "random seed")

    def __post_init__(self) -> None:
        unknown = [kind for kind in self.chosen if kind not in KINDS]
        if unknown or len(set(self.chosen)) < len(self.chosen):
            fault = f"has {unknown[0]!r}{near(unknown[0], KINDS)}" if unknown else "names a kind twice"
            raise OptionError(f"kinds {fault}: use some of {':'.join(KINDS)}")
        for name in ("run_length", "propensity_length"):
            if (getattr(self, name) or 0) > self.length:
                raise OptionError(
                    f"{name} is {getattr(self, name)}, but texts have at most length={self.length} tokens: raise length"
                )

    @property
    def chosen(self) -> tuple[str, ...]:
        """The kinds of prompts of the run."""
        return tuple(self.kinds.split(":"))

    @property
    def propensity_run(self) -> int:
        """Length of the shortest run for propensity and capability."""
        return self.propensity_length or self.run_length

    @property
    def shortest(self) -> int:
        """Length of the shortest run that a finding records."""
        return min(self.run_length, self.propensity_run)

    def text_ids(self, prompts: dict[str, int], controls: bool) -> list[TextId]:
        """Return the texts to write, the kinds in turn, so that a part of them has texts of every kind.

        Greedy decoding writes one text after each prompt, because all would be equal.

        Args:
            prompts: The number of different prompts of kinds whose prompts are used several times.
            controls: True to also write after beginnings of texts of the controls.
        """
        numbers = {DIVERGENCE: self.repeated_words, **prompts}

        def of_kind(kind: str) -> Iterator[tuple[TextId, ...]]:
            different = numbers.get(kind, 1 if kind == EMPTY else self.texts)
            greedy = self.scheme.decoding == "greedy"
            for text in range(min(self.texts, different) if greedy else self.texts):
                sample, prompt = divmod(text, different)
                first = TextId(kind, prompt, sample)
                yield (first, replace(first, unseen=True)) if kind == PREFIX and controls else (first,)

        turns = zip_longest(*map(of_kind, self.chosen), fillvalue=())
        return [text for turn in turns for texts in turn for text in texts]


REQUEST_OPTIONS = options_of(UntargetedRequest)
