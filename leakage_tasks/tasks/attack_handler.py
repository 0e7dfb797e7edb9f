"""The handler of ``attack`` requests: converts documents to canaries, the model to a target, and findings to JSON."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leakage_tasks.attacks import Finding, finding_from_json
from leakage_tasks.attacks.causal.whole_texts import warn_of_rejected
from leakage_tasks.attacks.coarse import coarsened
from leakage_tasks.attacks.contexts import warn_of_clearer_context
from leakage_tasks.attacks.redact import HidingLogs, HidingSecrets
from leakage_tasks.attacks.run import Hooks, run_chosen
from leakage_tasks.attacks.selection import AttackSettings, chosen_attacks
from leakage_tasks.canaries import Canary, manifest_hash
from leakage_tasks.canaries.canary import attacker_view
from leakage_tasks.canaries.chat import Chat
from leakage_tasks.canaries.context import Context
from leakage_tasks.canaries.near import near_counts
from leakage_tasks.canaries.sidecar import Sidecar, records_of
from leakage_tasks.core.errors import ManifestError, TargetError
from leakage_tasks.core.log import log, warn_once
from leakage_tasks.core.nouns import counted
from leakage_tasks.core.version import __version__
from leakage_tasks.data.chat import USER_TURN
from leakage_tasks.harness.api import LM, Instance
from leakage_tasks.harness.hf import HFLM
from leakage_tasks.targets.harness.chat import has_template, template_of
from leakage_tasks.targets.harness.endpoint import ChatEndpoint, takes_messages_alone, unscored
from leakage_tasks.targets.harness.faults import forward_faults
from leakage_tasks.targets.harness.filling_noise import example_of, noise_on_fillings
from leakage_tasks.targets.harness.scorer_proof import prove
from leakage_tasks.targets.harness.target import as_target
from leakage_tasks.targets.memory import memory_within
from leakage_tasks.targets.noise import NO_NOISE, Noise, recorded_noise
from leakage_tasks.targets.protocols import TakesContext
from leakage_tasks.targets.seq2seq.languages import Languages
from leakage_tasks.tasks.base_task import fingerprint
from leakage_tasks.tasks.dispatch import Answer
from leakage_tasks.tasks.manifests import manifest_of
from leakage_tasks.tasks.progress import CanariesBar
from leakage_tasks.tasks.resume import Findings, NoFindings, Resume, item_of, settings_of
from leakage_tasks.tasks.sharing import CanaryShare, processes_of, rank_of
from leakage_tasks.tasks.used_tokens import check_used_tokens


def answering(lm: LM) -> Answer:
    """Return a function that answers a group of ``attack`` requests with findings as JSON."""
    targets: dict[Languages, Any] = {}
    noises: dict[tuple[Languages, str], Noise] = {}
    reported: set[str] = set()
    resume = Resume(lm)

    def answer(task_settings: Mapping[str, Any], group: Sequence[Instance]) -> list[str | None]:
        with memory_within(task_settings.get("memory")):
            return findings(task_settings, group)

    def findings(task_settings: Mapping[str, Any], group: Sequence[Instance]) -> list[str | None]:
        canaries: Sequence[Canary] = _canaries_of([request.doc for request in group], task_settings)
        with HidingLogs(canaries), HidingSecrets(canaries), forward_faults(lm):
            new_findings = (
                _attack_endpoint(lm, task_settings, canaries, resume)
                if takes_messages_alone(lm)
                else attack_model(task_settings, canaries)
            )
        answers = {finding.canary: finding.to_json() for finding in new_findings}
        return [answers.get(canary.id) for canary in canaries]

    def attack_model(original: Mapping[str, Any], canaries: Sequence[Canary]) -> list[Finding]:
        task_settings, canaries = _in_chat(lm, original, canaries)
        spoken = Languages(**task_settings["languages"])
        if spoken not in targets:
            targets[spoken] = _target(lm, canaries, spoken)
            with HidingSecrets(canaries):
                prove(targets[spoken], canaries)
        target = targets[spoken]
        if hasattr(target, "noise") and recorded_noise(target) != NO_NOISE:
            key = spoken, json.dumps([task_settings["manifest"], task_settings["context"]])
            if key not in noises:
                noises[key] = _noise(lm, target, original, canaries)
            target.recorded_noise = noises[key]
        if rank_of(lm) == 0 and task_settings["manifest"] not in reported:
            reported.add(task_settings["manifest"])
            _report_contexts(lm, target, task_settings, canaries, _shown_context(original))
        return _attacked(lm, target, task_settings, canaries, resume)

    return answer


def _noise(lm: LM, target: Any, task_settings: Mapping[str, Any], canaries: Sequence[Canary]) -> Noise:
    """Measure the rounding noise on a canary of the whole manifest, so that all processes use the same canary."""
    part = task_settings["known"]
    example = example_of(manifest_of(task_settings))
    canary = example if part is None or example in canaries else attacker_view(example, part)
    with HidingSecrets([canary]):
        around, (written,) = _in_chat(lm, task_settings, [canary])
        return noise_on_fillings(target, written, Context(**around["context"]))


def prepared(
    lm: LM, task_settings: Mapping[str, Any], docs: Sequence[Mapping[str, Any]]
) -> tuple[Mapping[str, Any], Sequence[Canary], Any]:
    """Return the settings with the model's chat template applied, the documents' canaries, and the target of the
    attacks."""
    canaries: Sequence[Canary] = _canaries_of(docs, task_settings)
    if takes_messages_alone(lm):
        return task_settings, canaries, _endpoint(lm, task_settings)
    task_settings, canaries = _in_chat(lm, task_settings, canaries)
    return task_settings, canaries, _target(lm, canaries, Languages(**task_settings["languages"]))


def _endpoint(lm: LM, task_settings: Mapping[str, Any]) -> ChatEndpoint:
    """Return the target for an endpoint that accepts only messages. Raises TargetError if it cannot serve the task."""
    if task_settings["goal"] != "extraction":
        unscored(lm)
    if task_settings.get("chat") is None:
        raise TargetError(f"{type(lm).__name__} accepts only messages: pass --apply_chat_template")
    if name := task_settings["chat"].get("template"):
        raise TargetError(
            f"--apply_chat_template {name}: the server of {type(lm).__name__} applies its own template: leave the name "
            "out, and set the template in the server's configuration"
        )
    return ChatEndpoint(lm, Chat(**task_settings["chat"]))


def _attack_endpoint(
    lm: LM, task_settings: Mapping[str, Any], canaries: Sequence[Canary], resume: Resume
) -> list[Finding]:
    target = _endpoint(lm, task_settings)
    new_findings = _attacked(lm, target, task_settings, canaries, resume)
    read = [finding.extra.get("ranked") for finding in new_findings]
    if task_settings["chat"].get("prefill") and read and not any(read):
        warn_once(
            "prefill=true: no text that the model wrote begins with a value that a slot may have: if the "
            "server does not continue an assistant's last message (see its manual), leave prefill out"
        )
    return new_findings


def _in_chat(
    lm: LM, task_settings: Mapping[str, Any], canaries: Sequence[Canary]
) -> tuple[Mapping[str, Any], Sequence[Canary]]:
    """Return the settings with the context of the chat template, and the canaries as the template writes them.

    Without a chat, return both unchanged. Raises TargetError for a token without an embedding.
    """
    if task_settings.get("chat") is None:
        check_used_tokens(lm, canaries, Context(**task_settings["context"]))
        return task_settings, canaries
    if task_settings["chat"].get("prefill"):
        raise TargetError(
            f"prefill=true: applies only to endpoints that accept only messages; with {type(lm).__name__} every "
            "canary's turn begins with the known text in any case: leave it out"
        )
    with HidingSecrets(canaries):
        chat = Chat(**task_settings["chat"])
        around, written = chat.around(template_of(lm, chat.template), canaries, Context(**task_settings["context"]))
        check_used_tokens(lm, written, around)
    return {**task_settings, "context": around.to_json()}, written


def _target(lm: LM, canaries: Sequence[Canary], languages: Languages) -> Any:
    """Return the target of the attacks. Raises TargetError for languages given to a model without language codes."""
    check = _two_fillings(canaries)
    if languages == Languages():
        return as_target(lm, *check)
    if not isinstance(lm, HFLM) or lm.backend != "seq2seq":
        raise TargetError(
            "source_language and target_language are for translation models (--model hf with backend=seq2seq): leave "
            "them out"
        )
    return as_target(lm, *check, languages)


def _two_fillings(canaries: Sequence[Canary]) -> tuple[list[str], bool]:
    """Return two texts of the longest canary's template, one with its secret, and True if they are private.

    The texts verify a model's fast paths. A natural canary, which is private, is used only if there is no other kind,
    and without its secret, because warnings state the number of tokens of the texts.
    """
    public = [canary for canary in canaries if canary.kind != "natural"]
    longest = max(public or canaries, key=lambda canary: len(canary.attack_space.fill(canary.secret)))
    space = longest.attack_space
    fillings = [longest.secret, *space.sample(1, "check")] if public else space.sample(2, "check")
    return [space.fill(filling) for filling in fillings], not public


def _stored_findings(resume: Resume, task_settings: Mapping[str, Any], canaries: Sequence[Canary]) -> Findings[Finding]:
    if task_settings.get("resume") is None:
        return NoFindings(len(canaries))
    decisive = {
        name: task_settings[name] for name in ("attack", "budget", "seed", "known", "languages", "context", "chat")
    }
    decisive["settings"] = settings_of(task_settings["settings"])
    items = [item_of(canary, task_settings["reveal"]) for canary in canaries]
    task = f"canary_{task_settings['goal']}"
    return resume.findings(
        task_settings["resume"], task_settings.get("model_id"), task, decisive, items, finding_from_json, whole=True
    )


def _all_findings(
    lm: LM, target: Any, task_settings: Mapping[str, Any], canaries: Sequence[Canary], stored: Findings[Finding]
) -> list[Finding]:
    """Return one finding per canary: stored findings, and new ones for the other canaries.

    Each of several processes returns the stored findings and its own findings.
    """
    missing = stored.missing
    processes = processes_of(lm)
    title = f"Attacking {counted(len(missing), 'canary')} ({task_settings['goal']})"
    attacked = [canaries[index] for index in missing]
    bar = CanariesBar(attacked, title, processes, shown=rank_of(lm) == 0)

    def add(number: int, finding: Finding) -> None:
        bar.done(number, finding)
        stored.add(missing[number], finding.attack, finding.to_json())

    share = None if processes is None else CanaryShare(processes, canaries, task_settings["budget"], missing)
    hooks = Hooks(done=add, on_rows=bar.read, share=share)
    if not task_settings["reveal"]:
        hooks = dataclasses.replace(hooks, publish=coarsened)
    with bar.closing():
        new_findings = run_chosen(chosen_attacks(attack_settings(task_settings), target, attacked), hooks)
    return [*stored.known.values(), *new_findings]


def attack_settings(task_settings: Mapping[str, Any]) -> AttackSettings:
    """Return the settings of the attack that a request to the model contains."""
    return AttackSettings(
        task_settings["attack"],
        goal=task_settings["goal"],
        budget=task_settings["budget"],
        seed=task_settings["seed"],
        values=task_settings["settings"],
        context=Context(**task_settings["context"]),
        for_others=task_settings["for_others"],
    )


def _attacked(
    lm: LM, target: Any, task_settings: Mapping[str, Any], canaries: Sequence[Canary], resume: Resume
) -> list[Finding]:
    findings = _all_findings(lm, target, task_settings, canaries, _stored_findings(resume, task_settings, canaries))
    warn_of_rejected(findings)
    named = ("goal", "attack", "budget", "settings", "seed", "known", "languages", "context")
    settings_hash = fingerprint({name: task_settings[name] for name in named} | {"version": __version__})
    supporting, near = _copies_of_others(manifest_of(task_settings))
    return [
        dataclasses.replace(
            finding,
            manifest=task_settings["manifest"],
            settings_hash=settings_hash,
            supporting=supporting[finding.canary],
            near=near[finding.canary],
            reading=task_settings.get("reading", ""),
        )
        for finding in findings
    ]


def _report_contexts(
    lm: LM, target: Any, task_settings: Mapping[str, Any], canaries: Sequence[Canary], shown: str
) -> None:
    """Log the recorded positions of the canaries in training, and the context of this run, which is ``shown``.

    Warn if the model assigns the canaries a higher exposure in another context.
    """
    if not isinstance(target, TakesContext):
        return
    context, manifest = Context(**task_settings["context"]), task_settings["canaries"]
    data = Path(task_settings["planted"]) if "planted" in task_settings else None
    records = [] if manifest is None else records_of(Path(manifest), manifest_hash(manifest_of(task_settings)), data)
    for name, record in records:
        if (after := record.trained_after) is not None:
            log.info("leakage: %s: training reads each copy %s; this run uses %s", name, after, shown)
    if context.is_auto:
        planted = next((record for _, record in records if record.role is not None or record.prompt is not None), None)
        with HidingSecrets(canaries):
            warn_of_clearer_context(target, canaries, [] if planted is None else _planted_context(lm, planted))


def _shown_context(task_settings: Mapping[str, Any]) -> str:
    context, chat = Context(**task_settings["context"]), task_settings.get("chat")
    if chat is None:
        return f"context={context}"
    system = ["--system_instruction"] if chat.get("system") is not None else []
    within = [] if context.is_auto else [f"context={context}"]
    return ", ".join(["--apply_chat_template", *system, *within])


def _planted_context(lm: LM, record: Sidecar) -> list[Context]:
    """Warn that this run presents canaries without the chat or prompt in which they were planted.

    Return the context with that chat or prompt, if it can be built.
    """
    role = record.role
    if role is None:
        context = Context(before=record.prompt or "")
        warn_once(
            "leakage: the canaries were planted after a prompt, and this run reads them without it, where they may "
            f"show less of a leak: pass {context.option}"
        )
        return [context]
    if not has_template(lm):
        return []
    warn_once(
        f"leakage: the canaries were planted in chats, as the {role}'s turn, and this run reads them as plain text, "
        "which may show less of a leak: pass --apply_chat_template"
    )
    try:
        return [Chat(role, prompt=record.prompt or USER_TURN).context(template_of(lm))]
    except TargetError:
        return []


def _copies_of_others(canaries: Sequence[Canary]) -> tuple[Counter[str], Counter[str]]:
    """Return the number of copies of each canary's supporting canaries, and the number of its near copies."""
    copies: Counter[str] = Counter()
    for canary in canaries:
        if canary.kind == "supporting" and canary.supports is not None:
            copies[canary.supports] += canary.repetitions
    return copies, near_counts(canaries)


def _canaries_of(docs: Sequence[Mapping[str, Any]], task_settings: Mapping[str, Any]) -> list[Canary]:
    """Return the canaries of the documents, by id, or the view of the attacker that ``known`` selects."""
    manifest, part = task_settings["canaries"], task_settings["known"]
    by_id = {canary.id: canary for canary in manifest_of(task_settings)}
    missing = [doc["id"] for doc in docs if doc["id"] not in by_id]
    if missing:
        raise ManifestError(
            f"{manifest}: changed during the run and lacks canary {missing[0]!r}: restore it and run again"
        )
    canaries = [by_id[doc["id"]] for doc in docs]
    return canaries if part is None else [attacker_view(canary, part) for canary in canaries]
