"""``leakage doctor``: check the installation, and suggest a repair for each problem.

A check is a function that yields notes and problems, each problem with its remedy. The last check audits a tiny model
with random weights through the installed harness.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from leakage_tasks.cli.help import START
from leakage_tasks.cli.registry import GROUP, register_command, registries
from leakage_tasks.core.registry import DISTRIBUTION, entries_of, package_of
from leakage_tasks.core.signal_cleanup import temporary_folder
from leakage_tasks.core.task_names import EXPOSURE, EXTRACTION

SHOWN = ("lm-eval", "torch", "transformers", "peft", "accelerate", "datasets")
MOST_NAMED = 5
"""Upper limit on the number of leftover files that the report names."""
TEMPLATE, FILLINGS = "The code is {digits:2}.", 100


@dataclass(frozen=True)
class DoctorLine:
    """A line of the report; a line with a ``remedy`` is a problem, any other line is a note."""

    text: str
    remedy: str | None = None

    def __str__(self) -> str:
        return f"ok       {self.text}" if self.remedy is None else f"PROBLEM  {self.text}: {self.remedy}"


@register_command("doctor", START, 1, example="leakage doctor")
def doctor_command() -> None:
    """Check the installation end to end, and suggest repairs."""
    raise typer.Exit(doctor())


def doctor() -> int:
    """Run all checks and print each line at once; return 0 if there is no problem, else 1."""
    checks: tuple[Callable[[], Iterator[DoctorLine]], ...] = (
        versions,
        device,
        harness,
        adapters,
        plugins,
        unfinished_files,
        end_to_end,
    )
    problems = 0
    for check in checks:
        for line in _lines(check):
            problems += line.remedy is not None
            print(line, flush=True)
    print("all is well" if not problems else f"{problems} problem{'s' * (problems > 1)}")
    return 1 if problems else 0


def versions() -> Iterator[DoctorLine]:
    """Compare installed versions with the ranges that this package declares."""
    from importlib.metadata import PackageNotFoundError, requires, version

    from packaging.requirements import Requirement

    yield DoctorLine(f"python {platform.python_version()} ({sys.executable})")
    if os.name != "posix":
        yield DoctorLine(f"{platform.system()} has no file locks as Linux and macOS do", "use it in WSL")
    try:
        yield DoctorLine(f"{DISTRIBUTION} {version(DISTRIBUTION)}")
    except PackageNotFoundError:
        yield DoctorLine(f"{DISTRIBUTION} is not installed", "pip install . (or pip install -e .) in its checkout")
        return
    for requirement in map(Requirement, requires(DISTRIBUTION) or ()):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield from _version(requirement)


def device() -> Iterator[DoctorLine]:
    """Yield the device that the harness uses by default."""
    import torch

    if torch.cuda.is_available():
        yield DoctorLine(f"device cuda ({torch.cuda.get_device_name()})")
    elif torch.backends.mps.is_available():
        yield DoctorLine("device mps (select it with --device mps)")
    else:
        yield DoctorLine(f"device cpu, {torch.get_num_threads()} threads (select it with --device cpu)")


def harness() -> Iterator[DoctorLine]:
    """Check that the harness finds this package's tasks, models and architectures, and report the mechanism."""
    from leakage_tasks.harness.plugin import NOT_AT_ALL, status
    from leakage_tasks.harness.run import all_tasks

    off = os.environ.get("LM_EVAL_LEAKAGE_AUTOLOAD") == "0"
    remedy = (
        "unset LM_EVAL_LEAKAGE_AUTOLOAD"
        if off
        else "install lm-eval-leakage again from its source (in a checkout: pip install --force-reinstall --no-deps .)"
    )
    if off:
        yield DoctorLine("LM_EVAL_LEAKAGE_AUTOLOAD=0 switches the startup file off", remedy)
    mechanisms = status(all_tasks())
    for kind in ("tasks", "models", "architectures"):
        mechanism = getattr(mechanisms, kind)
        if mechanism == NOT_AT_ALL:
            yield DoctorLine(f"the harness does not find our {kind}", remedy)
        else:
            yield DoctorLine(f"the harness finds our {kind} by {mechanism}")


def adapters() -> Iterator[DoctorLine]:
    """Check that our package ``adapters`` can be imported and that no other package of that name hides it."""
    from importlib import import_module

    from leakage_tasks.harness.places import hiding_message, hiding_package, our_models

    if folder := hiding_package():
        yield DoctorLine(*hiding_message(folder))
        return
    for entry in our_models():
        import_module(entry.module)
        yield DoctorLine(f"--model {entry.name} can be imported")


def plugins() -> Iterator[DoctorLine]:
    """Check that the attacks, targets, formats, presets, boards and commands of other packages can be used."""
    from leakage_tasks.harness import groups
    from leakage_tasks.harness.places import folder_of, other_packages

    for plugin in (plugin for registry in registries() for plugin in registry.plugins()):
        if plugin.error:
            yield DoctorLine(plugin.error, "it is left out until this is corrected")
        else:
            yield DoctorLine(f"{plugin.kind} {plugin.name} of {plugin.package} can be used")
    for entry in other_packages(groups.MODELS):
        entry.load()
        yield DoctorLine(f"--model {entry.name} of {package_of(entry)} can be imported")
    for entry in other_packages(groups.TASKS):
        number = len(list(folder_of(entry).glob("**/*.yaml")))
        yield DoctorLine(f"{number} tasks of {package_of(entry)} in {folder_of(entry)}")
    for entry in entries_of(GROUP):
        if package_of(entry) != DISTRIBUTION:
            entry.load()
            yield DoctorLine(f"command {entry.name} of {package_of(entry)} can be used")


def unfinished_files() -> Iterator[DoctorLine]:
    """Look for files of killed runs in the current folder and a few levels below it."""
    from leakage_tasks.core.atomic import leftovers

    paths = list(leftovers(Path.cwd()))
    for path in paths[:MOST_NAMED]:
        yield DoctorLine(f"{path}: left by a killed run", "remove it: it may hold private text")
    if len(paths) > MOST_NAMED:
        yield DoctorLine(f"{len(paths) - MOST_NAMED} more such files", "remove them too")
    if not paths:
        yield DoctorLine("no killed run left incomplete files here")


def end_to_end() -> Iterator[DoctorLine]:
    """Audit a tiny random model with one planted canary and one control through the harness."""
    with temporary_folder() as folder, _hidden_output():
        results = _audit(folder)
    exposure = results[EXPOSURE]["exposure_x1,none"]
    extracted = results[EXTRACTION]["extracted_x1,none"]
    most = math.log2(FILLINGS)
    if not 0 <= exposure <= most:
        yield DoctorLine(
            f"the audit of a tiny model resulted in an exposure of {exposure} bits", "please report this as a bug"
        )
    elif extracted not in (0, 1):
        yield DoctorLine(
            f"the audit of a tiny model resulted in an extraction rate of {extracted}", "please report this as a bug"
        )
    else:
        yield DoctorLine(f"audited a tiny random model (exposure {exposure:.2f} of {most:.2f} bits)")


def tiny_model(folder: Path) -> None:
    """Save a one-layer GPT-2 with random weights and a tokenizer of printable ASCII characters in ``folder``."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    from leakage_tasks.models.char_tokenizer import char_tokenizer

    tokenizer = char_tokenizer(map(chr, range(32, 127)), max_length=128)
    config = GPT2Config(
        vocab_size=len(tokenizer), n_positions=128, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = GPT2LMHeadModel(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _lines(check: Callable[[], Iterator[DoctorLine]]) -> Iterator[DoctorLine]:
    """Yield the lines of a check; an exception of the check is itself a problem."""
    try:
        yield from check()
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        yield DoctorLine(f"{check.__name__.replace('_', ' ')} failed", f"correct this first: {reason}")


def _version(requirement: Any) -> Iterator[DoctorLine]:
    from importlib.metadata import PackageNotFoundError, version

    package = f"{requirement.name}{requirement.specifier}"
    try:
        installed = version(requirement.name)
    except PackageNotFoundError:
        yield DoctorLine(f"{requirement.name} is not installed", f"pip install '{package}'")
        return
    if not requirement.specifier.contains(installed, prereleases=True):
        yield DoctorLine(
            f"{requirement.name} {installed} is outside {requirement.specifier}", f"pip install '{package}'"
        )
    elif requirement.name in SHOWN:
        tested = "tested range" if requirement.name == "lm-eval" else "range"
        yield DoctorLine(f"{requirement.name} {installed} ({tested} {requirement.specifier})")


def _audit(folder: Path) -> dict[str, dict[str, float]]:
    from leakage_tasks.canaries.generate import make_canaries
    from leakage_tasks.canaries.manifest import write_manifest
    from leakage_tasks.harness.run import evaluate

    tiny_model(folder / "model")
    manifest = folder / "canaries.jsonl"
    write_manifest(make_canaries(TEMPLATE, 1, controls=1), manifest)
    # Another check covers discovery of our tasks by the harness.
    outcome = evaluate(
        "hf",
        [EXPOSURE, EXTRACTION],
        {"canaries": str(manifest)},
        model_args={"pretrained": str(folder / "model"), "dtype": "float32"},
        device="cpu",
        batch_size=64,
    )
    results: dict[str, dict[str, float]] = outcome["results"]
    return results


@contextlib.contextmanager
def _hidden_output() -> Iterator[None]:
    """Hide the log lines and progress bars of the harness, and the output of programs that it starts."""
    import logging

    logger = logging.getLogger("lm_eval")
    level, screen = logger.level, os.dup(2)
    logger.setLevel(logging.CRITICAL)
    try:
        with open(os.devnull, "w") as sink:
            os.dup2(sink.fileno(), 2)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        os.dup2(screen, 2)
        os.close(screen)
        logger.setLevel(level)
