"""The page of results in Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from leakage_tasks.core.atomic import replacing
from leakage_tasks.research.framework.judging import FEWEST_SEEDS, NOT_RUN, VERDICTS, Judgement, study_name
from leakage_tasks.research.framework.papers import KNOWN_PAPERS, NOTHING, Paper
from leakage_tasks.research.framework.registry import all_studies
from leakage_tasks.research.framework.report import escaped
from leakage_tasks.research.framework.reproduction import (
    BEYOND_COLUMNS,
    COLUMNS,
    NO_VERDICT,
    PageRow,
    PaperOutcome,
    beyond_rows,
    nothing_to_measure,
    outcome,
)
from leakage_tasks.research.framework.stored_results import StoredResult, read_store

ONLY_UNCORRECTED = "inconclusive by correction alone"
_READ = f"""## How to read it

- **Claim**: the paper's statement in our words, with the table, figure or section and a number. A row with the verdict
  {NO_VERDICT} compares values only.
- **Measured**: our value with its 95 % interval; `n` counts models, or canaries, pairs or epochs in them. Several
  counts from one model are treated as independent, so intervals may be too narrow. p is corrected by Holm's method for
  all tests of the paper.
- **Verdict**: a claim with a test needs p ≤ 0.05. Other claims are judged by an interval, by agreement of all runs, or
  by the values shown. A reproduced claim that two things are equal means that no difference was found. Results with
  fewer than {FEWEST_SEEDS} seeds, from another version or from edited code get no verdict. A list below each table
  says what inconclusive claims require.
- **Scale**: results are at `small`, with smaller models and data than the paper, unless another scale is named. They
  do not replace the paper's values.

The stored results in `docs/results` have all tables, tests, raw p-values and differences from the papers.
"""
_MAKE = """## Making this page

```
leakage study run elmahdy/table-3 --trials 3            # run one study; results go to runs/studies
leakage study report --store runs/studies               # store finished studies in docs/results, then write the page
leakage study report                                    # write the page again from docs/results
```
"""


def write_page(results: Path, output: Path) -> str:
    """Write the page of the stored ``results`` to ``output`` and return its first sentence. Raises LeakageError."""
    page = reproduction_page(results)
    with replacing(output) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return next(line for line in page.splitlines()[1:] if line)


def reproduction_page(results: Path) -> str:
    """Return the page as text. Raises LeakageError if the store cannot be read."""
    stored, studies = read_store(results), {study.name: study for study in all_studies()}
    papers = [KNOWN_PAPERS[name] for name in KNOWN_PAPERS]
    outcomes = [outcome(paper, stored, studies) for paper in papers]
    beyond = [row for paper in papers for row in beyond_rows(paper, stored, studies)]
    return "\n".join([*_summary(outcomes), _READ, *_papers(outcomes), *_beyond(beyond), *_runs(papers, stored), _MAKE])


def _summary(outcomes: Sequence[PaperOutcome]) -> Iterator[str]:
    """Yield the title, the counts of verdicts and a table of them by paper."""
    yield "# Results of the papers' studies\n"
    counts = [_counts(paper_outcome.judgements) for paper_outcome in outcomes]
    total = {column: sum(count[column] for count in counts) for column in counts[0]}
    not_run = f"; {total[NOT_RUN]} not run" if total[NOT_RUN] else ""
    yield (
        f"Of {total['claims']} claims in {len(outcomes)} papers, {total[VERDICTS[True]]} are reproduced, "
        f"{total[VERDICTS[False]]} are refuted and {total[VERDICTS[None]]} are inconclusive, "
        f"{total[ONLY_UNCORRECTED]} of them only because of the correction for many tests{not_run}.\n"
    )
    columns = [column for column in total if column != NOT_RUN or not_run]
    rows = [
        {"paper": f"[{paper_outcome.paper.name}](#{paper_outcome.paper.name})"}
        | {column: str(count[column]) for column in columns}
        for paper_outcome, count in zip(outcomes, counts, strict=True)
    ]
    yield _table(["paper", *columns], rows)


def _counts(judgements: Sequence[Judgement | None]) -> dict[str, int]:
    """Count the claims by verdict."""
    verdicts = Counter(None if judgement is None else judgement.holds for judgement in judgements)
    return {
        "claims": len(judgements),
        **{word: verdicts[verdict] for verdict, word in VERDICTS.items()},
        ONLY_UNCORRECTED: sum(judgement is not None and judgement.only_uncorrected for judgement in judgements),
        NOT_RUN: judgements.count(None),
    }


def _papers(outcomes: Sequence[PaperOutcome]) -> Iterator[str]:
    """Yield a section per paper: set-up, claims, and what inconclusive claims require."""
    for paper_outcome in outcomes:
        yield f"## {paper_outcome.paper.name}\n"
        yield f"{paper_outcome.paper.title}. {paper_outcome.paper.setup}".strip() + "\n"
        if paper_outcome.rows:
            yield _table(COLUMNS, paper_outcome.rows)
        if paper_outcome.required:
            yield "Inconclusive claims require:\n"
            yield _list({text: _numbers(labels) for text, labels in paper_outcome.required.items()})
        missing = {text: ", ".join(parts) for text, parts in paper_outcome.absent.items() if text != NOTHING}
        if missing:
            yield "Without a result:\n"
            yield _list(missing)
        if nothing := nothing_to_measure(paper_outcome):
            yield f"Nothing to measure: {', '.join(nothing)}.\n"


def _numbers(labels: Sequence[str]) -> str:
    """Join labels such as ``Table 2 (1)`` and ``Table 2 (3)`` to ``Table 2 (1, 3)``."""
    by_part: dict[str, list[str]] = {}
    for label in labels:
        part, _, number = label.partition(" (")
        by_part.setdefault(part, []).append(number.replace(")", ""))
    return "; ".join(f"{part} ({', '.join(numbers)})" for part, numbers in by_part.items())


def _list(items: Mapping[str, str]) -> str:
    return "\n".join(f"- {escaped(text)}: {parts}" for text, parts in items.items()) + "\n"


def _beyond(rows: Sequence[PageRow]) -> Iterator[str]:
    """Yield the section of additions to the papers."""
    yield "## Beyond the papers\n"
    yield (
        "Additions to the papers and their gains. Intervals are at 95 %, without correction for many tests; intervals "
        "of differences treat both sides as independent.\n"
    )
    yield _table(BEYOND_COLUMNS, rows)


def _runs(papers: Sequence[Paper], stored: Sequence[StoredResult]) -> Iterator[str]:
    """Yield the section of commands that made the results."""
    yield "## Runs\n"
    devices = sorted({device or "unknown" for result in stored for device in result.devices})
    versions = sorted({result.versions.get("lm-eval-leakage", "unknown") for result in stored})
    yield (
        f"Devices: {', '.join(devices) or 'none'}. Versions: {', '.join(versions) or 'none'}. Minutes are the sum over "
        "trials; studies that share trials count them each.\n"
    )
    rows = []
    for paper in papers:
        for result in stored:
            parts = [part.where for part in paper.parts if part.study and study_name(paper, part.study) == result.study]
            if result.study.partition("/")[0] == paper.name:
                minutes = f"{result.seconds / 60:,.0f}" if result.seconds >= 60 else "under 1"
                rows.append(
                    {
                        "command": f"`{result.command}`",
                        "parts": ", ".join(parts) or "beyond the paper",
                        "minutes": minutes,
                    }
                )
    yield _table(["command", "parts", "minutes"], rows)


def _table(columns: Sequence[str], rows: Sequence[PageRow]) -> str:
    """Return a Markdown table; line breaks in a cell are kept. Raises ValueError for an empty cell."""
    lines = [list(columns), ["---"] * len(columns)]
    for row in rows:
        if empty := [name for name in columns if not row[name].strip()]:
            raise ValueError(f"column {empty[0]!r} of {row} is empty")
        lines.append(["<br>".join(map(escaped, row[name].split("\n"))) for name in columns])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
