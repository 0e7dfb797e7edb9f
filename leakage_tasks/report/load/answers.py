"""Findings in the samples next to a run's results, one after the other, with the lines that hold them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from leakage_tasks.attacks.suffix.finding import HEADLINE
from leakage_tasks.core.errors import ResultsError
from leakage_tasks.core.null_results import reason_of
from leakage_tasks.report.load.run import Run
from leakage_tasks.report.load.sample_lines import read_objects, wrong_line

AnyFinding = TypeVar("AnyFinding")


def read_answers(run: Run, task: str, read: Callable[[str], AnyFinding]) -> Iterator[tuple[AnyFinding, dict[str, Any]]]:
    """Yield the findings of a task's whole run, as ``read`` parses them, and the lines of the samples.

    Raises ResultsError naming file and line for samples that are missing, not answered, or hold another answer.
    """
    result = run.tasks[task]
    if result.logged is None:
        raise ResultsError(
            f"{result.file}: {task}: no samples next to its results: run lm_eval again with --log_samples and "
            "--output_path"
        )
    for number, row in read_objects(result.logged):
        try:
            answer = row["resps"][0][0]
            if row.get("filter", HEADLINE) != HEADLINE:
                continue
            if (reason := reason_of(answer)) is not None:
                raise ResultsError(f"{result.logged}: {task}: not answered: {reason}")
            finding = read(answer)
        except (ValueError, LookupError, TypeError, AttributeError):
            raise wrong_line(result.logged, number, "resps", f"no finding of {task}") from None
        yield finding, row
