"""Presets by name: whole sets of canaries, each made in a file of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from leakage_tasks.canaries.alphabets import TOKENIZER_KINDS, Alphabet, tokenizer_words
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.former_names import accept_former_names
from leakage_tasks.core.option import Option
from leakage_tasks.core.registry import Registry, check_callable

CLASSED = ("repetitions", "tokenizer", "label", "supporting_labels", "data", "label_column")
"""Options of ``leakage canaries`` for presets whose canaries have a class, and others beside it."""
COUNTED = (*CLASSED, "profile", "count", "supporting")
"""The same for presets that make any number of them."""


@accept_former_names(settings="values")
@dataclass(frozen=True)
class PresetRequest:
    """What a preset was asked for."""

    preset: str
    """Its name."""
    given: Mapping[str, Any]
    """Options of ``leakage canaries`` that were given, by their names in Python."""
    shared: Mapping[str, Any]
    """``controls``, ``seed``, ``id_prefix``, ``label``, and ``repetitions`` (whole numbers) if that was given."""
    classes: Sequence[str] = ()
    """The classes there are besides the label, those of fewest rows first."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """A value for each of the preset's own options, by name."""

    def pick(self, *names: str) -> dict[str, Any]:
        """The options of these names that were given."""
        return {name: self.given[name] for name in names if name in self.given}

    def alphabet(self, name: str) -> Alphabet:
        """The ``words`` or ``terms`` of the tokenizer that was given. Raises OptionError if none was."""
        if "tokenizer" not in self.given:
            raise OptionError(
                f"--preset {self.preset} needs --tokenizer, a folder or hub name: its words are the space"
            )
        return tokenizer_words(name, self.given["tokenizer"], TOKENIZER_KINDS[name])


Make = Callable[[PresetRequest], Sequence[Canary]]


@dataclass(frozen=True)
class Preset:
    """A registered preset: what makes its canaries, which options of the command it takes, and its own ``options``."""

    make: Make
    takes: frozenset[str]
    options: tuple[Option, ...] = ()


PRESETS: Registry[Preset] = Registry(
    "preset", "leakage_tasks.canaries.presets", group="lm_eval_leakage.presets", words=True
)


def register_preset(name: str, *takes: str, options: Sequence[Option] = ()) -> Callable[[Make], Make]:
    """Register a function of a :class:`PresetRequest` as what makes the canaries of ``--preset NAME``.

    ``takes`` are options of ``leakage canaries`` that it makes use of, besides those of all presets. ``options`` are
    its own, given by ``--set NAME=VALUE``. Raises PluginError for a name that is taken and for another signature.
    """

    def add(make: Make) -> Make:
        check_callable(f"preset {name!r}", make, ["request"])
        PRESETS.register(name, Preset(make, frozenset(takes), tuple(options)), make)
        return make

    return add
