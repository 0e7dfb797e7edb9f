"""The choice of turns in existing conversations to which copies of canaries are added."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.plant_jobs import PlantJob
from leakage_tasks.core.errors import OptionError, PlantingError
from leakage_tasks.data import Layout
from leakage_tasks.data.chat import Turn
from leakage_tasks.data.layout import Additions
from leakage_tasks.data.turns import turns_by


@dataclass(frozen=True)
class DrawnTurns:
    """The turns that get a copy, and the number of conversations without a suitable turn."""

    additions: Additions
    skipped: int


def check_turns(
    turn: Turn, label_column: str | None, source_column: str | None, label: str | None, prompt: str | None = None
) -> None:
    """Raise OptionError for options that apply only to inserted rows, because an existing conversation has these
    values."""
    row_options = {
        "--label-column": label_column,
        "--source-column": source_column,
        "--label": label,
        "--prompt": prompt,
    }
    for option, value in row_options.items():
        if value is not None:
            raise OptionError(
                f"--chat-position {turn} puts copies into existing conversations, which have a class, a source and a "
                f"prompt of their own: leave out {option}, or use --chat-position new"
            )


def draw_turns(job: PlantJob, layout: Layout, canaries: Sequence[Canary]) -> DrawnTurns:
    """Draw a turn of ``layout.role`` for every copy of every canary, with the job's random stream.

    Conversations are drawn uniformly and without replacement from the conversations with a text of the role, so each
    copy is in its own conversation. The copy goes into the last such turn, or into a uniformly drawn one. Raises
    PlantingError for too few conversations.
    """
    values = job.kind.values(job.source, layout, job.wanted, layout.text)
    able = [(row, turns) for row, value in enumerate(values) if (turns := turns_by(value, layout.role))]
    copies = [canary.text for canary in canaries for _ in range(canary.repetitions)]
    if len(able) < len(copies):
        raise PlantingError(
            subject=str(job.source),
            problem=f"{len(able):,} conversations have a text of the {layout.role}'s, and {len(copies):,} copies need "
            "one each",
            remedy=f"plant fewer, or give other data or {{}} other than {job.turn}",
            option="chat_position",
        )
    stream = random.Random(f"turns:{job.stream}")
    additions = {}
    for text, (row, turns) in zip(copies, stream.sample(able, len(copies)), strict=True):
        additions[row] = (turns[-1] if job.turn == "last" else stream.choice(turns), text)
    return DrawnTurns(additions, layout.rows - len(able))
