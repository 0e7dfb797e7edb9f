"""What the demo leaves behind and what it says about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leakage_tasks.attacks import Finding
    from leakage_tasks.canaries import Canary
    from leakage_tasks.report.reading.training_log import EpochExposure


_FILES = {
    "manifest": ("canaries.jsonl", "the canaries and controls"),
    "corpus": ("corpus.txt", "the text as it was"),
    "planted": ("planted.txt", "the text with the canaries in it, which the model read"),
    "held_out": ("heldout.txt", "text of the same kind it never saw"),
    "model": ("model", "the model, as transformers and lm_eval load it"),
    "results": ("results", "what lm_eval wrote: results, and samples with every finding"),
    "log": ("lm_eval.log", "lm_eval's messages"),
    "history": ("exposure_by_epoch.json", "losses and exposures after each epoch"),
    "plot": ("exposure_by_epoch.png", "the same as a picture"),
    "board": ("board.html", "all of the results as a page for the browser"),
    "card": ("model/README.md", "the model's card, with what leaks"),
}


@dataclass(frozen=True)
class DemoFiles:
    """Where everything is, all in one folder; :meth:`listing` says what is what."""

    manifest: Path
    corpus: Path
    planted: Path
    held_out: Path
    model: Path
    results: Path
    log: Path
    history: Path
    plot: Path
    board: Path
    card: Path

    @classmethod
    def under(cls, folder: Path) -> DemoFiles:
        """The demo's files in ``folder``."""
        return cls(**{field: folder / name for field, (name, _) in _FILES.items()})

    @staticmethod
    def names() -> set[str]:
        """What a demo leaves in its folder."""
        return {name.partition("/")[0] for name, _ in _FILES.values()} | {"planted.txt.leakage.json"}

    def listing(self) -> str:
        """One line a file, saying what it is."""
        paths = {str(getattr(self, field)): what for field, (_, what) in _FILES.items()}
        width = max(map(len, paths))
        return "\n".join(f"  {path:{width}}  {what}" for path, what in paths.items())


@dataclass(frozen=True)
class DemoResult:
    """What the demo found: the harness' table, its findings by task, and exposure by epoch."""

    files: DemoFiles
    table: str
    extraction: list[Finding]
    exposure: list[Finding]
    history: list[EpochExposure]
    seconds: float


def show(result: DemoResult, canaries: Sequence[Canary]) -> None:
    """Print the harness' table, the guessed secrets beside the true ones, and where everything is."""
    from leakage_tasks.metrics import chance_exposure

    print(result.table)
    print(_secrets(result, canaries))
    controls = [finding.exposure or 0.0 for finding in result.exposure if not finding.planted]
    most = max(canary.repetitions for canary in canaries)
    often = [finding for finding in result.extraction if finding.repetitions == most]
    right = sum(all(finding.correct or (False,)) for finding in often)
    mean = sum(controls) / max(len(controls), 1)
    print(
        f"\nOf the {len(often)} secrets planted {most} times, {right} came out as the model's first guess "
        f"out of a thousand million.\nThe {len(controls)} that were never planted have {mean:.2f} bits of exposure "
        f"on average; chance is {chance_exposure(10**9):.2f} over many."
    )
    print(f"\nAll of it, after {result.seconds:.0f} s:\n{result.files.listing()}", flush=True)


def by_repetitions(points: Sequence[EpochExposure]) -> str:
    """The mean exposure of each group of canaries after one epoch, in words."""
    groups: dict[int, list[float]] = {}
    for point in points:
        groups.setdefault(point.repetitions, []).append(point.exposure)
    parts = [f"{_times(times)}: {sum(bits) / len(bits):.1f}" for times, bits in sorted(groups.items(), reverse=True)]
    return f"mean exposure in bits: {', '.join(parts)}"


def _secrets(result: DemoResult, canaries: Sequence[Canary]) -> str:
    ranks = {finding.canary: finding for finding in result.exposure}
    guesses = {finding.canary: finding for finding in result.extraction}
    rows = [("canary", "planted", "secret", "best guess", "", "rank", "exposure")]
    for canary in canaries:
        guessed, ranked = guesses[canary.id], ranks[canary.id]
        best = "".join(guessed.guesses[0].filling) if guessed.guesses else "-"
        secret = "".join(canary.secret)
        times = _times(canary.repetitions)
        rows.append((canary.id, times, secret, best, "FOUND" * (best == secret), _rank(ranked), _bits(ranked)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines)


def _times(repetitions: int) -> str:
    return f"{repetitions}x" if repetitions else "never"


def _rank(finding: Finding) -> str:
    if finding.rank is None:
        return "-"
    if finding.method == "exact":
        return f"{finding.rank:,.0f}"
    return f"about {finding.rank:,.0f}" if finding.method != "lower_bound" else f"at most {finding.rank:,.0f}"


def _bits(finding: Finding) -> str:
    return "-" if finding.exposure is None else f"{finding.exposure:.2f}"
