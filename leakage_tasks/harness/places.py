"""Entry points and folders of the models and tasks of this and other packages, and conflicts between packages."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

from leakage_tasks.core.registry import DISTRIBUTION, entries_of, package_of
from leakage_tasks.harness import groups


def our_models() -> list[EntryPoint]:
    """Return this package's entry points for ``--model``."""
    return [entry for entry in entries_of(groups.MODELS) if package_of(entry) == DISTRIBUTION]


def other_packages(group: str) -> list[EntryPoint]:
    """Return the entry points of other packages in an entry-point group of the harness."""
    return [entry for entry in entries_of(group) if package_of(entry) != DISTRIBUTION]


def folder_of(entry: EntryPoint) -> Path:
    """Return the folder of YAML files that an entry point for tasks names: the folder of its package or module."""
    from importlib.util import find_spec

    spec = find_spec(entry.value.partition(":")[0])
    places = [] if spec is None else list(spec.submodule_search_locations or [str(spec.origin)])
    if not places:
        raise ImportError(f"tasks of {package_of(entry)}: there is no package {entry.value}")
    return Path(places[0]) if Path(places[0]).is_dir() else Path(places[0]).parent


def task_folder() -> Path:
    """Return the folder of this package's task YAMLs."""
    return Path(__file__).resolve().parents[2] / "task_configs"


def hiding_package() -> str | None:
    """Return the path of another package called ``adapters`` that is imported instead of ours, or None.

    Neither package is imported.
    """
    from importlib.util import find_spec

    try:
        spec = find_spec("adapters")
    except ValueError:  # a module put into sys.modules by hand, without a spec
        return "sys.modules"
    if spec is None:
        return None
    places = [Path(place).resolve() for place in spec.submodule_search_locations or ()]
    if task_folder().parent / "adapters" in places:
        return None
    return str(spec.origin or places[0])


def hiding_message(place: str) -> tuple[str, str]:
    """Return a sentence on the package at ``place`` that is imported instead of our adapters, and the remedy."""
    names = ", ".join(entry.name for entry in our_models())
    return (
        f"another package called 'adapters' ({place}) hides ours, so --model {names} cannot load",
        "install lm-eval-leakage as a wheel next to it ('pip install .', not 'pip install -e .'), or uninstall the "
        "other one",
    )
