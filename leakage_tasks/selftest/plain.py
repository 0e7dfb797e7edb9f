"""Are costs and ranks by the fast way of scoring those of the harness' own ``loglikelihood``?"""

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
REMEDY = "this model's figures are not the harness' own: please report it, with the model's config.json"


def check(subject: Subject) -> SelfTestRow:
    """Costs of texts and ranks in a small space, both ways."""
    if isinstance(subject.target, HarnessScorer | HarnessSeq2Seq | TeacherForced):
        return skipped(NAME, _why_not(subject))
    if (other := _other_tokens(subject)) is not None:
        return skipped(NAME, other)
    first, small = subject.canaries[0], subject.small[0]
    probes = plain_costs(subject, first, [first.space.fill(filling) for filling in subject.probes])
    beginnings = plain_costs(subject, first, subject.beginnings)
    everything = plain_costs(subject, small, [small.space.fill(filling) for filling in subject.everything])
    plain = np.concatenate([probes, beginnings, everything[subject.places]])
    return compared(NAME, subject, plain, everything, [subject.small_findings], REMEDY)


def plain_costs(subject: Subject, canary: Canary, texts: Sequence[str]) -> FloatArray:
    """What whole texts cost by the harness' own request, bits, ``[n]``.

    A translation model whose decoder begins with more than a start token, which the harness does not score, is asked by
    one plain forward pass a text.
    """
    if not texts:
        return np.zeros(0)
    if getattr(subject.target, "marked", False):
        return TeacherForced(subject.target).given(canary).log_perplexity(texts)
    if not subject.labelled:
        source = () if canary.source is None else (source_by_text(canary),)
        return HarnessScorer(subject.lm, *source).log_perplexity(texts)
    asked = [request("classify", {}, (text, f" {canary.label}"), n) for n, text in enumerate(texts)]
    return np.array([-answer[0] / LN2 for answer in subject.lm.classify(asked)], dtype=np.float64)


def _why_not(subject: Subject) -> str:
    from leakage_tasks.harness.hf import HFLM

    if isinstance(subject.lm, HFLM):
        return "the fast way of scoring stepped aside on this model, as a warning says; the harness' own is used alone"
    return "this model is asked by the harness' own loglikelihood alone"


def _other_tokens(subject: Subject) -> str | None:
    """Why a translation model's plain costs are of something else, or None if they are not."""
    canary = subject.canaries[0]
    if canary.source is None:
        return None
    ours, theirs = subject.target.encode([canary.text])[0], subject.lm.tok_encode(canary.text, add_special_tokens=False)
    if list(ours) == list(theirs):
        return None
    return "the harness makes its tokens of a target sentence as of a source, which are others with this tokenizer"
