"""Comparison of memaudit's audit with this package's, on equal secrets and models. Prints a table.

    pip install memaudit==0.2.0
    OMP_NUM_THREADS=1 python -m benchmarks.beside_memaudit

memaudit is not a dependency of this package. Its own code makes the canaries of each of its families with its profile
``powered`` (100 canaries planted once, four and sixteen times, and 200 controls, of 32 tokens each), adds them to the
data, and compares the trained model with the model without its adapter. The model is a small Llama trained on one half
of Python's help text. For each family it is fine-tuned on rows of the other half with LoRA of rank 8. Then this package
audits the adapter: the attacker knows each record except its last two words, and searches each word among 20. So
``log2|R|`` is 8.64 and every rank is exact.

Both ``TPR`` columns are at 1 % FPR; the second comes from ``leakage score`` and exposures with ``signal=calibrated``.
``exposure``, ``control`` and ``added`` are means in bits. Quantities that both packages define are computed by both,
and the largest difference is printed: the cost of a record, and the TPR, its interval and the AUC of memaudit's scores.
"""

from __future__ import annotations

import argparse
import math
import random
import re
import string
import sys
import time
import warnings
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch
from memaudit import generate_canaries, inject
from memaudit.audit import run_audit
from memaudit.injection import TEXT_PREFIX
from memaudit.scoring import extract_token_signals, locate_secret_span
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed

from benchmarks.families import train
from leakage_tasks import audit
from leakage_tasks.attacks.finding import Finding
from leakage_tasks.canaries.alphabets import Alphabet
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.spaces import literal
from leakage_tasks.metrics.audit import audit as audit_figures
from leakage_tasks.research.victims.corpus import pydoc_topics
from leakage_tasks.stats.membership import auc, tpr_at_low_fpr

FAMILIES = ("high_ppl", "unigram", "bigram", "structured", "random")
WORD, CODE = re.compile(r"\S+"), re.compile(r"(?<=-)[0-9A-Z]{10}")
"""The content of a slot: a word, or in the family ``structured`` a character of the code."""
SLOTS, WIDTH = 2, 20
TIERS = (1, 4, 16)
STAGES = ("making canaries and training", "memaudit's audit", "ours")
END = "<|endoftext|>"
HEAD = (
    *("family", "memaudit TPR", "of these x1/x4/x16", "memaudit AUC", "regurgitated", "TPR", "AUC"),
    *("exposure x1", "exposure x4", "exposure x16", "control", "added x16", "control added", "extracted x16"),
)


def tokenizer_of(lines: list[str], size: int) -> PreTrainedTokenizerFast:
    """Train a BPE without byte tokens; otherwise memaudit's ``unigram`` family consists of these rare tokens."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    made.decoder = decoders.Metaspace(prepend_scheme="never")
    letters = list(string.ascii_letters + string.digits + string.punctuation)
    options = {"vocab_size": size, "special_tokens": [END], "initial_alphabet": letters, "show_progress": False}
    made.train_from_iterator(lines, trainers.BpeTrainer(**options))
    return PreTrainedTokenizerFast(tokenizer_object=made, bos_token=END, eos_token=END, pad_token=END)


@dataclass(frozen=True)
class Bench:
    """The tokenizer, base model, its training text and the text for fine-tuning, for all families."""

    tokenizer: Any
    base: Any
    public: list[str]
    private: list[str]


def bench_of(options: argparse.Namespace) -> Bench:
    """Split Python's help text into two halves and train a model on the first."""
    lines = [" ".join(part.split()) for part in pydoc_topics().training.split("\n\n") if 40 < len(part) < 600]
    random.Random(options.seed).shuffle(lines)
    tokenizer = tokenizer_of(lines, options.vocabulary)
    set_seed(options.seed)
    sizes = {"hidden_size": 96, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4}
    base = LlamaForCausalLM(LlamaConfig(**sizes, vocab_size=len(tokenizer), max_position_embeddings=256))
    train(base, tokenizer, lines[::2], 3, 3e-3, options.seed)
    return Bench(tokenizer, base, lines[::2], lines[1::2][: options.rows])


def slots_of(canary: dict[str, Any]) -> list[re.Match[str]]:
    """Find the words of a secret, or in the family ``structured`` the characters of its code."""
    if canary["family"] != "structured":
        return list(WORD.finditer(canary["secret"]))
    code = CODE.search(canary["secret"])
    assert code is not None
    return list(re.compile(".").finditer(canary["secret"], code.start(), code.end()))


def as_canaries(theirs: Sequence[dict[str, Any]], seed: int) -> list[Canary]:
    """Convert memaudit's canaries: the last words are the secret, the remaining text is the template.

    Each slot has ``WIDTH`` possible words: the canary's own, and words that controls have in their slots.
    """
    slots = [slots_of(record)[-SLOTS:] for record in theirs]
    pool = sorted(
        {m.group() for record, matches in zip(theirs, slots, strict=True) if not record["included"] for m in matches}
    )
    made = []
    for record, matches in zip(theirs, slots, strict=True):
        secret = tuple(match.group() for match in matches)
        others = [word for word in pool if word not in secret]
        mine = list(dict.fromkeys(secret))
        drawn = random.Random(f"{seed}:{record['id']}").sample(others, min(WIDTH, len(pool)) - len(mine))
        ends = [0, *(match.end() for match in matches)]
        gaps = [record["secret"][end : match.start()] for end, match in zip(ends, matches, strict=False)]
        template = "".join(f"{literal(gap)}{{word}}" for gap in gaps) + literal(record["secret"][ends[-1] :])
        made.append(
            Canary(
                id=record["id"],
                template=literal(TEXT_PREFIX) + template,
                secret=secret,
                repetitions=record["repetitions"] if record["included"] else 0,
                planted=record["included"],
                alphabets={"word": Alphabet("word", tuple(sorted(mine + drawn)))},
            )
        )
    return made


def fine_tuned(bench: Bench, rows: list[str], options: argparse.Namespace) -> Any:
    """Return the base model with an adapter trained on ``rows``."""
    torch.manual_seed(options.seed)
    lora = LoraConfig(r=8, lora_alpha=16, lora_dropout=0.0, task_type="CAUSAL_LM", target_modules="all-linear")
    model = get_peft_model(deepcopy(bench.base), lora)
    train(model, bench.tokenizer, rows, options.epochs, options.rate, options.seed)
    return model


def largest_differences(
    model: Any, tokenizer: Any, report: dict[str, Any], findings: Sequence[Finding], texts: dict[str, str]
) -> tuple[float, float]:
    """Return the largest difference of a record's cost in bits, and of the metrics of memaudit's scores."""
    costs = []
    for finding in findings:
        ids = tokenizer(texts[finding.canary])["input_ids"]
        costs.append(-extract_token_signals(model, ids).gold_logprob.sum() / math.log(2) - finding.log_perplexity)
    sides = [
        [row["scores"]["headline_score"] for row in report["per_canary"] if row["included"] is side]
        for side in (True, False)
    ]
    theirs = report["membership"]
    rate, area = tpr_at_low_fpr(*sides).rate, auc(*sides).value
    pairs = (
        (rate.value, theirs["tpr_at_1pct_fpr"]),
        (rate.low, theirs["ci_low"]),
        (rate.high, theirs["ci_high"]),
        (area, theirs["auc"]),
    )
    return max(map(abs, costs)), max(abs(ours - other) for ours, other in pairs)


def spans_off(tokenizer: Any, theirs: Sequence[dict[str, Any]]) -> int:
    """Count the secrets that memaudit does not score from their first token to their last."""
    off = 0
    for record in theirs:
        text = TEXT_PREFIX + record["secret"]
        _, span = locate_secret_span(tokenizer, text, record["secret"], record["secret_token_ids"])
        offsets = tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
        inside = [index for index, (_, end) in enumerate(offsets) if end > len(TEXT_PREFIX)]
        off += span != (inside[0], inside[-1] + 1)
    return off


def row_of(family: str, bench: Bench, options: argparse.Namespace) -> tuple[list[Any], str]:
    """Return a line of the table, and a note with the checks."""
    clock = [time.process_time()]
    set_seed(options.seed)
    how = {"profile": "powered", "family": family, "seed": options.seed}
    made = generate_canaries(bench.tokenizer, model=bench.base, corpus=bench.public, **how)
    host = [{"text": line} for line in bench.private]
    rows, manifest = inject(host, made, fmt="text", seed=options.seed, include_prob=1.0, tokenizer=bench.tokenizer)
    model = fine_tuned(bench, [row["text"] for row in rows], options)
    clock.append(time.process_time())
    report = run_audit(model, bench.tokenizer, manifest, ref="auto", real_sample=0)
    clock.append(time.process_time())
    canaries = as_canaries(manifest["canaries"], options.seed)
    findings, taken = our_audit(model, bench.tokenizer, canaries, options.seed)
    clock.append(time.process_time())
    texts = {canary.id: canary.text for canary in canaries}
    cost, figure = largest_differences(model, bench.tokenizer, report, findings, texts)
    note = (
        f"{family}: a record's cost differs by {cost:.0e} bits at most, metrics of memaudit's scores by "
        f"{figure:.0e}; memaudit scores {spans_off(bench.tokenizer, manifest['canaries'])} of {len(canaries)} secrets "
        "without their first token or with other words' tokens; seconds of one core: "
        + ", ".join(
            f"{after - before:.0f} {what}" for before, after, what in zip(clock, clock[1:], STAGES, strict=False)
        )
    )
    return cells_of(family, report, findings, taken), note


def our_audit(model: Any, tokenizer: Any, canaries: list[Canary], seed: int) -> tuple[list[Finding], list[Finding]]:
    """Measure all exposures relative to the base model, and extraction of the canaries planted most often."""
    often = [canary for canary in canaries if canary.repetitions == max(TIERS)]
    options = {"context": "none", "seed": seed}
    exact = {"signal": "calibrated", "method": "exact"}
    exposed = audit(model, tokenizer, canaries, tasks=["canary_exposure"], **options, **exact)
    taken = audit(model, tokenizer, often, tasks=["canary_extraction"], **options)
    return exposed.findings["canary_exposure"], taken.findings["canary_extraction"]


def cells_of(family: str, report: dict[str, Any], findings: Sequence[Finding], taken: Sequence[Finding]) -> list[Any]:
    """Return the cells of a family's line."""
    theirs, figures = report["membership"], {finding.name: finding.value for finding in audit_figures(findings)}
    added = {finding.canary: finding.extra["tuned_exposure"] - finding.extra["base_exposure"] for finding in findings}
    tuned = {finding.canary: finding.extra["tuned_exposure"] for finding in findings}

    def mean(bits: dict[str, float], copies: int) -> float:
        return fmean(bits[finding.canary] for finding in findings if finding.repetitions == copies)

    return [
        family,
        theirs["tpr_at_1pct_fpr"],
        "/".join(str(theirs["by_repetition"][str(copies)]["detected"]) for copies in TIERS),
        theirs["auc"],
        report["regurgitation"]["overall"]["rate"],
        figures["tpr_at_1_fpr"],
        figures["auc"],
        *(mean(tuned, copies) for copies in (*TIERS, 0)),
        *(mean(added, copies) for copies in (max(TIERS), 0)),
        fmean(finding.place == 1 for finding in taken),
    ]


def main() -> None:
    """Run the comparison for each family and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in (("epochs", 8), ("rows", 300), ("vocabulary", 2000), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--rate", type=float, default=1e-2)
    parser.add_argument("--families", nargs="+", default=FAMILIES, choices=FAMILIES)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    bench = bench_of(options)
    notes = []
    print("| " + " | ".join(HEAD) + " |\n|" + "---|" * len(HEAD))
    for family in options.families:
        cells, note = row_of(family, bench, options)
        print(
            "| " + " | ".join(f"{cell:.2f}" if isinstance(cell, float) else cell for cell in cells) + " |", flush=True
        )
        print(note, file=sys.stderr)
        notes.append(note)
    print(*notes, sep="\n")


if __name__ == "__main__":
    main()
