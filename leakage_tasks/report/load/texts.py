"""Texts of a run of ``untargeted_extraction``: the lengths of their runs in the corpus and in the controls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leakage_tasks.attacks.untargeted.finding import Hits, UntargetedFinding, untargeted_finding_from_json
from leakage_tasks.attacks.untargeted.request import PREFIX, SHORT, UNTARGETED, TextId
from leakage_tasks.core.task_names import TEXTS
from leakage_tasks.report.load.run import Run
from leakage_tasks.report.load.sample_lines import read_answers, task_settings_of

UNTARGETED_PROMPTS = "untargeted prompts"
"""Name of the group of texts after prompts that need no text of the corpus."""


@dataclass(frozen=True)
class TextDetail:
    """One text: the longest runs of tokens that occur in the corpus and in the controls, 0 without a run.

    ``id`` is equal for texts after equal prompts of two runs with equal protocols. A length is None if the text was not
    searched there. Runs of fewer than ``least`` tokens are not recorded.
    """

    id: str
    group: str
    least: int
    corpus: int | None
    controls: int | None


def read_texts(run: Run) -> list[TextDetail]:
    """Read the texts from the samples next to a run's results. Raises ResultsError naming file and line."""
    answers = read_answers(run, TEXTS, untargeted_finding_from_json)
    return [_detail(finding, task_settings_of(row) or {}) for finding, row in answers]


def _detail(finding: UntargetedFinding, task_settings: Mapping[str, Any]) -> TextDetail:
    text = TextId(finding.kind, finding.prompt, finding.sample, finding.unseen)
    drawn = finding.kind == PREFIX or (finding.kind == SHORT and task_settings.get("prompts") is None)
    seed = f", seed {task_settings.get('seed', 0)}" if drawn else ""
    group = UNTARGETED_PROMPTS if finding.kind in UNTARGETED else f"{finding.kind} prompts"
    if finding.unseen:
        group = f"{group} from controls"
    lengths = (_longest(hits, finding.run_length) for hits in (finding.hits, finding.control_hits))
    return TextDetail(f"{text.key}{seed}", group, finding.run_length, *lengths)


def _longest(hits: Hits | None, least: int) -> int | None:
    """Return the length of the longest run of at least ``least`` tokens, 0 without one; None without a search."""
    return None if hits is None else max((size for _, size, *_ in hits.runs if size >= least), default=0)
