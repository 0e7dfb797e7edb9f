"""A classifier trained without canaries, which calibrates a victim's losses."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from leakage_tasks.research.classifiers.experiment import ClassifierExperiment, fingerprint
from leakage_tasks.research.framework.shared import create_once

if TYPE_CHECKING:
    from leakage_tasks.research.victims.docstrings import LabelledCorpus
    from leakage_tasks.targets import ClassifierTarget

SEED_OFFSET = 1_000
"""Number that is added to a victim's seed, so that victim and reference share no random numbers."""


def reference_classifier(
    ground: ClassifierExperiment, rows: LabelledCorpus, shared: Path, seed: int
) -> ClassifierTarget:
    """Return a target trained like the victims, on rows without canaries and with its own random numbers.

    It is trained once for all victims of a seed, in ``shared``.
    """
    from leakage_tasks.research.classifiers.victims import fine_tuned
    from leakage_tasks.targets.classifier.target import load_classifier
    from leakage_tasks.training.threads import few_threads

    key = json.dumps([ground.config(), fingerprint(ground), seed], sort_keys=True)
    folder = shared / f"reference-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
    with create_once(folder) as missing, few_threads(2):
        if missing:
            fine_tuned(ground, rows, rows.training, shared, SEED_OFFSET + seed).save(folder)
    return load_classifier(str(folder))
