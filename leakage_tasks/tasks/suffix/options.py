"""Options of the task ``suffix_extraction``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import Any, Self

from leakage_tasks.attacks.suffix.finding import Selection, selections
from leakage_tasks.attacks.suffix.request import REQUEST_OPTIONS, SuffixRequest
from leakage_tasks.attacks.suffix.trained_confidence import TRAINED
from leakage_tasks.core.atomic import check_place
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.option import declared, options_of
from leakage_tasks.core.task_names import SUFFIXES as TASK
from leakage_tasks.pairs import Pair
from leakage_tasks.pairs.document_texts import hold_chats
from leakage_tasks.pairs.pair import EmptySplit
from leakage_tasks.pairs.rendering import Rendering
from leakage_tasks.pairs.source import PAIR_OPTIONS, Source, default_split, read_pairs
from leakage_tasks.targets.protocols import DrawsSuffixes
from leakage_tasks.targets.suffix.decoding_config import DECODING_OPTIONS, DecodingConfig
from leakage_tasks.tasks.options import TASKS, SearchOptions, declared_values, options_with_data, picked

VALIDATION = 500
"""Maximum number of pairs of the validation split on which ``confidence=trained`` is fitted."""
GUESSES = 10
"""Maximum number of guesses in a finding."""
ROWS = "metrics in the harness' table; results have all metrics; all adds the metrics of every confidence"
_DRAWING = ("samples", "temperature", "top_p", "top_k", "sample_counts")
IGNORED = {"sample": ("beams",), "greedy": (*_DRAWING, "beams"), "beam": (*_DRAWING, "near", "near_beam")}
"""Options that a decoding does not use."""


@dataclass(frozen=True)
class SuffixOptions(SearchOptions):
    """The settings of one run.

    ``given`` holds the values as the user gave them, for the requests. If ``wrong`` is None, the number of allowed
    wrong guesses depends on the number of pairs.
    """

    given: Mapping[str, Any]
    source: Source
    request: SuffixRequest
    controls: str | None = declared(
        None, "text or pairs of this kind that the model never saw, as controls; the whole file is attacked"
    )
    comparing_lm: str | None = declared(None, "second model with an equal tokenizer, for confidence=comparing_lm")
    untuned: str | None = declared(None, "the causal model before fine-tuning", usual="the model without its adapter")
    validation: int = declared(
        0, "number of pairs on which confidence=trained is fitted", usual=f"0, trained: {VALIDATION}"
    )
    wrong: int | None = declared(
        None, "number of wrong guesses that recall_early_stop allows", usual="100, below 1000 pairs a tenth"
    )
    guesses: str | None = declared(None, "CSV file to write the guesses to, in the format of the challenge")
    reveal: bool = declared(False, "show tokens in samples")

    @property
    def selections(self) -> list[Selection]:
        """The views and confidences from which the columns of results are read.

        Without ``rows=all`` these are the primary view, and the views and confidences that other options request.
        """
        confidences = self.request.confidences(self.comparing_lm is not None, self.validation > 0)
        if self.rows != "all":
            confidences = [name for name in confidences if name in ("comparing_lm", TRAINED)]
        return selections(self.request.confidence, confidences, self.request.views)

    def tested(self) -> tuple[Pair, ...]:
        """Return the pairs to attack. Raises OptionError if they cannot be read."""
        return read_pairs(self.source)

    def unseen(self) -> tuple[Pair, ...]:
        """Return the controls; empty if no controls are given. Raises OptionError if they cannot be read."""
        if self.controls is None:
            return ()
        pairs = read_pairs(replace(self.source, data=self.controls, split="all"))
        return tuple(replace(pair, id=-1 - pair.id) for pair in pairs)

    def attacked(self) -> tuple[Pair, ...]:
        """Return pairs and controls alternately, so that a subset has both. Raises OptionError if they cannot be
        read."""
        both = zip_longest(self.tested(), self.unseen())
        return tuple(pair for pair in chain.from_iterable(both) if pair is not None)

    def hold_chats(self) -> bool:
        """Return True if rows of some of the data are conversations."""
        named = [data for data in (self.source.data, self.controls) if data is not None]
        return any(hold_chats(data, self.source.text_column) for data in named)

    def rendered(self, rendering: Rendering | None) -> Self:
        """Return the options with a rendering of the conversations of all data; None joins their turns."""
        return replace(self, source=replace(self.source, rendering=rendering))

    def check_tokens(self, target: DrawsSuffixes, pairs: Sequence[Pair]) -> None:
        """Do nothing; a subclass raises OptionError for pairs that were made with another tokenizer."""

    def fitted_on(self) -> tuple[Pair, ...]:
        """Return the pairs on which a confidence is fitted; empty if it needs no fit.

        Raises OptionError if there are no such pairs.
        """
        if not self.validation:
            return ()
        try:
            return read_pairs(replace(self.source, split="validation"))[: self.validation]
        except EmptySplit as empty:
            raise OptionError(
                f"{self.source.data}: has no validation split to fit a confidence on (there are: {empty.there}): give "
                f"one, or leave validation= and confidence=trained out"
            ) from None


_OWN = options_of(SuffixOptions)
SUFFIX_OPTIONS = TASKS.register(
    TASK,
    {**PAIR_OPTIONS, **DECODING_OPTIONS, **REQUEST_OPTIONS, **_OWN, "rows": replace(_OWN["rows"], help=ROWS)},
    SuffixOptions,
)


def read_suffix_options(metadata: Mapping[str, Any]) -> SuffixOptions:
    """Return the options given for all tasks or under the task's name.

    Text is read with the model's own tokenizer unless another is given. Raises OptionError, and MissingOption without
    data.
    """
    needs = (
        "pairs of prefix and suffix: pass --metadata data=… (a folder of _prefix.npy and _suffix.npy, a .jsonl of "
        "pairs, or text)"
    )
    return suffix_options(options_with_data(metadata, TASK, SUFFIX_OPTIONS, needs))


def suffix_options(values: Mapping[str, Any]) -> SuffixOptions:
    """Return the options from typed values by name. Raises OptionError for an invalid value."""
    lengths: dict[str, Any] = {
        name: tuple(values.get(name, ())) for name in ("prefix_lengths", "suffix_lengths", "sample_counts")
    }
    settings = picked(values, REQUEST_OPTIONS.keys() - lengths.keys())
    request = SuffixRequest(
        scheme=DecodingConfig(**picked(values, DECODING_OPTIONS)),
        keep=GUESSES if values.get("reveal") else int("guesses" in values),
        locates=values.get("stride") is not None,
        **lengths,
        **settings,
    )
    for name in IGNORED[request.scheme.decoding]:
        if name in values:
            others = " or ".join(f"decoding={each}" for each in IGNORED if name not in IGNORED[each])
            raise OptionError(
                f"{name} means nothing to decoding={request.scheme.decoding}: leave it out, or use {others}"
            )
    if "near_beam" in values and not request.near:
        raise OptionError("near_beam means nothing without near: pass near=0.1, or leave it out")
    guesses = values.get("guesses")
    if request.confidence == "comparing_lm" and "comparing_lm" not in values:
        raise OptionError("confidence=comparing_lm needs a second model: pass --metadata comparing_lm=MODEL")
    if guesses is not None and check_place(guesses).is_dir():
        raise OptionError(f"guesses={guesses}: is a folder: name a .csv file in it")
    source = Source(**picked(values, PAIR_OPTIONS))
    if "split" not in values:
        source = replace(source, split=default_split(source.stride))
    validation = _validation(values.get("validation"), request.confidence, source.split)
    direct = declared_values(values, SuffixOptions) | {"validation": validation}
    return SuffixOptions(values, source, request, **direct)


def check_sweeps(pairs: Sequence[Pair], request: SuffixRequest) -> None:
    """Raise OptionError if ``prefix_lengths``, ``suffix_lengths`` or ``near`` exceeds the length of a pair."""
    for pair in pairs:
        request.check_near(pair)
    for name, lengths in (("prefix_lengths", request.prefix_lengths), ("suffix_lengths", request.suffix_lengths)):
        part = name.removesuffix("_lengths")
        for pair in pairs if lengths else ():
            if max(lengths) > len(getattr(pair, part)):
                raise OptionError(
                    f"{name} has {max(lengths)}, the {part} of {pair} {len(getattr(pair, part))} tokens: ask "
                    "for that or less"
                )


def usual_validation(confidence: str) -> int:
    """Return the number of pairs that a confidence is fitted on if ``validation`` is left out."""
    return VALIDATION if confidence == TRAINED else 0


def _validation(given: int | None, confidence: str, split: str) -> int:
    trained = confidence == TRAINED
    number = usual_validation(confidence) if given is None else given
    if number < 0 or (trained and not number):
        least = 1 if trained else 0
        raise OptionError(
            f"validation is {number}: give the number of pairs to fit the trained confidence on, {least} or more"
        )
    if number and split in ("validation", "all"):
        raise OptionError(
            f"split={split} holds the pairs that the trained confidence is fitted on: use split=test, or leave "
            "validation= and confidence=trained out"
        )
    return number
