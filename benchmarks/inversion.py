"""Speed of the gradient attack on all canaries and restarts in one batch, compared with one at a time. Prints JSON.

``alone`` is a direct implementation of the paper: for each canary and restart, logits, a softmax, the tagger's forward
pass and loss, and Adam. ``together`` is the attack with all canaries and restarts in one batch, without its final
search. Both compute in float64. Goal: ``together`` takes an eighth of the CPU time of ``alone``. ``--runs`` times only
some of the single runs and scales their time. The tagger has random weights, because speed does not depend on them.
"""

from __future__ import annotations

import argparse
import copy
import json
from itertools import islice, product
from typing import Any

import torch

from benchmarks.clock import cpu_seconds
from leakage_tasks.attacks import run_attack
from leakage_tasks.canaries import Canary
from leakage_tasks.canaries.alphabets import word_list
from leakage_tasks.models.nlu_inputs import nlu_inputs, nlu_tokenizer
from leakage_tasks.models.nlu_tagger import NLUTagger, NLUTaggerConfig
from leakage_tasks.targets import TaggerTarget

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
BEGINNING = ("my", "pin", "code", "is")
TAGS = ("O", "B-canary", "I-canary", *(f"{end}-{number}" for number in range(35) for end in "BI"))
INTENTS = ("PinIntent", *(f"intent-{number}" for number in range(7)))


def victim(words: int) -> tuple[NLUTagger, Any]:
    """Build a tagger of the paper's size with as many tags and intents as Snips, and its tokenizer."""
    tokenizer = nlu_tokenizer([*BEGINNING, *DIGITS, *(f"word{number}" for number in range(words))])
    torch.manual_seed(0)
    config = NLUTaggerConfig(
        vocab_size=len(tokenizer),
        tags=TAGS,
        id2label=dict(enumerate(INTENTS)),
        label2id={intent: index for index, intent in enumerate(INTENTS)},
    )
    return NLUTagger(config).eval(), tokenizer


def pins(number: int, slots: int) -> list[Canary]:
    """Make canaries of the paper's pattern ``pin``."""
    digits = {"digits": word_list("digits", DIGITS)}
    template = " ".join([*BEGINNING, *["{digits}"] * slots])
    tags = ("O",) * len(BEGINNING) + ("B-canary",) + ("I-canary",) * (slots - 1)
    secrets = (tuple(DIGITS[(index * 7 + slot * 3) % 10] for slot in range(slots)) for index in range(number))
    return [
        Canary(f"pin-{index}", template, secret, alphabets=digits, label=INTENTS[0], tags=tags)
        for index, secret in enumerate(secrets)
    ]


def one_alone(model: NLUTagger, tokenizer: Any, canary: Canary, seed: int, steps: int) -> list[int]:
    """Run one restart on one canary and return the index of the most likely value of each slot."""
    torch.manual_seed(seed)
    slots = len(canary.secret)
    inputs = nlu_inputs([canary.text.split()], tokenizer, model.config)
    label = torch.tensor([INTENTS.index(canary.label or "")])
    tags = torch.tensor([[TAGS.index(tag) for tag in canary.tags or ()]])
    mask = inputs["attention_mask"].bool()
    known = model.embed(inputs["input_ids"])[:, :-slots]
    candidates = model.embed(torch.tensor([tokenizer.convert_tokens_to_ids(list(DIGITS))]))[0]
    logits = (0.1 * torch.randn(slots, len(DIGITS), dtype=torch.float64)).requires_grad_(True)
    optimizer = torch.optim.Adam([logits], lr=6.5e-3)
    rates = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.995)
    for step in range(steps):
        mixed = torch.softmax(logits / (0.1 * 0.997**step), dim=-1) @ candidates
        scores, emissions = model.read(torch.cat([known, mixed[None]], dim=1), mask)
        loss = model.costs(scores, emissions, mask, label, tags).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rates.step()
    return logits.argmax(-1).tolist()


def compare(canaries: int, restarts: int, steps: int, slots: int, runs: int | None) -> dict[str, Any]:
    """Return both CPU times and their ratio."""
    model, tokenizer = victim(words=11_000)
    pin_canaries = pins(canaries, slots)
    plain = copy.deepcopy(model).double().requires_grad_(False)
    values = {"restarts": restarts, "steps": steps, "finish": False}
    one_alone(plain, tokenizer, pin_canaries[0], 0, 3)
    together = cpu_seconds(
        lambda: run_attack("inversion", TaggerTarget(model, tokenizer), pin_canaries, goal="extraction", values=values)
    )
    every = list(islice(product(pin_canaries, range(restarts)), runs))
    timed = cpu_seconds(lambda: [one_alone(plain, tokenizer, canary, seed, steps) for canary, seed in every])
    alone = timed * canaries * restarts / len(every)
    return {
        "canaries": canaries,
        "restarts": restarts,
        "steps": steps,
        "words": len(BEGINNING) + slots,
        "runs_alone_timed": len(every),
        "cpu_seconds": {"together": round(together, 2), "alone": round(alone, 2)},
        "alone_to_together": round(alone / together, 1),
    }


def main() -> None:
    """Compare the two and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--canaries", type=int, default=10)
    parser.add_argument("--restarts", type=int, default=5)
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--runs", type=int, help="number of single runs to time (default: all)")
    options = parser.parse_args()
    print(json.dumps(compare(options.canaries, options.restarts, options.steps, options.slots, options.runs), indent=1))


if __name__ == "__main__":
    main()
