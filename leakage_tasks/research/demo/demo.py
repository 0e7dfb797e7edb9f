"""The whole way at once: canaries into a text, a model trained on it, and the harness finding them."""

from __future__ import annotations

import json
import string
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leakage_tasks.core.atomic import replacing
from leakage_tasks.core.own_folder import own_folder
from leakage_tasks.report.plots.exposure import plot_exposure_by_epoch
from leakage_tasks.report.reading.training_log import EpochExposure
from leakage_tasks.research.demo.report import DemoFiles, DemoResult, by_repetitions, show
from leakage_tasks.research.victims.harness_run import HarnessCommand
from leakage_tasks.training.threads import one_thread

if TYPE_CHECKING:
    from leakage_tasks.attacks import Finding
    from leakage_tasks.canaries import Canary
    from leakage_tasks.models.char_lstm import CharLSTMForCausalLM
    from leakage_tasks.research.victims.corpus import Corpus
    from leakage_tasks.training.fitting import EpochLoss, TrainedLM

TEMPLATE = "The random number of {unique}: {digits:9}."
"""Word and digits stand close: an LSTM takes far longer to tie a secret to its word across `` is ``, and till
then offers the secret of another canary."""
REPETITIONS = (1, 10)
PLANTED = 4
CONTROLS = 8
CHARACTERS = 100_000
EPOCHS = 9
TASKS = ("canary_extraction", "canary_exposure", "heldout_bits_per_byte")
WATCH_BUDGET = 500
"""Sequences scored a canary after each epoch: enough for a picture; the harness run spends the full budget."""


def demo(
    output: str | Path = Path("runs/demo"),
    *,
    epochs: int = EPOCHS,
    seed: int = 0,
    controls: int = CONTROLS,
    corpus: Corpus | None = None,
    budget: int | None = None,
) -> DemoResult:
    """Plant canaries in a text, train on it, run the real ``lm_eval``, and show what it found.

    ``corpus`` defaults to Python's help text, ``budget`` (sequences scored a canary) to the tasks' own.
    Everything goes to ``output``; an earlier run there is replaced. Needs no network. Raises LeakageError if
    the folder cannot be written or holds anything else, or the harness fails.
    """
    started = time.perf_counter()
    folder = Path(output)
    own_folder(folder, "leakage demo", DemoFiles.names())
    files = DemoFiles.under(folder)
    canaries, alphabet = _prepare(files, corpus, controls, seed)
    history: list[EpochExposure] = []
    trained = _train(files, canaries, alphabet, history, epochs, seed)
    _save(trained, history, files)
    metadata: dict[str, str | int] = {"canaries": str(files.manifest), "text": str(files.held_out)}
    metadata |= {} if budget is None else {"budget": budget}
    command = HarnessCommand(files.model, TASKS, metadata, files.results)
    print(f"\nNow the harness, unmodified (messages in {files.log}):\n  {command}\n", flush=True)
    table = command.run(files.log)
    _report(files)
    extraction, exposure = (command.findings(task) for task in TASKS[:2])
    result = DemoResult(files, table, extraction, exposure, history, time.perf_counter() - started)
    show(result, canaries)
    return result


def demo_command(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for everything the demo writes.")] = Path(
        "runs/demo"
    ),
    epochs: Annotated[int, typer.Option(min=1, help="How often the model reads the text.")] = EPOCHS,
    controls: Annotated[int, typer.Option(min=1, help="Canaries never planted, to show chance.")] = CONTROLS,
    seed: Annotated[int, typer.Option(help="Of the canaries, their places and the model.")] = 0,
) -> None:
    """Plant canaries in a text, train a small model on it and let lm_eval find them (minutes, no network)."""
    demo(output, epochs=epochs, seed=seed, controls=controls)


def _prepare(files: DemoFiles, corpus: Corpus | None, controls: int, seed: int) -> tuple[list[Canary], list[str]]:
    from leakage_tasks.canaries import write_manifest
    from leakage_tasks.canaries.generate import make_canaries
    from leakage_tasks.canaries.planting import plant
    from leakage_tasks.research.victims.corpus import pydoc_topics

    corpus = corpus or pydoc_topics(characters=CHARACTERS)
    for path, text in ((files.corpus, corpus.training), (files.held_out, corpus.held_out)):
        with replacing(path) as beside:
            beside.write_text(text, encoding="utf-8", newline="\n")
    made = make_canaries(TEMPLATE, PLANTED, repetitions=REPETITIONS, controls=controls, seed=seed)
    # Few, so that the demo stays short, and the same for everybody: they are for trying out.
    canaries = [replace(canary, seed=seed, profile="smoke") for canary in made]
    write_manifest(canaries, files.manifest)
    print(plant(files.manifest, files.corpus, files.planted, seed=seed).summary(), flush=True)
    # A small text may lack a letter of a canary's word, or a digit: the attack asks for all of them.
    return canaries, [*corpus.alphabet, *string.digits, *"".join(canary.text for canary in canaries)]


def _report(files: DemoFiles) -> None:
    from leakage_tasks.report.publish import update_card, write_board

    write_board(files.results, files.board)
    update_card(files.results, files.card, name="demo")


def _train(
    files: DemoFiles,
    canaries: Sequence[Canary],
    alphabet: Sequence[str],
    history: list[EpochExposure],
    epochs: int,
    seed: int,
) -> TrainedLM:
    from tqdm import tqdm

    from leakage_tasks.attacks import run_attack
    from leakage_tasks.models.char_tokenizer import char_tokenizer
    from leakage_tasks.targets import CausalTarget
    from leakage_tasks.training.char_lstm import train_char_lm

    tokenizer = char_tokenizer(alphabet)

    def watch(epoch: int, model: CharLSTMForCausalLM, losses: Sequence[EpochLoss]) -> None:
        target = CausalTarget(model, tokenizer)
        found = run_attack("exposure", target, canaries, budget=WATCH_BUDGET, seed=seed)
        points = [_point(epoch, finding) for finding in found]
        history.extend(points)
        tqdm.write(f"epoch {epoch}: {losses[-1].validation:.2f} bits/character held out; {by_repetitions(points)}")

    with one_thread():
        return train_char_lm(
            files.planted.read_text(encoding="utf-8"),
            validation=files.held_out.read_text(encoding="utf-8"),
            tokenizer=tokenizer,
            epochs=epochs,
            # Many steps a character, and a rate that falls towards the end: both help to learn which secret
            # belongs to which word, the last thing to be learnt.
            batch_size=16,
            learning_rate=3e-3,
            decay_from=0.5,
            seed=seed,
            device="cpu",
            on_epoch=watch,
        )


def _point(epoch: int, finding: Finding) -> EpochExposure:
    times = finding.repetitions if finding.planted else 0
    return EpochExposure(epoch, finding.canary, times, finding.exposure or 0.0, finding.log2_size)


def _save(trained: TrainedLM, history: Sequence[EpochExposure], files: DemoFiles) -> None:
    trained.save(files.model)
    with replacing(files.history) as beside:
        losses = [asdict(loss) for loss in trained.losses]
        record = {"losses": losses, "exposures": [asdict(point) for point in history]}
        beside.write_text(json.dumps(record, indent=1), encoding="utf-8")
    plot_exposure_by_epoch(history, files.plot)
