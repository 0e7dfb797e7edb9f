"""Reading of the samples that the harness logs with ``--log_samples``: the attacks' answers, one document per line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from leakage_tasks.attacks.finding import Finding
from leakage_tasks.attacks.suffix.finding import HEADLINE, SuffixFinding, suffix_finding_from_json
from leakage_tasks.core.errors import ResultsError
from leakage_tasks.core.null_results import reason_of
from leakage_tasks.metrics.audit import audit
from leakage_tasks.metrics.audit_figure import AuditFigure
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
from leakage_tasks.report.load.results_file import read_run
from leakage_tasks.report.load.run import STAMP, Run
from leakage_tasks.report.load.sample_files import NAME, scoring_of
from leakage_tasks.report.load.sample_lines import SampleLine, check_number, read_line, read_objects, wrong_line
from leakage_tasks.report.load.validate import printable


@dataclass(frozen=True)
class Samples:
    """The samples that one run logged for one task.

    ``answered`` holds the answers of all documents in all columns, ``lines`` their line numbers from 1, ``documents``
    the number of documents.
    """

    file: Path
    scoring: Scoring
    answered: tuple[Answered, ...]
    lines: tuple[int, ...]
    documents: int

    @property
    def task(self) -> str:
        """The task's name."""
        name = NAME.fullmatch(self.file.name)
        return name["task"] if name else self.scoring.task

    @property
    def unanswered(self) -> str | None:
        """The reason why the task is null, or None if it is not."""
        reason = reason_of(self.answered[0].answer)
        return None if reason is None else printable(reason)

    @property
    def unscored(self) -> Mapping[str, str]:
        """The run's metrics that samples cannot reproduce, each with the reason."""
        return self.scoring.unscored(self.answered[0].task_settings)

    @property
    def results(self) -> Path | None:
        """The results file that the run wrote to the folder of the samples, or None."""
        stamp = NAME.fullmatch(self.file.name)
        files = sorted(self.file.parent.glob(f"*_{stamp['stamp']}.json")) if stamp else []
        return next((file for file in files if STAMP.search(file.name)), None)

    def findings(self) -> list[Finding]:
        """Return the finding of each canary, or [] if the task is null or has no canaries.

        Raises ResultsError.
        """
        return list(self._read) if self.scoring.goal in ("exposure", "extraction") else []

    def suffix_findings(self) -> Iterator[tuple[int, SuffixFinding]]:
        """Yield the findings on pairs in the main column, each with the number of its line. Raises ResultsError."""
        for line, answered in zip(self.lines, self.answered, strict=True):
            if answered.column == HEADLINE:
                try:
                    yield line, suffix_finding_from_json(answered.answer)
                except (AttributeError, LookupError, TypeError, ValueError):
                    raise wrong_line(self.file, line, "resps", "no finding on a pair") from None

    def audit(self, delta: float) -> list[AuditFigure]:
        """Return the auditing metrics at ``delta``, or [] without planted canaries or for other tasks than exposure.

        Raises ResultsError.
        """
        findings = self.findings() if self.scoring.goal == "exposure" else []
        return audit(findings, delta) if any(finding.planted for finding in findings) else []

    def metrics(self) -> Sequence[Metric[Any, Any]]:
        """Return the run's metrics. Raises ResultsError."""
        return self.scoring.metrics(self.answered[0].task_settings, copies_among(self.scoring, self._read))

    def scores(self) -> Scores:
        """Compute all metrics of the run again. Raises ResultsError."""
        with self._damage_by_line():
            return score(self.scoring, self.answered, self._read)

    @cached_property
    def _read(self) -> Sequence[Any]:
        """The parsed answers; empty if the task is null."""
        with self._damage_by_line():
            return () if self.unanswered is not None else read_answers(self.scoring, self.answered)

    @contextmanager
    def _damage_by_line(self) -> Iterator[None]:
        try:
            yield
        except DamagedAnswer as error:
            reason = f"no finding of {self.task} ({error.kind})"
            raise wrong_line(self.file, self.lines[error.place], "resps", reason) from None


def read_samples(path: str | Path) -> Samples:
    """Read a file of samples, named as by the harness. Raises ResultsError naming file, line and field."""
    file = Path(path)
    scoring = scoring_of(file)
    lines: dict[int, SampleLine] = {}
    seen: dict[tuple[Any, str], int] = {}
    # A document's answer is repeated in each column.
    answers: dict[str, str] = {}
    task_settings: Mapping[str, Any] | None = None
    for number, data in read_objects(file):
        wrong = partial(wrong_line, file, number)
        line = read_line(data, answers, wrong)
        first = seen.setdefault((line.document, line.answered.column), number)
        if first != number:
            raise wrong("doc_id", f"the document of line {first} again")
        # All lines share one dict of settings; a dict per line would take more memory than the answers.
        task_settings = line.answered.task_settings if task_settings is None else task_settings
        if line.answered.task_settings != task_settings:
            raise wrong("arguments", "other settings than in line 1: lines of several runs")
        lines[number] = line._replace(answered=line.answered._replace(task_settings=task_settings))
    if not lines:
        raise ResultsError(f"{file}: holds no samples: run lm_eval again with --log_samples")
    # Each document has a line in the main column, if there is one.
    columns = Counter(line.answered.column for line in lines.values())
    documents = columns[HEADLINE] or len({line.document for line in lines.values()})
    return Samples(file, scoring, tuple(line.answered for line in lines.values()), tuple(lines), documents)


def read_all_samples(path: str | Path) -> Samples:
    """Read a file of samples as :func:`read_samples` does; raise ResultsError too if the run's results state more
    documents."""
    samples = read_samples(path)
    result = None if samples.results is None else read_run(samples.results).tasks.get(samples.task)
    if result is not None:
        check_number(samples.file, samples.documents, result.samples)
    return samples


def audit_of(run: Run, delta: float) -> list[AuditFigure]:
    """Return the auditing metrics from the samples next to the results, or [] without samples. Raises ResultsError."""
    for result in run.tasks.values():
        name = result.scoring_name
        if name in SCORINGS and SCORINGS[name].goal == "exposure" and result.is_leakage and result.logged is not None:
            return read_all_samples(result.logged).audit(delta)
    return []
