"""Trials of Table 5 on chat messages that people wrote, because no package contains the Enron mails."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from leakage_tasks.research.framework.registry import Config, Result, StudyPlan
from leakage_tasks.research.secret_sharer import mails
from leakage_tasks.research.secret_sharer.mails import KINDS, MailExperiment

CHARACTERS = {"smoke": 3_000, "small": 40_000}
"""Characters of each person's messages; at ``smoke`` of Python's help text instead."""


def chat_trials(plan: StudyPlan) -> list[Config]:
    """List one trial per person; each seed uses another person's messages."""
    ground, smoke = mails.EXPERIMENTS[plan.scale], plan.scale == "smoke"
    common = {"ground": asdict(ground), "text": "help" if smoke else "chats", "characters": CHARACTERS[plan.scale]}
    return [{**common, "seed": seed} for seed in plan.seeds(1 if smoke else 3)]


def run(config: Config, shared: Path) -> Result:
    """Train on one person's messages with invented secrets and search for these secrets as Table 5's study does.

    Return a result as :func:`leakage_tasks.research.secret_sharer.mails.run` does.
    """
    ground = MailExperiment(**config["ground"])
    return mails.searched(_text(config, ground), ground, config["seed"])


def _text(config: Config, ground: MailExperiment) -> str:
    from leakage_tasks.research.victims.chats import chats, with_secrets
    from leakage_tasks.research.victims.corpus import pydoc_topics

    seed, most = config["seed"], config["characters"]
    written = pydoc_topics(characters=most).training if config["text"] == "help" else chats(seed + 1, most)[seed]
    return with_secrets(written, KINDS, ground.times, str(seed))
