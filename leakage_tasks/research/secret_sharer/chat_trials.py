"""Trials of Table 5 on chat messages that people wrote, because no package contains the Enron mails."""

from __future__ import annotations

import string
from dataclasses import asdict
from pathlib import Path

from leakage_tasks.research.framework.registry import Config, Result, StudyPlan
from leakage_tasks.research.secret_sharer import mails
from leakage_tasks.research.secret_sharer.mails import KINDS, MailExperiment, split_lines

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
    from leakage_tasks.canaries.natural import natural_canaries
    from leakage_tasks.canaries.natural_secrets import Passage
    from leakage_tasks.models.char_tokenizer import char_tokenizer
    from leakage_tasks.research.victims.language_model import LanguageModelRecipe, train_lm
    from leakage_tasks.targets import CausalTarget
    from leakage_tasks.training.threads import one_thread

    ground, seed = MailExperiment(**config["ground"]), config["seed"]
    text = _text(config, ground)
    training, validation = split_lines(text, seed)
    canaries = natural_canaries([Passage(training)], detect=KINDS, controls=ground.controls, seed=seed)
    with one_thread():
        tokenizer = char_tokenizer(text + string.digits)
        recipe = LanguageModelRecipe(**ground.recipe)
        trained = train_lm(training, recipe, validation=validation, tokenizer=tokenizer, seed=seed)
        # The function is private there: an edit of that module would invalidate its stored results.
        secrets = mails._measured(CausalTarget(trained.model, trained.tokenizer), canaries, ground, seed)
    losses = [[loss.training, loss.validation] for loss in trained.losses]
    return {"bytes": len(text.encode()), "losses": losses, "secrets": secrets}


def _text(config: Config, ground: MailExperiment) -> str:
    from leakage_tasks.research.victims.chats import chats, with_secrets
    from leakage_tasks.research.victims.corpus import pydoc_topics

    seed, most = config["seed"], config["characters"]
    written = pydoc_topics(characters=most).training if config["text"] == "help" else chats(seed + 1, most)[seed]
    return with_secrets(written, KINDS, ground.times, str(seed))
