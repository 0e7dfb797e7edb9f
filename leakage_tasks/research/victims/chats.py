"""Chat messages that people wrote, from an installed package, with invented secrets inserted."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Sequence
from importlib import import_module
from itertools import cycle
from pathlib import Path

from leakage_tasks.canaries.detect import find_secrets
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.research.victims import mails

PACKAGE = "chitchat-dataset"
"""258,145 messages by 1,315 people under the MIT licence; installed by the extra ``chats``."""


def chats(senders: int, characters: int) -> list[str]:
    """Return the messages of the ``senders`` who wrote most, one message per line by time, cut at ``characters``.

    Raises LeakageError if the package is not installed.
    """
    try:
        folder = Path(str(import_module(PACKAGE.replace("-", "_")).__file__)).parent
    except ModuleNotFoundError:
        raise LeakageError(f"{PACKAGE} is not installed: pip install 'lm-eval-leakage[chats]'") from None
    by_sender: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for talk in json.loads((folder / "dataset.json").read_text(encoding="utf-8")).values():
        for turn in talk["messages"]:
            for message in turn:
                by_sender[message["sender"]].append((message["timestamp"], " ".join(message["text"].split())))
    most = sorted(by_sender.items(), key=lambda item: (-sum(len(text) for _, text in item[1]), item[0]))
    return ["".join(f"{text}\n" for _, text in sorted(item))[:characters] for _, item in most[:senders]]


def with_secrets(text: str, kinds: Sequence[str], times: Sequence[int], seed: str) -> str:
    """Return ``text`` with invented secrets as separate lines at random positions.

    Each kind has one secret per number in ``times``, with that many copies. Secrets and sentences come from
    :mod:`~leakage_tasks.research.victims.mails`. Lines in which a person wrote a secret of such a kind are removed.
    """
    draw = random.Random(f"chats:{seed}")
    lines = [line for line in text.splitlines() if not find_secrets(line, kinds)]
    used: dict[str, None] = {}
    for kind in kinds:
        for sentence, count in zip(cycle(mails.SENTENCES[kind]), times, strict=False):
            written, normal = mails.MAKERS[kind](draw)
            while normal in used:
                written, normal = mails.MAKERS[kind](draw)
            used[normal] = None
            for _ in range(count):
                lines.insert(draw.randint(0, len(lines)), sentence.format(written))
    return "".join(f"{line}\n" for line in lines)
