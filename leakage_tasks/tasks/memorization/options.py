"""Options of the task ``memorization``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, replace
from typing import Any, Literal, Self

from leakage_tasks.attacks.suffix.confidences import FREQUENCY
from leakage_tasks.attacks.suffix.finding import HEADLINE, Selection
from leakage_tasks.attacks.suffix.request import SuffixRequest
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.option import declared, options_of
from leakage_tasks.core.task_names import WINDOWS as TASK
from leakage_tasks.pairs import Pair
from leakage_tasks.pairs.document_texts import hold_chats
from leakage_tasks.pairs.documents import GRAM, DocumentSource, SampledWindows, read_windows, shared_document
from leakage_tasks.pairs.rendering import Rendering
from leakage_tasks.pairs.source import Source
from leakage_tasks.targets.protocols import DrawsSuffixes
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
from leakage_tasks.tasks.options import TASKS, SearchOptions, declared_values, options_with_data, picked
from leakage_tasks.tasks.suffix.options import GUESSES, SUFFIX_OPTIONS, SuffixOptions

LENGTH = 50
"""Default number of tokens of a prefix, of a suffix, and of an n-gram."""
CHECKED = 8
"""Minimum number of windows whose tokens are compared with a new tokenization of their text."""
KEPT = ("tokenizer", "text_column", "reveal")
"""Options of ``suffix_extraction`` with an equal meaning."""


@dataclass(frozen=True)
class MemorizationSettings(SearchOptions):
    """Options of the task that ``suffix_extraction`` lacks or declares otherwise."""

    data: str = declared(
        MISSING, "documents of the training data: a file, a folder, a saved data set, hub:NAME, or pairs of token ids"
    )
    controls: str | None = declared(None, "documents that the model never saw, of similar kind, as controls")
    prefix: tuple[int, ...] | None = declared(
        None, "number of tokens of a prefix; of several, the longest is the primary length", usual=str(LENGTH)
    )
    suffix: int = declared(LENGTH, "number of tokens of a suffix", minimum=1)
    seed: int = declared(0, "the seed that draws documents, random offsets and exchanged suffixes")
    ngrams: tuple[int, ...] | None = declared(
        None, "lengths n of inclusion_rate_n, at most the length of the suffix", usual=f"{LENGTH}, at most suffix"
    )
    distance: Literal["tokens", "characters"] = declared("tokens", "unit of the edit distance of memorized_approximate")


MEMORIZATION_OPTIONS = TASKS.register(
    TASK,
    {
        **options_of(MemorizationSettings),
        **options_of(DocumentSource),
        **{name: SUFFIX_OPTIONS[name] for name in KEPT},
    },
    MemorizationSettings,
)


@dataclass(frozen=True)
class MemorizationOptions(SuffixOptions):
    """The settings of one run: greedy decoding after windows of documents."""

    documents: DocumentSource = DocumentSource()

    @property
    def selections(self) -> list[Selection]:
        """The primary view, and a view for each shorter prefix."""
        shorter = [Selection(name, "length", name, self.request.confidence) for name in self.request.views]
        return [Selection(HEADLINE, "headline", HEADLINE, self.request.confidence), *shorter]

    def sampled(self) -> SampledWindows:
        """Return the windows to attack. Raises OptionError if they cannot be read."""
        return read_windows(self.documents)

    def sampled_controls(self) -> SampledWindows | None:
        """Return the windows of the controls; None if no controls are given.

        Raises OptionError if they cannot be read, or if a control shares text with a sampled document.
        """
        if self.controls is None:
            return None
        controls = read_windows(replace(self.documents, data=self.controls, split="all"))
        if (shared := shared_document(self.sampled(), controls)) is not None:
            raise OptionError(
                f"controls={self.controls}: document {shared} (from 0) shares {GRAM} tokens in a row with "
                f"{self.documents.data}, so it is no text that the model never saw: remove it"
            )
        return controls

    def hold_chats(self) -> bool:
        """Return True if rows of some of the data are conversations."""
        documents = self.documents
        return hold_chats(documents.data, documents.text_column, documents.split) or (
            self.controls is not None and hold_chats(self.controls, documents.text_column)
        )

    def rendered(self, rendering: Rendering | None) -> Self:
        """Return the options with a rendering of the conversations of all data; None joins their turns."""
        return replace(super().rendered(rendering), documents=replace(self.documents, rendering=rendering))

    def tested(self) -> tuple[Pair, ...]:
        """Return the windows to attack. Raises OptionError if they cannot be read."""
        return self.sampled().pairs

    def unseen(self) -> tuple[Pair, ...]:
        """Return the windows of the controls, with negative ids; empty without controls."""
        controls = self.sampled_controls()
        return () if controls is None else tuple(replace(pair, id=-1 - pair.id) for pair in controls.pairs)

    def check_tokens(self, target: DrawsSuffixes, pairs: Sequence[Pair]) -> None:
        """Raise OptionError if nearly all of some windows change when they are decoded and tokenized again.

        This happens if the token ids were made with another tokenizer. The first token of a window may begin within a
        word, so it is not compared.
        """
        some = [[*pair.prefix, *pair.suffix] for pair in pairs[:: max(1, len(pairs) // CHECKED)]]
        again = target.encode(target.decode(some))
        same = sum(old[-len(old) // 2 :] == new[-len(old) // 2 :] for old, new in zip(some, again, strict=True))
        if len(some) >= CHECKED and same * 4 < len(some):
            raise OptionError(
                f"{self.source.data}: {len(some) - same} of {len(some)} windows change when their text is tokenized "
                "again, so another tokenizer made the token ids: leave tokenizer= out, or make the ids with the model's"
            )

    def fitted_on(self) -> tuple[Pair, ...]:
        """Return no pairs, because greedy decoding needs no confidence."""
        return ()


def read_memorization_options(metadata: Mapping[str, Any]) -> MemorizationOptions:
    """Return the options given for all tasks or under the task's name.

    Text is read with the model's own tokenizer unless another is given. Raises OptionError, and MissingOption without
    data.
    """
    needs = (
        "documents of the training data: pass --metadata data=… (a file, a folder, a data set saved by 'datasets', or "
        "hub:NAME)"
    )
    return memorization_options(options_with_data(metadata, TASK, MEMORIZATION_OPTIONS, needs))


def memorization_options(values: Mapping[str, Any]) -> MemorizationOptions:
    """Return the options from typed values by name. Raises OptionError for an invalid value."""
    prefixes = sorted(set(values.get("prefix", (LENGTH,))))
    suffix = values.get("suffix", LENGTH)
    if not prefixes or prefixes[0] < 1:
        raise OptionError(f"prefix={':'.join(map(str, prefixes))}: each length must be 1 token or more")
    check_ngrams(values.get("ngrams"), suffix)
    given = picked(values, (*options_of(DocumentSource), "seed", "tokenizer", "text_column"))
    documents = DocumentSource(data=values["data"], prefix=prefixes[-1], suffix=suffix, **given)
    request = SuffixRequest(
        scheme=DecodingConfig(decoding="greedy"),
        samples=1,
        seed=documents.seed,
        confidence=FREQUENCY,
        prefix_lengths=tuple(prefixes[:-1]),
        lowercase=False,
        keep=GUESSES if values.get("reveal") else 0,
        compares=True,
    )
    direct = declared_values(values, MemorizationOptions)
    return MemorizationOptions(values, Source(documents.data), request, documents=documents, **direct)


def check_ngrams(ngrams: Any, suffix: int) -> None:
    """Raise OptionError for an n-gram that is longer than the suffix or has no token; None is the default."""
    for length in ngrams or ():
        if not 1 <= length <= suffix:
            raise OptionError(f"ngrams has {length}: each length must be 1 to suffix={suffix}")
