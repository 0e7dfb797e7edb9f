"""Speed of label search over a whole vocabulary, compared with direct use of the model. Prints candidates per second.

``bare`` is the model's forward pass alone on prepared rows, at its fastest batch size. ``pipeline`` is a `transformers`
text-classification pipeline on the filled texts, at its own fastest batch size. Goal: 0.9 of the speed of ``bare``,
including tokenization and ranking, and three times that of ``pipeline``. They alternate, and the best round of each
counts. The encoder is a small BERT with random weights, because speed does not depend on them.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, TextClassificationPipeline

from leakage_tasks.attacks import run_attack
from leakage_tasks.canaries import Canary
from leakage_tasks.canaries.alphabets import tokenizer_words
from leakage_tasks.canaries.presets.elmahdy import elmahdy_canaries
from leakage_tasks.research.victims.docstrings import docstring_corpus
from leakage_tasks.research.victims.wordpiece import train_wordpiece
from leakage_tasks.targets import ClassifierTarget

BATCHES = (32, 64, 128, 256, 512)


def victim(layers: int, hidden: int, vocabulary: int, count: int) -> tuple[Any, Any, list[Canary]]:
    """Build a classifier, its tokenizer, and canaries of nine known words and one unknown word."""
    corpus = docstring_corpus(classes=50, samples=5_000, held_out=500)
    tokenizer = train_wordpiece([text for text, _ in corpus.training], vocabulary=vocabulary)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=max(2, hidden // 64),
        intermediate_size=4 * hidden,
        id2label=dict(enumerate(corpus.labels)),
        label2id={label: index for index, label in enumerate(corpus.labels)},
    )
    with TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        words = tokenizer_words("words", folder, "whole-words")
    canaries = elmahdy_canaries(words, count, label=corpus.labels[0], supporting="none")
    return BertForSequenceClassification(config).eval(), tokenizer, canaries


def bare(model: Any, rows: torch.Tensor, batch: int) -> float:
    """Return rows per second of the forward pass."""
    mask, types = torch.ones_like(rows), torch.zeros_like(rows)
    started = time.perf_counter()
    with torch.inference_mode():
        for first in range(0, len(rows), batch):
            part = slice(first, first + batch)
            model(input_ids=rows[part], attention_mask=mask[part], token_type_ids=types[part])
    return len(rows) / (time.perf_counter() - started)


def piped(pipeline: Any, texts: list[str], batch: int) -> float:
    """Return texts per second of the pipeline."""
    started = time.perf_counter()
    pipeline(texts, batch_size=batch, top_k=None)
    return len(texts) / (time.perf_counter() - started)


def searched(model: Any, tokenizer: Any, canaries: list[Canary]) -> float:
    """Return candidates per second of the attack on a new target, without state of earlier rounds."""
    target = ClassifierTarget(model, tokenizer)
    started = time.perf_counter()
    findings = run_attack("label-search", target, canaries, goal="extraction")
    return sum(finding.model_calls for finding in findings) / (time.perf_counter() - started)


def fastest(speed: Callable[[int], float]) -> int:
    """Return the fastest batch size."""
    return max(BATCHES, key=speed)


def compare(layers: int, hidden: int, vocabulary: int, rounds: int, count: int, texts: int) -> dict[str, Any]:
    """Return the speeds and their ratios."""
    model, tokenizer, canaries = victim(layers, hidden, vocabulary, count)
    space = canaries[0].attack_space
    filled = [space.fill(filling) for filling in space.enumerate()]
    rows = torch.tensor(tokenizer(filled)["input_ids"])
    sample = [filled[index] for index in np.linspace(0, len(filled) - 1, min(texts, len(filled))).astype(int)]
    pipeline = TextClassificationPipeline(model=model, tokenizer=tokenizer, device="cpu")
    best_bare = fastest(lambda batch: bare(model, rows, batch))
    best_piped = fastest(lambda batch: piped(pipeline, sample, batch))
    speeds: dict[str, list[float]] = {"bare": [], "ours": [], "pipeline": []}
    for _ in range(rounds):
        speeds["bare"].append(bare(model, torch.cat([rows] * count), best_bare))
        speeds["ours"].append(searched(model, tokenizer, canaries))
        speeds["pipeline"].append(piped(pipeline, sample, best_piped))
    best = {name: max(values) for name, values in speeds.items()}
    return {
        "layers": layers,
        "hidden": hidden,
        "alphabet": len(filled),
        "canaries": count,
        "candidates_per_second": {name: round(value) for name, value in best.items()},
        "ours_to_bare": round(best["ours"] / best["bare"], 3),
        "ours_to_pipeline": round(best["ours"] / best["pipeline"], 2),
        "batch_sizes": {"bare": best_bare, "pipeline": best_piped},
    }


def main() -> None:
    """Compare the three and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--vocabulary", type=int, default=8_000)
    parser.add_argument("--canaries", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--texts", type=int, default=2_000, help="texts for the pipeline, spread over the alphabet")
    options = parser.parse_args()
    speeds = compare(
        options.layers, options.hidden, options.vocabulary, options.rounds, options.canaries, options.texts
    )
    print(json.dumps(speeds, indent=1))


if __name__ == "__main__":
    main()
