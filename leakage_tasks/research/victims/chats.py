"""Messages that people wrote in chats, from a package that carries them, with invented secrets among them."""

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
"""258,145 messages by 1,315 people, under the MIT licence. The extra ``chats``."""


def chats(senders: int, characters: int) -> list[str]:
    """What the ``senders`` who wrote most have written, a message a line in the order of time, cut at ``characters``.

    Raises LeakageError where the package is not installed.
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
    most = sorted(by_sender.items(), key=lambda own: (-sum(len(text) for _, text in own[1]), own[0]))
    return ["".join(f"{text}\n" for _, text in sorted(own))[:characters] for _, own in most[:senders]]


def with_secrets(text: str, kinds: Sequence[str], times: Sequence[int], seed: str) -> str:
    """``text`` with a secret of each kind for each of ``times``, that often, in lines of their own at random places.

    Secrets and sentences are those of :mod:`~leakage_tasks.research.victims.mails`: nobody's. Lines in which somebody
    wrote a secret of such a kind are left out.
    """
    draw = random.Random(f"chats:{seed}")
    lines = [line for line in text.splitlines() if not find_secrets(line, kinds)]
    told: dict[str, None] = {}
    for kind in kinds:
        # Private there, as an edit of that module would set aside what was measured with it.
        for sentence, count in zip(cycle(mails._TOLD[kind]), times, strict=False):
            written, normal = mails._MAKERS[kind](draw)
            while normal in told:
                written, normal = mails._MAKERS[kind](draw)
            told[normal] = None
            for _ in range(count):
                lines.insert(draw.randint(0, len(lines)), sentence.format(written))
    return "".join(f"{line}\n" for line in lines)
