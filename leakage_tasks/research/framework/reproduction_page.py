"""The page that says what came of the papers, as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from leakage_tasks.core.atomic import replacing
from leakage_tasks.research.framework.judging import FEWEST_SEEDS, NOT_RUN, VERDICTS, Judgement
from leakage_tasks.research.framework.papers import KNOWN_PAPERS
from leakage_tasks.research.framework.registry import all_studies
from leakage_tasks.research.framework.report import escaped
from leakage_tasks.research.framework.reproduction import (
    BEYOND_COLUMNS,
    CLAIM,
    COLUMNS,
    NONE,
    PageRow,
    PaperOutcome,
    beyond_rows,
    outcome,
)
from leakage_tasks.research.framework.stored_results import read_store

BEFORE = "because of the correction alone"
SAID = ("scale", "verdict")
RUN = ("scale", "command", "minutes", "ran on", "made by")
_READ = f"""## How to read it

Each table, figure and section with a claim has a row, and each of its claims has one below it. A second table says how
they were run.
`leakage study report` makes this page of stored results; nothing on it is written by hand.

- **Published** is what the paper prints. **Measured** is ours, with its 95 % interval and the number `n` of what it is
  the mean of: models, or what is counted in them, such as canaries, pairs or epochs. Where several are of one model,
  they are counted as independent, which makes intervals narrower and p smaller than they may be; the lists of
  differences say where. Runs that all come to the same leave no interval: nothing tells by how much others may differ.
- **Scale.** `paper` has the paper's data and model. `small` has smaller ones: its figures are not the paper's, and a
  claim reproduced or refuted there is so for the smaller model. `smoke` shows that a study runs, and is not on this
  page.
- **Reproduced, refuted, cannot be told.** A claim with a test counts where its p is 0.05 or less after Holm's
  correction over all tests of its paper. One that would count only without it cannot be told. A claim
  without a p goes by an interval, by all runs alike, or by the figures shown. The row says what a verdict would take:
  more runs (`--trials`), or something else.
- No test proves that two things are alike. Such a claim, once reproduced, says that no difference was found.
- Fewer than {FEWEST_SEEDS} seeds, another version or edited code bear no verdict. The row then says how to run the
  study again.
- **Minutes** are those of all trials, one after the other, also where the machine did other work beside them; studies
  that share trials each count them. **Made by** is the version of this package and a hash of the study's code. Attacks
  and measures are told apart by the version alone.
"""
_MAKE = """## Making this page

```
leakage study run elmahdy/table-3 --trials 3            # one study, into runs/studies
leakage study report --store runs/studies               # takes what has finished into docs/results, and makes the page
leakage study report                                    # makes the page of docs/results again
```

A stored result is a JSON file of some kilobytes: the table, the claims, versions and times, without models and trials.
"""


def write_page(results: Path, output: Path) -> str:
    """Write the page of the stored ``results`` to ``output``; gives its first sentence. Raises LeakageError."""
    page = reproduction_page(results)
    with replacing(output) as beside:
        beside.write_text(page, encoding="utf-8")
    return next(line for line in page.splitlines()[1:] if line)


def reproduction_page(results: Path) -> str:
    """The page as text. Raises LeakageError for a store that cannot be read."""
    stored, studies = read_store(results), {study.name: study for study in all_studies()}
    papers = [KNOWN_PAPERS[name] for name in KNOWN_PAPERS]
    outcomes = [outcome(paper, stored, studies) for paper in papers]
    beyond = [row for paper in papers for row in beyond_rows(paper, stored, studies)]
    return "\n".join([*_first(outcomes), _READ, *_papers(outcomes), *_beyond(beyond), _MAKE])


def _first(outcomes: Sequence[PaperOutcome]) -> Iterator[str]:
    """What the page answers, and the counts."""
    yield "# What came of the papers\n"
    counts = [_counts(each.judgements) for each in outcomes]
    every = {column: sum(count[column] for count in counts) for column in counts[0]}
    not_run = f"; {every[NOT_RUN]} not run" if every[NOT_RUN] else ""
    yield (
        f"Of {every['claims']} claims of {len(outcomes)} papers {every[VERDICTS[True]]} are reproduced here and "
        f"{every[VERDICTS[False]]} refuted; {every[VERDICTS[None]]} cannot be told, {every[BEFORE]} of them because of "
        f"the correction for many tests alone{not_run}.\n"
    )
    columns = [column for column in every if column != NOT_RUN or not_run]
    rows = [
        {"paper": f"[{each.paper.name}](#{each.paper.name})"} | {column: str(count[column]) for column in columns}
        for each, count in zip(outcomes, counts, strict=True)
    ]
    yield _table(["paper", *columns], rows)


def _counts(judgements: Sequence[Judgement | None]) -> dict[str, int]:
    """How many claims came out in which way."""
    told = Counter(None if each is None else each.holds for each in judgements)
    return {
        "claims": len(judgements),
        **{word: told[verdict] for verdict, word in VERDICTS.items()},
        BEFORE: sum(each is not None and each.before for each in judgements),
        NOT_RUN: judgements.count(None),
    }


def _papers(outcomes: Sequence[PaperOutcome]) -> Iterator[str]:
    for each in outcomes:
        yield f"## {each.paper.name}\n"
        yield f"{each.paper.title}.\n"
        yield _table([*COLUMNS, *SAID], [_marked(row) for row in each.rows])
        yield from _how_they_were_run(each.rows, "part")
        yield from _differences(each)


def _differences(paper: PaperOutcome) -> Iterator[str]:
    """How the set-ups differ from the paper's: parts with what is so of just these, those of most parts first."""
    by_parts: dict[tuple[str, ...], list[str]] = {}
    for sentence, where in paper.differences.items():
        by_parts.setdefault(tuple(dict.fromkeys(where)), []).append(escaped(sentence))
    if not by_parts:
        return
    yield "How this differs from the paper and what was counted, at `small` where no other scale is named:\n"
    for parts, sentences in sorted(by_parts.items(), key=lambda each: -len(each[0])):
        yield f"- **{'; '.join(parts)}**: {' '.join(sentences)}"
    yield ""


def _marked(row: PageRow) -> PageRow:
    """A part stands out from its claims."""
    return row if CLAIM in row["part"] else row | {"part": f"**{row['part']}**"}


def _beyond(rows: Sequence[PageRow]) -> Iterator[str]:
    yield "## Beyond the papers\n"
    yield (
        "What is added to them here, and what it gains. Intervals are at 95 %, not corrected for their number; those "
        "of a difference take its two sides for independent.\n"
    )
    yield _table([*BEYOND_COLUMNS, *SAID], rows)
    yield from _how_they_were_run(rows, "paper")


def _how_they_were_run(rows: Sequence[PageRow], of: str) -> Iterator[str]:
    """The runs behind ``rows``, each with what it tells ``of``; a claim goes by its part."""
    runs: dict[tuple[str, ...], dict[str, None]] = {}
    for row in rows:
        if row["command"] != NONE:
            runs.setdefault(tuple(row[column] for column in RUN), {})[row[of].partition(CLAIM)[0]] = None
    yield "How they were run:\n"
    yield _table([of, *RUN], [{of: ", ".join(told)} | dict(zip(RUN, how, strict=True)) for how, told in runs.items()])


def _table(columns: Sequence[str], rows: Sequence[PageRow]) -> str:
    """A Markdown table; lines of a cell stay lines. Raises ValueError for an empty cell."""
    lines = [list(columns), ["---"] * len(columns)]
    for row in rows:
        if empty := [name for name in columns if not row[name].strip()]:
            raise ValueError(f"column {empty[0]!r} of {row} is empty")
        lines.append(["<br>".join(map(escaped, row[name].split("\n"))) for name in columns])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
