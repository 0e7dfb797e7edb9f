"""Table 5 of The Secret Sharer once more, in messages that people wrote."""

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


def report(found: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """The paper's secrets, then those measured here, as Table 5's study has them."""
    own = [StudyTrial({**each.config, "sender": each.config["seed"]}, each.result, each.seconds) for each in found]
    ground = mails.EXPERIMENTS[plan.scale]
    notes = [
        f"{CHARACTERS[plan.scale]:,} characters of the messages of one person a model, of those who wrote most in the "
        "chats of the package chitchat-dataset, stand for Enron's mails, which are some 50 times as long.",
        f"Secrets are invented ones in sentences of their own among the messages, up to {max(ground.times)} times; no "
        "secret that anybody wrote is looked for.",
    ]
    # The first says what the invented mails are like.
    table = mails.report(own, plan)
    return replace(table, differences=[*notes, *table.differences[1:]])


registrar("secret-sharer", SOURCE, SCALES, run)(
    "table-5-chats", "secrets in messages that people wrote in chats", "Table 5", chat_trials, report
)
