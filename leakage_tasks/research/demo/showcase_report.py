"""What the showcase says about its three models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

from leakage_tasks.research.demo.showcase_settings import ShowcaseFiles
from leakage_tasks.research.victims.harness_run import HarnessCommand
from leakage_tasks.research.victims.multiple_choice_tasks import CONTINUATION, MODULE

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
"""Words, and the task and metric they stand for."""


@dataclass(frozen=True)
class ModelResult:
    """One model: the harness' command, table and seconds, and how its training went."""

    name: str
    command: HarnessCommand
    table: str
    seconds: float
    training: Mapping[str, Any]

    @cached_property
    def figures(self) -> dict[str, float | None]:
        """The essentials of the harness' results, by what they are called; without those of tasks not run."""
        from leakage_tasks.report.reading.results_file import every_row, headline_row

        results = self.command.results()
        return {
            words: headline_row(every_row(results, task), metric)
            for words, (task, metric) in _ESSENTIALS.items()
            if task in self.command.tasks
        }

    @cached_property
    def by_copies(self) -> dict[int, float]:
        """Mean exposure of the canaries of so many copies, most first; 0 copies are the controls."""
        exposures: dict[int, list[float]] = {}
        for finding in self.command.findings("canary_exposure"):
            copies = finding.repetitions if finding.planted else 0
            if finding.exposure is not None:
                exposures.setdefault(copies, []).append(finding.exposure)
        return {copies: fmean(exposures[copies]) for copies in sorted(exposures, reverse=True)}


@dataclass(frozen=True)
class ShowcaseResult:
    """The models' results, where everything is, and the seconds the whole took."""

    files: ShowcaseFiles
    models: Sequence[ModelResult]
    seconds: float


def show(result: ShowcaseResult) -> None:
    """Print each model's essentials and where everything is."""
    for model in result.models:
        print(f"\n{model.name}: {_effort(model)}")
        print("\n".join(f"  {words:36} {_number(value)}" for words, value in model.figures.items()))
        parts = [f"{f'{copies}x' if copies else 'never'}: {bits:.1f}" for copies, bits in model.by_copies.items()]
        print(f"  mean exposure by copies: {', '.join(parts)}")
        if "epsilon" in model.training:
            print(_promise(model.training))
    print(f"\nAll of it, after {result.seconds:.0f} s:\n{result.files.listing()}", flush=True)


def _effort(model: ModelResult) -> str:
    training = model.training
    return (
        f"{training['parameters']:,} parameters, trained in {training['seconds']:.0f} s, "
        f"measured in {model.seconds:.0f} s"
    )


def _promise(training: Mapping[str, Any]) -> str:
    groups = [
        f"{copies} cop{'ies' if copies > 1 else 'y'}: {'no bound' if epsilon is None else f'ε = {epsilon:.0f}'}"
        for copies, epsilon in training["epsilon_by_copies"].items()
    ]
    listed = "; of ".join(groups)
    return (
        f"  DP-SGD: ε = {training['epsilon']:.2f} at δ = {training['delta']:g} for one of {training['rows']:,} rows"
        + (
            f"; by group privacy, for another secret in all copies of a canary, two rows each, of {listed}"
            if groups
            else ""
        )
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
