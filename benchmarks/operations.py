"""Torch operations of a run per forward pass, compared with a plain pass of the same model. Prints a table.

``python -m benchmarks.operations [--models llama gpt2] [--canaries 2 100] [--device cuda]`` attacks canaries of nine
digits on small random models of four layers: Llama, Gemma 3 with a sliding window, GPT-2, Mamba, the demo's LSTM, T5.

A *pass* is one call of the model. *operations per pass* are all operations that torch dispatches during the run,
divided by the passes. *times plain* divides this by the operations of one cached pass of one token per
row through `transformers` alone. An operation costs the host of a GPU some 14 µs however small it is, so this ratio
limits the speed that is reached. *outside* is the share of the operations that are not part of a model call. *syncs*
are the points of a pass at which the host waits for the device: ``item``, ``nonzero`` and similar operations, Boolean
indices, and copies of a tensor to the host. A plain pass has none (T5: one). On a CPU a copy to the host is no
operation, so calls of ``numpy`` and ``tolist`` are counted instead.

Before a run, an attack on two other canaries verifies the batching strategies of the model; it is not counted.
"""

from __future__ import annotations

import argparse
import logging
import time
from typing import Any

import torch

from benchmarks.dispatch_tally import Tally
from benchmarks.small_models import MODELS, fix_rows, harness_model
from leakage_tasks.attacks import run_attack
from leakage_tasks.canaries import Canary, make_canaries
from leakage_tasks.targets.harness.target import as_target

TEMPLATE = "The code of {unique} is {digits:9}."
SOURCE = "Der Code ist geheim."
ATTACKS = {"canary_exposure": ("exposure", "exposure"), "canary_extraction": ("auto", "extraction")}
"""Attack and goal by the task that uses them by default."""


def plain_operations(model: Any, device: str, rows: int = 8) -> int:
    """Return the operations of one pass of one token per row, with a cache, through `transformers` alone."""
    ids = torch.arange(2, 14, device=device).repeat(rows, 1)
    tally = Tally(model, on_cpu=False)
    with torch.inference_mode():
        if model.config.is_encoder_decoder:
            encoded = model.get_encoder()(input_ids=ids)
            fixed, name = {"encoder_outputs": encoded, "attention_mask": torch.ones_like(ids)}, "decoder_input_ids"
        else:
            fixed, name = {}, "input_ids"
        first = model(**{name: ids}, **fixed, use_cache=True)
        cache = "cache_params" if getattr(first, "cache_params", None) is not None else "past_key_values"
        with tally.counting():
            model(**{name: ids[:, :1]}, **fixed, **{cache: first[cache]}, use_cache=True)
    return tally.operations.total()


def canaries_of(number: int, source: bool, seed: int = 1) -> list[Canary]:
    """Make canaries that the model has not learned, with a source sentence for a translation model."""
    return make_canaries(TEMPLATE, number, controls=0, seed=seed, source=SOURCE if source else None)


def run_counted(name: str, task: str, number: int, options: argparse.Namespace) -> tuple[Tally, int, float]:
    """Attack ``number`` canaries; return the tally, the operations of a plain pass, and CPU seconds."""
    lm = harness_model(name, options.rows, options.device)
    translates = lm.model.config.is_encoder_decoder
    target = as_target(lm)
    if hasattr(target, "pass_rows"):
        fix_rows(target, options.rows)
    attack, goal = ATTACKS[task]
    limits: dict[str, Any] = {"goal": goal, "budget": options.budget}
    run_attack(attack, target, canaries_of(2, translates, seed=2), **limits)
    canaries, tally = canaries_of(number, translates), Tally(lm.model, options.device == "cpu")
    started = time.process_time()
    with tally.hooks():
        run_attack(attack, target, canaries, **limits)
    return tally, plain_operations(lm.model, options.device), time.process_time() - started


def line(name: str, task: str, number: int, tally: Tally, plain: int, seconds: float) -> str:
    """Return a row of the table in Markdown."""
    total, passes = tally.operations.total(), max(tally.passes, 1)
    cells = [name, task, f"{number:,}", f"{tally.passes:,}", f"{tally.rows / passes:,.0f}", f"{total / passes:,.0f}"]
    cells += [f"{plain:,}", f"{total / passes / plain:.2f}", f"{total / max(tally.rows, 1):.2f}"]
    cells += [f"{(total - tally.inside) / total:.0%}", f"{tally.syncs / passes:.1f}"]
    return f"| {' | '.join([*cells, f'{seconds:.0f}'])} |"


def run_options(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options of benchmarks that attack canaries with the tasks' own attacks."""
    parser = argparse.ArgumentParser(description=str(description).splitlines()[0])
    parser.add_argument("--tasks", nargs="+", choices=list(ATTACKS), default=list(ATTACKS))
    parser.add_argument("--canaries", nargs="+", type=int, default=[100, 1000])
    parser.add_argument("--budget", type=int, default=3000, help="maximum number of sequences per canary")
    parser.add_argument("--rows", type=int, default=2048, help="rows of a full pass")
    return parser


HEAD = (
    "| model | task | canaries | passes | rows per pass | operations per pass | of a plain pass | times plain "
    "| operations per row | outside | syncs per pass | CPU seconds |\n|---|---|" + "---:|" * 10
)


def main() -> None:
    """Print a row for each model, task and number of canaries."""
    parser = run_options(__doc__)
    parser.set_defaults(canaries=[2, 100, 1000], budget=200)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--most", type=int, default=0, metavar="N", help="also list the N most frequent operations")
    options = parser.parse_args()
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    logging.getLogger("transformers").setLevel(logging.ERROR)
    print(HEAD, flush=True)
    for name in options.models:
        for task in options.tasks:
            for number in options.canaries:
                tally, plain, seconds = run_counted(name, task, number, options)
                print(line(name, task, number, tally, plain, seconds), flush=True)
                if options.most:
                    print(dict(tally.operations.most_common(options.most)), flush=True)


if __name__ == "__main__":
    main()
