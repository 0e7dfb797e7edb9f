"""Results files of the harness, and every report that is made of them."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from leakage_tasks.report.board.board import make_board
from leakage_tasks.report.board.formats import as_csv, as_json, as_markdown, as_text
from leakage_tasks.report.check import Limit, outcomes, waived
from leakage_tasks.report.compare.changes import as_text as changes_text
from leakage_tasks.report.compare.changes import compare
from leakage_tasks.report.compare.changes import page as changes_page
from leakage_tasks.report.load.results import read_runs
from leakage_tasks.report.load.run import Run
from leakage_tasks.report.load.samples import audit_of
from leakage_tasks.report.page import page
from tests.fuzzing import mutate
from tests.fuzzing.case import Call, ensure
from tests.report.made import STAMP, leaking, results, tiered

_LIMITS = [Limit("exposure_max", 3.0), Limit("extracted", 0.1), Limit("exposure_x1", 2.0)]
_STAMPS = ("", "_9999-99-99T99-99-99", "_2026-01-02T03-04-05")


@cache
def sound() -> tuple[dict[str, Any], ...]:
    """Content of files with figures of both kinds, tiers, groups and shots."""
    useful = results({**leaking(), "arc": {"acc": 0.5, "acc_stderr": 0.1}, "gsm": {"exact_match,strict": 0.25}})
    useful["group_subtasks"] = {"leakage": ["canary_exposure"], "all": ["leakage", "arc"]}
    told = {"model": "hf", "model_args": "pretrained=x,a=b"}
    few = results({"arc": {"acc": 0.5}, "wiki": {"bits_per_byte": 0.9}}, config=told)
    return tiered(), results(leaking()), useful, few


def make(stream: Random, folder: Path) -> Call:
    """One file or two in a folder, the first of them changed."""
    paths = []
    for number in range(stream.choice((1, 1, 2))):
        place = folder / f"run{number}"
        place.mkdir()
        content = stream.choice(sound())
        told = json.dumps(content).encode() if number else mutate.json_file(stream, content)
        stamp = f"_{STAMP}" if stream.random() < 0.95 else stream.choice(_STAMPS)
        paths.append(place / f"results{stamp}.json")
        paths[-1].write_bytes(told)
    given = [folder] if stream.random() < 0.5 else paths
    kind = stream.randrange(6)
    return Call(lambda: _read(given, kind))


def _read(paths: list[Path], kind: int) -> None:
    runs = read_runs(paths)
    board = make_board(runs)
    if kind == 0:
        ensure("</html>" in page(board), "a page is whole")
    elif kind == 1:
        json.loads(as_json(board), parse_constant=lambda name: ensure(False, f"JSON is strict: {name}"))
        as_csv(board)
    elif kind == 2:
        _shown(as_text(board, every=True, width=80))
        _shown(as_markdown(board, every=True))
    elif kind == 3:
        _shown("\n".join(each.words for each in outcomes(runs, _LIMITS)))
        _shown("\n".join(waived(runs, ["underpowered"])))
    elif kind == 4:
        found = [compare(runs[0], other) for other in runs]
        _shown("\n".join(map(changes_text, found)))
        changes_page(found, None)
        [json.dumps(each.to_json()) for each in found]
    else:
        _shown(as_text(board))
        _audited(runs)


def _audited(runs: list[Run]) -> None:
    for run in runs:
        figures = audit_of(run, 0.0)
        ensure(all(each.value is None or math.isfinite(each.value) for each in figures), "a figure is finite")


def _shown(text: str) -> None:
    """What goes to a terminal or into Markdown."""
    ensure(all(line.isprintable() for line in text.split("\n")), f"a terminal can show it: {ascii(text)[:3000]}")
