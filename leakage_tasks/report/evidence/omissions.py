"""Tasks and attacks that a run did not use, each with the reason and a command."""

from __future__ import annotations

from collections.abc import Iterator

from leakage_tasks.attacks import ATTACKS
from leakage_tasks.core.command_words import quoted
from leakage_tasks.core.null_results import reason_of
from leakage_tasks.metrics.scoring import SCORINGS
from leakage_tasks.report.card.served import fits_task, fitting_attacks
from leakage_tasks.report.evidence.record import Omission
from leakage_tasks.report.load.command_line import command_of
from leakage_tasks.report.load.results import Run, TaskResult
from leakage_tasks.report.load.sample_lines import read_objects
from leakage_tasks.report.load.validate import printable
from leakage_tasks.tasks.options import TASKS

NOT_REQUESTED = "not requested in this run"
_MANIFEST = "canaries"
_VALUES = {_MANIFEST: "canaries.jsonl", "of": "TASK"}
"""Values of options in commands; other options get a placeholder for a file."""


def omissions_of(run: Run) -> Iterator[Omission]:
    """Yield the tasks, then the attacks, of this package and of installed packages without results in a run."""
    answered = {result.scoring_name for result in run.tasks.values() if result.answered and result.is_leakage}
    for name, result in sorted(run.tasks.items()):
        if result.is_leakage and not result.answered:
            yield Omission("task", name, _reason(result), command_for(run, name))
    named = {result.scoring_name for result in run.tasks.values()}
    for name in sorted(SCORINGS):
        if name not in answered | named and fits_task(run, name):
            yield Omission("task", name, NOT_REQUESTED, command_for(run, name))
    yield from _attacks(run)


def _attacks(run: Run) -> Iterator[Omission]:
    declined: dict[str, str] = {}
    for result in run.tasks.values():
        reasons = result.tested.get("not_run")
        declined |= {str(name): str(reason) for name, reason in reasons.items()} if isinstance(reasons, dict) else {}
    for name, reason in sorted(declined.items()):
        yield Omission("attack", name, f"declined: {reason}", "")
    for name in fitting_attacks(run):
        if name not in declined:
            yield Omission("attack", name, NOT_REQUESTED, command_for(run, f"canary_{ATTACKS[name].goal}", name))


def _reason(result: TaskResult) -> str:
    if result.predicted_only:
        return "not scored: the run had --predict_only"
    if result.logged is not None:
        for _, row in read_objects(result.logged):
            answers = row.get("resps")
            answer = answers[0][0] if isinstance(answers, list) and answers and answers[0] else None
            if (reason := reason_of(answer)) is not None:
                return f"declined: {printable(reason)}"
            break
    return "declined: the model or the options do not support it; the results record no reason"


def command_for(run: Run, task: str, attack: str = "") -> str:
    """Return a command that runs ``task`` on the model of ``run``, with placeholders for data."""
    options = TASKS.get(task, {})
    wanted = [name for name, option in options.items() if option.required] or [_MANIFEST] * (_MANIFEST in options)
    settings = [f"{name}={_VALUES.get(name, 'FILE')}" for name in wanted] + ([f"attack={attack}"] if attack else [])
    words = ["lm_eval", *map(quoted, _model(run)), "--tasks", quoted(task)]
    words += ["--metadata", ",".join(settings)] if settings else []
    return " ".join([*words, "--output_path", "results", "--log_samples"])


def _model(run: Run) -> list[str]:
    command = command_of(run.files[-1])
    words = () if command is None else command.words
    pairs = zip(words, words[1:], strict=False)
    found = {name: value for name, value in pairs if name in ("--model", "--model_args")}
    return [word for name, value in found.items() for word in (name, value)] or ["--model", "hf", "--model_args", "…"]
