"""How much each family of canaries gives away, on one model and in one run: prints a table.

A small Llama learns one half of Python's help text, then is fine-tuned on the other half with the canaries of all
five families in it, each planted as often. ``exposure`` and ``control`` are mean exposures of planted canaries and
controls in bits, of ``log2|R|``. With ``--fuzzy`` all copies but one are near copies. The AUC and the true positive
rate at 1 % false ones are those of ``leakage score``.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed

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


def tokenizer_of(text: str) -> PreTrainedTokenizerFast:
    """A byte-level BPE of the whole text, so that the part which is trained on lacks some of its tokens."""
    made = ByteLevelBPETokenizer()
    made.train_from_iterator(text.splitlines(), 4000, special_tokens=["<|endoftext|>"], show_progress=False)
    end = "<|endoftext|>"
    return PreTrainedTokenizerFast(tokenizer_object=made._tokenizer, bos_token=end, eos_token=end, pad_token=end)


def train(model: Any, tokenizer: Any, texts: list[str], epochs: int, rate: float, seed: int) -> None:
    """AdamW over rows of text, each after BOS."""
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
    """The model before any training."""
    set_seed(seed)
    sizes = {"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 3, "num_attention_heads": 4}
    return LlamaForCausalLM(LlamaConfig(**sizes, vocab_size=len(tokenizer), max_position_embeddings=256))


def canaries_of(folder: Path, lines: list[str], given: argparse.Namespace) -> list[Canary]:
    """Those of all families, of the lines and of the base model."""
    data = folder / "lines.txt"
    data.write_text("\n".join(lines) + "\n", encoding="utf-8")
    model = str(folder / "base")
    request = FamilyRequest(
        data,
        Columns(),
        given.count,
        (given.copies,),
        given.controls,
        unknown=given.unknown,
        tokenizer=model,
        model=model,
        seed=given.seed,
    )
    return family_canaries(FAMILIES, request)


def main() -> None:
    """Train, plant, fine-tune, audit, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in (
        ("count", 32),
        ("copies", 2),
        ("controls", 100),
        ("unknown", 1),
        ("epochs", 2),
        ("fuzzy", 0),
        ("seed", 0),
    ):
        parser.add_argument(f"--{name}", type=int, default=usual)
    given = parser.parse_args()
    text = pydoc_topics().training
    lines = [" ".join(part.split()) for part in text.split("\n\n") if 40 < len(part) < 600]
    random.Random(given.seed).shuffle(lines)
    public, private = lines[::2], lines[1::2]
    tokenizer = tokenizer_of(text)
    model = small_llama(tokenizer, given.seed)
    train(model, tokenizer, public, 4, 2e-3, given.seed)
    with TemporaryDirectory() as name:
        folder = Path(name)
        for each in (model, tokenizer):
            each.save_pretrained(folder / "base")
        canaries = canaries_of(folder, private, given)
        if given.fuzzy:
            canaries = with_near_copies(canaries, given.fuzzy, frequent_words(private), given.seed)
        write_manifest(canaries, folder / "canaries.jsonl")
        train(model, tokenizer, list(plant(private, canaries, seed=given.seed)), given.epochs, 1e-3, given.seed)
        found = audit(model, tokenizer, str(folder / "canaries.jsonl"), tasks=["canary_exposure"], context="bos")
    show(found.findings["canary_exposure"], given)


def show(findings: list[Finding], given: argparse.Namespace) -> None:
    """The table."""
    near = f", all but one with {given.fuzzy} words changed" if given.fuzzy else ""
    print(f"{given.count} canaries of each family, {given.copies} copies each{near}, {given.epochs} epochs")
    print("| family | log2 R | exposure | control | AUC | TPR at 1 % FPR | ε, one canary swapped |")
    print("|---|---|---|---|---|---|---|")
    for family in FAMILIES:
        own = [each for each in findings if each.family == family]
        figures = {each.name: each.value for each in audit_figures(own)}
        means = [fmean(each.exposure for each in own if each.planted is side) for side in (True, False)]
        cells = [*means, figures["auc"], figures["tpr_at_1_fpr"], figures["epsilon"]]
        shown = " | ".join("–" if cell is None else f"{cell:.2f}" for cell in cells)
        print(f"| {family} | {own[0].log2_size:.0f} | {shown} |")


if __name__ == "__main__":
    main()
