"""Findings in the samples next to a run's results, one after the other, with the lines that hold them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from leakage_tasks.attacks.suffix.finding import HEADLINE
from leakage_tasks.core.errors import ResultsError
from leakage_tasks.core.null_results import reason_of
from leakage_tasks.report.load.run import Run
from leakage_tasks.report.load.sample_lines import AGAIN, read_objects, wrong_line

AnyFinding = TypeVar("AnyFinding")


class NoAnswers(ResultsError):
    """A task without findings; ``reason`` says why."""

    def __init__(self, task: str, reason: str) -> None:
        self.reason = reason
        super().__init__(f"{task}: {reason}")


def read_answers(
    run: Run, task: str, read: Callable[[str], AnyFinding], remedy: str = AGAIN
) -> Iterator[tuple[AnyFinding, dict[str, Any]]]:
    """Yield the findings in the main column of a task's samples, with the lines that hold them.

    Args:
        run: The run; without results of the task, nothing is yielded.
        task: The task, or the scoring that the task inherits.
        read: Parses an answer; raises an error for text that is no finding of the task.
        remedy: The last part of the message for a line without a finding.

    Raises:
        NoAnswers: If the samples are missing or not answered.
        ResultsError: If a line holds another answer; names file and line.
    """
    result = run.scored_as(task)
    if result is None:
        return
    if result.logged is None:
        lacking = "no samples next to its results: run lm_eval again with --log_samples and --output_path"
        raise NoAnswers(f"{result.file}: {task}", lacking)
    for number, row in read_objects(result.logged):
        try:
            answer = row["resps"][0][0]
            if row.get("filter", HEADLINE) != HEADLINE:
                continue
            if (reason := reason_of(answer)) is not None:
                raise NoAnswers(f"{result.logged}: {task}", f"not answered: {reason}")
            finding = read(answer)
        except (ValueError, LookupError, TypeError, AttributeError):
            raise wrong_line(result.logged, number, "resps", f"no finding of {task}", remedy) from None
        yield finding, row
