"""Results of the demo and the showcase, and their tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from leakage_tasks.core.text_table import text_table
from leakage_tasks.research.demo.settings import DemoFiles, ShowcaseFiles
from leakage_tasks.research.victims.harness_run import HarnessCommand
from leakage_tasks.research.victims.multiple_choice_tasks import CONTINUATION, MODULE

if TYPE_CHECKING:
    from leakage_tasks.attacks import Finding
    from leakage_tasks.canaries import Canary
    from leakage_tasks.metrics.conclusion import Verdict
    from leakage_tasks.report.load.training_log import EpochExposure

_ESSENTIALS = {
    "exposure of the fewest copies, bits": ("canary_exposure", "exposure"),
    "exposure of controls, bits": ("canary_exposure", "control_exposure"),
    "extracted of the fewest copies, share": ("canary_extraction", "extracted"),
    "controls extracted, share": ("canary_extraction", "control_extracted"),
    "held-out text, bits per byte": ("heldout_bits_per_byte", "bits_per_byte"),
    "right continuation of four, share": (CONTINUATION, "acc"),
    "right label, share": ("label_accuracy", "acc"),
    "right label of four, share": (MODULE, "acc"),
}
"""Descriptions of the showcase's results, with their tasks and metrics."""


@dataclass(frozen=True)
class DemoResult:
    """Results of the demo: the harness' table, its findings by task, and exposures during training."""

    files: DemoFiles
    table: str
    extraction: list[Finding]
    exposure: list[Finding]
    history: list[EpochExposure]
    seconds: float
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    """Verdicts by task."""
    bits_per_byte: float | None = None
    """Cross-entropy of the model on held-out text."""


class MeanExposure(NamedTuple):
    """A mean exposure in bits; ``bound`` if it is a lower bound."""

    bits: float
    bound: bool

    def __str__(self) -> str:
        return f"{'at least ' if self.bound else ''}{self.bits:.1f}"


def show_demo(result: DemoResult, canaries: Sequence[Canary]) -> None:
    """Print the results in words, the secrets with the model's guesses, the harness' table and the list of files."""
    secrets = f"{canaries[0].space.size:,}" if canaries else "0"
    print(f"\nResults\n\n{_summary(result)}\n")
    print(
        f"Exposure in bits is the log2 of {secrets} possible secrets divided by the rank of the true one.\nThe maximum "
        "means that the model ranks the true secret first."
    )
    print("\nSecrets, and the model's best guesses\n")
    print(_secrets(result, canaries))
    print(
        "\nTable of lm_eval. It has no primary metric, because the demo has too few canaries.\nFor an audit, make more "
        "with 'leakage canaries'.\n"
    )
    print(result.table.strip())
    print(f"\nFiles, after {result.seconds:.0f} s\n{result.files.listing()}", flush=True)


def _summary(result: DemoResult) -> str:
    """Return a table in words: the verdicts, then exposure and extraction by repetition count, and usefulness."""
    from leakage_tasks.metrics import chance_exposure

    verdicts = {
        "Does exposure show a leak?": result.verdicts.get("canary_exposure"),
        "Does extraction show a leak?": result.verdicts.get("canary_extraction"),
    }
    rows = [(question, _verdict(verdict)) for question, verdict in verdicts.items() if verdict is not None]
    maximum = max((finding.log2_size for finding in result.exposure), default=0.0)
    for copies, mean in mean_exposures(result.exposure).items():
        chance = chance_exposure(round(2**maximum))
        limit = f"the maximum is {maximum:.1f}" if copies else f"chance is {chance:.2f}"
        rows.append((f"exposure, {_planted(copies)}", f"{mean} bits on average; {limit}"))
    for copies, findings in _by_copies(result.extraction).items():
        hits = sum(all(finding.correct or (False,)) for finding in findings)
        rows.append((f"extracted, {_planted(copies)}", f"{hits} of {len(findings)} secrets, as the model's best guess"))
    if result.bits_per_byte is not None:
        rows.append(("usefulness", f"{result.bits_per_byte:.2f} bits per byte of held-out text; lower is better"))
    return text_table(rows, right=False)


def _verdict(verdict: Verdict) -> str:
    answer = {"above chance": "yes", "not above chance": "not shown"}.get(verdict.short, verdict.short)
    return f"{answer}{verdict.where and f', {verdict.where}'}"


def _secrets(result: DemoResult, canaries: Sequence[Canary]) -> str:
    """Return a table with one row for each canary: its secret, the model's best guess, rank and exposure."""
    ranks = {finding.canary: finding for finding in result.exposure}
    guesses = {finding.canary: finding for finding in result.extraction}
    rows = [("canary", "planted", "secret", "best guess", "", "rank", "exposure")]
    for canary in canaries:
        guessed, ranked = guesses[canary.id], ranks[canary.id]
        best = "".join(guessed.guesses[0].filling) if guessed.guesses else "-"
        secret = "".join(canary.secret)
        times = _times(canary.repetitions)
        rows.append((canary.id, times, secret, best, "FOUND" * (best == secret), _rank(ranked), _exposure(ranked)))
    return text_table(rows, right=False)


def _times(repetitions: int) -> str:
    return f"{repetitions}x" if repetitions else "never"


def _planted(repetitions: int) -> str:
    return {0: "never planted", 1: "planted once"}.get(repetitions, f"planted {repetitions} times")


def _rank(finding: Finding) -> str:
    if finding.rank is None:
        return "-"
    words = {"exact": "", "lower_bound": "at most "}.get(finding.method or "", "about ")
    return f"{words}{finding.rank:,.0f}"


def _exposure(finding: Finding) -> str:
    bound = "at least " if finding.method == "lower_bound" else ""
    return bound + _two_places(finding.exposure)


def _two_places(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


@dataclass(frozen=True)
class ModelResult:
    """Results of one model of the showcase: the harness' command, its table and seconds, and a record of training."""

    name: str
    command: HarnessCommand
    table: str
    seconds: float
    training: Mapping[str, Any]

    @cached_property
    def figures(self) -> dict[str, float | None]:
        """The main results by description, for the tasks that ran."""
        from leakage_tasks.report.load.results_file import every_row, headline_row

        results = self.command.results()
        return {
            description: headline_row(every_row(results, task), metric)
            for description, (task, metric) in _ESSENTIALS.items()
            if task in self.command.tasks
        }

    @cached_property
    def by_copies(self) -> dict[int, MeanExposure]:
        """Mean exposure by number of copies, in descending order; 0 copies are the controls."""
        return mean_exposures(self.command.findings("canary_exposure"))


@dataclass(frozen=True)
class ShowcaseResult:
    """Results of the showcase: the results of each model, the files, and the total seconds."""

    files: ShowcaseFiles
    models: Sequence[ModelResult]
    seconds: float


def show_showcase(result: ShowcaseResult) -> None:
    """Print the main results of each model, and the list of files."""
    for model in result.models:
        parameters, seconds = model.training["parameters"], model.training["seconds"]
        effort = f"{parameters:,} parameters, trained in {seconds:.0f} s, measured in {model.seconds:.0f} s"
        print(f"\n{model.name}: {effort}")
        print("\n".join(f"  {description:38} {_two_places(value)}" for description, value in model.figures.items()))
        print(f"  mean exposure in bits if planted {means_in_words(model.by_copies)}")
        if "epsilon" in model.training:
            print(_guarantee(model.training))
    print(f"\nFiles, after {result.seconds:.0f} s\n{result.files.listing()}", flush=True)


def _guarantee(training: Mapping[str, Any]) -> str:
    """Return one line on the guarantee of DP-SGD, for one row and for all copies of a secret."""
    bounds = "; ".join(
        f"for {copies} cop{'ies' if copies > 1 else 'y'} {'no bound' if epsilon is None else f'ε = {epsilon:.0f}'}"
        for copies, epsilon in training["epsilon_by_copies"].items()
    )
    groups = f"; by group privacy, for another secret in all copies of a canary (two rows per copy): {bounds}"
    return (
        f"  DP-SGD: ε = {training['epsilon']:.2f} at δ = {training['delta']:g} for one of {training['rows']:,} rows"
        f"{groups if bounds else ''}"
    )


def copies_of(finding: Finding) -> int:
    """Return the number of planted copies of a finding's canary, 0 for a control."""
    return finding.repetitions if finding.planted else 0


def mean_exposures(findings: Iterable[Finding]) -> dict[int, MeanExposure]:
    """Return the mean exposure by number of copies, in descending order; a mean over a lower bound is a bound."""
    return {
        copies: MeanExposure(
            fmean(finding.exposure or 0.0 for finding in group),
            any(finding.method == "lower_bound" for finding in group),
        )
        for copies, group in _by_copies(finding for finding in findings if finding.exposure is not None).items()
    }


def _by_copies(findings: Iterable[Finding]) -> dict[int, list[Finding]]:
    """Group findings by number of copies, in descending order."""
    groups: dict[int, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(copies_of(finding), []).append(finding)
    return {copies: groups[copies] for copies in sorted(groups, reverse=True)}


def means_in_words(means: Mapping[int, MeanExposure]) -> str:
    """Return means as in ``10x: 29.9, 1x: at least 8.3, never: 1.1``."""
    return ", ".join(f"{_times(copies)}: {mean}" for copies, mean in means.items())
