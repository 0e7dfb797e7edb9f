"""Shared by all tests: no network, and one built wheel for those that install the package."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import settings

import tests.quick_start.sitecustomize  # noqa: F401

pytest_plugins = ("tests.page_parts", "tests.small_models", "tests.warm.python")
ROOT = Path(__file__).resolve().parent.parent
PATHS = f"{ROOT / 'tests' / 'quick_start'}{os.pathsep}{ROOT}"
"""The ``PYTHONPATH`` of processes that run the harness: see :mod:`tests.quick_start.sitecustomize`."""
HARNESS = """
from leakage_tasks.harness import plugin
plugin.install()
from lm_eval.__main__ import cli_evaluate
cli_evaluate()
"""
"""What `lm_eval` runs, from a checkout."""
Leakage = Callable[..., tuple[int, str, str]]
"""The type of the fixture ``leakage``."""
Ran = Callable[..., tuple[str, str]]
"""The type of the fixture ``ran``."""
Refused = Callable[..., str]
"""The type of the fixture ``refused``."""
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (PATHS.split(os.pathsep)[0], os.environ.get("PYTHONPATH"))))
# The user's own defaults for runs of lm_eval.
os.environ.pop("LM_EVAL_LEAKAGE_METADATA", None)
# How long an example takes says more of the machine than of the code.
settings.register_profile("untimed", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=25)
settings.load_profile("untimed")


@pytest.fixture(autouse=True, scope="module")
def shared_tokenizers() -> Iterator[None]:
    """Check that no module changes the chat template or the number of tokens of a tokenizer that all tests share."""
    from tests.oracles import letters, merging, wordpiece

    tokenizers = letters(), merging(), wordpiece()
    sizes = [len(tokenizer) for tokenizer in tokenizers]
    yield
    for tokenizer, size in zip(tokenizers, sizes, strict=True):
        assert tokenizer.chat_template is None, "copy a tokenizer before you change it"
        assert len(tokenizer) == size, "copy a tokenizer before you change it"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files with slow tests first, so that no worker is left with a long one at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_collection_finish() -> None:
    """Leave what collecting has loaded, a million objects, out of every later search for garbage."""
    gc.collect()
    gc.freeze()


@dataclass(frozen=True)
class Environment:
    """A throw-away virtual environment that sees the packages of the one the tests run in."""

    folder: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def site(self) -> Path:
        """Its own site-packages."""
        return next((self.folder / "lib").glob("python3*")) / "site-packages"

    def run(self, *command: str | Path, check: bool = True, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run its Python with ``command`` as arguments, away from the checkout; output as text."""
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables
        words = [str(word) for word in (self.python, *command)]
        done = subprocess.run(words, cwd=self.folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0 or not check, done.stdout + done.stderr
        return done

    def install(self, *what: str | Path) -> None:
        """Install with its pip, without looking at any index; the dependencies are there already."""
        options = ("--no-index", "--no-deps", "--no-build-isolation", "--ignore-installed", "--no-cache-dir")
        self.run("-m", "pip", "install", *options, *what, PIP_DISABLE_PIP_VERSION_CHECK="1")


@cache
def _commands() -> Any:
    """All commands, which take a tenth of a second to lay out."""
    from leakage_tasks.cli import build_app

    return typer.main.get_command(build_app())


@pytest.fixture
def leakage(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Leakage:
    """The command line: arguments in; exit code, stdout and stderr out."""
    from leakage_tasks.cli import main

    commands = _commands()
    monkeypatch.setattr("leakage_tasks.cli.build_app", lambda: commands)

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["leakage", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return run


@pytest.fixture
def ran(leakage: Leakage) -> Ran:
    """The command line with arguments that it accepts: stdout and stderr."""

    def run(*arguments: object) -> tuple[str, str]:
        code, out, err = leakage(*arguments)
        assert code == 0, (code, out, err)
        return out, err

    return run


@pytest.fixture
def refused(leakage: Leakage) -> Refused:
    """The command line with arguments that it refuses: its error, one line on stderr, with nothing on stdout."""

    def run(*arguments: object) -> str:
        code, out, err = leakage(*arguments)
        assert (code, out, err.count("\n")) == (2, "", 1), (code, out, err)
        assert err.startswith("leakage: ")
        return err

    return run


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """An empty environment beside which all dependencies, but not this package, can be imported."""
    return make_environment(tmp_path / "venv")


def make_environment(folder: Path) -> Environment:
    """Make one in ``folder``: pip and the dependencies come from the running environment."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    made = Environment(folder)
    # Links to all but a copy of ours, which is found by name; the .pth files over there are not processed.
    outer = folder / "outer"
    outer.mkdir()
    for path in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if "lm_eval_leakage" not in path.name:
            (outer / path.name).symlink_to(path)
    (made.site / "zz_outer.pth").write_text(f"{outer}\n")
    return made


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the checkout to build from or to install."""
    return copy_of_the_tree(tmp_path / "tree")


@pytest.fixture(scope="session")
def build() -> Callable[[str, Path, Path], None]:
    """A function that builds ``sdist`` or ``wheel`` from a source folder into another folder."""
    return run_build


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """This package as a wheel, built once for all workers."""
    from filelock import FileLock

    temporary = tmp_path_factory.getbasetemp()
    shared = temporary if worker_id == "master" else temporary.parent
    with FileLock(shared / "wheel.lock"):
        if not (found := list((shared / "wheel").glob("*.whl"))):
            run_build("wheel", copy_of_the_tree(shared / "wheel-source"), shared / "wheel")
            found = list((shared / "wheel").glob("*.whl"))
    return found[0]


def run_build(kind: str, source: Path, output: Path) -> None:
    """Build ``source`` into ``output`` as ``kind``, with the running environment's hatchling."""
    command = [sys.executable, "-m", "build", "--no-isolation", f"--{kind}", "--outdir", str(output), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def copy_of_the_tree(folder: Path) -> Path:
    """Copy what git would hold of the checkout to ``folder``, so that no build touches the checkout itself."""
    kept = shutil.ignore_patterns(".git", ".venv", "__pycache__", "*_cache", ".hypothesis", "runs", "dist", "build")
    return Path(shutil.copytree(ROOT, folder, ignore=kept))
