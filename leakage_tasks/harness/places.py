"""What there is for the harness to find: our models and tasks, those of other packages, and what may be in the way."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

from leakage_tasks.core.registry import DISTRIBUTION, entries_of, package_of
from leakage_tasks.harness import groups


def our_models() -> list[EntryPoint]:
    """Our names for ``--model``, as the package's entry points say them."""
    return [entry for entry in entries_of(groups.MODELS) if package_of(entry) == DISTRIBUTION]


def outside(group: str) -> list[EntryPoint]:
    """What packages other than ours bring in a group of the harness'."""
    return [entry for entry in entries_of(group) if package_of(entry) != DISTRIBUTION]


def folder_of(entry: EntryPoint) -> Path:
    """The folder of YAML files that an entry point for tasks names: that of its package or module."""
    from importlib.util import find_spec

    found = find_spec(entry.value.partition(":")[0])
    places = [] if found is None else list(found.submodule_search_locations or [str(found.origin)])
    if not places:
        raise ImportError(f"tasks of {package_of(entry)}: there is no package {entry.value}")
    return Path(places[0]) if Path(places[0]).is_dir() else Path(places[0]).parent


def task_folder() -> Path:
    """Return the folder of our task YAMLs."""
    return Path(__file__).resolve().parents[2] / "task_configs"


def hidden_by() -> str | None:
    """Return where another package called ``adapters`` lies that hides ours, else None; imports neither."""
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


def hiding(place: str) -> tuple[str, str]:
    """What hides our adapters, and what to do about it."""
    names = ", ".join(entry.name for entry in our_models())
    return (
        f"another package called 'adapters' ({place}) hides ours, so --model {names} cannot load",
        "install lm-eval-leakage as a wheel beside it ('pip install .', not 'pip install -e .'), or uninstall the "
        "other one",
    )
