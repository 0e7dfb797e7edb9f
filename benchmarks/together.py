"""Attacks on many canaries together against one after the other: passes, rows and time, and that figures stay.

``python -m benchmarks.together [--canaries 40] [--rows 512] [--shape gpt2-tiny|gpt2-small|lstm]`` makes a model, teaches it half of the canaries by
heart and attacks all, first in company, then alone, in one run. It prints passes in all beside the least there can be:
the longest chain of passes, or all rows over the rows of a pass.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from leakage_tasks.attacks import run_attack
from leakage_tasks.canaries import Canary, make_canaries
from leakage_tasks.models.recurrent import CharLSTMConfig, CharLSTMForCausalLM
from leakage_tasks.models.char_tokenizer import char_tokenizer
from leakage_tasks.targets import CausalTarget
from leakage_tasks.targets.causal import questions

SHAPES = {"gpt2-tiny": (64, 2, 4), "gpt2-small": (768, 12, 12)}
SEED = 3


def main() -> None:
    """Make the model, attack, print the table."""
    options = _options()
    torch.manual_seed(SEED)
    canaries = [
        *make_canaries(f"The code of {{unique}} is {{digits:{options.digits}}}.", options.canaries // 2, controls=options.canaries // 2)
    ]
    texts = [canary.space.fill(canary.secret) for canary in canaries]
    tokenizer = char_tokenizer(sorted(set("".join(texts) + "0123456789")))
    model = _model(options.shape, len(tokenizer))
    _teach(
        model, tokenizer, [text for text, canary in zip(texts, canaries, strict=True) if canary.planted], options.epochs
    )
    print(
        f"{options.shape}, {len(canaries)} canaries, half of them learnt, {options.rows} rows a pass, "
        f"{torch.get_num_threads()} threads"
    )
    print("| attack | | passes | rows | depth | least | passes / least | seconds |")
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    for attack, goal in (("exposure", "exposure"), ("shortest-path", "extraction")):
        met = _measured(model, tokenizer, canaries, attack, goal, options.rows, together=True)
        alone = _measured(model, tokenizer, canaries, attack, goal, options.rows, together=False)
        least = max(alone["depth"], alone["rows"] / options.rows)
        for name, one in (("together", met), ("alone", alone)):
            print(
                f"| {attack} | {name} | {one['passes']} | {one['rows']} | {one['depth']} | {least:.1f} "
                f"| {one['passes'] / least:.2f} | {one['seconds']:.1f} |"
            )
        apart = max(abs(a - b) for a, b in zip(met["bits"], alone["bits"], strict=True))
        print(
            f"{attack}: rows {met['rows'] / alone['rows']:.4f} times, alone takes {alone['seconds'] / met['seconds']:.2f} "
            f"times as long, figures differ by at most {apart:.1e} bits, guesses "
            f"{'equal' if met['guesses'] == alone['guesses'] else 'DIFFER'}"
        )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--canaries", type=int, default=40)
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--digits", type=int, default=6)
    parser.add_argument("--epochs", type=int, default=150)
    parser.add_argument("--shape", choices=[*SHAPES, "lstm"], default="gpt2-tiny")
    return parser.parse_args()


def _model(shape: str, vocabulary: int) -> Any:
    if shape == "lstm":
        return CharLSTMForCausalLM(CharLSTMConfig(vocab_size=vocabulary, hidden_size=200, num_layers=2))
    width, layers, heads = SHAPES[shape]
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=vocabulary, n_embd=width, n_layer=layers, n_head=heads, n_positions=128)
    )


def _teach(model: Any, tokenizer: Any, texts: Sequence[str], epochs: int) -> None:
    target = CausalTarget(model, tokenizer)
    rows = [torch.tensor(row) for row in target.token_rows(texts)]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=0)
    labels = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-100)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3 if len(list(model.parameters())) < 60 else 3e-4)
    model.train()
    for _ in range(epochs):
        optimizer.zero_grad()
        model(input_ids=ids, labels=labels).loss.backward()
        optimizer.step()
    model.eval()


def _measured(
    model: Any, tokenizer: Any, canaries: Sequence[Canary], attack: str, goal: Any, rows: int, *, together: bool
) -> dict[str, Any]:
    target = CausalTarget(model, tokenizer, batch_size=None)
    # A fixed number of rows, so that passes can be held against the least there can be.
    target.pace.rows, target.pace._settled = rows, True
    counted = _Counted(target)
    started = time.perf_counter()
    groups = [canaries] if together else [[canary] for canary in canaries]
    found, depth = [], 0
    for group in groups:
        before = counted.passes
        found += run_attack(attack, target, group, goal=goal)
        depth = max(depth, counted.passes - before)
    seconds = time.perf_counter() - started
    bits = [np.log2(each.rank) if each.rank else 0.0 for each in found]
    guesses = [[guess.filling for guess in each.guesses] for each in found]
    return {
        "passes": counted.passes,
        "rows": counted.rows,
        "depth": depth,
        "seconds": seconds,
        "bits": bits,
        "guesses": guesses,
    }


class _Counted:
    """Counts the passes of a target and their rows."""

    def __init__(self, target: CausalTarget) -> None:
        self.passes = self.rows = 0
        one, first = target.one_pass, target.read_first

        def one_pass(parts: Sequence[questions.Step]) -> Any:
            self.passes, self.rows = self.passes + 1, self.rows + sum(len(part.tokens) for part in parts)
            return one(parts)

        def read_first(rows: Sequence[Sequence[int]]) -> Any:
            self.passes, self.rows = self.passes + 1, self.rows + len(rows)
            return first(rows)

        target.one_pass, target.read_first = one_pass, read_first  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
