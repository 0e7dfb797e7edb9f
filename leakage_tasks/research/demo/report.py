"""Results of the demo and the showcase, and their display."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import TYPE_CHECKING, Any

from leakage_tasks.core.text_table import text_table
from leakage_tasks.research.demo.settings import DemoFiles, ShowcaseFiles
from leakage_tasks.research.victims.harness_run import HarnessCommand
from leakage_tasks.research.victims.multiple_choice_tasks import CONTINUATION, MODULE

if TYPE_CHECKING:
    from leakage_tasks.attacks import Finding
    from leakage_tasks.canaries import Canary
    from leakage_tasks.report.reading.training_log import EpochExposure

_ESSENTIALS = {
    "exposure of the fewest copies, bits": ("canary_exposure", "exposure"),
    "exposure of controls, bits": ("canary_exposure", "control_exposure"),
    "extracted of the fewest copies, share": ("canary_extraction", "extracted"),
    "controls extracted, share": ("canary_extraction", "control_extracted"),
    "held-out text, bits a byte": ("heldout_bits_per_byte", "bits_per_byte"),
    "right continuation of four, share": (CONTINUATION, "acc"),
    "right label, share": ("label_accuracy", "acc"),
    "right label of four, share": (MODULE, "acc"),
}
"""Labels, and the task and metric of each."""


@dataclass(frozen=True)
class DemoResult:
    """The demo's results: the harness' table, its findings by task, and exposure by epoch."""

    files: DemoFiles
    table: str
    extraction: list[Finding]
    exposure: list[Finding]
    history: list[EpochExposure]
    seconds: float


def show_demo(result: DemoResult, canaries: Sequence[Canary]) -> None:
    """Print the harness' table, the guessed and the true secrets, and the files."""
    from leakage_tasks.metrics import chance_exposure

    print(result.table)
    print(_secrets(result, canaries))
    controls = [finding.exposure or 0.0 for finding in result.exposure if not finding.planted]
    most = max(canary.repetitions for canary in canaries)
    often = [finding for finding in result.extraction if finding.repetitions == most]
    right = sum(all(finding.correct or (False,)) for finding in often)
    mean = sum(controls) / max(len(controls), 1)
    print(
        f"\n{right} of the {len(often)} secrets planted {most} times are the model's first guess out of a thousand "
        f"million.\nThe {len(controls)} secrets that were never planted have a mean exposure of {mean:.2f} bits; by "
        f"chance it is {chance_exposure(10**9):.2f} bits."
    )
    print(f"\nAll of it, after {result.seconds:.0f} s:\n{result.files.listing()}", flush=True)


def _secrets(result: DemoResult, canaries: Sequence[Canary]) -> str:
    ranks = {finding.canary: finding for finding in result.exposure}
    guesses = {finding.canary: finding for finding in result.extraction}
    rows = [("canary", "planted", "secret", "best guess", "", "rank", "exposure")]
    for canary in canaries:
        guessed, ranked = guesses[canary.id], ranks[canary.id]
        best = "".join(guessed.guesses[0].filling) if guessed.guesses else "-"
        secret = "".join(canary.secret)
        times = _times(canary.repetitions)
        rows.append(
            (canary.id, times, secret, best, "FOUND" * (best == secret), _rank(ranked), _two_places(ranked.exposure))
        )
    return text_table(rows, right=False)


def _times(repetitions: int) -> str:
    return f"{repetitions}x" if repetitions else "never"


def _rank(finding: Finding) -> str:
    if finding.rank is None:
        return "-"
    words = {"exact": "", "lower_bound": "at most "}.get(finding.method or "", "about ")
    return f"{words}{finding.rank:,.0f}"


def _two_places(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


@dataclass(frozen=True)
class ModelResult:
    """Results of one model: the harness' command, table and duration, and the record of its training."""

    name: str
    command: HarnessCommand
    table: str
    seconds: float
    training: Mapping[str, Any]

    @cached_property
    def figures(self) -> dict[str, float | None]:
        """The main values of the harness' results by label, for tasks that were run."""
        from leakage_tasks.report.reading.results_file import every_row, headline_row

        results = self.command.results()
        return {
            words: headline_row(every_row(results, task), metric)
            for words, (task, metric) in _ESSENTIALS.items()
            if task in self.command.tasks
        }

    @cached_property
    def by_copies(self) -> dict[int, float]:
        """Mean exposure by number of copies, most first; 0 copies are the controls."""
        findings = self.command.findings("canary_exposure")
        exposures = [(copies_of(finding), finding.exposure) for finding in findings]
        return means_by_copies((copies, bits) for copies, bits in exposures if bits is not None)


@dataclass(frozen=True)
class ShowcaseResult:
    """The models' results, the files, and the total duration."""

    files: ShowcaseFiles
    models: Sequence[ModelResult]
    seconds: float


def show_showcase(result: ShowcaseResult) -> None:
    """Print each model's main values and the files."""
    for model in result.models:
        parameters, seconds = model.training["parameters"], model.training["seconds"]
        effort = f"{parameters:,} parameters, trained in {seconds:.0f} s, measured in {model.seconds:.0f} s"
        print(f"\n{model.name}: {effort}")
        print("\n".join(f"  {words:36} {_two_places(value)}" for words, value in model.figures.items()))
        print(f"  {format_by_copies('mean exposure by copies', model.by_copies)}")
        if "epsilon" in model.training:
            print(_promise(model.training))
    print(f"\nAll of it, after {result.seconds:.0f} s:\n{result.files.listing()}", flush=True)


def _promise(training: Mapping[str, Any]) -> str:
    listed = "; of ".join(
        f"{copies} cop{'ies' if copies > 1 else 'y'}: {'no bound' if epsilon is None else f'ε = {epsilon:.0f}'}"
        for copies, epsilon in training["epsilon_by_copies"].items()
    )
    groups = f"; by group privacy, for another secret in all copies of a canary, two rows each, of {listed}"
    return (
        f"  DP-SGD: ε = {training['epsilon']:.2f} at δ = {training['delta']:g} for one of {training['rows']:,} rows"
        f"{groups if listed else ''}"
    )


def copies_of(finding: Finding) -> int:
    """Return the number of copies of a canary, 0 for a control."""
    return finding.repetitions if finding.planted else 0


def means_by_copies(exposures: Iterable[tuple[int, float]]) -> dict[int, float]:
    """Return mean exposure by number of copies, most first."""
    groups: dict[int, list[float]] = {}
    for copies, bits in exposures:
        groups.setdefault(copies, []).append(bits)
    return {copies: fmean(groups[copies]) for copies in sorted(groups, reverse=True)}


def format_by_copies(words: str, means: Mapping[int, float]) -> str:
    """Format means, for example ``words: 10x: 4.0, never: 1.0``."""
    return f"{words}: {', '.join(f'{_times(copies)}: {bits:.1f}' for copies, bits in means.items())}"
