"""The callback's work before the first step: the choice of canaries, the check of the training data, and a line on the
first measurement."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from transformers import Trainer

from leakage_tasks.attacks.coarse import NATURAL
from leakage_tasks.attacks.finding import TrainingExposure
from leakage_tasks.attacks.redact import HidingSecrets
from leakage_tasks.canaries import Canary, read_manifest
from leakage_tasks.canaries.canary import attacked
from leakage_tasks.core.errors import OptionError, PlantingError
from leakage_tasks.core.log import log
from leakage_tasks.core.nouns import counted
from leakage_tasks.targets import CausalTarget
from leakage_tasks.tasks.preflight_file import training_exposures
from leakage_tasks.training.preflight.check import preflight

NAME = "preflight.json"
"""Name of the file with the result, in the trainer's output folder."""
TIMED = 32
"""Number of canaries whose texts are scored to estimate the time of a measurement. The time per text is several times
longer if a pass has few texts."""
WATCHED = ("random", "organic")
"""Kinds of canaries whose exposure is comparable with the controls. Natural secrets were not drawn at random from their
space: they are watched only on request and reported separately."""


def watched_canaries(
    manifest: str | Path, most: int | None = None, controls: bool = True, seed: int = 0, natural: bool = False
) -> list[Canary]:
    """Choose the canaries to watch.

    Args:
        manifest: The path of the manifest.
        most: Largest number of planted canaries, spread evenly over their numbers of repetitions, and of controls.
        controls: Include controls.
        seed: Random seed of the choice.
        natural: Include natural secrets.

    Returns:
        Planted canaries and controls, in the order of the manifest.

    Raises:
        ManifestError: The manifest cannot be read.
        OptionError: The manifest has no planted canary of a suitable kind.
    """
    kinds = (*WATCHED, NATURAL) if natural else WATCHED
    canaries = [canary for canary in read_manifest(manifest) if canary.kind in kinds]
    planted = [canary for canary in canaries if canary.planted]
    if not planted:
        raise OptionError(
            f"{manifest}: contains no planted canary of kind {' or '.join(kinds)}: make canaries with 'leakage "
            "canaries'" + ("" if natural else ", or watch natural secrets with natural=True")
        )
    never = [canary for canary in canaries if not canary.planted and controls]
    chosen = {canary.id for group in (planted, never) for canary in _alternate_repetitions(group, seed)[:most]}
    return [canary for canary in canaries if canary.id in chosen]


def _alternate_repetitions(canaries: Sequence[Canary], seed: int) -> list[Canary]:
    """Return the canaries in a random order in which all numbers of repetitions alternate."""
    groups: dict[int, list[Canary]] = {}
    for canary in canaries:
        groups.setdefault(canary.repetitions, []).append(canary)
    for times, group in groups.items():
        random.Random(f"watched:{seed}:{times}").shuffle(group)
    turns = zip_longest(*(groups[times] for times in sorted(groups, reverse=True)))
    return [canary for canary in chain.from_iterable(turns) if canary is not None]


def check_before_training(
    trainer: Trainer, manifest: str | Path, rows: int | None, tokenizer: Any, strict: bool
) -> Mapping[str, TrainingExposure]:
    """Check the trainer's data, write the result to a file, and log problems as warnings.

    Args:
        trainer: The trainer.
        manifest: The manifest of the canaries.
        rows: Number of rows to check; None for all.
        tokenizer: Tokenizer to use instead of the trainer's ``processing_class``.
        strict: Raise an error if a planted canary is absent.

    Returns:
        The training exposure by canary id, for planted canaries that are not in the loss; empty if not all of the data
        were checked.

    Raises:
        PlantingError: A planted canary is absent from all of the data.
    """
    try:
        result = preflight(trainer, manifest, rows=rows, tokenizer=tokenizer)
    except OptionError as error:
        log.warning("ExposureCallback: the training data cannot be checked for canaries: %s", error)
        return {}
    folder = Path(trainer.args.output_dir or ".")
    folder.mkdir(parents=True, exist_ok=True)
    result.write(folder / NAME)
    if strict and (absences := list(result.absences())):
        raise PlantingError(f"ExposureCallback: {'; '.join(absences)}; strict=False trains anyway")
    for message in (*result.problems(), *result.remarks()):
        log.warning("ExposureCallback: %s", message)
    if not result.is_full:
        return {}
    canaries = read_manifest(manifest)
    near = [canary for canary in canaries if canary.kind == "near"]
    states = {counts.canary: counts.state for counts in result.canaries}
    return training_exposures(states, attacked(canaries), near)


def announce_baseline(
    target: CausalTarget, canaries: Sequence[Canary], most: int, clock: Callable[[], float] = time.perf_counter
) -> None:
    """Write a line to standard error on the measurement before the first step, with its estimated time.

    The line is for log files, which show no progress bar.

    Args:
        target: The model.
        canaries: The canaries to measure.
        most: Largest number of sequences scored for a canary.
        clock: Returns the time in seconds.
    """
    texts = [canary.text for canary in canaries[:TIMED]]
    with HidingSecrets(canaries):
        # The first pass of a process takes longer.
        target.log_perplexity(texts[:1])
        began = clock()
        target.log_perplexity(texts)
    seconds = (clock() - began) / len(texts) * sum(min(most, canary.space.size) for canary in canaries)
    print(
        f"ExposureCallback: measuring {counted(len(canaries), 'canary')} before the first step, each with up to "
        f"{most:,} sequences: up to about {seconds:,.0f} s",
        file=sys.stderr,
        flush=True,
    )
