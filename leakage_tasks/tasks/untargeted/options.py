"""Options of the task ``untargeted_extraction``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from typing import Any

from leakage_tasks.attacks.untargeted.request import (
    ORDINARY,
    REQUEST_OPTIONS,
    SHORT,
    UNTARGETED_DECODING,
    TextId,
    UntargetedRequest,
)
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.option import declared, options_of
from leakage_tasks.core.task_names import TEXTS as TASK
from leakage_tasks.pairs.index.corpus import IndexSource
from leakage_tasks.pairs.index.store import CorpusIndex
from leakage_tasks.pairs.source import PAIR_OPTIONS
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
from leakage_tasks.tasks.options import TASKS, SearchOptions, declared_values, options_with_data, picked
from leakage_tasks.tasks.untargeted.corpora import check_controls, read_corpus
from leakage_tasks.tasks.untargeted.prompts import PromptTexts, read_prompts

_DRAWING = ("temperature", "top_p", "top_k")


@dataclass(frozen=True)
class UntargetedOptions(SearchOptions):
    """The settings of one run; ``given`` holds the values as the user gave them, for the requests."""

    given: Mapping[str, Any]
    request: UntargetedRequest
    data: str = declared(MISSING, "the corpus: a folder made by 'leakage index', or up to 64 MiB of text")
    controls: str | None = declared(None, "text of this kind that the model never saw, as controls; as data")
    prompts: str | None = declared(None, "short prompts, one per line", usual="built-in words")
    ordinary: str | None = declared(None, "everyday prompts, one per line", usual="built-in")
    tokenizer: str | None = declared(
        None, "the tokenizer of the text", of_model=True, usual="the model's, or that of the index"
    )
    text_column: str = declared("text", PAIR_OPTIONS["text_column"].help)
    reveal: bool = declared(False, "show the written texts in samples", affects_results=False)

    @property
    def texts(self) -> PromptTexts:
        """The prompts. Raises OptionError for a file that cannot be read."""
        short = () if self.prompts is None else read_prompts(self.prompts, "prompts")
        usual = PromptTexts(self.request, short)
        return (
            usual if self.ordinary is None else PromptTexts(self.request, short, read_prompts(self.ordinary, ORDINARY))
        )

    def text_ids(self) -> list[TextId]:
        """Return the texts to write, in the order of the documents."""
        return self.request.text_ids(self.texts.numbers, self.controls is not None)

    def corpus(self) -> CorpusIndex:
        """Return the index of the corpus. Raises OptionError if it is not usable."""
        return read_corpus(IndexSource(self.data, self.tokenizer, self.text_column))

    def unseen(self) -> CorpusIndex | None:
        """Return the index of the controls; None without controls. Raises OptionError if they are not usable."""
        if self.controls is None:
            return None
        return read_corpus(IndexSource(self.controls, self.tokenizer, self.text_column))

    def checked_corpora(self) -> tuple[CorpusIndex, CorpusIndex | None]:
        """Return both indexes. Raises OptionError if they do not fit together."""
        corpus, unseen = self.corpus(), self.unseen()
        length = self.request.run_length
        for name, index in ((f"data={self.data}", corpus), (f"controls={self.controls}", unseen)):
            if index is not None and index.longest < length:
                raise OptionError(
                    f"{name}: its longest document has {index.longest:,} tokens, so no text can hold a run of "
                    f"run_length={length}: lower run_length, or give longer documents"
                )
        if unseen is not None:
            check_controls(corpus, unseen, self.data, str(self.controls), self.request.run_length)
        return corpus, unseen


UNTARGETED_OPTIONS = TASKS.register(
    TASK, {**UNTARGETED_DECODING, **REQUEST_OPTIONS, **options_of(UntargetedOptions)}, UntargetedOptions
)


def read_untargeted_options(metadata: Mapping[str, Any]) -> UntargetedOptions:
    """Return the options given for all tasks or under the task's name.

    Text is read with the model's own tokenizer unless another is given. Raises OptionError, and MissingOption without
    data.
    """
    needs = "the corpus: pass --metadata data=… (a folder made by 'leakage index', or text)"
    return untargeted_options(options_with_data(metadata, TASK, UNTARGETED_OPTIONS, needs))


def untargeted_options(values: Mapping[str, Any]) -> UntargetedOptions:
    """Return the options from typed values by name. Raises OptionError for an invalid value."""
    usual = {name: option.default for name, option in UNTARGETED_DECODING.items()}
    scheme = DecodingConfig(**{**usual, **picked(values, UNTARGETED_DECODING)})
    for name in _DRAWING if scheme.decoding == "greedy" else ():
        if name in values:
            raise OptionError(f"{name} means nothing to decoding=greedy: leave it out, or use decoding=sample")
    request = UntargetedRequest(scheme, **picked(values, REQUEST_OPTIONS))
    for name, kind in (("prompts", SHORT), ("ordinary", ORDINARY)):
        if name in values and kind not in request.chosen:
            raise OptionError(f"{name}={values[name]} has no use without kinds={kind}: add the kind, or leave it out")
    return UntargetedOptions(values, request, **declared_values(values, UntargetedOptions))
