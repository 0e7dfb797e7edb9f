"""A chosen part of the tests with other versions: ``lowest`` allowed of what we depend on, the harness' ``next``
generation, and other ``pythons``.

``make lowest``, ``make next`` and ``make pythons`` run this. Environments lie under ``runs/`` and are kept until
pyproject.toml or constraints.txt change, so that what was stopped goes on. Without uv nothing is run, which is said.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent.parent
PLACE = ROOT / "runs"
PYTHONS = ("3.12", "3.13")
TESTERS = ("pytest>=8.2", "pytest-timeout>=2.3", "hypothesis>=6.100", "markdown-it-py>=3")
NEED_TORCH = frozenset({"lm-eval", "torch", "accelerate", "peft", "pytorch-crf"})

EVERYTHING = (
    "tests/test_exports.py",  # imports
    "tests/cli/test_doctor.py",  # the command line, and lm_eval from one end to the other
    "tests/data/test_formats.py",
    "tests/report/board/test_formats.py",
    "tests/report/card/test_card.py",
    "tests/report/plots/test_exposure.py",
    "tests/training/prompt/test_files.py",
    "tests/training/tagger/test_model.py",
    "tests/models/test_nlu_tagger.py",
    "tests/attacks/suffix/test_trained_confidence.py",
)
NEXT = "lm-eval==0.5.0.dev1"
ON_THE_HARNESS = (
    "tests/adapters",
    "tests/api",
    "tests/cli/test_doctor.py",
    "tests/harness",
    "tests/selftest",
    "tests/targets/harness",
    "tests/tasks",
    "tests/test_classifier_tasks.py",
    "tests/test_context.py",
    "tests/test_declarations.py",
    "tests/test_errors_in_the_harness.py",
    "tests/test_group.py",
    "tests/test_guesses_at_natural_secrets.py",
    "tests/test_known.py",
    "tests/test_natural_secrets.py",
    "tests/test_search_attacks_in_the_harness.py",
)
PARTLY_ON_THE_HARNESS = ("tests/models", "tests/targets")
"""Folders whose other tests take models of transformers alone."""
ITS_CLASSES = re.compile(r"\b(lm_eval|HFLM|TextOnly|evaluate)\b")
# Reports and metrics import torch by way of the attacks.
WITHOUT_TORCH = (
    "tests/data/test_formats.py",
    "tests/canaries/test_generate.py",
    "tests/canaries/test_manifest.py",
    "tests/canaries/test_planting.py",
    "tests/canaries/test_verify.py",
    "tests/canaries/test_detect.py",
    "tests/canaries/test_spaces.py",
    "tests/core/test_errors.py",
    "tests/core/test_atomic.py",
    "tests/stats/test_intervals.py",
    "tests/supply/test_audit.py::test_a_skipped_package_fails",
)
STARTED = "import sys; assert 'lm_eval_leakage_startup' in sys.modules and 'leakage_tasks' not in sys.modules"


def find_uv() -> str | None:
    """Uv's program, from the environment this runs in or the PATH."""
    try:
        import uv

        return str(uv.find_uv_bin())
    except (ImportError, FileNotFoundError):
        return shutil.which("uv")


def run(*words: str | Path, **more: str) -> None:
    """Run a command in the checkout; what fails ends this program with its exit code."""
    settings = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"} | more
    if code := subprocess.run([str(word) for word in words], cwd=ROOT, env=settings).returncode:
        sys.exit(code)


def lines(without: frozenset[str] = frozenset()) -> list[str]:
    """What the package depends on, as pyproject.toml says it."""
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = {line: Requirement(line).name for line in wanted}
    return [line for line, name in names.items() if name not in without]


def kept(folder: Path) -> Path | None:
    """The file that says a folder was made of what stands there now, None if it is there."""
    read = [path.read_bytes() for path in (ROOT / "pyproject.toml", ROOT / "constraints.txt", Path(__file__))]
    mark = folder / hashlib.sha256(b"".join(read)).hexdigest()[:16]
    return None if mark.exists() else mark


def tests(python: Path, files: tuple[str, ...]) -> None:
    """The startup file where it was installed, then the tests of this checkout."""
    run(python, "-c", STARTED)
    run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", *files)


def lowest(uv: str) -> None:
    """Test with the lowest versions allowed, torch's excepted: its older ones come with gigabytes of CUDA only."""
    folder = PLACE / "lowest-venv"
    python = folder / "bin" / "python"
    if mark := kept(folder):
        run(uv, "venv", "--quiet", "--clear", "--seed", "--python", sys.executable, folder)
        pinned = next(
            line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("torch==")
        )
        run(python, "-m", "pip", "install", "--quiet", pinned)
        held = folder / "torch.txt"
        held.write_text(pinned + "\n")
        install = (uv, "pip", "install", "--quiet", "--python", python)
        run(*install, "--resolution", "lowest-direct", "-c", held, *lines())
        run(*install, *TESTERS)
        run(*install, "--no-deps", ".")
        mark.touch()
    print("lowest versions allowed; torch alone is the pinned one: 2.6 is a download of gigabytes", flush=True)
    tests(python, EVERYTHING)


def upcoming() -> None:
    """Test on the harness' next generation, which is laid over the environment this runs in."""
    folder = PLACE / "next"
    if mark := kept(folder):
        shutil.rmtree(folder, ignore_errors=True)
        run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, NEXT)
        mark.touch()
    print(f"the harness' next generation: {NEXT}", flush=True)
    workers = ("-n", os.environ.get("WORKERS", "2"), "--dist", "worksteal")
    options = ("-q", "-p", "no:cacheprovider", "-m", "not slow", "--hypothesis-profile", "quick")
    run(sys.executable, "-m", "pytest", *workers, *options, *on_the_harness(), PYTHONPATH=str(folder))
    run(sys.executable, "tests/supply/generations.py", folder)


def on_the_harness() -> list[str]:
    """The folders and files whose tests run the harness."""
    folders = [ROOT / name for name in PARTLY_ON_THE_HARNESS]
    files = [file for folder in folders for file in sorted(folder.rglob("test_*.py"))]
    inside = tuple(f"{ROOT / name}/" for name in ON_THE_HARNESS)
    chosen = [file for file in files if not str(file).startswith(inside) and ITS_CLASSES.search(file.read_text())]
    return [*ON_THE_HARNESS, *(str(file.relative_to(ROOT)) for file in chosen)]


def pythons(uv: str) -> None:
    """Test what needs no torch with other Pythons: their torch is a download of gigabytes."""
    for version in PYTHONS:
        folder = PLACE / f"python-{version}-venv"
        python = folder / "bin" / "python"
        if mark := kept(folder):
            if subprocess.run(
                [uv, "venv", "--quiet", "--clear", "--python", interpreter(version), str(folder)]
            ).returncode:
                print(f"Python {version}: NOT TESTED, no interpreter can be had", flush=True)
                continue
            install = (uv, "pip", "install", "--quiet", "--python", python, "-c", "constraints.txt")
            run(*install, *lines(without=NEED_TORCH), *TESTERS)
            run(*install, "--no-deps", ".")
            mark.touch()
        print(
            f"Python {version}: startup file, canaries, planting, verifying, files; torch and what needs it: NOT TESTED"
        )
        sys.stdout.flush()
        tests(python, WITHOUT_TORCH)


def interpreter(version: str) -> str:
    """A Python of that version: on the PATH, kept by pyenv, or else uv's own, by its number."""
    kept_by_pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for found in (shutil.which(f"python{version}"), *map(str, kept_by_pyenv)):
        if found and subprocess.run([found, "-c", ""], capture_output=True).returncode == 0:
            return found
    return version


def main() -> None:
    """Run ``lowest``, ``next`` or ``pythons``."""
    if sys.argv[1] == "next":
        upcoming()
        return
    what = {"lowest": lowest, "pythons": pythons}[sys.argv[1]]
    uv = find_uv()
    if uv is None:
        print(f"{what.__name__}: NOT TESTED, uv cannot be had: pip install uv", flush=True)
        return
    what(uv)


if __name__ == "__main__":
    main()
