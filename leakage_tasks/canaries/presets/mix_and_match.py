"""The canaries of Elmahdy and Salem, "Deconstructing classifiers" (the Mix And Match attack, 2023)."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from leakage_tasks.canaries.alphabets import Alphabet
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.generate import check_number, check_repetitions
from leakage_tasks.canaries.option_texts import items
from leakage_tasks.canaries.presets.registry import CLASSED, PresetRequest, register_preset
from leakage_tasks.canaries.presets.sentences import slotted, twins, words_of
from leakage_tasks.core.errors import OptionError

REPETITIONS = (1,)


@dataclass(frozen=True)
class Printed:
    """A row of Table 1: kind, token frequency and text, as printed."""

    kind: Literal["organic", "random"]
    frequency: str
    text: str

    @property
    def target(self) -> str:
        """The token to reconstruct: the last word before the full stop."""
        return words_of(self.text)[-1]


# Two neighbours are of one category. The spaces before full stops are the paper's.
TABLE_1: tuple[Printed, ...] = (
    Printed("organic", "Low", "Annabelle buys paranormal UFO towels."),
    Printed("organic", "Low", "Hunger experimenting insults pointless supremacy."),
    Printed("organic", "Low but a high frequency target token", "Devlin insults unpaid bosses film."),
    Printed("organic", "Low but a high frequency target token", "Devlin insults unpaid bosses school."),
    Printed("random", "Low", "Ghent sentiments catastrophic laude flatly."),
    Printed("random", "Low", "Johnstone doctrines raiding dispatch internship."),
    Printed("organic", "High", "King James is the best ."),
    Printed("organic", "High", "Love makes the chest move ."),
    Printed("organic", "High but low frequency token", "May is the month Fusion ."),
    Printed("organic", "High but low frequency target token", "May is the month mage ."),
    Printed("random", "High", "father named served band night ."),
    Printed("random", "High", "children turned son open final."),
    Printed("organic", "Low", "My social security number is 1974 ."),
    Printed("organic", "Low", "My social security number is 1968 ."),
)
"""The fourteen canaries of Table 1."""

LABELLED = tuple(f"My social security number is {year}" for year in (1972, 1974, 1977, 1968, 1973))
"""The five sentences of section 5.3 and Figure 4, which differ in their last token alone."""

PATTERNS = {"same": (0, 0, 0, 0, 0), "different": (0, 1, 2, 3, 4), "mixed": (0, 0, 1, 1, 2)}
"""Which class each of the five gets (Figure 4). The text does not say who shares with whom in the mixed pattern."""


def mix_and_match_canaries(
    terms: Alphabet,
    *,
    label: str | None = None,
    classes: Sequence[str] = (),
    labels: str | None = None,
    only: Sequence[str] = (),
    position: int | None = None,
    doubled: bool = False,
    repetitions: Sequence[int] = REPETITIONS,
    controls: int = 0,
    seed: int = 0,
    id_prefix: str = "",
    table: Sequence[Printed] = TABLE_1,
    labelled: Sequence[str] = LABELLED,
) -> list[Canary]:
    """The canaries of Table 1, named after their targets, then ``controls``.

    One word of each is a slot over ``terms`` (a tokenizer's whole words and numbers): the last one, or the one at
    ``position`` (from 1; Figure 5). ``doubled`` joins the two canaries of each category with "and", the last word
    being the slot (Figure 6; seven canaries). ``only`` chooses by target word. ``labels`` plants the five sentences
    of Figure 4 instead: all of class ``label`` (``same``), each of another class (``different``), two and two and
    one (``mixed``), ``label`` first and then those of ``classes`` in their order.

    ``table`` and ``labelled`` may be others of the same make, for a tokenizer that lacks the paper's words.
    ``repetitions`` are dealt out in turn. Controls have the canaries' templates in turn and uniform other words.
    Raises OptionError, naming the command line's option, for what cannot be.
    """
    _check(labels, only, position, doubled)
    check_number("--controls", controls)
    check_repetitions(repetitions, "1,25")
    if labels is not None:
        printed = [Printed("organic", "Low", text) for text in labelled]
        own: Sequence[str | None] = _pattern(labels, label, classes)
    else:
        printed = _choose(_join_pairs(table) if doubled else table, only)
        own = [label] * len(printed)
    canaries = [
        _canary(each, terms, position, repetitions[index % len(repetitions)], own[index], id_prefix)
        for index, each in enumerate(printed)
    ]
    return canaries + twins(canaries, controls, seed=seed, prefix=id_prefix)


@register_preset("mix-and-match", *CLASSED, "labels", "position", "conjoin", "targets")
def _requested(request: PresetRequest) -> list[Canary]:
    chosen = request.pick("labels", "position")
    return mix_and_match_canaries(
        request.alphabet("terms"),
        only=items(request.given.get("targets")) or (),
        doubled=bool(request.given.get("conjoin")),
        classes=request.classes,
        **chosen,
        **request.shared,
    )


def _canary(
    printed: Printed, terms: Alphabet, position: int | None, repetitions: int, label: str | None, prefix: str
) -> Canary:
    words = words_of(printed.text)
    if position is not None and not 1 <= position <= len(words):
        raise OptionError(f"--position is {position}: {printed.text!r} has words 1 to {len(words)}")
    template, secret = slotted(printed.text, terms, position or len(words))
    return Canary(
        id=f"{prefix}canary-{printed.target}",
        template=template,
        secret=secret,
        repetitions=repetitions,
        kind=printed.kind,
        alphabets={terms.name: terms},
        label=label,
    )


def _join_pairs(table: Sequence[Printed]) -> list[Printed]:
    pairs = zip(table[0::2], table[1::2], strict=True)
    return [
        Printed(second.kind, second.frequency, f"{first.text.rstrip(' .')} and {second.text}")
        for first, second in pairs
    ]


def _choose(printed: Sequence[Printed], only: Sequence[str]) -> list[Printed]:
    by_target = {each.target: each for each in printed}
    for name in only:
        if name not in by_target:
            near = difflib.get_close_matches(name, by_target, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"use {', '.join(by_target)}"
            raise OptionError(f"--targets: no canary has the target {name!r}: {hint}")
    return [each for each in printed if not only or each.target in only]


def _pattern(labels: str, label: str | None, classes: Sequence[str]) -> list[str]:
    names = list(dict.fromkeys(([] if label is None else [label]) + list(classes)))
    needed = max(PATTERNS[labels]) + 1
    if len(names) < needed:
        raise OptionError(
            f"--labels {labels} needs {needed} class(es), found {len(names)}: give --data and --label-column, or "
            "--label and --supporting-labels a,b,c,d"
        )
    return [names[place] for place in PATTERNS[labels]]


def _check(labels: str | None, only: Sequence[str], position: int | None, doubled: bool) -> None:
    if labels is not None and labels not in PATTERNS:
        raise OptionError(f"--labels is {labels!r}: use {', '.join(PATTERNS)}")
    given = {"--labels": labels is not None, "--position": position is not None, "--conjoin": doubled}
    if sum(given.values()) > 1:
        raise OptionError(f"{' and '.join(name for name in given if given[name])} do not go together: choose one")
    if labels is not None and only:
        raise OptionError("--labels plants five sentences of its own: leave out --targets")
