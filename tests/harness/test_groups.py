"""Whether the harness reads entry points itself: told from its code, for harnesses that do so in different ways."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from leakage_tasks.harness import groups
from leakage_tasks.harness.groups import MODELS, TASKS, harness_reads

CALLS = """
import importlib.metadata as md
def get_model(name):
    return list(md.entry_points(group="lm_eval.models"))
"""
TABLE = """
from importlib.metadata import entry_points
def discover():
    return {group: entry_points(group=group) for group in {"lm_eval.models": 1, "lm_eval.filters": 2}}
"""
REGISTRY = """
import importlib.metadata as md
class Registry:
    def load(self):
        return load_plugins("lm_eval.models", self)
def load_plugins(group, registry):
    return md.entry_points(group=group)
"""
MANAGER = """
from importlib.metadata import entry_points
GROUP = "lm_eval.tasks"
class TaskManager:
    def _plugins(self):
        return [point.load() for point in entry_points(group=GROUP)]
"""
SILENT = '''
"""Models of other packages: entry_points(group="lm_eval.models")."""
# for point in entry_points(group="lm_eval.models"): register(point)
import logging
log = logging.getLogger("lm_eval.models")
'''


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No module of the real harness is looked at."""
    for place in groups._PLACES:
        monkeypatch.delitem(sys.modules, place, raising=False)


def load(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str, code: str) -> None:
    path = folder / f"{name.replace('.', '_')}.py"
    path.write_text(code)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.parametrize("code", [CALLS, TABLE, REGISTRY], ids=["call", "table", "registry"])
def test_a_reader_of_models_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str) -> None:
    load(monkeypatch, tmp_path, "lm_eval.api.registry", code)
    assert harness_reads(MODELS)
    assert not harness_reads(TASKS)


def test_a_reader_of_tasks_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    load(monkeypatch, tmp_path, "lm_eval.tasks.manager", MANAGER)
    assert harness_reads(TASKS)
    assert not harness_reads(MODELS)


def test_words_about_entry_points_are_no_reader(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    load(monkeypatch, tmp_path, "lm_eval.models", SILENT)
    assert not harness_reads(MODELS)


def test_a_reader_of_other_groups_is_no_reader_of_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    load(monkeypatch, tmp_path, "lm_eval.api.registry", REGISTRY.replace("lm_eval.models", "lm_eval.filters"))
    assert not harness_reads(MODELS)


def test_a_module_without_code_is_no_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lm_eval.models", ModuleType("lm_eval.models"))
    assert not harness_reads(MODELS)


def test_the_installed_harness_reads_none() -> None:
    import importlib

    for place in groups._PLACES:
        importlib.import_module(place)
    assert not harness_reads(MODELS)
    assert not harness_reads(TASKS)
