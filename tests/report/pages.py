"""Runs with samples for tests of the page: made by hand, yet with figures computed as the tasks compute them."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from leakage_tasks.attacks.finding import Finding, Guess, grade_guesses
from leakage_tasks.attacks.suffix.finding import HEADLINE, Choice, SuffixFinding, SuffixView
from leakage_tasks.canaries.canary import MASK
from leakage_tasks.metrics import exposure, extraction
from leakage_tasks.metrics.metric import Metric
from leakage_tasks.metrics.suffixes import suffix_metrics
from leakage_tasks.metrics.tiers import copies_of
from leakage_tasks.report.board.board import Board, make_board
from leakage_tasks.report.load.results import read_runs
from tests.report.made import STAMP, declaration, results, write

EXPOSURE, EXTRACTION = "canary_exposure", "canary_extraction"
DIGITS = 6
SIZE = 10**DIGITS
Doc = dict[str, Any]


class Parsed(HTMLParser):
    """The elements of a document with their attributes, its headings, and the text in each script and style."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[tuple[dict[str, str | None], str]] = []
        self.text: list[str] = []
        self.headings: list[str] = []
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag

    def handle_data(self, data: str) -> None:
        if self.cdata_elem:
            self.raw.append((self.elements[-1][1], data))
            return
        self.text.append(data)
        self.headings += [data] if self._inside in ("h1", "h2") else []
        self._inside = ""

    def of(self, tag: str) -> list[dict[str, str | None]]:
        """The attributes of all elements of a kind."""
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def words(self) -> str:
        """The text outside script and style, with single spaces."""
        return " ".join(" ".join(self.text).split())


def board(folder: Path) -> Board:
    """The board of all runs in a folder."""
    return make_board(read_runs([folder]))


def canary(
    name: str,
    *,
    rank: int,
    repetitions: int = 1,
    hit: bool | None = None,
    kind: str = "random",
    reveal: bool = False,
    template: str = "my pin is {digits:6}",
    secret: Sequence[str] = tuple("123456"),
    guesses: Sequence[Sequence[str]] | None = None,
    **fields: Any,
) -> tuple[Doc, Finding, Finding]:
    """The document of a canary, what the search for its rank found, and what the search for itself found.

    ``repetitions`` 0 makes it a control. The best guess is the secret if ``hit``, by default for rank 1.
    """
    hit = rank == 1 if hit is None else hit
    offered = guesses or [list(secret) if hit else [*secret[:-1], "x"], ["0"] * len(secret)]
    listed = tuple(Guess(tuple(each), "".join(each), 10.0 + place) for place, each in enumerate(offered))
    found = grade_guesses(listed, tuple(secret))
    if kind == "natural" and not reveal:
        found["guesses"] = tuple(Guess((MASK,) * len(secret), MASK, each.score) for each in listed)
    named = {"canary": name, "planted": repetitions > 0, "repetitions": repetitions, "kind": kind}
    size = {"log2_size": math.log2(SIZE)}
    ranked = Finding(attack="exposure", rank=rank, method="exact", log_perplexity=30.0, **named, **size, **fields)
    searched = Finding(attack="shortest-path", proven=1, model_calls=99, **named, **size, **found)
    doc = {"schema": 1, "id": name, "planted": repetitions > 0, "repetitions": repetitions, "kind": kind}
    shown = {"template": template, "secret": list(secret), "space": {"digits": {}}}
    return doc | ({"mask": MASK} if kind == "natural" else shown), ranked, searched


def usual_canaries(leaking: float, seed: int = 0, each: int = 10) -> list[tuple[Doc, Finding, Finding]]:
    """Canaries planted once, 4 and 16 times, ``each`` of them, and as many controls; ``leaking`` from 0 to 1."""
    chance = random.Random(seed)
    made = []
    for times in (0, 1, 4, 16):
        for number in range(each):
            rank = max(1, round(SIZE ** (1 - leaking * min(1.0, times / 12)) * chance.random()))
            secret = tuple(f"{chance.randrange(SIZE):0{DIGITS}d}")
            known = leaking * min(1.0, times / 12)
            guesses = [
                [digit if chance.random() < known else str(chance.randrange(10)) for digit in secret] for _ in range(5)
            ]
            name = f"{'control' if not times else 'canary'}-{times}-{number}"
            made.append(canary(name, rank=rank, repetitions=times, secret=secret, guesses=guesses))
    return made


def write_run(
    folder: Path,
    name: str,
    canaries: Sequence[tuple[Doc, Finding, Finding]] = (),
    *,
    useful: Mapping[str, float] | None = None,
    pairs: Sequence[tuple[Doc, SuffixFinding]] = (),
    model: str = "hf",
    protocol: Mapping[str, Any] | None = None,
    logged: bool = True,
    **values: float | None,
) -> Path:
    """Write a run's results and samples; ``values`` stand in for computed ones of that name."""
    tasks, samples = {}, {}
    if canaries:
        docs = [doc for doc, _, _ in canaries]
        copies = copies_of((found.planted, found.kind, found.repetitions, found.family) for _, found, _ in canaries)
        for task, metrics, at in (
            (EXPOSURE, exposure.metrics(copies), 1),
            (EXTRACTION, extraction.metrics(copies), 2),
        ):
            findings = [each[at] for each in canaries]
            tasks[task] = {**_values(metrics, findings), **values}
            samples[task] = list(zip(docs, findings, strict=True))
    if pairs:
        tasks["suffix_extraction"] = {"recall": sum(_right(each) for _, each in pairs) / len(pairs)}
        samples["suffix_extraction"] = list(pairs)
    changed = {} if protocol is None else {"protocol": protocol}
    declared = {task: declaration(task, copies, **changed) for task in (EXPOSURE, EXTRACTION) if task in tasks}
    if pairs:
        rows = {row.name: row.declaration() for row in suffix_metrics()}
        declared["suffix_extraction"] = {**declaration(EXPOSURE), "protocol": {}, "attacks": [], "rows": rows}
    tasks |= {task: {"acc": value, "acc_stderr,none": 0.02} for task, value in (useful or {}).items()}
    content = results(tasks, model=name, declared=declared, samples=len(canaries) or len(pairs) or 100)
    content["config"]["model"] = model
    place = folder / f"run-{len(list(folder.iterdir())) if folder.is_dir() else 0}"
    path = write(place, content)
    for task, lines in samples.items() if logged else ():
        write_samples(place / f"samples_{task}_{STAMP}.jsonl", lines)
    return path


def write_samples(path: Path, lines: Sequence[tuple[Doc, Finding | SuffixFinding]]) -> None:
    """Write what ``--log_samples`` writes, as far as it is read."""
    asked = {"gen_args_0": {"arg_0": "", "arg_1": {"seed": 0}}}
    rows = (
        {"doc_id": at, "doc": doc, "filter": HEADLINE, "resps": [[found.to_json()]], "arguments": asked}
        for at, (doc, found) in enumerate(lines)
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def pair(number: int, *, wrong: float = 0.0, bits: float = 3.0, reveal: bool = False) -> tuple[Doc, SuffixFinding]:
    """A pair of five and four tokens; with ``reveal`` its tokens are logged, 91 the first of its suffix."""
    choice = Choice(0.5, 0.5, None if wrong else 1, wrong, 7, bits)
    view = SuffixView(5, 4, 20, 3, bits, bits, True, {"calibrated": choice})
    guesses = ((91, 92, 93, 4), (1, 2, 3, 4)) if reveal else ()
    found = SuffixFinding(number, "sample", 20, "calibrated", {HEADLINE: view}, guesses=guesses)
    shown = {"prefix": [81, 82, 83, 84, 85], "suffix": [91, 92, 93, 94]} if reveal else {}
    return {"pair": number, "place": number, "tokens": [5, 4], **shown}, found


def _values(metrics: Sequence[Metric[Finding, Any]], findings: Sequence[Finding]) -> dict[str, float | None]:
    there = [row for row in metrics if all(row.applies(found) for found in findings)]
    return {row.name: row.aggregate([row.value(found) for found in findings]) for row in there}


def _right(found: SuffixFinding) -> bool:
    return found.views[HEADLINE].choices["calibrated"].wrong == 0
