"""The protocol of a run (model, access, attacks and options, seeds, versions, hardware and dates), and its checks.

The checks are validity checks that its tasks declare, and a self-test.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from leakage_tasks.attacks.registry import BUDGET
from leakage_tasks.core.command_words import masked
from leakage_tasks.core.errors import ResultsError
from leakage_tasks.core.records import WrongField, mapping
from leakage_tasks.metrics.scoring import SCORINGS
from leakage_tasks.report.card.sentences import describe_attacks
from leakage_tasks.report.card.tested import describe_tested
from leakage_tasks.report.check import CLAIMED, CLAIMED_WORDS
from leakage_tasks.report.evidence.record import Check, Fact, Facts, Tested
from leakage_tasks.report.load.command_line import SEEDS, command_of, declarations
from leakage_tasks.report.load.results import Run, TaskResult
from leakage_tasks.report.load.validate import as_words, load_json, text

_HARDWARE = {
    "OS": "Operating system",
    "Python version": "Python",
    "PyTorch version": "PyTorch",
    "GPU models and configuration": "GPU",
    "Model name": "CPU",
    "CPU(s)": "CPU cores",
}
"""Lines of the harness' description of the machine, with their names in the report."""
_OF_MODEL = {
    "model_num_parameters": "Parameters",
    "model_dtype": "Number format of the weights",
    "model_revision": "Revision",
    "model_sha": "Commit",
}
HASHED = ("canaries", "data", "controls", "part", "prompts", "ordinary", "preflight")
"""Names of protocols' entries that are hashes."""
_NAMES = {
    "of": "Benchmark",
    "of_split": "Split of the benchmark",
    "ordinary": "Ordinary prompts",
    "preflight": "Canaries outside the training loss",
}
"""Names of options in the report, if the option's own name is no noun."""
SELFTEST = "leakage selftest --model hf --model_args … -o selftest.json"
_BUDGETED = ("exposure", "extraction")
"""Goals whose attacks have a budget."""


def protocol_of(run: Run) -> Iterator[Facts]:
    """Yield the facts on the model, on each task that measures leakage, and on each results file.

    Raises ResultsError for a results file that cannot be read.
    """
    yield Facts("Model", tuple(_model(run)))
    for task, result in sorted(run.tasks.items()):
        if result.is_leakage and result.answered:
            yield Facts(f"Task {task}", tuple(_task(result)))
    for file in run.files:
        yield Facts(f"Results file {file.name}", tuple(_measurement(file)))


def _model(run: Run) -> Iterator[Fact]:
    # An auditor may not have the files of an adapter, which name its base model.
    yield Fact("Model", " + ".join(run.recorded_parts))
    yield Fact("Kind of model in the harness", run.model)
    for name, value in sorted(run.arguments.items()):
        yield Fact(f"Argument {name}", as_words(masked(name, value)))
    for name, words in _OF_MODEL.items():
        value = run.config.get(name)
        if value not in (None, ""):
            yield Fact(words, f"{value:,}" if isinstance(value, int) else as_words(value))


def _task(result: TaskResult) -> Iterator[Fact]:
    declared = result.declared
    assert declared is not None
    yield Fact("Tested", describe_tested(declared.tested))
    yield Fact("Attacks and their access", describe_attacks(declared.attacks))
    if result.samples is not None:
        yield Fact("Documents", f"{result.samples:,}")
    scoring = SCORINGS.get(result.scoring_name)
    if scoring is not None and scoring.goal in _BUDGETED and "budget" not in declared.protocol:
        yield Fact("Budget", f"default: up to {BUDGET:,} sequences for a document")
    for name, value in declared.protocol.items():
        words = _NAMES.get(name, name.replace("_", " ").capitalize())
        yield Fact(f"{words} (hash)" if name in HASHED else words, as_words(value))
    yield Fact("Other options", f"defaults of lm-eval-leakage {declared.version or '(version not recorded)'}")


def _measurement(path: Path) -> Iterator[Fact]:
    data = load_json(path, "utf-8-sig")
    config = data.get("config") or {}
    date = data.get("date")
    if isinstance(date, int | float) and date > 0:
        yield Fact("Started", f"{datetime.fromtimestamp(date, UTC):%Y-%m-%d %H:%M:%S} UTC")
    if (seconds := _seconds(data.get("total_evaluation_time_seconds"))) is not None:
        yield Fact("Duration", f"{seconds:,.0f} seconds")
    yield Fact("Seeds", ", ".join(f"{name} {as_words(config.get(name, usual))}" for name, usual in SEEDS.items()))
    for name in ("batch_size", "device", "limit"):
        if config.get(name) is not None:
            yield Fact(name.replace("_", " ").capitalize(), as_words(config[name]))
    yield Fact("Versions", ", ".join(_versions(data)) or "not recorded")
    yield from _hardware(data.get("pretty_env_info"))
    command = command_of(path)
    yield Fact("Command", "none: a model object in Python" if command is None else str(command))
    for note in () if command is None else command.notes:
        yield Fact("Note on the command", note)


def _versions(data: Mapping[str, Any]) -> Iterator[str]:
    ours = {str(entry["version"]) for entry in declarations(data) if entry.get("version")}
    yield from (f"lm-eval-leakage {version}" for version in sorted(ours))
    for name, words in (("lm_eval", "lm-evaluation-harness"), ("transformers", "transformers")):
        if data.get(f"{name}_version"):
            yield f"{words} {data[f'{name}_version']}"


def _hardware(described: Any) -> Iterator[Fact]:
    """Yield facts on the machine from the harness' text about it, a line ``name: value`` each."""
    facts: dict[str, str] = {}
    for line in described.splitlines() if isinstance(described, str) else ():
        name, colon, value = line.partition(":")
        if colon and name.strip() in _HARDWARE and value.strip() not in ("", "Could not collect", "N/A"):
            facts.setdefault(name.strip(), value.strip())
    for name, words in _HARDWARE.items():
        if name in facts:
            yield Fact(words, facts[name])
    if not facts:
        yield Fact("Hardware", "not recorded")


def _seconds(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def checks_of(run: Run) -> Iterator[Check]:
    """Yield each check that a task's metrics declare, and the proof of planting of tasks with planted canaries."""
    for task, result in sorted(run.tasks.items()):
        for name, row in result.rows.items() if result.answered else ():
            if row.check is not None and name in result.headline:
                value = result.headline[name]
                held = None if value is None else value >= row.check.below
                yield Check(task, row.check.name, row.check.words, name, value, row.check.below, held)
        if result.tested.get("planted") and result.tested.get("kinds") != ["natural"]:
            yield Check(task, CLAIMED, CLAIMED_WORDS, "planting", None, 0.0, not result.claimed)


def read_selftest(path: Path) -> tuple[list[Fact], tuple[Tested, ...]]:
    """Return the settings and the checks in a file of ``leakage selftest -o``. Raises ResultsError."""
    try:
        data = load_json(path)
    except (UnicodeDecodeError, ValueError):
        raise _no_selftest(path, "not JSON") from None
    try:
        data = mapping(data, "")
        rows = data.get("checks")
        if not isinstance(rows, list) or not rows:
            raise WrongField("checks", "a list of checks", rows)
        tested = tuple(_tested(row, f"checks.{number}") for number, row in enumerate(rows))
        settings = [Fact(f"Self-test, {name}", text(data.get(name, ""), name)) for name in ("model", "model_args")]
        return [fact for fact in settings if fact.value], tested
    except WrongField as error:
        raise _no_selftest(path, str(error)) from None


def _tested(row: Any, where: str) -> Tested:
    row = mapping(row, where)
    return Tested(*(text(row.get(name), f"{where}.{name}") for name in ("check", "verdict", "words")))


def _no_selftest(path: Path, why: str) -> ResultsError:
    return ResultsError(f"{path}: holds no self-test ({why}): give a file of 'leakage selftest -o FILE'")
