"""The registry of presets; a preset makes a whole set of canaries and is defined in its own file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from leakage_tasks.canaries.alphabets import TOKENIZER_KINDS, Alphabet, tokenizer_words
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.former_names import PRESET_OPTIONS, accept_former_arguments, accept_former_names
from leakage_tasks.core.option import Option
from leakage_tasks.core.registry import Registry, check_callable

CLASSED = ("repetitions", "tokenizer", "label", "supporting_labels", "data", "label_column")
"""Options of ``leakage canaries`` that apply to presets whose canaries have a class."""
COUNTED = (*CLASSED, "profile", "count", "supporting")
"""Options that apply to presets with classes and a variable number of canaries."""


@accept_former_names(settings="values")
@dataclass(frozen=True)
class PresetRequest:
    """The arguments of a preset."""

    preset: str
    """The name of the preset."""
    given: Mapping[str, Any]
    """The given options of ``leakage canaries``, by their Python names."""
    shared: Mapping[str, Any]
    """``controls``, ``seed``, ``id_prefix``, ``label``, and ``repetitions`` (whole numbers) if the user gave them."""
    classes: Sequence[str] = ()
    """The classes other than the label, in ascending order of rows."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """The values of the preset's own options, by name."""

    def pick(self, *names: str) -> dict[str, Any]:
        """Return the options with these names that were given."""
        return {name: self.given[name] for name in names if name in self.given}

    def alphabet(self, name: str) -> Alphabet:
        """Return the ``words`` or ``terms`` of the given tokenizer. Raises OptionError without a tokenizer."""
        if "tokenizer" not in self.given:
            raise OptionError(
                f"--preset {self.preset} needs --tokenizer, a folder or hub name: its words are the space"
            )
        return tokenizer_words(name, self.given["tokenizer"], TOKENIZER_KINDS[name])


Make = Callable[[PresetRequest], Sequence[Canary]]


@dataclass(frozen=True)
class Preset:
    """A registered preset: its function, the options of the command that it accepts, and its own ``options``."""

    make: Make
    takes: frozenset[str]
    options: tuple[Option, ...] = ()


PRESETS: Registry[Preset] = Registry(
    "preset", "leakage_tasks.canaries.presets", group="lm_eval_leakage.presets", words=True
)


@accept_former_arguments(settings="options")
def register_preset(name: str, *takes: str, options: Sequence[Option] = ()) -> Callable[[Make], Make]:
    """Register a function of a :class:`PresetRequest` that makes the canaries of ``--preset NAME``.

    ``takes`` are the options of ``leakage canaries`` that it uses, in addition to the options of all presets.
    ``options`` are its own, given with ``--set NAME=VALUE``. Raises PluginError for a name that is taken and for a
    function with another signature.
    """

    current_names = frozenset(PRESET_OPTIONS.get(option, option) for option in takes)

    def add(make: Make) -> Make:
        check_callable(f"preset {name!r}", make, ["request"])
        PRESETS.register(name, Preset(make, current_names, tuple(options)), make)
        return make

    return add
