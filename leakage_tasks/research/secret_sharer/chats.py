"""Table 5 of The Secret Sharer on chat messages that people wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from leakage_tasks.research.framework.registry import Scale, StudyPlan, StudyTrial, registrar
from leakage_tasks.research.framework.report import Report
from leakage_tasks.research.secret_sharer import mails
from leakage_tasks.research.secret_sharer.chat_trials import CHARACTERS, chat_trials, run
from leakage_tasks.research.secret_sharer.experiment import SOURCE

SCALES: Mapping[Scale, str] = {
    "smoke": "seconds",
    "small": "5 to 10 minutes on one core; the package of the extra `chats`",
}


def report(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report the paper's secrets, then the measured ones, in the form of Table 5's study."""
    with_senders = [
        StudyTrial({**trial.config, "sender": trial.config["seed"]}, trial.result, trial.seconds) for trial in trials
    ]
    ground = mails.EXPERIMENTS[plan.scale]
    notes = [
        f"Each model reads {CHARACTERS[plan.scale]:,} characters by one person, among the people who wrote most in the "
        "package chitchat-dataset. They replace Enron's mails, which are some 50 times as long.",
        f"The secrets are invented and occur in separate sentences, up to {max(ground.times)} times; secrets that "
        "people wrote are not searched for.",
    ]
    # The first difference describes the invented mails.
    table = mails.report(with_senders, plan)
    return replace(table, differences=[*notes, *table.differences[1:]])


registrar("secret-sharer", SOURCE, SCALES, run)(
    "table-5-chats", "secrets in messages that people wrote in chats", "Table 5", chat_trials, report
)
