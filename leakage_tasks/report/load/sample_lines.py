"""Lines of samples as the harness logs them, checked for their fields and for finite numbers, and their findings."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from leakage_tasks.attacks.suffix.finding import HEADLINE
from leakage_tasks.core.errors import ResultsError
from leakage_tasks.core.inputs import check_file
from leakage_tasks.core.jsonl import LineError, read_json_lines
from leakage_tasks.core.nouns import counted
from leakage_tasks.core.null_results import reason_of
from leakage_tasks.core.records import WrongField, finite, kind_of
from leakage_tasks.core.stable_inputs import unchanged
from leakage_tasks.metrics.scoring import Answered
from leakage_tasks.report.load.run import Run
from leakage_tasks.report.load.validate import printable

AnyFinding = TypeVar("AnyFinding")
AGAIN = "give the file as lm_eval wrote it, or run lm_eval again with --log_samples"
_LARGE, _LONG, _MANY = re.compile(r"[:,\[]\s*-?\d+(?:\.\d+)?[eE]\+?\d{3}"), 100, 900
"""Signs of suspect numbers: a large exponent, at least this many digits in a row, at least this many brackets."""


class NoAnswers(ResultsError):
    """A task without findings; ``reason`` says why."""

    def __init__(self, task: str, reason: str) -> None:
        self.reason = reason
        super().__init__(f"{task}: {reason}")


class SampleLine(NamedTuple):
    """A document and its answer in one column."""

    document: Any
    answered: Answered


Wrong = Callable[[str, str], ResultsError]
"""A function that builds the error of a line from the wrong field and the fault."""


def read_objects(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the JSON objects of a file's non-empty lines with their line number from 1."""
    try:
        check_file(file)
        with unchanged(file), file.open("rb") as lines:
            for number, data in read_json_lines(lines):
                if not isinstance(data, dict):
                    raise ResultsError(f"{file}:{number}: expected an object, found {kind_of(data)}: {AGAIN}")
                yield number, data
    except LineError as bad:
        if not bad.ends:
            raise ResultsError(f"{file}:{bad.number}: the line is cut off, the file incomplete: {AGAIN}") from None
        reason = getattr(bad.error, "msg", bad.error)
        raise ResultsError(f"{file}:{bad.number}: not JSON ({reason}): {AGAIN}") from None
    except OSError as error:
        raise ResultsError(f"{file}: cannot be read ({error.strerror}): check the path") from None


def read_line(data: Mapping[str, Any], answers: dict[str, str], wrong: Wrong) -> SampleLine:
    """Read one sample and check its fields; ``answers`` keeps one copy of equal answers."""
    try:
        answer = data["resps"][0][0]
    except (KeyError, IndexError, TypeError):
        raise wrong("resps", "missing or empty") from None
    if not isinstance(answer, str):
        raise wrong("resps", f"expected a finding, found {kind_of(answer)}")
    if answer not in answers:
        _check_numbers(answer, wrong)
    column, document = data.get("filter"), data.get("doc_id")
    if not isinstance(column, str):
        raise wrong("filter", f"expected text, found {kind_of(column)}")
    if not isinstance(document, int | str):
        raise wrong("doc_id", f"expected a number, found {kind_of(document)}")
    task_settings = task_settings_of(data)
    if task_settings is None:
        raise wrong("arguments", "no settings of an attack in it")
    return SampleLine(document, Answered(answers.setdefault(answer, answer), printable(column), task_settings))


def task_settings_of(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the attack's settings in a sample, or None for a sample without them."""
    try:
        task_settings = data["arguments"]["gen_args_0"]["arg_1"]
    except (KeyError, TypeError):
        return None
    return task_settings if isinstance(task_settings, dict) else None


def _check_numbers(answer: str, wrong: Wrong) -> None:
    """Raise ResultsError if a number in the answer is not finite, since no metric could be computed from it."""
    # Most answers show no such sign; a search for signs is much faster than parsing every number.
    suspect = "NaN" in answer or "Infinity" in answer or _LARGE.search(answer)
    # A run of 2 * _LONG digits covers at least one whole window of _LONG characters.
    long = any(answer[start : start + _LONG].isdigit() for start in range(0, len(answer), _LONG))
    if not suspect and not long and answer.count("[") + answer.count("{") < _MANY:
        return
    try:
        json.loads(answer, parse_constant=_finite, parse_float=_finite, parse_int=_finite)
    except WrongField:
        raise wrong("resps", "a number in it is not finite") from None
    except json.JSONDecodeError:
        pass  # The scoring reports an answer that is not JSON.
    except RecursionError:
        raise wrong("resps", "nested too deep") from None


def _finite(text: str) -> float:
    return finite(float(text), "resps")


def wrong_line(file: Path, line: int, field: str, fault: str, remedy: str = AGAIN) -> ResultsError:
    """Build the error for a field in a line of a file.

    Args:
        file: The file of samples.
        line: The line's number from 1.
        field: The name of the field.
        fault: A description of the fault.
        remedy: A description of the remedy, the end of the message.

    Returns:
        The error.
    """
    return ResultsError(f"{file}:{line}: field {field!r}: {fault}: {remedy}")


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
        ResultsError: If a line holds another answer (names file and line), or if lines are missing.
    """
    result = run.scored_as(task)
    if result is None:
        return
    if result.logged is None:
        lacking = "no samples next to its results: run lm_eval again with --log_samples and --output_path"
        raise NoAnswers(f"{result.file}: {task}", lacking)
    documents = 0
    for number, row in read_objects(result.logged):
        try:
            answer = row["resps"][0][0]
            if row.get("filter", HEADLINE) != HEADLINE:
                continue
            documents += 1
            if (reason := reason_of(answer)) is not None:
                raise NoAnswers(f"{result.logged}: {task}", f"not answered: {reason}")
            finding = read(answer)
        except (ValueError, LookupError, TypeError, AttributeError):
            raise wrong_line(result.logged, number, "resps", f"no finding of {task}", remedy) from None
        yield finding, row
    check_number(result.logged, documents, result.samples)


def check_number(file: Path, documents: int, expected: int | None) -> None:
    """Raise ResultsError if a file of samples has fewer documents than its run's results state."""
    if expected is not None and documents < expected:
        raise ResultsError(f"{file}: {counted(documents, 'document')}, but the results are of {expected:,}: {AGAIN}")
