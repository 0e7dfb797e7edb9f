"""``leakage doctor``: does everything work here, and what to do where it does not.

A check is a function that yields notes and problems; a problem carries its remedy. The last check audits a tiny
model with random weights, made on the spot, through the installed harness.
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

from leakage_tasks.cli.registry import GROUP, register_command, registries
from leakage_tasks.core.signal_cleanup import temporary_folder

DISTRIBUTION = "lm-eval-leakage"
SHOWN = ("lm-eval", "torch", "transformers", "peft", "accelerate", "datasets")
FEW = 5
"""Leftovers that are each named."""
TEMPLATE, FILLINGS = "The code is {digits:2}.", 100


@dataclass(frozen=True)
class DoctorLine:
    """One line of the report; a problem has a ``remedy``, a mere note has none."""

    text: str
    remedy: str | None = None

    def __str__(self) -> str:
        return f"ok       {self.text}" if self.remedy is None else f"PROBLEM  {self.text}: {self.remedy}"


@register_command("doctor", 16)
def doctor_command() -> None:
    """Check that everything works here, end to end; say what to do where it does not."""
    raise typer.Exit(doctor())


def doctor() -> int:
    """Run all checks, print their lines as they come; return 0 if all is well, else 1."""
    checks: tuple[Callable[[], Iterator[DoctorLine]], ...] = (
        versions,
        device,
        harness,
        adapters,
        plugins,
        whole_files,
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
    """Compare what is installed with the ranges this package declares (tested, in lm-eval's case)."""
    from importlib.metadata import PackageNotFoundError, requires, version

    from packaging.requirements import Requirement

    yield DoctorLine(f"python {platform.python_version()} ({sys.executable})")
    try:
        yield DoctorLine(f"{DISTRIBUTION} {version(DISTRIBUTION)}")
    except PackageNotFoundError:
        yield DoctorLine(f"{DISTRIBUTION} is not installed", "pip install . (or pip install -e .) in its checkout")
        return
    for requirement in map(Requirement, requires(DISTRIBUTION) or ()):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield from _version(requirement)


def device() -> Iterator[DoctorLine]:
    """Name the device the harness would use."""
    import torch

    if torch.cuda.is_available():
        yield DoctorLine(f"device cuda ({torch.cuda.get_device_name()})")
    elif torch.backends.mps.is_available():
        yield DoctorLine("device mps (ask for it with --device mps)")
    else:
        yield DoctorLine(f"device cpu, {torch.get_num_threads()} threads (ask for it with --device cpu)")


def harness() -> Iterator[DoctorLine]:
    """See whether the harness knows our tasks, models and architectures, and by which way."""
    from leakage_tasks.harness.plugin import NOT_AT_ALL, status
    from leakage_tasks.harness.run import all_tasks

    off = os.environ.get("LM_EVAL_LEAKAGE_AUTOLOAD") == "0"
    remedy = (
        "unset LM_EVAL_LEAKAGE_AUTOLOAD"
        if off
        else "install it again where it came from (in a checkout: pip install --force-reinstall --no-deps .)"
    )
    if off:
        yield DoctorLine("LM_EVAL_LEAKAGE_AUTOLOAD=0 switches the startup file off", remedy)
    found = status(all_tasks())
    for what in ("tasks", "models", "architectures"):
        way = getattr(found, what)
        text = f"the harness knows our {what}"
        yield DoctorLine(f"{text} by {way}") if way != NOT_AT_ALL else DoctorLine(f"{text} not at all", remedy)


def adapters() -> Iterator[DoctorLine]:
    """See whether another package called ``adapters`` hides ours, and whether ours can be imported."""
    from importlib import import_module

    from leakage_tasks.harness.places import hidden_by, hiding, our_models

    if place := hidden_by():
        yield DoctorLine(*hiding(place))
        return
    for entry in our_models():
        import_module(entry.module)
        yield DoctorLine(f"--model {entry.name} can be imported")


def plugins() -> Iterator[DoctorLine]:
    """See whether the attacks, targets, formats, presets, boards and commands of other packages can be used."""
    from leakage_tasks.core.registry import DISTRIBUTION, entries_of, package_of
    from leakage_tasks.harness import groups
    from leakage_tasks.harness.places import folder_of, outside

    for each in (plugin for registry in registries() for plugin in registry.plugins()):
        text = f"{each.kind} {each.name} of {each.package}"
        yield DoctorLine(each.error, "until then it is left out") if each.error else DoctorLine(f"{text} can be used")
    for entry in outside(groups.MODELS):
        entry.load()
        yield DoctorLine(f"--model {entry.name} of {package_of(entry)} can be imported")
    for entry in outside(groups.TASKS):
        number = len(list(folder_of(entry).glob("**/*.yaml")))
        yield DoctorLine(f"{number} tasks of {package_of(entry)} in {folder_of(entry)}")
    for entry in entries_of(GROUP):
        if package_of(entry) != DISTRIBUTION:
            entry.load()
            yield DoctorLine(f"command {entry.name} of {package_of(entry)} can be used")


def whole_files() -> Iterator[DoctorLine]:
    """See whether runs that were killed left something behind in the current folder, or a few levels below it."""
    from leakage_tasks.core.atomic import leftovers

    found = list(leftovers(Path.cwd()))
    for path in found[:FEW]:
        yield DoctorLine(f"{path}: left by a run that was killed", "remove it: it may hold private text")
    if len(found) > FEW:
        yield DoctorLine(f"{len(found) - FEW} more of the kind", "remove them as well")
    if not found:
        yield DoctorLine("no run left anything half-written here")


def end_to_end() -> Iterator[DoctorLine]:
    """Let the harness audit a tiny random model with one planted canary and one control."""
    with temporary_folder() as folder, _quietly():
        results = _audit(folder)
    exposure = results["canary_exposure"]["exposure_x1,none"]
    extracted = results["canary_extraction"]["extracted_x1,none"]
    most = math.log2(FILLINGS)
    if not 0 <= exposure <= most:
        yield DoctorLine(
            f"the audit of a tiny model gave an exposure of {exposure} bits", "please report this as a bug"
        )
    elif extracted not in (0, 1):
        yield DoctorLine(
            f"the audit of a tiny model gave an extraction rate of {extracted}", "please report this as a bug"
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
    """Give a check's lines; one that breaks off is itself a problem."""
    try:
        yield from check()
    except Exception as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())
        yield DoctorLine(f"{check.__name__.replace('_', ' ')} failed", f"see to this first: {why}")


def _version(requirement: Any) -> Iterator[DoctorLine]:
    from importlib.metadata import PackageNotFoundError, version

    wanted = f"{requirement.name}{requirement.specifier}"
    try:
        found = version(requirement.name)
    except PackageNotFoundError:
        yield DoctorLine(f"{requirement.name} is not installed", f"pip install '{wanted}'")
        return
    if not requirement.specifier.contains(found, prereleases=True):
        yield DoctorLine(f"{requirement.name} {found} is outside {requirement.specifier}", f"pip install '{wanted}'")
    elif requirement.name in SHOWN:
        tested = "tested range" if requirement.name == "lm-eval" else "range"
        yield DoctorLine(f"{requirement.name} {found} ({tested} {requirement.specifier})")


def _audit(folder: Path) -> dict[str, dict[str, float]]:
    from leakage_tasks.canaries.generate import make_canaries
    from leakage_tasks.canaries.manifest import write_manifest
    from leakage_tasks.harness.run import evaluate

    tiny_model(folder / "model")
    manifest = folder / "canaries.jsonl"
    write_manifest(make_canaries(TEMPLATE, 1, controls=1), manifest)
    # Whether the harness finds our tasks by itself is another check.
    outcome = evaluate(
        "hf",
        ["canary_exposure", "canary_extraction"],
        {"canaries": str(manifest)},
        model_args={"pretrained": str(folder / "model"), "dtype": "float32"},
        device="cpu",
        batch_size=64,
    )
    results: dict[str, dict[str, float]] = outcome["results"]
    return results


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Keep the harness' log lines, progress bars and what the programs it starts say off the screen."""
    import logging

    logger = logging.getLogger("lm_eval")
    level, screen = logger.level, os.dup(2)
    logger.setLevel(logging.CRITICAL)
    try:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        os.dup2(screen, 2)
        os.close(screen)
        logger.setLevel(level)
