"""What goes by a name, from here and from other packages."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import pytest

from leakage_tasks.core import registry
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.registry import PluginError, Registry, check_callable

Entries = Callable[..., None]


class Package:
    """A distribution with a name."""

    def __init__(self, name: str) -> None:
        self.name = name


@pytest.fixture
def kinds() -> Iterator[Registry[str]]:
    """A registry whose other packages register in it as they are imported."""
    made: Registry[str] = Registry("kind", group="test.kinds")
    registry.TESTED = made  # type: ignore[attr-defined]
    yield made
    del registry.TESTED  # type: ignore[attr-defined]


@pytest.fixture
def bring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Entries]:
    """Makes entry points of other packages: their name, package and the code of their module."""
    monkeypatch.syspath_prepend(tmp_path)
    found: list[EntryPoint] = []
    modules: list[str] = []

    def add(name: str, package: str, code: str) -> None:
        module = f"outside_{len(found)}"
        modules.append(module)
        (tmp_path / f"{module}.py").write_text(f"from leakage_tasks.core.registry import TESTED\n{code}\n")
        entry = EntryPoint(name, module, "test.kinds")
        vars(entry).update(dist=Package(package))
        found.append(entry)

    monkeypatch.setattr(registry, "entries_of", lambda group: found)
    yield add
    for module in modules:
        sys.modules.pop(module, None)


def test_other_packages_are_imported_when_they_are_named_or_listed(kinds: Registry[str], bring: Entries) -> None:
    kinds.register("own", "ours", Registry)
    bring("theirs", "ext", "class A: pass\nTESTED.register('theirs', 'brought', A)")
    assert kinds.names() == ["own", "theirs"]
    assert "theirs" in kinds
    assert "outside_0" not in sys.modules
    assert kinds["own"] == "ours"
    assert "outside_0" not in sys.modules
    assert kinds["theirs"] == "brought"
    assert kinds.package_of("theirs") == "ext"
    assert kinds.without_plugins() == {"own": "ours"}
    assert dict(kinds) == {"own": "ours", "theirs": "brought"}


def test_a_name_that_two_packages_bring_is_an_error_that_names_both(kinds: Registry[str], bring: Entries) -> None:
    kinds.register("one", "ours", Registry)
    bring("one", "ext", "")
    bring("two", "ext-a", "")
    bring("two", "ext-b", "")
    with pytest.raises(PluginError, match="^kind 'one' comes from lm-eval-leakage and from ext: uninstall all"):
        kinds["one"]
    with pytest.raises(PluginError, match="^kind 'two' comes from ext-a and from ext-b: uninstall"):
        kinds["two"]
    assert kinds.without_plugins() == {"one": "ours"}


def test_a_name_that_is_ours_cannot_be_registered_again(kinds: Registry[str]) -> None:
    kinds.register("one", "ours", Registry)
    with pytest.raises(PluginError, match="^kind 'one' of module tests has a name that lm-eval-leakage uses: choose"):
        kinds.register("one", "theirs", Package)
    kinds.register("mine", "first", Package)
    assert kinds.register("mine", "second", Package) == kinds["mine"] == "second"


def test_a_partial_function_is_of_the_module_of_its_function() -> None:
    """A room's own module that registers one must not have the whole room imported while it is being imported."""
    made: Registry[str] = Registry("kind", "no.such.room")
    assert made.register("one", "ours", partial(partial(check_callable), "what")) == "ours"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import no_such_module", "kind 'x' of ext cannot be imported .ModuleNotFoundError: No module named 'no_such_"),
        ("", "kind 'x' of ext: outside_0 registers no kind of that name: correct the entry point in group test.kinds"),
    ],
)
def test_a_package_that_cannot_be_used_is_one_line_and_no_obstacle(
    kinds: Registry[str], bring: Entries, caplog: pytest.LogCaptureFixture, code: str, message: str
) -> None:
    kinds.register("own", "ours", Registry)
    bring("x", "ext", code)
    with pytest.raises(PluginError, match=message):
        kinds["x"]
    assert dict(kinds) == {"own": "ours"}
    (found,) = kinds.plugins()
    assert (found.name, found.package) == ("x", "ext")
    assert found.error


def test_an_unknown_name_is_met_with_the_nearest(kinds: Registry[str]) -> None:
    kinds.register("jsonl", "ours", Registry)
    with pytest.raises(OptionError, match="^kind 'json' is unknown: use jsonl; did you mean 'jsonl'"):
        kinds["json"]


def test_a_function_of_another_shape_is_refused() -> None:
    def two(one: object, other: object) -> None: ...

    with pytest.raises(PluginError, match=r"attack 'x': .*two\(.*has the wrong signature: expected \(request\)"):
        check_callable("attack 'x'", two, ["request"])
    with pytest.raises(PluginError, match="^attack 'x': 3 is not a function"):
        check_callable("attack 'x'", 3, ["request"])  # type: ignore[arg-type]


def test_entry_points_of_another_class_become_the_standard_librarys(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = SimpleNamespace(name="soft", value="outside:Model", group="test.kinds", dist=Package("theirs"))
    monkeypatch.setattr(registry, "entry_points", lambda group: [theirs])
    (found,) = registry.entries_of.__wrapped__("test.kinds")
    assert found == EntryPoint("soft", "outside:Model", "test.kinds")
    assert registry.package_of(found) == "theirs"


@pytest.mark.parametrize("name", ["", "x y", "x\ty", "x\u00a0y", "x\x00"])
def test_a_name_that_a_command_line_cannot_give_is_refused(name):
    with pytest.raises(PluginError, match="thing .* no name that thing=… can give"):
        Registry("thing", words=True).register(name, object())
