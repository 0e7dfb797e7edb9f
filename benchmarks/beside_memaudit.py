"""memaudit's demonstration and our audit, on the same secrets of the same models: prints a table.

    pip install memaudit==0.2.0
    HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 python benchmarks/beside_memaudit.py

memaudit is no dependency of this package. Its own code makes the canaries of each of its families by its profile
``powered`` (100, planted once, four and sixteen times, and 200 controls, of 32 tokens each), puts them into the data,
and scores the model that was trained on them against that model without its adapter. The model is a small Llama that
knows one half of Python's help text; it is fine-tuned on rows of the other half with LoRA of rank 8, anew for each
family. Then this package audits the same adapter: of each secret the last two words are searched, each among 20, and
the rest of the record is known. So ``log2|R|`` is 8.64 and every rank is exact.

``TPR`` are at 1 % false ones, the second that of ``leakage score`` from exposures with ``signal=calibrated``;
``exposure``, ``control`` and ``added`` are means in bits. What both compute is computed twice, and the largest
difference is printed: what a record costs the model, and from memaudit's scores its rate, the ends of its interval and
its AUC.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import re
import string
import sys
import time
import warnings
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

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
"""What a slot holds: a word; of family ``structured`` a character of the code in it."""
SLOTS, WIDTH = 2, 20
TIERS = (1, 4, 16)
STAGES = ("making canaries and training", "memaudit's audit", "ours")
END = "<|endoftext|>"
HEAD = (
    "family",
    "memaudit TPR",
    "of these x1/x4/x16",
    "memaudit AUC",
    "regurgitated",
    "TPR",
    "AUC",
    *(f"exposure {copies}" for copies in ("x1", "x4", "x16")),
    "control",
    "added x16",
    "control added",
    "extracted x16",
)


def tokenizer_of(lines: list[str], size: int) -> PreTrainedTokenizerFast:
    """A BPE without tokens of bytes: memaudit's ``unigram`` would take little else, being the rarest of all."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    made.decoder = decoders.Metaspace(prepend_scheme="never")
    letters = list(string.ascii_letters + string.digits + string.punctuation)
    options = {"vocab_size": size, "special_tokens": [END], "initial_alphabet": letters, "show_progress": False}
    made.train_from_iterator(lines, trainers.BpeTrainer(**options))
    return PreTrainedTokenizerFast(tokenizer_object=made, bos_token=END, eos_token=END, pad_token=END)


@dataclass(frozen=True)
class Bench:
    """What all families share: tokenizer, base model, its text and the text to fine-tune on."""

    tokenizer: Any
    base: Any
    public: list[str]
    private: list[str]


def bench_of(given: argparse.Namespace) -> Bench:
    """Python's help text in two halves, and a model of the first."""
    lines = [" ".join(part.split()) for part in pydoc_topics().training.split("\n\n") if 40 < len(part) < 600]
    random.Random(given.seed).shuffle(lines)
    tokenizer = tokenizer_of(lines, given.vocabulary)
    set_seed(given.seed)
    sizes = {"hidden_size": 96, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4}
    base = LlamaForCausalLM(LlamaConfig(**sizes, vocab_size=len(tokenizer), max_position_embeddings=256))
    train(base, tokenizer, lines[::2], 3, 3e-3, given.seed)
    return Bench(tokenizer, base, lines[::2], lines[1::2][: given.rows])


def slots_of(theirs: dict[str, Any]) -> list[re.Match[str]]:
    """Where the words of a secret are, of ``structured`` the characters of its code."""
    if theirs["family"] != "structured":
        return list(WORD.finditer(theirs["secret"]))
    code = CODE.search(theirs["secret"])
    assert code is not None
    return list(re.compile(".").finditer(theirs["secret"], code.start(), code.end()))


def as_canaries(theirs: Sequence[dict[str, Any]], seed: int) -> list[Canary]:
    """memaudit's canaries as ours: the last words of each are its secret, all before and between them its template.

    A slot may hold ``WIDTH`` words: the canary's own, and others that controls have there.
    """
    slots = [slots_of(each)[-SLOTS:] for each in theirs]
    pool = sorted({m.group() for each, own in zip(theirs, slots, strict=True) if not each["included"] for m in own})
    made = []
    for each, own in zip(theirs, slots, strict=True):
        secret = tuple(match.group() for match in own)
        others = [word for word in pool if word not in secret]
        mine = list(dict.fromkeys(secret))
        drawn = random.Random(f"{seed}:{each['id']}").sample(others, min(WIDTH, len(pool)) - len(mine))
        ends = [0, *(match.end() for match in own)]
        gaps = [each["secret"][end : match.start()] for end, match in zip(ends, own, strict=False)]
        template = "".join(f"{literal(gap)}{{word}}" for gap in gaps) + literal(each["secret"][ends[-1] :])
        made.append(
            Canary(
                id=each["id"],
                template=literal(TEXT_PREFIX) + template,
                secret=secret,
                repetitions=each["repetitions"] if each["included"] else 0,
                planted=each["included"],
                alphabets={"word": Alphabet("word", tuple(sorted(mine + drawn)))},
            )
        )
    return made


def fine_tuned(bench: Bench, rows: list[str], given: argparse.Namespace) -> Any:
    """The base with an adapter that was trained on ``rows``."""
    torch.manual_seed(given.seed)
    lora = LoraConfig(r=8, lora_alpha=16, lora_dropout=0.0, task_type="CAUSAL_LM", target_modules="all-linear")
    model = get_peft_model(deepcopy(bench.base), lora)
    train(model, bench.tokenizer, rows, given.epochs, given.rate, given.seed)
    return model


def largest_differences(
    model: Any, tokenizer: Any, report: dict[str, Any], findings: Sequence[Finding], texts: dict[str, str]
) -> tuple[float, float]:
    """Of what a record costs in bits, and of memaudit's figures computed by our code from its scores."""
    costs = []
    for each in findings:
        ids = tokenizer(texts[each.canary])["input_ids"]
        costs.append(-extract_token_signals(model, ids).gold_logprob.sum() / math.log(2) - each.log_perplexity)
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
    """How many secrets memaudit does not score from their first token to their last."""
    off = 0
    for each in theirs:
        text = TEXT_PREFIX + each["secret"]
        _, span = locate_secret_span(tokenizer, text, each["secret"], each["secret_token_ids"])
        offsets = tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
        inside = [place for place, (_, end) in enumerate(offsets) if end > len(TEXT_PREFIX)]
        off += span != (inside[0], inside[-1] + 1)
    return off


def row_of(family: str, bench: Bench, given: argparse.Namespace) -> tuple[list[Any], str]:
    """A line of the table, and what was checked on the way."""
    clock = [time.process_time()]
    set_seed(given.seed)
    options = {"family": family, "seed": given.seed, "model": bench.base, "corpus": bench.public}
    made = generate_canaries(bench.tokenizer, profile="powered", **options)
    host = [{"text": line} for line in bench.private]
    rows, manifest = inject(host, made, fmt="text", seed=given.seed, include_prob=1.0, tokenizer=bench.tokenizer)
    model = fine_tuned(bench, [row["text"] for row in rows], given)
    clock.append(time.process_time())
    report = run_audit(model, bench.tokenizer, manifest, ref="auto", real_sample=0)
    clock.append(time.process_time())
    canaries = as_canaries(manifest["canaries"], given.seed)
    findings, taken = our_audit(model, bench.tokenizer, canaries, given.seed)
    clock.append(time.process_time())
    texts = {each.id: each.text for each in canaries}
    cost, figure = largest_differences(model, bench.tokenizer, report, findings, texts)
    note = (
        f"{family}: a record's cost differs by {cost:.0e} bits at most, memaudit's figures from ours of its scores by "
        f"{figure:.0e}; memaudit scores {spans_off(bench.tokenizer, manifest['canaries'])} of {len(canaries)} secrets "
        "without their first token or with other words' tokens; seconds of one core: "
        + ", ".join(
            f"{after - before:.0f} {what}" for before, after, what in zip(clock, clock[1:], STAGES, strict=False)
        )
    )
    return cells_of(family, report, findings, taken), note


def our_audit(model: Any, tokenizer: Any, canaries: list[Canary], seed: int) -> tuple[list[Finding], list[Finding]]:
    """Exposure of all, beside the model without its adapter; extraction of those planted most often."""
    often = [each for each in canaries if each.repetitions == max(TIERS)]
    options = {"context": "none", "seed": seed}
    exact = {"signal": "calibrated", "method": "exact"}
    exposed = audit(model, tokenizer, canaries, tasks=["canary_exposure"], **options, **exact)
    taken = audit(model, tokenizer, often, tasks=["canary_extraction"], **options)
    return exposed.findings["canary_exposure"], taken.findings["canary_extraction"]


def cells_of(family: str, report: dict[str, Any], findings: Sequence[Finding], taken: Sequence[Finding]) -> list[Any]:
    """The figures of a family."""
    theirs, figures = report["membership"], {each.name: each.value for each in audit_figures(findings)}
    added = {each.canary: each.extra["tuned_exposure"] - each.extra["base_exposure"] for each in findings}
    tuned = {each.canary: each.extra["tuned_exposure"] for each in findings}

    def mean(bits: dict[str, float], copies: int) -> float:
        return fmean(bits[each.canary] for each in findings if each.repetitions == copies)

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
        fmean(each.place == 1 for each in taken),
    ]


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in (("epochs", 8), ("rows", 300), ("vocabulary", 2000), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--rate", type=float, default=1e-2)
    parser.add_argument("--families", nargs="+", default=FAMILIES, choices=FAMILIES)
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    bench = bench_of(given)
    notes = []
    print("| " + " | ".join(HEAD) + " |\n|" + "---|" * len(HEAD))
    for family in given.families:
        cells, note = row_of(family, bench, given)
        print(
            "| " + " | ".join(f"{cell:.2f}" if isinstance(cell, float) else cell for cell in cells) + " |", flush=True
        )
        print(note, file=sys.stderr)
        notes.append(note)
    print(*notes, sep="\n")


if __name__ == "__main__":
    main()
