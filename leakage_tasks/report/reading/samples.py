"""Reading the samples that the harness logs (``--log_samples``): what the attacks answered, one document a line."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

from leakage_tasks.attacks.finding import Finding
from leakage_tasks.core.errors import ResultsError
from leakage_tasks.core.inputs import check_file
from leakage_tasks.core.jsonl import LineError, read_json_lines
from leakage_tasks.core.steady import unchanged
from leakage_tasks.core.unanswered import reason_of
from leakage_tasks.metrics.audit import AuditFigure, audit
from leakage_tasks.metrics.metric import Metric
from leakage_tasks.metrics.scoring import (
    SCORINGS,
    Answered,
    DamagedAnswer,
    Scores,
    Scoring,
    copies_among,
    read_answers,
    score,
)
from leakage_tasks.report.reading.run import STAMP, Run
from leakage_tasks.report.reading.validate import WrongField, finite, kind_of, printable

NAME = re.compile(r"samples_(?P<task>.+)_(?P<stamp>\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?)\.jsonl")
"""How the harness names a file of samples: by its task, and by the time that the results file has as well."""
_LARGE, _LONG, _MANY = re.compile(r"[:,\[]\s*-?\d+(?:\.\d+)?[eE]\+?\d{3}"), 100, 900
"""What a number with a large exponent looks like, fewer digits than such a number without one has, and fewer brackets
than what is nested too deep has."""
AGAIN = "give the file as lm_eval wrote it, or run lm_eval again with --log_samples"
_LOGGING = "run lm_eval again with --log_samples and --output_path"


class _Line(NamedTuple):
    document: Any
    answered: Answered


Wrong = Callable[[str, str], ResultsError]
"""The error of a line, given the field that is wrong and what is wrong with it."""


@dataclass(frozen=True)
class Samples:
    """What one run logged of one task.

    ``answered`` are all documents' answers in all columns, ``lines`` the line each stands in, from 1, ``documents`` how
    many documents there are.
    """

    file: Path
    scoring: Scoring
    answered: tuple[Answered, ...]
    lines: tuple[int, ...]
    documents: int

    @property
    def task(self) -> str:
        """The task's name."""
        return self.scoring.task

    @property
    def unanswered(self) -> str | None:
        """Why the task is null; None where it is not."""
        reason = reason_of(self.answered[0].answer)
        return None if reason is None else printable(reason)

    @property
    def unscored(self) -> Mapping[str, str]:
        """Rows of the run that samples do not tell, each with the reason."""
        return self.scoring.unscored(self.answered[0].order)

    @property
    def results(self) -> Path | None:
        """The results file that the same run wrote beside; None without one."""
        stamp = NAME.fullmatch(self.file.name)
        beside = sorted(self.file.parent.glob(f"*_{stamp['stamp']}.json")) if stamp else []
        return next((each for each in beside if STAMP.search(each.name)), None)

    def findings(self) -> list[Finding]:
        """What was found out about each canary; nothing for a task that is null or about anything else.

        Raises ResultsError.
        """
        return list(self._read) if self.scoring.goal in ("exposure", "extraction") else []

    def audit(self, delta: float) -> list[AuditFigure]:
        """The auditing figures at ``delta``; none of tasks that are not for exposure, and of no planted canary.

        Raises ResultsError.
        """
        findings = self.findings() if self.scoring.goal == "exposure" else []
        return audit(findings, delta) if any(found.planted for found in findings) else []

    def metrics(self) -> Sequence[Metric[Any, Any]]:
        """The rows of the run. Raises ResultsError."""
        return self.scoring.metrics(self.answered[0].order, copies_among(self.scoring, self._read))

    def scores(self) -> Scores:
        """All rows of the run, computed again. Raises ResultsError."""
        with self._damage_by_line():
            return score(self.scoring, self.answered, self._read)

    @cached_property
    def _read(self) -> Sequence[Any]:
        """What the answers say; nothing where there are none."""
        with self._damage_by_line():
            return () if self.unanswered is not None else read_answers(self.scoring, self.answered)

    @contextmanager
    def _damage_by_line(self) -> Iterator[None]:
        try:
            yield
        except DamagedAnswer as error:
            reason = f"no finding of {self.task} ({error.kind})"
            raise _wrong(self.file, self.lines[error.place], "resps", reason) from None


def read_samples(path: str | Path) -> Samples:
    """The samples in a file that has the name the harness gave it. Raises ResultsError naming file, line and field."""
    file = Path(path)
    scoring = _scoring(file)
    found: dict[int, _Line] = {}
    seen: dict[tuple[Any, str], int] = {}
    # The same answer stands in every column of its document.
    answers: dict[str, str] = {}
    order: Mapping[str, Any] | None = None
    for number, data in _objects(file):
        wrong = partial(_wrong, file, number)
        line = _line(data, answers, wrong)
        first = seen.setdefault((line.document, line.answered.column), number)
        if first != number:
            raise wrong("doc_id", f"the document of line {first} again")
        # One order for all lines: a dict each would take more memory than the answers.
        order = line.answered.order if order is None else order
        if line.answered.order != order:
            raise wrong("arguments", "asked otherwise than line 1: lines of several runs")
        found[number] = line._replace(answered=line.answered._replace(order=order))
    if not found:
        raise ResultsError(f"{file}: holds no samples: run lm_eval again with --log_samples")
    documents = len({line.document for line in found.values()})
    return Samples(file, scoring, tuple(line.answered for line in found.values()), tuple(found), documents)


def audit_of(run: Run, delta: float) -> list[AuditFigure]:
    """The auditing figures that the samples beside the results give; none without samples. Raises ResultsError."""
    for task, result in run.tasks.items():
        if task in SCORINGS and SCORINGS[task].goal == "exposure" and result.is_leakage and result.logged is not None:
            return read_samples(result.logged).audit(delta)
    return []


def _scoring(file: Path) -> Scoring:
    """How the task in the file's name is scored."""
    known = ", ".join(SCORINGS)
    name = NAME.fullmatch(file.name)
    if name is None:
        raise ResultsError(
            f"{file}: not named as lm_eval names samples: call it samples_TASK_TIME.jsonl, TASK being one of {known}"
        )
    if name["task"] not in SCORINGS:
        raise ResultsError(f"{file}: holds samples of {name['task']}, which cannot be scored again: give {known}")
    return SCORINGS[name["task"]]


def _objects(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The JSON objects of a file's lines that are not empty, with their number."""
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


def _line(data: Mapping[str, Any], answers: dict[str, str], wrong: Wrong) -> _Line:
    """One sample, checked to be of the form that the harness gives it."""
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
    try:
        order = data["arguments"]["gen_args_0"]["arg_1"]
    except (KeyError, TypeError):
        order = None
    if not isinstance(order, dict):
        raise wrong("arguments", f"no order of an attack in it, found {kind_of(order)}")
    return _Line(document, Answered(answers.setdefault(answer, answer), printable(column), order))


def _check_numbers(answer: str, wrong: Wrong) -> None:
    """Raise ResultsError for an answer with a number that is none, from which no figure could be computed."""
    # Most have nothing of the kind, which is far quicker to see than to look at every number.
    suspect = "NaN" in answer or "Infinity" in answer or _LARGE.search(answer)
    # Of twice as many digits in a row, so many are digits alone at one of these places.
    long = any(answer[at : at + _LONG].isdigit() for at in range(0, len(answer), _LONG))
    if not suspect and not long and answer.count("[") + answer.count("{") < _MANY:
        return
    try:
        json.loads(answer, parse_constant=_finite, parse_float=_finite, parse_int=_finite)
    except WrongField:
        raise wrong("resps", "a number in it is not finite") from None
    except json.JSONDecodeError:
        pass  # An answer that is no JSON is told of where it is scored.
    except RecursionError:
        raise wrong("resps", "nested too deep") from None


def _finite(text: str) -> float:
    return finite(float(text), "resps")


def _wrong(file: Path, line: int, field: str, what: str) -> ResultsError:
    return ResultsError(f"{file}:{line}: field {field!r}: {what}: {AGAIN}")


@dataclass(frozen=True)
class SampleFiles:
    """Files of samples to score, and what is to be said of those that are not."""

    files: tuple[Path, ...]
    notes: tuple[str, ...]


def find_samples(paths: Iterable[str | Path]) -> SampleFiles:
    """The files of samples of all paths, each once. Raises ResultsError for a path that has none."""
    found = [_files_of(Path(path)) for path in paths]
    files = {file.resolve(): file for each in found for file in each.files}
    return SampleFiles(tuple(files.values()), tuple(dict.fromkeys(note for each in found for note in each.notes)))


def _files_of(path: Path) -> SampleFiles:
    if path.is_dir():
        return _under(path)
    if not path.is_file():
        raise ResultsError(f"{path}: no such file or folder: give samples, a results file, or their folder")
    stamp = STAMP.search(path.name)
    if stamp is None:
        return SampleFiles((path,), ())
    beside = sorted(path.parent.glob(f"samples_*_{stamp[1]}.jsonl"))
    if not beside:
        raise ResultsError(f"{path}: no samples of its run beside it, samples_…_{stamp[1]}.jsonl: {_LOGGING}")
    return _scorable(path, beside)


def _under(folder: Path) -> SampleFiles:
    """The newest samples of each task in each folder below."""
    groups: dict[tuple[Path, str], list[tuple[str, Path]]] = defaultdict(list)
    for file in sorted(folder.rglob("samples_*.jsonl")):
        if name := NAME.fullmatch(file.name):
            groups[file.parent, name["task"]].append((name["stamp"], file))
    if not groups:
        raise ResultsError(f"{folder}: no samples in it or below, samples_TASK_TIME.jsonl: {_LOGGING}")
    newest = {max(group)[1]: len(group) for group in groups.values()}
    kept = _scorable(folder, newest)
    notes = (
        f"{file.name} is the newest of {newest[file]} of its task in {file.parent}: name another for that"
        for file in kept.files
        if newest[file] > 1
    )
    return SampleFiles(kept.files, (*kept.notes, *notes))


def _scorable(place: Path, files: Iterable[Path]) -> SampleFiles:
    """Those of the files whose task can be scored. Raises ResultsError if there is none."""
    tasks = {file: name["task"] for file in files if (name := NAME.fullmatch(file.name))}
    kept = tuple(file for file, task in tasks.items() if task in SCORINGS)
    others = ", ".join(sorted({task for task in tasks.values() if task not in SCORINGS}))
    if not kept:
        raise ResultsError(f"{place}: its samples are of {others}: what can be scored is {', '.join(SCORINGS)}")
    return SampleFiles(kept, (f"not scored: {others}, whose samples hold no finding",) if others else ())
