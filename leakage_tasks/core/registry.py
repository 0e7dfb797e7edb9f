"""Registries of named objects: attacks, targets, formats, presets, boards, studies and commands.

This package's objects register themselves with a decorator, each in a module of a package that the registry searches.
Other packages declare objects by entry points. No module is imported before a name is looked up or listed.
"""

from __future__ import annotations

import functools
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from leakage_tasks.core.errors import LeakageError, OptionError
from leakage_tasks.core.log import warn_once
from leakage_tasks.core.option import near

DISTRIBUTION = "lm-eval-leakage"
_OURS = ("leakage_tasks", "adapters", "task_configs")
Item = TypeVar("Item")
WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
"""Pattern of a name that a user can write as an option's value, or as the first part of ``attack.option=…``."""


class PluginError(LeakageError):
    """Error for an unusable object of another package: a name that is taken, or an invalid entry point."""


@dataclass(frozen=True)
class Plugin:
    """An object that another package provides. ``error`` is the reason why it is unusable, or empty."""

    kind: str
    name: str
    package: str
    error: str = ""


@dataclass(frozen=True)
class _Registered(Generic[Item]):
    item: Item
    origin: str
    """The module that registered the object, and its qualified name there."""
    package: str


class Registry(Mapping[str, Item]):
    """Objects of one kind by name, in order of registration, with other packages' objects last.

    ``kind`` is the word for such an object in messages. ``modules`` name the modules, or packages with modules, that
    register this package's objects; they are imported at the first lookup. ``group`` is the entry-point group of other
    packages. If ``words`` is True, all names must match :data:`WORD`, since users write them as options. ``former``
    maps former names to current ones: a lookup accepts a former name, a list omits it.

    A lookup raises OptionError for an unknown name, and PluginError for a name that two packages claim or whose package
    is unusable. Iteration logs a warning for such names and skips them.
    """

    def __init__(
        self,
        kind: str,
        *modules: str,
        group: str | None = None,
        words: bool = False,
        former: Mapping[str, str] | None = None,
    ) -> None:
        self.kind, self.modules, self.group, self.words, self.former = kind, modules, group, words, former or {}
        self._items: dict[str, _Registered[Item]] = {}
        self._loading: EntryPoint | None = None
        self._searched = False

    def register(self, name: str, item: Item, definition: Any = None) -> Item:
        """Register ``item`` under ``name``; ``definition`` is the function or class that it was made from, by default
        ``item``.

        Raises PluginError if the name is taken or is not a valid word. An equal definition may register again, as a
        notebook cell does when it is run twice.
        """
        made_of = item if definition is None else definition
        while isinstance(made_of, functools.partial):
            made_of = made_of.func
        module = getattr(made_of, "__module__", type(item).__module__)
        if module.partition(".")[0] not in _OURS:
            self._search()
        origin = f"{module}.{getattr(made_of, '__qualname__', name)}"
        package = self._package(module)
        if self.words and not WORD.fullmatch(name):
            raise PluginError(
                f"{self.kind} {name!r} of {package}: no name that {self.kind}=… can give: use letters, digits, '-' and "
                "'_', a letter or digit first"
            )
        known = self._items.get(name)
        if known is not None and known.origin != origin:
            raise PluginError(
                f"{self.kind} {name!r} of {package} has a name that {known.package} uses: choose another name"
            )
        self._items[name] = _Registered(item, origin, package)
        return item

    def without_plugins(self) -> dict[str, Item]:
        """Return the objects of this package and of this process, without the objects of other packages."""
        self._search()
        entries = {entry.name for entry in self._entries()}
        ours = self._items.items()
        return {
            name: registered.item
            for name, registered in ours
            if registered.package == DISTRIBUTION or name not in entries
        }

    def package_of(self, name: str) -> str:
        """Return the name of the package that provides ``name``. Raises the errors of a lookup."""
        self[name]
        return self._items[self._current(name)].package

    def __getitem__(self, name: str) -> Item:
        name = self._current(name)
        claims = [entry for entry in self._entries() if entry.name == name]
        if name in self._items and not claims:
            return self._items[name].item
        if not claims:
            raise OptionError(
                f"{self.kind} {name!r} is unknown: use {', '.join(sorted(self.names()))}{near(name, self.names())}"
            )
        mine = [self._items[name].package] if self.is_built_in(name) else []
        packages = [*mine, *map(package_of, claims)]
        if len(packages) > 1:
            raise PluginError(
                f"{self.kind} {name!r} comes from {' and from '.join(packages)}: uninstall all but one of them"
            )
        return self._load(claims[0])

    def get(self, name: str, default: Any = None) -> Any:
        """Return the object of ``name``, or ``default`` for an unknown name, for which a lookup raises OptionError."""
        if name in self:
            return self[name]
        return default

    def __contains__(self, name: object) -> bool:
        names = self.names()
        return name in names or self.former.get(str(name)) in names

    def __iter__(self) -> Iterator[str]:
        return iter([name for name in self.names() if self._usable(name)])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def names(self) -> list[str]:
        """Return all names without importing other packages."""
        self._search()
        return list(dict.fromkeys([*self._items, *(entry.name for entry in self._entries())]))

    def plugins(self) -> Iterator[Plugin]:
        """Yield the objects of other packages; each is loaded to check that it works."""
        self._search()
        for entry in self._entries():
            try:
                self[entry.name]
                yield Plugin(self.kind, entry.name, package_of(entry))
            except LeakageError as error:
                yield Plugin(self.kind, entry.name, package_of(entry), str(error))

    def _usable(self, name: str) -> bool:
        try:
            self[name]
        except PluginError as error:
            warn_once(f"lm-eval-leakage: {error}")
            return False
        return True

    def _current(self, name: str) -> str:
        """Return the current name for a former one, unless another package uses the former name."""
        return name if name in self.names() else self.former.get(name, name)

    def is_built_in(self, name: str) -> bool:
        """Return True if this package registered ``name``."""
        return name in self._items and self._items[name].package == DISTRIBUTION

    def _load(self, entry: EntryPoint) -> Item:
        """Import the entry point, which is a module or an object in a module that registers this name, and return its
        item."""
        if entry.name not in self._items:
            self._loading = entry
            try:
                entry.load()
            except LeakageError as error:
                raise PluginError(f"{self.kind} {entry.name!r} of {package_of(entry)}: {error}") from None
            except Exception as error:
                raise PluginError(
                    f"{self.kind} {entry.name!r} of {package_of(entry)} cannot be imported "
                    f"({type(error).__name__}: {error}): fix or uninstall it"
                ) from None
            finally:
                self._loading = None
        if entry.name not in self._items:
            raise PluginError(
                f"{self.kind} {entry.name!r} of {package_of(entry)}: {entry.value} registers no {self.kind} of that "
                f"name: correct the entry point in group {self.group}"
            )
        return self._items[entry.name].item

    def _entries(self) -> Sequence[EntryPoint]:
        return () if self.group is None else entries_of(self.group)

    def _package(self, module: str) -> str:
        if self._loading is not None:
            return package_of(self._loading)
        top = module.partition(".")[0]
        return DISTRIBUTION if top in _OURS else f"module {top}"

    def _search(self) -> None:
        if not self._searched:
            self._searched = True
            for name in self.modules:
                package = import_module(name)
                for module in pkgutil.iter_modules(getattr(package, "__path__", ()), f"{name}."):
                    import_module(module.name)


@functools.cache
def entries_of(group: str) -> Sequence[EntryPoint]:
    """Return the entry points of a group, sorted by name; they are read once per process."""
    return sorted(map(_standard, entry_points(group=group)), key=lambda entry: (entry.name, entry.value))


def _standard(entry: EntryPoint) -> EntryPoint:
    """Return the entry point as an instance of the standard library's class, since the harness loads no other class.

    After an import of the package importlib_metadata, the standard library returns instances of that package's class.
    """
    made = EntryPoint(entry.name, entry.value, entry.group)
    vars(made).update(dist=entry.dist)
    return made


def package_of(entry: EntryPoint) -> str:
    """Return the name of the package that an entry point belongs to."""
    return entry.dist.name if entry.dist is not None else entry.value


def check_callable(what: str, function: Callable[..., Any], takes: Sequence[str]) -> None:
    """Raise PluginError unless ``function`` accepts these positional arguments."""
    from inspect import signature

    if not callable(function):
        raise PluginError(f"{what}: {function!r} is not a function: expected one of ({', '.join(takes)})")
    try:
        signature(function).bind(*takes)
    except TypeError:
        raise PluginError(
            f"{what}: {function.__module__}.{function.__name__}{signature(function)} has the wrong signature: expected "
            f"({', '.join(takes)})"
        ) from None
