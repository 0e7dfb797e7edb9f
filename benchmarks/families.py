"""Exposure of each family of canaries, on one model in one run. Prints a table.

A small Llama is trained on one half of Python's help text, then fine-tuned on the other half, with an equal number of
planted canaries of all five families. ``exposure`` and ``control`` are mean exposures of planted canaries and controls
in bits, out of ``log2|R|``. With ``--near-copies`` all copies but one are near copies. AUC and TPR at 1 % FPR are
computed as in ``leakage score``.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, set_seed

from benchmarks.small_models import byte_level
from leakage_tasks import audit, plant, write_manifest
from leakage_tasks.attacks.finding import Finding
from leakage_tasks.canaries.canary import FAMILIES, Canary
from leakage_tasks.canaries.families import FamilyRequest, family_canaries
from leakage_tasks.canaries.families.corpus import frequent_words
from leakage_tasks.canaries.near import with_near_copies
from leakage_tasks.data import Columns
from leakage_tasks.metrics.audit import audit as audit_figures
from leakage_tasks.research.victims.corpus import pydoc_topics

BATCH, LENGTH = 16, 96


def train(model: Any, tokenizer: Any, texts: list[str], epochs: int, rate: float, seed: int) -> None:
    """Train with AdamW on one row per text, each after BOS."""
    optimizer, stream = torch.optim.AdamW(model.parameters(), lr=rate), random.Random(seed)
    model.train()
    for _ in range(epochs):
        order = stream.sample(texts, len(texts))
        for first in range(0, len(order), BATCH):
            rows = [tokenizer.bos_token + text + tokenizer.eos_token for text in order[first : first + BATCH]]
            read = tokenizer(rows, return_tensors="pt", padding=True, truncation=True, max_length=LENGTH)
            labels = read["input_ids"].masked_fill(read["attention_mask"] == 0, -100)
            model(**read, labels=labels).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    model.eval()


def small_llama(tokenizer: Any, seed: int) -> LlamaForCausalLM:
    """Build the untrained model."""
    set_seed(seed)
    sizes = {"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 3, "num_attention_heads": 4}
    return LlamaForCausalLM(LlamaConfig(**sizes, vocab_size=len(tokenizer), max_position_embeddings=256))


def canaries_of(folder: Path, lines: list[str], options: argparse.Namespace) -> list[Canary]:
    """Make canaries of all families from the lines and the base model."""
    data = folder / "lines.txt"
    data.write_text("\n".join(lines) + "\n", encoding="utf-8")
    model = str(folder / "base")
    request = FamilyRequest(
        data,
        Columns(),
        options.count,
        (options.copies,),
        options.controls,
        unknown=options.unknown,
        tokenizer=model,
        model=model,
        seed=options.seed,
    )
    return family_canaries(FAMILIES, request)


def main() -> None:
    """Train, plant, fine-tune, audit and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in {"count": 32, "copies": 2, "controls": 100, "unknown": 1, "epochs": 2, "seed": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--near-copies", "--fuzzy", type=int, default=0, help="words changed in all copies but one")
    options = parser.parse_args()
    text = pydoc_topics().training
    lines = [" ".join(part.split()) for part in text.split("\n\n") if 40 < len(part) < 600]
    random.Random(options.seed).shuffle(lines)
    public, private = lines[::2], lines[1::2]
    # Trained on the whole text, so that the training half lacks some of its tokens.
    tokenizer = byte_level(text, 4000)
    model = small_llama(tokenizer, options.seed)
    train(model, tokenizer, public, 4, 2e-3, options.seed)
    with TemporaryDirectory() as name:
        folder = Path(name)
        for part in (model, tokenizer):
            part.save_pretrained(folder / "base")
        canaries = canaries_of(folder, private, options)
        if options.near_copies:
            canaries = with_near_copies(canaries, options.near_copies, frequent_words(private), options.seed)
        write_manifest(canaries, folder / "canaries.jsonl")
        train(model, tokenizer, list(plant(private, canaries, seed=options.seed)), options.epochs, 1e-3, options.seed)
        result = audit(model, tokenizer, str(folder / "canaries.jsonl"), tasks=["canary_exposure"], context="bos")
    show(result.findings["canary_exposure"], options)


def show(findings: list[Finding], options: argparse.Namespace) -> None:
    """Print one line per family."""
    near = f", all but one with {options.near_copies} words changed" if options.near_copies else ""
    print(f"{options.count} canaries of each family, {options.copies} copies each{near}, {options.epochs} epochs")
    print("| family | log2 R | exposure | control | AUC | TPR at 1 % FPR | ε, one canary swapped |")
    print("|---|---|---|---|---|---|---|")
    for family in FAMILIES:
        members = [finding for finding in findings if finding.family == family]
        figures = {figure.name: figure.value for figure in audit_figures(members)}
        means = [fmean(finding.exposure for finding in members if finding.planted is side) for side in (True, False)]
        cells = [*means, figures["auc"], figures["tpr_at_1_fpr"], figures["epsilon"]]
        shown = " | ".join("–" if cell is None else f"{cell:.2f}" for cell in cells)
        print(f"| {family} | {members[0].log2_size:.0f} | {shown} |")


if __name__ == "__main__":
    main()
