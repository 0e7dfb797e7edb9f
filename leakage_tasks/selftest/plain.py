"""Self-test check: are costs and ranks by fast scoring equal to those by the harness' own ``loglikelihood``?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.harness.generation import request
from leakage_tasks.selftest.precision import compared
from leakage_tasks.selftest.rows import SelfTestRow, skipped
from leakage_tasks.selftest.subject import Subject
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.harness.target import HarnessScorer, HarnessSeq2Seq
from leakage_tasks.targets.seq2seq.target import TeacherForced, source_by_text
from leakage_tasks.tasks import label_accuracy as _requests  # noqa: F401  (gives harness models the request type)

NAME = "fast against plain"
REMEDY = "this model's costs differ from the harness' own: please report it, with the model's config.json"


def check(subject: Subject) -> SelfTestRow:
    """Compare costs of texts, and ranks in a small space, by fast scoring and by the harness' requests."""
    if isinstance(subject.target, HarnessScorer | HarnessSeq2Seq | TeacherForced):
        return skipped(NAME, _why_not(subject))
    if (other := _other_tokens(subject)) is not None:
        return skipped(NAME, other)
    first, small = subject.canaries[0], subject.small[0]
    probes = plain_costs(subject, first, [first.space.fill(filling) for filling in subject.probes])
    beginnings = plain_costs(subject, first, subject.beginnings)
    small_costs = plain_costs(subject, small, [small.space.fill(filling) for filling in subject.small_fillings])
    plain = np.concatenate([probes, beginnings, small_costs[subject.secret_indices]])
    return compared(NAME, subject, plain, small_costs, [subject.small_findings], REMEDY)


def plain_costs(subject: Subject, canary: Canary, texts: Sequence[str]) -> FloatArray:
    """Return the costs of whole texts by the harness' own requests, in bits, ``[n]``.

    The harness cannot score a translation model whose decoder begins with more than a start token. Such a model scores
    each text in one plain forward pass.
    """
    if not texts:
        return np.zeros(0)
    if getattr(subject.target, "marked", False):
        return TeacherForced(subject.target).given(canary).log_perplexity(texts)
    if not subject.labelled:
        source = () if canary.source is None else (source_by_text(canary),)
        return HarnessScorer(subject.lm, *source).log_perplexity(texts)
    requests = [request("classify", {}, (text, f" {canary.label}"), n) for n, text in enumerate(texts)]
    return np.array([-answer[0] / LN2 for answer in subject.lm.classify(requests)], dtype=np.float64)


def _why_not(subject: Subject) -> str:
    from leakage_tasks.harness.hf import HFLM

    if isinstance(subject.lm, HFLM):
        return "fast scoring is off for this model (see the warning); only the harness' own loglikelihood is used"
    return "this model has no fast scoring; only the harness' own loglikelihood is used"


def _other_tokens(subject: Subject) -> str | None:
    """Return the reason why the harness scores other tokens for a translation model's texts, or None if it does not."""
    canary = subject.canaries[0]
    if canary.source is None:
        return None
    ours, theirs = subject.target.encode([canary.text])[0], subject.lm.tok_encode(canary.text, add_special_tokens=False)
    if list(ours) == list(theirs):
        return None
    return "the harness tokenizes target sentences like source sentences, and this tokenizer treats them differently"
