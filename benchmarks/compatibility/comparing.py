"""Comparison of the attacks on a model with the harness' own ``loglikelihood``, or with the classifier itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from lm_eval.models.huggingface import HFLM

from adapters.classifier_scorer import ClassifierScorerLM
from benchmarks.compatibility.models import LABELS
from leakage_tasks.attacks import Finding, run_attack
from leakage_tasks.canaries import Canary, parse_template
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.harness.generation import request
from leakage_tasks.targets.causal.target import CausalTarget
from leakage_tasks.targets.harness.target import as_target
from leakage_tasks.targets.noise import FLOOR_BITS
from leakage_tasks.targets.seq2seq.target import Seq2SeqTarget

TEMPLATE = "the pin is {digits:2}."
LONG = "the pin is {digits:9}."
"""A template with too many fillings to enumerate: only the texts that a search returns are compared."""
SOURCE = "die Zahl ist geheim."
SECRETS = 2
BUDGET = 200
"""The maximum number of sequences that a search scores in the large space."""
LN2 = math.log(2)

Oracle = Callable[[Sequence[str]], FloatArray]
"""Reference costs of texts in bits, from code outside this package."""


@dataclass(frozen=True)
class Comparison:
    """The disagreement if any, the largest difference in bits, True if the fast path was used, and a remark."""

    wrong: str | None
    difference: float
    fast: bool
    words: str = ""


def causal(model: Any, tokenizer: Any) -> Comparison:
    """Compare a causal model, loaded as by ``lm_eval``."""
    return _language_model(HFLM(pretrained=model, tokenizer=tokenizer, batch_size=64, device=_device(model)), "")


def encoder_decoder(model: Any, tokenizer: Any) -> Comparison:
    """Compare a translation model, loaded as by ``lm_eval``, on one source sentence."""
    lm = HFLM(pretrained=model, tokenizer=tokenizer, backend="seq2seq", batch_size=64, device=_device(model))
    return _language_model(lm, SOURCE)


def _device(model: Any) -> str:
    return str(model.device.type)


def classifier(model: Any, tokenizer: Any) -> Comparison:
    """Compare a text classifier in ``classifier-scorer`` with direct calls of the model."""
    lm = ClassifierScorerLM(pretrained=model, tokenizer=tokenizer, device=_device(model))
    label = LABELS[1]
    canaries = _canaries(TEMPLATE, label=label)
    target = as_target(lm)
    findings = run_attack("auto", target, canaries)
    best = run_attack("auto", target, canaries[:1], goal="extraction", values={"beam": 100})

    def oracle(texts: Sequence[str]) -> FloatArray:
        return _class_losses(model, tokenizer, texts, LABELS.index(label))

    losses = [finding.extra["class_loss"] for finding in findings]
    return Comparison(*_compare(canaries, losses, findings, best[0], oracle), fast=True)


def _class_losses(model: Any, tokenizer: Any, texts: Sequence[str], label: int) -> FloatArray:
    """Return −log2 P(label | text) from `transformers` alone, in batches of equal length without padding."""
    rows = tokenizer(list(texts))["input_ids"]
    losses = np.zeros(len(rows))
    for length in set(map(len, rows)):
        batch = [index for index, row in enumerate(rows) if len(row) == length]
        with torch.no_grad():
            ids = torch.tensor([rows[index] for index in batch], device=model.device)
            logits = model(input_ids=ids).logits.double()
        losses[batch] = -logits.log_softmax(-1)[:, label].cpu().numpy() / LN2
    return losses


def _language_model(lm: HFLM, source: str) -> Comparison:
    canaries = _canaries(TEMPLATE, source=source or None)
    target = as_target(lm)
    fast = isinstance(target, CausalTarget | Seq2SeqTarget) and target.cached
    findings = run_attack("exposure", target, canaries)
    # A target that uses the harness' own scoring does not support this search.
    search = "shortest-path" if isinstance(target, CausalTarget | Seq2SeqTarget) else "auto"
    proof = {"stopping": "proven"} if search == "shortest-path" else {}
    best = run_attack(search, target, canaries[:1], goal="extraction", values=proof)[0]

    def oracle(texts: Sequence[str]) -> FloatArray:
        requests = [request("loglikelihood", {}, (source, text), index) for index, text in enumerate(texts)]
        return np.array([-answer[0] / LN2 for answer in lm.loglikelihood(requests, disable_tqdm=True)])

    costs = [finding.log_perplexity for finding in findings]
    wrong, difference = _compare(canaries, costs, findings, best, oracle)
    if wrong is not None or not fast:
        return Comparison(wrong, difference, fast)
    return _in_a_large_space(target, oracle, difference, source)


def _canaries(template: str, **fields: Any) -> list[Canary]:
    secrets = parse_template(template).sample(SECRETS, "secrets")
    return [Canary(f"c{n}", template, secret, **fields) for n, secret in enumerate(secrets)]


def _compare(
    canaries: Sequence[Canary],
    secret_costs: Sequence[float | None],
    findings: Sequence[Finding],
    best: Finding,
    oracle: Oracle,
) -> tuple[str | None, float]:
    """Compare costs, ranks and guesses with the reference over the whole space.

    Args:
        canaries: Canaries of one template.
        secret_costs: The cost of each canary's secret in bits, from the attack.
        findings: The exposure finding of each canary.
        best: The finding of a search, with its guesses.
        oracle: Computes reference costs of texts.

    Returns:
        The disagreement, or None; and the largest difference of costs in bits.
    """
    space = canaries[0].attack_space
    costs = oracle([space.fill(filling) for filling in space.enumerate()])
    true = [float(costs[space.index(canary.secret)]) for canary in canaries]
    guesses = [(guess.score, float(costs[space.index(guess.filling)])) for guess in best.guesses]
    difference = _largest([*zip(secret_costs, true, strict=True), *guesses])
    if not difference <= FLOOR_BITS:
        return f"costs differ by {difference:.3g} bits", difference
    for finding, cost in zip(findings, true, strict=True):
        least, most = (int((costs <= cost + side * 2 * FLOOR_BITS).sum()) for side in (-1, 1))
        if finding.method != "exact" or finding.rank is None or not least <= finding.rank <= most:
            return f"rank {finding.rank} ({finding.method}) against {least} to {most}", difference
    tenth = np.sort(costs)[: len(guesses)]
    if len(guesses) < 10 or not np.allclose([score for score, _ in guesses], tenth, rtol=0, atol=FLOOR_BITS):
        return f"{len(guesses)} guesses, and they are not the ten best", difference
    return None, difference


def _in_a_large_space(target: Any, oracle: Oracle, difference: float, source: str) -> Comparison:
    """Compare the costs of a search's guesses in a space too large for :func:`_compare`."""
    canary = _canaries(LONG, source=source or None)[:1]
    try:
        proof = {"stopping": "proven"}
        best = run_attack("shortest-path", target, canary, goal="extraction", budget=BUDGET, values=proof)[0]
    except LeakageError as error:
        reason, *_ = str(error).rsplit(": ", 1)
        return Comparison(None, difference, True, f"nine digits: {reason}")
    costs = oracle([guess.text for guess in best.guesses]) if best.guesses else []
    pairs = [(guess.score, float(cost)) for guess, cost in zip(best.guesses, costs, strict=True)]
    largest = max([difference, *(abs(score - cost) for score, cost in pairs)])
    wrong = None if largest <= FLOOR_BITS else f"costs of nine digits differ by {largest:.3g} bits"
    return Comparison(wrong, largest, True)


def _largest(pairs: Sequence[tuple[float | None, float]]) -> float:
    return max(math.inf if left is None else abs(left - right) for left, right in pairs)
