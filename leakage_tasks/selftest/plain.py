"""The check that costs and ranks from fast scoring match the harness' own ``loglikelihood``."""

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
REMEDY = "this model's results differ from the harness' own: please report it, with the model's config.json"


def check(subject: Subject) -> SelfTestRow:
    """Compare costs of texts and ranks in a small space between fast scoring and the harness' scoring."""
    if isinstance(subject.target, HarnessScorer | HarnessSeq2Seq | TeacherForced):
        return skipped(NAME, _why_not(subject))
    if (other := _token_mismatch(subject)) is not None:
        return skipped(NAME, other)
    first, small = subject.canaries[0], subject.small[0]
    probes = plain_costs(subject, first, [first.space.fill(filling) for filling in subject.probes])
    beginnings = plain_costs(subject, first, subject.beginnings)
    everything = plain_costs(subject, small, [small.space.fill(filling) for filling in subject.everything])
    plain = np.concatenate([probes, beginnings, everything[subject.small_indices]])
    return compared(NAME, subject, plain, everything, [subject.small_findings], REMEDY)


def plain_costs(subject: Subject, canary: Canary, texts: Sequence[str]) -> FloatArray:
    """Return the costs of whole texts from the harness' own request in bits, ``[n]``.

    The harness cannot score a translation model whose decoder begins with more tokens than a start token. Such a model
    runs one plain forward pass per text.
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
        return "fast scoring is disabled on this model (see the warning); only the harness' own scoring is used"
    return "this model is scored only by the harness' own loglikelihood"


def _token_mismatch(subject: Subject) -> str | None:
    """Return the reason why the harness scores other tokens for a translation model, or None if the tokens are
    equal."""
    canary = subject.canaries[0]
    if canary.source is None:
        return None
    ours, theirs = subject.target.encode([canary.text])[0], subject.lm.tok_encode(canary.text, add_special_tokens=False)
    if list(ours) == list(theirs):
        return None
    return "the harness tokenizes a target sentence like a source, which gives other tokens with this tokenizer"
