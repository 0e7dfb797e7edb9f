"""What the plugin does to a harness in this process: the hooks, one by one, and a harness that needs none."""

from __future__ import annotations

import importlib.util
import io
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from lm_eval.api import registry
from lm_eval.tasks import TaskManager, manager

from leakage_tasks.core.errors import OptionError
from leakage_tasks.harness import index, places, plugin
from leakage_tasks.harness.generation import index_of
from leakage_tasks.tasks.options import warn_of_unused

TASK = "task: {name}\ntag: {tag}\ndataset_path: json\noutput_type: generate_until\n"


@pytest.fixture
def hooks() -> plugin.HarnessHooks:
    return plugin.HarnessHooks("this test")


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Small folders of tasks: the harness' own, ours and a user's."""
    found = SimpleNamespace(defaults=tmp_path / "defaults", ours=tmp_path / "task_configs", user=tmp_path / "user")
    for folder, name in ((found.defaults, "builtin"), (found.ours, "leaky"), (found.user, "mine")):
        folder.mkdir()
        write(folder, name)
    monkeypatch.setattr(manager, "__file__", str(found.defaults / "manager.py"))
    for each in (plugin, index):
        monkeypatch.setattr(each, "task_folder", lambda: found.ours)
    return found


def write(folder: Path, name: str, tag: str = "probe") -> None:
    (folder / f"{name}.yaml").write_text(TASK.format(name=name, tag=f"{tag}_{folder.name}"))


def patched(hooks: plugin.HarnessHooks, folders: SimpleNamespace, base: type = TaskManager) -> Any:
    """A TaskManager class of this test's own that the hook has been at."""
    unpatched = getattr(base.__init__, "__wrapped__", base.__init__)  # another test may have installed the plugin
    own = type("TaskManager", (base,), {"__init__": unpatched})
    hooks.add_tasks(module("lm_eval.tasks", TaskManager=own, __file__=str(folders.defaults / "__init__.py")))
    return own


@contextmanager
def warnings_seen(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """The harness' warnings; setting its logging up keeps them from pytest, so that is undone meanwhile."""
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patch, caplog.at_level(logging.WARNING, logger="lm_eval"):
        patch.setattr(logging.getLogger("lm_eval"), "propagate", True)
        yield said
        said.extend(record.getMessage() for record in caplog.records)


def module(name: str, **contents: Any) -> ModuleType:
    made = ModuleType(name)
    vars(made).update(contents)
    return made


def test_our_tasks_are_known_beside_the_others(hooks: plugin.HarnessHooks, folders: SimpleNamespace) -> None:
    found = patched(hooks, folders)(include_path=str(folders.user))
    assert found.all_subtasks == ["builtin", "leaky", "mine"]
    assert found.all_tags == ["probe_defaults", "probe_task_configs", "probe_user"]
    assert found.all_tasks == sorted(found.all_subtasks + found.all_tags)
    assert found.include_path == str(folders.user)
    assert index_of(found)["leaky"].yaml_path == folders.ours / "leaky.yaml"
    assert hooks.added == {"tasks"}


def test_a_group_of_ours_is_a_group_beside_the_others(hooks: plugin.HarnessHooks, folders: SimpleNamespace) -> None:
    (folders.ours / "all_of_it.yaml").write_text("group: all_of_it\ntask: [leaky, mine]\n")
    (folders.user / "own.yaml").write_text("group: own\ntask: [mine]\n")
    found = patched(hooks, folders)(include_path=str(folders.user))
    assert found.all_groups == ["all_of_it", "own"]
    assert found.all_subtasks == ["builtin", "leaky", "mine"]
    assert index_of(found)["all_of_it"].kind.name == "GROUP"


def test_without_the_defaults_ours_stay_away(hooks: plugin.HarnessHooks, folders: SimpleNamespace) -> None:
    made = patched(hooks, folders)
    assert made(include_path=str(folders.user), include_defaults=False).all_subtasks == ["mine"]
    assert made(None, str(folders.user), False).all_subtasks == ["mine"]


def test_ours_come_after_the_defaults_and_before_the_users(
    hooks: plugin.HarnessHooks, folders: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    write(folders.defaults, "leaky")
    write(folders.ours, "mine")
    with warnings_seen(caplog) as said:
        entries = index_of(patched(hooks, folders)(include_path=[folders.user]))
    assert entries["leaky"].yaml_path.parent == folders.ours
    assert entries["mine"].yaml_path.parent == folders.user
    assert [line.split()[1] for line in said] == ["'leaky'", "'mine'"]


def test_patching_twice_adds_once(hooks: plugin.HarnessHooks, folders: SimpleNamespace) -> None:
    made = patched(hooks, folders)
    before = made.__init__
    hooks.add_tasks(module("lm_eval.tasks", TaskManager=made, __file__=str(folders.defaults / "__init__.py")))
    assert made.__init__ is before


def test_a_harness_that_finds_our_tasks_itself_is_left_alone(
    hooks: plugin.HarnessHooks, folders: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    class Discovering(TaskManager):
        def __init__(self, verbosity=None, include_path=None, include_defaults=True, metadata=None) -> None:  # type: ignore[no-untyped-def]
            found = [str(folders.ours)] if include_defaults else []
            super().__init__(verbosity, [*found, include_path], include_defaults, metadata)
            self.include_path = include_path

    with warnings_seen(caplog) as said:
        found = patched(hooks, folders, Discovering)(include_path=str(folders.user))
    assert found.all_subtasks == ["builtin", "leaky", "mine"]
    assert hooks.added == set()
    assert said == []


def test_a_changed_task_manager_costs_one_warning(
    hooks: plugin.HarnessHooks, folders: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    class Changed:
        def __init__(self) -> None:
            self.ready = True

    with warnings_seen(caplog) as said:
        made = patched(hooks, folders, Changed)
        assert made().ready
        assert made().ready
    assert len(said) == 1
    assert "leakage doctor" in said[0]


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> registry.Registry:
    made: registry.Registry = registry.Registry("model")
    monkeypatch.setattr(registry, "model_registry", made)
    return made


def test_models_are_registered_without_being_imported(
    hooks: plugin.HarnessHooks, models: registry.Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "adapters.soft_prompt", raising=False)
    hooks.add_models(module("lm_eval.models"))
    assert set(models) == {entry.name for entry in places.our_models()}
    assert "adapters.soft_prompt" not in sys.modules
    assert models.get("soft-prompt").__name__ == "SoftPromptLM"


def test_a_harness_that_reads_entry_points_meets_no_conflict(
    hooks: plugin.HarnessHooks, models: registry.Registry
) -> None:
    points = places.our_models()
    for point in points:
        models.register(point.name, target=point)
    hooks.add_models(module("lm_eval.models"))
    assert hooks.added == set()
    models._clear()
    hooks.add_models(module("lm_eval.models"))
    for point in points:
        models.register(point.name, target=point)
    assert list(models) == [point.name for point in points]


def brings(monkeypatch: pytest.MonkeyPatch, group: str, **entries: str) -> None:
    """Let another package, called theirs, bring entry points of a group."""
    found = [EntryPoint(name, value, group)._for(SimpleNamespace(name="theirs")) for name, value in entries.items()]
    monkeypatch.setattr(plugin, "other_packages", lambda asked: found if asked == group else [])


def test_models_of_other_packages_are_registered_without_being_imported(
    hooks: plugin.HarnessHooks, models: registry.Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    brings(monkeypatch, "lm_eval.models", theirs="nowhere_to_be_found:Model")
    hooks.add_models(module("lm_eval.models"))
    assert "theirs" in models


def test_a_model_of_a_taken_name_is_one_warning(
    hooks: plugin.HarnessHooks,
    models: registry.Registry,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    brings(monkeypatch, "lm_eval.models", **{"soft-prompt": "theirs:Model"})
    with warnings_seen(caplog) as said:
        hooks.add_models(module("lm_eval.models"))
    assert said == [
        "lm-eval-leakage: --model soft-prompt of theirs has a name that is taken: uninstall one of the two to use it"
    ]
    assert models.get("soft-prompt").__name__ == "SoftPromptLM"


def test_tasks_of_other_packages_are_known_by_their_folder(
    hooks: plugin.HarnessHooks, folders: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "their_tasks").mkdir()
    (tmp_path / "their_tasks" / "__init__.py").write_text("raise RuntimeError('imported')\n")
    write(tmp_path / "their_tasks", "theirs")
    monkeypatch.syspath_prepend(str(tmp_path))
    brings(monkeypatch, "lm_eval.tasks", theirs="their_tasks")
    assert patched(hooks, folders)().all_subtasks == ["builtin", "leaky", "theirs"]


def test_tasks_of_a_package_that_is_not_there_are_one_warning_and_the_others_are_known(
    hooks: plugin.HarnessHooks,
    folders: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    brings(monkeypatch, "lm_eval.tasks", theirs="nowhere_to_be_found")
    with warnings_seen(caplog) as said:
        assert patched(hooks, folders)().all_subtasks == ["builtin", "leaky"]
    (line,) = said
    assert "there is no package nowhere_to_be_found" in line


def test_the_models_of_the_project_are_ours() -> None:
    import tomllib

    project = tomllib.loads((Path(plugin.__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["lm_eval.models"] == {each.name: each.value for each in places.our_models()}


def test_each_task_file_is_called_like_its_task() -> None:
    from lm_eval.tasks._yaml_loader import load_yaml

    files = sorted(places.task_folder().glob("**/*.yaml"))
    assert files
    configs = [load_yaml(file, resolve_func=False) for file in files]
    assert [config.get("group") or config["task"] for config in configs] == [file.stem for file in files]


def test_a_hook_runs_after_its_module(
    hooks: plugin.HarnessHooks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "late_module.py").write_text("READY = True\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", [hooks, *sys.meta_path])
    seen: list[bool] = []
    hooks.hooks = {"late_module": lambda loaded: seen.append(loaded.READY)}
    assert importlib.util.find_spec("late_module") is not None
    assert seen == []
    importlib.import_module("late_module")
    assert seen == [True]
    monkeypatch.delitem(sys.modules, "late_module")


@pytest.fixture
def meta_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    finders = [finder for finder in sys.meta_path if type(finder).__name__ != "HarnessHooks"]
    monkeypatch.setattr(sys, "meta_path", finders)
    return finders  # type: ignore[return-value]


def test_installing_by_hand_late_and_twice(
    meta_path: list[Any], monkeypatch: pytest.MonkeyPatch, models: registry.Registry
) -> None:
    applied: list[str] = []
    monkeypatch.setattr(plugin.HarnessHooks, "apply", lambda _, loaded: applied.append(loaded.__name__))
    monkeypatch.setitem(sys.modules, "lm_eval.models", module("lm_eval.models"))
    plugin.install()
    plugin.install()
    assert len([finder for finder in meta_path if isinstance(finder, plugin.HarnessHooks)]) == 1
    assert {"lm_eval.models", "lm_eval.tasks"} <= set(applied)
    assert len(applied) == len(set(applied))


def test_status_names_the_way(
    hooks: plugin.HarnessHooks,
    folders: SimpleNamespace,
    models: registry.Registry,
    meta_path: list[Any],
) -> None:
    made = patched(hooks, folders)()
    bare = TaskManager(include_path=str(folders.user), include_defaults=False)
    assert plugin.status(bare) == plugin.Status(*[plugin.NOT_AT_ALL] * 3)
    meta_path.insert(0, hooks)
    hooks.add_models(module("lm_eval.models"))
    hooks.add_architectures(module("lm_eval.models.huggingface"))
    assert plugin.status(made) == plugin.Status(*["this test"] * 3)
    hooks.added.clear()
    assert plugin.status(made).tasks == plugin.status(made).models == plugin.ENTRY_POINTS


def test_a_foreign_adapters_package_is_noticed_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert places.hiding_package() is None
    (tmp_path / "adapters").mkdir()
    (tmp_path / "adapters" / "__init__.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] == "adapters"]:
        monkeypatch.delitem(sys.modules, name)
    assert places.hiding_package() == str(tmp_path / "adapters" / "__init__.py")


# -- errors under lm_eval -----------------------------------------------------------------------------------


@pytest.mark.parametrize("program", ["/venv/bin/lm_eval", "/venv/bin/lm-eval", "/site-packages/lm_eval/__main__.py"])
def test_our_errors_end_the_harness_command_with_their_line_alone(
    hooks: plugin.HarnessHooks, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], program: str
) -> None:
    said = []
    monkeypatch.setattr(sys, "argv", [program])
    monkeypatch.setattr(sys, "excepthook", lambda *told: said.append(told[1]))
    monkeypatch.delenv("LM_EVAL_LEAKAGE_DEBUG", raising=False)
    hooks.quieten_errors()
    ours, theirs = OptionError("seed is x: give a number"), ValueError("theirs")
    sys.excepthook(OptionError, ours, None)
    assert capsys.readouterr().err == "leakage: seed is x: give a number\n"
    sys.excepthook(ValueError, theirs, None)
    monkeypatch.setenv("LM_EVAL_LEAKAGE_DEBUG", "1")
    sys.excepthook(OptionError, ours, None)
    assert said == [theirs, ours]
    assert capsys.readouterr().err == ""


def test_a_program_that_uses_the_harness_keeps_its_tracebacks(
    hooks: plugin.HarnessHooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = []
    monkeypatch.setattr(sys, "argv", ["/work/audit.py"])
    monkeypatch.setattr(sys, "excepthook", lambda *told: said.append(told[1]))
    hooks.quieten_errors()
    error = OptionError("seed is x: give a number")
    sys.excepthook(OptionError, error, None)
    assert said == [error]


def test_options_of_a_task_that_is_only_a_file_count_as_used(
    hooks: plugin.HarnessHooks, caplog: pytest.LogCaptureFixture
) -> None:
    names = ("canary_exposure", "canary_extraction")
    ours = [SimpleNamespace(task_name=name, alone=False, other_tasks=()) for name in names]
    file = SimpleNamespace(config=SimpleNamespace(task="heldout_bits_per_byte", dataset_path=None, dataset_kwargs=None))
    loaded = {**{task.task_name: task for task in ours}, "heldout_bits_per_byte": file}
    manager = type("Manager", (), {"load": lambda self: {"tasks": loaded}})
    hooks.introduce_tasks(manager)
    manager().load()
    assert ours[0].other_tasks == {"canary_extraction", "heldout_bits_per_byte"}
    warn_of_unused({"canaries": "c.jsonl", "text": "heldout.txt"}, {ours[0].task_name, *ours[0].other_tasks})
    assert caplog.text == ""


def test_the_harness_table_is_written_where_stdout_is_ascii(
    hooks: plugin.HarnessHooks, folders: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "argv", ["/venv/bin/lm_eval"])
    monkeypatch.setattr(sys, "stdout", screen)
    ours = SimpleNamespace(task_name="canary_exposure", alone=False, other_tasks=())
    manager = type("Manager", (), {"load": lambda self: {"tasks": {"canary_exposure": ours}}})
    hooks.introduce_tasks(manager)
    manager().load()
    print("± 0.1", file=screen, flush=True)
    assert screen.buffer.getvalue() == b"\\xb1 0.1\n"
