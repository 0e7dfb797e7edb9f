"""Attacks on many canaries together against one canary after the other: passes, rows and time, and equal figures.

``python -m benchmarks.together [--canaries 40] [--taught 0.5] [--rows 512] [--shape gpt2-tiny]`` makes a model
(``gpt2-tiny``, ``gpt2-small``, ``gemma3`` whose layers have a sliding window, ``lstm``), teaches it a share of the
canaries and attacks all of them both ways in one run. Beside the passes stands the least there can be: the longest
chain of passes of one canary, or all rows over the rows of a pass. No order of the same questions may come to that:
what any canary asks after its first n questions cannot be read in the first n passes, so there are n and as many as the
rest of all rows fill, whatever n. That is the least *in order*. What is found out about a model once, whatever the
number of canaries, stands beside as *once*. The shapes of ``benchmarks.together_shapes`` (classifier, masked, tagger,
t5, bart, harness) are not taught.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import torch
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, GPT2Config, GPT2LMHeadModel

from benchmarks.together_shapes import OTHER, Setup
from leakage_tasks.attacks import Finding, run_attack
from leakage_tasks.canaries import Canary, make_canaries
from leakage_tasks.models.char_tokenizer import char_tokenizer
from leakage_tasks.models.recurrent import CharLSTMConfig, CharLSTMForCausalLM
from leakage_tasks.planning.meter import metered
from leakage_tasks.targets import CausalTarget, scheduler
from leakage_tasks.targets.causal.asked import Step

SHAPES = {"gpt2-tiny": (64, 2, 4), "gpt2-small": (768, 12, 12)}
SEED = 3
FEW = 4
"""Canaries that are attacked first, so that all is known that is found out about a model once."""


@dataclass
class Measured:
    """One way to run an attack on all canaries."""

    found: list[Finding]
    passes: int
    rows: int
    depth: int
    """Passes of the group that took most."""
    seconds: float
    """Of the clock: what the user waits for."""
    once: int
    """Passes that the first attack takes more than the same attack again."""
    asked: list[list[int]]
    """Rows of each question of each group, in order."""


class Counted:
    """Counts the passes of a target and their rows."""

    def __init__(self, target: CausalTarget) -> None:
        self.passes = self.rows = 0
        one, first = target.one_pass, target.read_first

        def one_pass(parts: Sequence[Step]) -> Any:
            self.passes, self.rows = self.passes + 1, self.rows + sum(len(part.tokens) for part in parts)
            return one(parts)

        def read_first(rows: Sequence[Sequence[int]], *told: Any) -> Any:
            self.passes, self.rows = self.passes + 1, self.rows + len(rows)
            return first(rows, *told)

        target.one_pass, target.read_first = one_pass, read_first  # type: ignore[method-assign]


def main() -> None:
    """Make the model, attack both ways, print the table."""
    options = _options()
    torch.manual_seed(SEED)
    made = OTHER[options.shape](options.canaries, options.rows) if options.shape in OTHER else _taught(options)
    threads = torch.get_num_threads()
    print(f"{options.shape}, {len(made.canaries)} canaries; {made.rows} rows a pass; {threads} threads")
    print("| attack | | passes | rows | least passes | times the least | in order | times that | once | seconds |")
    print("|---|---|" + "---:|" * 8)
    for attack, goal in made.attacks:
        both = [[made.canaries], [[canary] for canary in made.canaries]]
        met, alone = (_measured(made, groups, attack, goal, options.budget) for groups in both)
        least = max(alone.depth, alone.rows / made.rows)
        ordered = max(least, least_in_order(alone.asked, made.rows))
        for name, one in (("together", met), ("one by one", alone)):
            shares = f"{least:.1f} | {one.passes / least:.2f} | {ordered:.1f} | {one.passes / ordered:.2f}"
            counts = f"{one.passes} | {one.rows} | {shares} | {one.once}"
            print(f"| {attack} | {name} | {counts} | {one.seconds:.1f} |")
        print(_compared(attack, met, alone))


def least_in_order(asked: Sequence[Sequence[int]], at_once: int) -> float:
    """The least passes of ``at_once`` rows that the questions of all canaries take, each canary's in their order."""
    longest = max(map(len, asked))
    return max(first + sum(sum(rows[first:]) for rows in asked) / at_once for first in range(longest + 1))


def _taught(options: argparse.Namespace) -> Setup:
    """A causal model that knows a share of the canaries by heart."""
    taught = round(options.canaries * options.taught)
    template = f"The code of {{unique}} is {{digits:{options.digits}}}."
    canaries = make_canaries(template, taught, controls=options.canaries - taught)
    learnt = [canary.text for canary in canaries if canary.planted]
    tokenizer = char_tokenizer(sorted({*"0123456789".join(canary.text for canary in canaries)}))
    model = _model(options.shape, len(tokenizer))
    _teach(model, tokenizer, learnt, options.epochs)

    def fresh() -> CausalTarget:
        # Passes have so many rows at most, whatever the device would rather have.
        target = CausalTarget(model, tokenizer)
        target.pass_size.rows, target.pass_size.note = options.rows, lambda rows, seconds: None  # type: ignore[method-assign]
        return target

    attacks = [("exposure", "exposure"), ("shortest-path", "extraction")]
    return Setup(canaries, fresh, [], attacks, options.rows)


def _compared(attack: str, met: Measured, alone: Measured) -> str:
    pairs = list(zip(met.found, alone.found, strict=True))
    apart = max(abs(np.log2(one.rank or 1) - np.log2(other.rank or 1)) for one, other in pairs)
    same = all(
        [guess.filling for guess in one.guesses] == [guess.filling for guess in two.guesses] for one, two in pairs
    )
    longer, rows = alone.seconds / met.seconds, met.rows / alone.rows
    return (
        f"{attack}: {rows:.4f} times the rows, one by one takes {longer:.2f} times the time, ranks differ by at "
        f"most {apart:.1e} bits, guesses are {'equal' if same else 'NOT EQUAL'}"
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    for name, default in (("canaries", 40), ("digits", 6), ("rows", 512), ("epochs", 150), ("budget", 20_000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--taught", type=float, default=0.5, help="share of the canaries that the model knows")
    parser.add_argument("--shape", choices=[*SHAPES, "gemma3", "lstm", *OTHER], default="gpt2-tiny")
    return parser.parse_args()


def _model(shape: str, vocabulary: int) -> Any:
    if shape == "lstm":
        return CharLSTMForCausalLM(CharLSTMConfig(vocab_size=vocabulary))
    if shape == "gemma3":
        width, heads = {"hidden_size": 64, "intermediate_size": 192, "head_dim": 16}, {"num_attention_heads": 4}
        layers = {"num_hidden_layers": 2, "sliding_window": 16, "max_position_embeddings": 128}
        return Gemma3ForCausalLM(
            Gemma3TextConfig(vocab_size=vocabulary, num_key_value_heads=2, **width, **heads, **layers)
        )
    width, layers, heads = SHAPES[shape]
    sizes = {"n_embd": width, "n_layer": layers, "n_head": heads, "n_positions": 128}
    return GPT2LMHeadModel(GPT2Config(vocab_size=vocabulary, bos_token_id=0, eos_token_id=0, **sizes))


def _teach(model: Any, tokenizer: Any, texts: Sequence[str], epochs: int) -> None:
    rows = [torch.tensor(row) for row in CausalTarget(model, tokenizer).token_rows(texts)]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=0)
    labels = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-100)
    rate = 3e-4 if sum(weights.numel() for weights in model.parameters()) > 10**7 else 3e-3
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    model.train()
    for _ in range(epochs):
        optimizer.zero_grad()
        model(input_ids=ids, labels=labels).loss.backward()
        optimizer.step()
    model.eval()


def _measured(made: Setup, groups: Sequence[Sequence[Canary]], attack: str, goal: Any, budget: int) -> Measured:
    """Run the attack on each group."""
    target = made.fresh()
    with metered(made.modules) as seen:
        counted: Any = seen if made.modules else Counted(target)

        def passes_of(group: Sequence[Canary]) -> tuple[list[Finding], int]:
            before = counted.passes
            return run_attack(attack, target, group, goal=goal, budget=budget), counted.passes - before

        once = passes_of(made.canaries[:FEW])[1] - passes_of(made.canaries[:FEW])[1]
        counted.passes = counted.rows = 0
        found, depth, asked, started = [], 0, [], time.perf_counter()
        for group in groups:
            with _questions() as rows:
                own, passes = passes_of(group)
            found, depth = found + own, max(depth, passes)
            asked.append(rows)
        return Measured(found, counted.passes, counted.rows, depth, time.perf_counter() - started, once, asked)


@contextlib.contextmanager
def _questions() -> Iterator[list[int]]:
    """Notes the rows of what is answered together in the block, in order."""
    answer, rows = scheduler._answer_alike, list[int]()

    def noted(questions: Sequence[Any]) -> None:
        rows.append(sum(question.rows for question in questions))
        answer(questions)

    with mock.patch.object(scheduler, "_answer_alike", noted):
        yield rows


if __name__ == "__main__":
    main()
