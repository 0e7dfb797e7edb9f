"""The handler of ``score_texts`` requests: converts numbers to texts, a model to its reader, and scores to JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from leakage_tasks.attacks.membership.attack import is_long_enough, score_texts
from leakage_tasks.attacks.membership.finding import MembershipFinding, membership_finding_from_json
from leakage_tasks.canaries.chat import Chat, chat_in
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.log import log, warn_once
from leakage_tasks.core.nouns import counted
from leakage_tasks.core.progress import progress
from leakage_tasks.core.task_names import MEMBERSHIP as TASK
from leakage_tasks.core.version import __version__
from leakage_tasks.harness.api import LM, Instance
from leakage_tasks.harness.hf import HFLM
from leakage_tasks.targets.harness.faults import private_forward_faults
from leakage_tasks.targets.harness.fingerprint import files_fingerprint
from leakage_tasks.targets.memory import memory_within
from leakage_tasks.tasks.base_task import Document, fingerprint
from leakage_tasks.tasks.conversations import in_chat
from leakage_tasks.tasks.dispatch import Answer
from leakage_tasks.tasks.membership.options import MembershipOptions, membership_options
from leakage_tasks.tasks.membership.readers import Prepared, prepare
from leakage_tasks.tasks.membership.texts import TestedTexts
from leakage_tasks.tasks.resume import Findings, Resume
from leakage_tasks.tasks.sharing import check_others, rank_of


def answering(lm: LM) -> Answer:
    """Return a function that answers a group of ``score_texts`` requests with findings as JSON."""
    resume = Resume(lm)

    def answer(task_settings: Mapping[str, Any], group: Sequence[Instance]) -> list[str]:
        options, before = in_chat(lm, membership_options(task_settings), chat_in(task_settings))
        with private_forward_faults(lm, False), memory_within(options.memory):
            docs = [request.doc for request in group]
            findings = _findings(lm, resume, options, docs, chat_in(task_settings), before)
        return [finding.to_json() for finding in findings]

    return answer


def _findings(
    lm: LM,
    resume: Resume,
    options: MembershipOptions,
    docs: Sequence[Document],
    chat: Chat | None,
    before: str | None,
) -> list[MembershipFinding]:
    tested = options.tested()
    numbers = _numbers_of(tested, docs, options)
    digest = settings_hash(options, chat)
    stored = _stored(lm, resume, options, tested, docs, digest)
    if not stored.missing:
        return [_of_document(stored.known[index], doc) for index, doc in enumerate(docs)]
    prepared = prepare(lm, options, tested, before)
    _report(prepared, tested, rank_of(lm) == 0, options)
    missing, known = stored.missing, dict(stored.known)
    access = ", ".join(dict.fromkeys(attack.access for attack in prepared.attacks))

    def done(scores: Mapping[int, dict[str, float]]) -> None:
        check_others(lm)
        for number, of_text in scores.items():
            index = missing[number]
            known[index] = MembershipFinding(
                **{name: docs[index][name] for name in ("text", "member", "cluster", "chooses", "blind")},
                suspected=docs[index].get("suspected"),
                tokens=len(prepared.texts[numbers[index]].tokens),
                scores=of_text,
                not_run=prepared.not_run,
                data=tested.digest[:16],
                settings_hash=digest,
                access=access,
            )
            stored.add(index, TASK, known[index].to_json())
        bar.update(len(scores))

    with progress(len(missing), f"Scoring {counted(len(missing), 'text')}", unit="text", shown=rank_of(lm) == 0) as bar:
        score_texts(
            prepared.reader,
            [prepared.texts[numbers[index]] for index in missing],
            prepared.attacks,
            options.request,
            prepared.inputs,
            done,
        )
    return [known[index] for index in range(len(docs))]


def _of_document(finding: MembershipFinding, doc: Document) -> MembershipFinding:
    """Return a stored finding with the fields that depend on the run's other texts."""
    of_run = {name: doc[name] for name in ("cluster", "chooses", "blind")}
    return dataclasses.replace(finding, **of_run, suspected=doc.get("suspected"))


def _numbers_of(tested: TestedTexts, docs: Sequence[Document], options: MembershipOptions) -> list[int]:
    """Return the index of each document's text. Raises OptionError if the data changed since the task read them."""
    known = {text.key: index for index, text in enumerate(tested.texts)}
    keys = [(doc["text"], bool(doc.get("suspected"))) for doc in docs]
    if not known.keys() >= set(keys) or any(doc["digest"] != tested.digest[:16] for doc in docs):
        named = options.canaries or f"{options.members} or {options.nonmembers}"
        raise OptionError(f"{named}: changed during the run: restore it and run again")
    return [known[key] for key in keys]


def _report(prepared: Prepared, tested: TestedTexts, first: bool, options: MembershipOptions) -> None:
    """Log the attacks that do not run and what they would need, and warn of texts that are left out.

    Raises OptionError if no text of a class can be scored.
    """
    for name, reason in prepared.not_run.items() if first else ():
        log.info("leakage: %s: the attack %s is not run: %s", TASK, name, reason)
    for attack in prepared.attacks if first else ():
        if attack.passes:
            log.info("leakage: %s: the attack %s takes further passes: %s", TASK, attack.name, attack.passes)
    fit = [is_long_enough(len(text.tokens), prepared.attacks, options.request) for text in prepared.texts]
    for of, name in (((True, False), "members"), ((False, False), "non-members"), ((False, True), "suspected texts")):
        of_class = [long for long, text in zip(fit, tested.texts, strict=True) if (text.member, text.suspected) == of]
        if of_class and not any(of_class):
            raise OptionError(
                f"all {len(of_class)} {name} are too short for k={options.request.k}: a text needs "
                f"{-(-100 // options.request.k)} tokens or more: raise k, give longer texts, or leave min-k and "
                "min-k++ out of attacks="
            )
    short = len(fit) - sum(fit)
    if short:
        warn_once(
            f"{TASK}: {short} of {len(fit)} texts are too short for k={options.request.k} and are left out: raise k, "
            "or give longer texts"
        )


def settings_hash(options: MembershipOptions, chat: Chat | None) -> str:
    """Return a SHA-256 of all settings that determine the scores of a text."""
    request = dataclasses.asdict(options.request)
    for name in ("frequencies", "neighbours"):
        if request[name] is not None:
            request[name] = files_fingerprint(request[name])
    request["reference"] = ":".join(map(files_fingerprint, options.request.references)) or None
    chat_json = None if chat is None else chat.to_json()
    rendering = {} if options.rendering is None else {"rendering": options.rendering.key}
    return fingerprint({**request, "chat": chat_json, "version": __version__, **rendering})


def _stored(
    lm: LM,
    resume: Resume,
    options: MembershipOptions,
    tested: TestedTexts,
    docs: Sequence[Document],
    digest: str,
) -> Findings[MembershipFinding]:
    decisive = {
        "settings": digest,
        "data": tested.digest,
        "tokenizer": None if isinstance(lm, HFLM) else options.tokenizer,
    }
    items = [[doc["text"], doc["member"], *(["suspected"] if doc.get("suspected") else [])] for doc in docs]
    return resume.findings(options.resume, options.model_id, TASK, decisive, items, membership_finding_from_json)
