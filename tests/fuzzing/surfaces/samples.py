"""Files of samples, and what is scored and plotted of them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from leakage_tasks.report.board.board import make_board
from leakage_tasks.report.board.formats import as_text as board_text
from leakage_tasks.report.load.results import read_runs
from leakage_tasks.report.load.sample_files import find_samples
from leakage_tasks.report.page import page
from leakage_tasks.report.plots.findings import costs_of, epochs_of, recall_of, repetitions_of
from leakage_tasks.report.score import audit_text, score_file, score_text
from tests.fuzzing import mutate
from tests.fuzzing.case import Call, ensure
from tests.report.logged import choice, finding, log, suffix
from tests.report.made import STAMP

EXPOSURE, EXTRACTION, SUFFIXES = "canary_exposure", "canary_extraction", "suffix_extraction"
_PLOTS = (epochs_of, repetitions_of, costs_of, recall_of)


@cache
def _findings() -> dict[str, list[Any]]:
    planted = [finding(f"c{n}", rank=float(1 + 50 * n), repetitions=1 + 3 * (n % 2)) for n in range(4)]
    controls = [finding(f"k{n}", rank=400_000.0 + n, repetitions=0) for n in range(3)]
    named = ("calibrated", "likelihood")
    suffixes = [suffix(n, {name: choice(n % 2 == 0, 0.9 - n / 10) for name in named}) for n in range(3)]
    extracted = [finding(f"c{n}", attack="greedy", correct=(n == 0,)) for n in range(3)]
    return {EXPOSURE: planted + controls, EXTRACTION: extracted, SUFFIXES: suffixes}


def make(stream: Random, folder: Path) -> Call:
    """A run with samples, some of which are changed, in the line or in the answer that it holds as text."""
    task = stream.choice((EXPOSURE, EXPOSURE, EXTRACTION, SUFFIXES))
    path = log(folder, {task: _findings()[task]}, model="m")
    samples = folder / f"samples_{task}_{STAMP}.jsonl"
    rows = [json.loads(row) for row in samples.read_text().splitlines()]
    if stream.random() < 0.6:
        for row in stream.sample(rows, stream.choice((1, 1, 2))):
            answer = mutate.json_file(stream, json.loads(row["resps"][0][0])).decode("utf-8", "replace")
            row["resps"] = [[answer]]
        samples.write_bytes(b"".join(mutate.written(stream, row) + b"\n" for row in rows))
    else:
        samples.write_bytes(mutate.json_lines(stream, rows))
    kind = stream.randrange(4)
    return Call(lambda: _read(path, samples, kind))


def _read(path: Path, samples: Path, kind: int) -> None:
    if kind == 0:
        for file in find_samples([samples.parent]).files:
            scored = score_file(file, 1e-5)
            text = score_text(scored, True) + (audit_text(scored, 1e-5) if scored.audit else "")
            ensure(
                all(line.isprintable() for line in text.split("\n")), f"a terminal can show it: {ascii(text)[:3000]}"
            )
            json.dumps(scored.to_json(), allow_nan=False)
    elif kind == 1:
        board = make_board(read_runs([path]))
        ensure("</html>" in page(board), "a page is whole")
        board_text(board)
    else:
        for plot in _PLOTS if kind == 2 else _PLOTS[:1]:
            plot([path])
