"""The package as users get it: wheel, sdist, git checkout, editable; with pip and uv; whole, broken and gone."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT, Environment, make_environment

KNOWN = """
import sys
assert [name for name in sys.modules if name.startswith(("leakage_tasks", "lm_eval"))] == ["lm_eval_leakage_startup"]
from pathlib import Path
import lm_eval.tasks.manager as manager
manager.__file__ = str(Path(sys.argv[1]) / "manager.py")  # the harness' own tasks take seconds to read
import lm_eval.models
from lm_eval.api.registry import model_registry
assert "soft-prompt" in model_registry and not [name for name in sys.modules if name.startswith("adapters")]
print(*manager.TaskManager().all_tasks)
"""
TASKS = {path.stem for path in (ROOT / "task_configs").glob("*.yaml")}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Environment:
    """An environment with the wheel, for tests that change nothing in it."""
    made = make_environment(tmp_path_factory.mktemp("installed") / "venv")
    made.install(wheel)
    return made


@pytest.fixture
def own_copy(installed: Environment, tmp_path: Path) -> Environment:
    """A copy of that environment, for a test that changes it; pip takes seconds to install the wheel again."""
    return Environment(Path(shutil.copytree(installed.folder, tmp_path / "copy", symlinks=True)))


def known_tasks(environment: Environment, **variables: str) -> set[str]:
    """The tasks a fresh process' harness knows beside its own; asserts that it knows our models as well."""
    empty = environment.folder / "no-tasks"
    empty.mkdir(exist_ok=True)
    done = environment.run("-c", KNOWN, empty, **variables)
    assert done.stderr == ""
    return set(done.stdout.split())


def names(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_wheel_holds_what_it_must(wheel: Path) -> None:
    held = names(wheel)
    assert held["lm_eval_leakage.pth"] == (ROOT / "leakage_tasks" / "harness" / "startup.pth").read_bytes()
    assert held["lm_eval_leakage_startup.py"] == (ROOT / "leakage_tasks" / "harness" / "startup.py").read_bytes()
    assert "adapters/soft_prompt.py" in held
    assert "adapters/__init__.py" not in held
    assert {f"task_configs/{task}.yaml" for task in TASKS} <= set(held)
    assert {name.partition("/")[0] for name in held if ".dist-info" not in name} == {
        "adapters",
        "leakage_tasks",
        "lm_eval_leakage.pth",
        "lm_eval_leakage_startup.py",
        "task_configs",
    }
    assert any(name.endswith("licenses/LICENSE") for name in held)


@pytest.mark.slow
def test_an_sdist_builds_the_same_wheel(
    wheel: Path, tree: Path, build: Callable[[str, Path, Path], None], tmp_path: Path
) -> None:
    build("sdist", tree, tmp_path)
    (archive,) = tmp_path.glob("*.tar.gz")
    shutil.unpack_archive(archive, tmp_path / "unpacked")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    build("wheel", unpacked, tmp_path)
    (again,) = tmp_path.glob("*.whl")
    assert names(again) == names(wheel)


@pytest.mark.slow
def test_a_wheel_works_and_leaves_nothing_behind(environment: Environment, wheel: Path) -> None:
    before = listing(environment.folder)
    environment.install(wheel)
    assert known_tasks(environment) == TASKS
    version = environment.run("-c", "from leakage_tasks.cli import main; main()", "--version").stdout
    assert version.startswith("lm-eval-leakage ")
    environment.run("-m", "pip", "uninstall", "--yes", "lm-eval-leakage")
    shutil.rmtree(environment.folder / "no-tasks")
    assert listing(environment.folder) == before


def listing(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.slow
def test_an_editable_install_works_and_leaves_nothing_behind(environment: Environment, tree: Path) -> None:
    before = listing(environment.folder)
    environment.install("--editable", tree)
    assert known_tasks(environment) == TASKS
    environment.run("-m", "pip", "uninstall", "--yes", "lm-eval-leakage")
    shutil.rmtree(environment.folder / "no-tasks")
    assert listing(environment.folder) == before


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_a_git_checkout_installs(environment: Environment, tree: Path) -> None:
    for words in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "all"],
    ):
        subprocess.run(["git", *words], cwd=tree, check=True)
    environment.install(f"git+file://{tree}")
    assert known_tasks(environment) == TASKS


@pytest.mark.slow
@pytest.mark.parametrize("how", ["wheel", "editable"])
def test_uv_installs_it_too(environment: Environment, wheel: Path, tree: Path, how: str) -> None:
    uv = pytest.importorskip("uv")
    what = [str(wheel)] if how == "wheel" else ["--editable", str(tree)]
    options = ["--offline", "--no-deps", "--no-build-isolation", "--no-cache", "--python", str(environment.python)]
    done = subprocess.run([uv.find_uv_bin(), "pip", "install", *options, *what], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert known_tasks(environment) == TASKS


@pytest.mark.slow
def test_the_switch_turns_it_off(installed: Environment) -> None:
    code = "import sys, lm_eval.models; print('leakage_tasks' in sys.modules, 'soft-prompt' in sys.modules)"
    assert installed.run("-c", code, LM_EVAL_LEAKAGE_AUTOLOAD="0").stdout == "False False\n"
    assert installed.run("-c", code).stdout == "True False\n"


@pytest.mark.slow
def test_looking_the_harness_up_is_harmless(installed: Environment) -> None:
    code = (
        "import sys; from importlib.util import find_spec; assert find_spec('lm_eval'); assert find_spec('lm_eval');"
        "print('lm_eval' in sys.modules); import lm_eval.models as m; from lm_eval.api.registry import model_registry;"
        "print('soft-prompt' in model_registry)"
    )
    done = installed.run("-c", code)
    assert (done.stdout, done.stderr) == ("False\nTrue\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["removed", "raising", "changed"])
def test_a_broken_install_costs_one_warning(own_copy: Environment, fault: str) -> None:
    package = own_copy.site / "leakage_tasks"
    if fault == "removed":
        shutil.rmtree(package)
    elif fault == "raising":
        (package / "harness" / "plugin.py").write_text("raise RuntimeError('two\\nlines')\n")
    else:
        plugin = (package / "harness" / "plugin.py").read_text()
        (package / "harness" / "plugin.py").write_text(plugin + "\ndel HarnessHooks.add_models\n")
    assert own_copy.run("-c", "pass").stderr == ""
    done = own_copy.run("-m", "lm_eval", "--help")
    assert "usage: lm-eval" in done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("lm-eval-leakage: ")
    assert "LM_EVAL_LEAKAGE_AUTOLOAD=0" in line


@pytest.mark.slow
@pytest.mark.parametrize("left", ["startup file", "startup file and module"])
def test_what_a_half_uninstall_leaves_is_harmless(own_copy: Environment, left: str) -> None:
    for name in ("leakage_tasks", "adapters", "task_configs"):
        shutil.rmtree(own_copy.site / name)
    if left == "startup file":
        (own_copy.site / "lm_eval_leakage_startup.py").unlink()
    assert own_copy.run("-c", "pass").stderr == ""
    done = own_copy.run("-c", "import lm_eval; print(lm_eval.__name__)")
    assert done.stdout == "lm_eval\n"
    assert len(done.stderr.splitlines()) == (0 if left == "startup file" else 1)


@pytest.mark.slow
@pytest.mark.parametrize(("options", "loaded"), [(["-I"], True), (["-E", "-s"], True), (["-S"], False)])
def test_pythons_own_switches_go_before_ours(installed: Environment, options: list[str], loaded: bool) -> None:
    code = "import sys; print('lm_eval_leakage_startup' in sys.modules, 'leakage_tasks' in sys.modules)"
    done = installed.run(*options, "-c", code)
    assert (done.stdout, done.stderr) == (f"{loaded} False\n", "")


@pytest.mark.slow
def test_the_startup_file_loads_its_module_alone(environment: Environment, installed: Environment) -> None:
    code = "import sys; print(*sys.modules)"
    without, with_it = (set(each.run("-c", code).stdout.split()) for each in (environment, installed))
    assert with_it - without == {"lm_eval_leakage_startup"}


READING_HARNESS = {
    "__init__.py": "",
    "api/__init__.py": "",
    "api/registry.py": """
import importlib.metadata as md
model_registry = {}
def get_model(name):
    for point in md.entry_points(group="lm_eval.models"):
        model_registry.setdefault(point.name, point)
    return model_registry[name]
""",
    "models/__init__.py": "",
    "tasks/__init__.py": "from .manager import TaskManager",
    "tasks/manager.py": """
from importlib.metadata import entry_points
from pathlib import Path
class TaskManager:
    def __init__(self):
        places = [Path(place) for point in entry_points(group="lm_eval.tasks") for place in point.load().__path__]
        self.all_tasks = [path.stem for place in places for path in place.glob("*.yaml")]
""",
}
LEFT_ALONE = """
import sys
import lm_eval.models, lm_eval.tasks
from lm_eval.api import registry
made = lm_eval.tasks.TaskManager
assert registry.model_registry == {} and not hasattr(made.__init__, "__wrapped__")
assert sys.excepthook is sys.__excepthook__
assert registry.get_model("soft-prompt").value == "adapters.soft_prompt:SoftPromptLM"
print(*made().all_tasks)
"""


@pytest.mark.slow
def test_a_harness_that_reads_entry_points_is_left_alone(own_copy: Environment) -> None:
    for name, code in READING_HARNESS.items():
        path = own_copy.site / "lm_eval" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)
    done = own_copy.run("-c", LEFT_ALONE)
    assert done.stderr == ""
    assert set(done.stdout.split()) == TASKS


def fake_adapters(environment: Environment) -> None:
    (environment.site / "adapters").mkdir(exist_ok=True)
    (environment.site / "adapters" / "__init__.py").write_text("THEIRS = True\n")


@pytest.mark.slow
def test_a_wheel_shares_the_folder_of_another_adapters_package(environment: Environment, wheel: Path) -> None:
    fake_adapters(environment)
    environment.install(wheel)
    code = (
        "import sys, types; import lm_eval.models; stub = types.ModuleType('lm_eval.models.huggingface');"
        "stub.HFLM = object; sys.modules[stub.__name__] = stub;"  # the real one takes seconds to import
        "import adapters, adapters.soft_prompt as ours; print(adapters.THEIRS, ours.SoftPromptLM.__module__)"
    )
    done = environment.run("-c", code)
    assert (done.stdout, done.stderr) == ("True adapters.soft_prompt\n", "")


@pytest.mark.slow
def test_another_adapters_package_that_hides_ours_is_said_once(environment: Environment, tree: Path) -> None:
    fake_adapters(environment)
    environment.install("--editable", tree)
    done = environment.run("-c", "import sys, lm_eval.models, lm_eval.tasks; print('adapters' in sys.modules)")
    assert done.stdout == "False\n"
    (line,) = done.stderr.splitlines()
    assert "another package called 'adapters'" in line
    assert str(environment.site) in line
    assert "pip install ." in line


def test_the_versions_the_tests_run_with_are_in_range() -> None:
    import tomllib

    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    pinned = {canonicalize_name(pin.name): next(iter(pin.specifier)).version for pin in pins}
    extras = project["optional-dependencies"]
    for wanted in map(Requirement, [*project["dependencies"], *extras["test"], *extras["docs"]]):
        assert wanted.specifier.contains(pinned[canonicalize_name(wanted.name)]), wanted
    assert sys.version_info >= (3, 11)
