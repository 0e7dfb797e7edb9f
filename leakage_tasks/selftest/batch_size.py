"""Do costs and ranks stay the same when texts are asked about one at a time?"""

from __future__ import annotations

import numpy as np

from leakage_tasks.selftest.one_by_one import one_by_one
from leakage_tasks.selftest.rows import SelfTestRow, judged, skipped
from leakage_tasks.selftest.subject import Subject
from leakage_tasks.targets.harness.target import HarnessScorer, HarnessSeq2Seq

NAME = "batch size"


def check(subject: Subject) -> SelfTestRow:
    """Costs of texts and ranks in a small space, in batches and one by one."""
    plain = isinstance(subject.target, HarnessScorer | HarnessSeq2Seq)
    if plain and str(getattr(subject.lm, "batch_size", None)) == "1":
        return skipped(NAME, "the model is read one text at a time: pass a larger --batch_size to compare")
    single = one_by_one(subject.target)
    findings = subject.exact(single, "one text at a time")
    alone = subject.all_costs(single, subject.costs(single, subject.canaries[0], subject.probes), findings)
    differences = np.abs(subject.known_costs - alone)
    everything = subject.costs(subject.target, subject.small[0], subject.everything)
    same = 0
    for one, many, place in zip(findings, subject.small_findings, subject.places, strict=True):
        low, high = subject.precision.ranks(everything, place)
        same += all(low <= float(found.rank or 0) <= high for found in (one, many))
    worst, number = float(differences.max()), len(findings)
    held = bool((differences <= subject.precision.allowed(alone)).all()) and same == number
    words = (
        f"{len(alone)} costs differ by {worst:.2g} bits at most between one text at a time and many (allowed: "
        f"{subject.precision}); {same} of {number} ranks among {len(everything)} fillings are the same"
    )
    figures = {
        "texts": len(alone),
        "largest_difference": worst,
        "allowed_bits": subject.precision.bits,
        "allowed_share": subject.precision.share,
        "ranks": number,
        "ranks_same": same,
        "fillings": len(everything),
    }
    return judged(NAME, held, words, figures, "load the model with dtype=float32, or run it with --batch_size 1")
