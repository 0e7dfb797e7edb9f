"""The handler of ``write_texts`` requests: converts identities of texts to prompts, and findings to JSON."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from leakage_tasks.attacks.untargeted.attack import extract_untargeted
from leakage_tasks.attacks.untargeted.finding import UntargetedFinding, untargeted_finding_from_json
from leakage_tasks.attacks.untargeted.request import TextId
from leakage_tasks.canaries.chat import Chat, chat_in
from leakage_tasks.core.nouns import counted
from leakage_tasks.core.progress import progress
from leakage_tasks.core.task_names import TEXTS as TASK
from leakage_tasks.core.version import __version__
from leakage_tasks.harness.api import LM, Instance
from leakage_tasks.harness.hf import HFLM
from leakage_tasks.pairs.index.store import CorpusIndex
from leakage_tasks.targets.harness.faults import private_forward_faults
from leakage_tasks.targets.memory import memory_within
from leakage_tasks.tasks.base_task import fingerprint
from leakage_tasks.tasks.dispatch import Answer
from leakage_tasks.tasks.resume import Findings, Resume
from leakage_tasks.tasks.sharing import check_others, rank_of
from leakage_tasks.tasks.untargeted.options import UntargetedOptions, untargeted_options
from leakage_tasks.tasks.untargeted.writers import writer_of

Corpora = tuple[CorpusIndex, CorpusIndex | None]


def answering(lm: LM) -> Answer:
    """Return a function that answers a group of ``write_texts`` requests with findings as JSON."""
    resume = Resume(lm)

    def answer(task_settings: Mapping[str, Any], group: Sequence[Instance]) -> list[str]:
        options = untargeted_options(task_settings)
        texts = [TextId(*request.doc["text"]) for request in group]
        with private_forward_faults(lm, options.reveal), memory_within(options.memory):
            findings = _findings(lm, resume, options, texts, chat_in(task_settings))
        return [finding.to_json() for finding in findings]

    return answer


def _findings(
    lm: LM, resume: Resume, options: UntargetedOptions, texts: Sequence[TextId], chat: Chat | None
) -> list[UntargetedFinding]:
    corpora = options.corpus(), options.unseen()
    digest = settings_hash(options, corpora, chat)
    stored = _stored(lm, resume, options, texts, digest)
    if not stored.missing:
        return [stored.known[index] for index in range(len(texts))]
    writer, prompts, access = writer_of(lm, options, texts, corpora, chat)

    def stamped(finding: UntargetedFinding) -> UntargetedFinding:
        return dataclasses.replace(finding, data=corpora[0].about.corpus[:16], settings_hash=digest, access=access)

    def add(index: int, finding: UntargetedFinding) -> None:
        check_others(lm)
        stored.add(index, finding.scheme, stamped(finding).to_json())

    findings = extract_untargeted(
        writer,
        prompts,
        options.request,
        *corpora,
        reveal=options.reveal,
        progress=functools.partial(
            progress, what=f"Writing {counted(len(texts), 'text')}", unit="text", shown=rank_of(lm) == 0
        ),
        known=stored.known,
        done=add,
    )
    return [stamped(finding) for finding in findings]


def settings_hash(options: UntargetedOptions, corpora: Corpora, chat: Chat | None) -> str:
    """Return a SHA-256 of all settings that determine the finding of a text."""
    request = {name: value for name, value in dataclasses.asdict(options.request).items() if name not in _TEXTS}
    texts = options.texts
    return fingerprint(
        {
            **request,
            "corpus": corpora[0].about.corpus,
            "controls": None if corpora[1] is None else corpora[1].about.corpus,
            "tokenizer": corpora[0].about.tokenizer,
            "prompts": [texts.short, texts.ordinary],
            "chat": None if chat is None else chat.to_json(),
            "version": __version__,
        }
    )


_TEXTS = ("kinds", "texts", "repeated_words")
"""Options that decide which texts are written, but not how."""


def _stored(
    lm: LM, resume: Resume, options: UntargetedOptions, texts: Sequence[TextId], digest: str
) -> Findings[UntargetedFinding]:
    decisive = {
        "settings": digest,
        "reveal": options.reveal,
        "tokenizer": None if isinstance(lm, HFLM) else options.tokenizer,
    }
    items = [[text.kind, text.prompt, text.sample, text.unseen] for text in texts]
    return resume.findings(options.resume, options.model_id, TASK, decisive, items, untargeted_finding_from_json)
