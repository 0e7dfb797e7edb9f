"""The handler of ``attack_pairs`` requests: converts ids to pairs, a model to its target, and findings to JSON."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from leakage_tasks.attacks.access import NEXT_TOKEN, TEXT, WEIGHTS
from leakage_tasks.attacks.suffix.attack import attack_pairs, fit_confidence
from leakage_tasks.attacks.suffix.confidences import FREQUENCY
from leakage_tasks.attacks.suffix.finding import Answer, SuffixFinding, suffix_finding_from_json
from leakage_tasks.attacks.suffix.trained_confidence import TRAINED, NothingToFit, TrainedConfidence
from leakage_tasks.canaries.chat import chat_in
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.core.log import warn_once
from leakage_tasks.core.progress import progress
from leakage_tasks.core.task_names import SUFFIXES as TASK
from leakage_tasks.core.version import __version__
from leakage_tasks.harness.api import LM, Instance
from leakage_tasks.harness.hf import HFLM
from leakage_tasks.pairs import Pair
from leakage_tasks.pairs.source import pairs_hash
from leakage_tasks.targets.causal.target import CausalTarget
from leakage_tasks.targets.embedded_tokens import embedded_tokens
from leakage_tasks.targets.harness.endpoint import check_takes_text
from leakage_tasks.targets.harness.fast_path import fast_target
from leakage_tasks.targets.harness.faults import private_forward_faults
from leakage_tasks.targets.harness.fingerprint import files_fingerprint
from leakage_tasks.targets.harness.suffixes import HarnessSuffixes
from leakage_tasks.targets.harness.target import HarnessTarget, only_writes
from leakage_tasks.targets.memory import memory_within
from leakage_tasks.targets.protocols import DrawsSuffixes
from leakage_tasks.targets.suffix.target import CausalSuffixes, causal_suffixes
from leakage_tasks.tasks.base_task import fingerprint
from leakage_tasks.tasks.conversations import in_chat
from leakage_tasks.tasks.dispatch import Answer as Answering
from leakage_tasks.tasks.resume import Findings, NoFindings, Resume
from leakage_tasks.tasks.sharing import check_others, rank_of
from leakage_tasks.tasks.suffix.options import SuffixOptions, suffix_options
from leakage_tasks.tasks.suffix.references import comparing_model, has_soft_prompt, untuned_model
from leakage_tasks.tasks.used_tokens import TEMPLATE

CHECK_TOKENS = 20
"""Number of tokens of a prefix on which a model's fast path is verified."""
ANY_TOKEN = 0


def answering(
    lm: LM, task: str = TASK, read_options: Callable[[Mapping[str, Any]], SuffixOptions] = suffix_options
) -> Answering:
    """Return a function that answers a group of requests with findings as JSON.

    ``read_options`` returns the options of ``task`` from the settings of a group.
    """

    resume = Resume(lm)

    def answer(task_settings: Mapping[str, Any], group: Sequence[Instance]) -> list[Answer]:
        read, before = in_chat(lm, read_options(task_settings), chat_in(task_settings))
        embedded_tokens(lm).check_texts([] if before is None else [before], TEMPLATE)
        with private_forward_faults(lm, read.reveal):
            return attacked(_adapted_options(lm, read), before, group)

    def attacked(options: SuffixOptions, before: str | None, group: Sequence[Instance]) -> list[Answer]:
        known = {pair.id: pair for pair in options.attacked()}
        missing = [request.doc["pair"] for request in group if request.doc["pair"] not in known]
        if missing:
            raise OptionError(
                f"{options.source.data}: changed during the run and lacks pair {missing[0]}: restore it and run again"
            )
        pairs = [known[request.doc["pair"]] for request in group]
        with memory_within(options.memory):
            findings = _found(lm, pairs, options, before, _stored_findings(lm, resume, task, pairs, options, before))
        return [_answer(each, options.reveal) for each in findings]

    return answer


def _adapted_options(lm: LM, options: SuffixOptions) -> SuffixOptions:
    """Return the options; for a model that only generates text, guesses are chosen by their frequency.

    Raises OptionError for options that need log-likelihoods, and TargetError for an endpoint that accepts only
    messages.
    """
    if isinstance(lm, HFLM):
        return options
    check_takes_text(lm)
    if not only_writes(lm):
        return options
    for name in ("comparing_lm", "validation"):
        if options.given.get(name):
            raise OptionError(
                f"{name} needs log-likelihoods, and this {type(lm).__name__} only generates text: leave it out"
            )
    chosen_by = options.given.get("confidence", FREQUENCY)
    return dataclasses.replace(options, request=dataclasses.replace(options.request, confidence=chosen_by))


def _answer(finding: SuffixFinding, reveal: bool) -> Answer:
    shown = finding if reveal else dataclasses.replace(finding, guesses=())
    return Answer(shown.to_json(), finding.guesses[0] if finding.guesses else None)


def _stored_findings(
    lm: LM, resume: Resume, task: str, pairs: Sequence[Pair], options: SuffixOptions, before: str | None
) -> Findings[SuffixFinding]:
    if options.resume is None:
        return NoFindings(len(pairs))
    compared = None if options.comparing_lm is None else files_fingerprint(options.comparing_lm)
    untuned = {} if options.untuned is None else {"untuned": files_fingerprint(options.untuned)}
    read_by = None if isinstance(lm, HFLM) else options.given.get("tokenizer")
    decisive = {
        "settings": settings_hash(options, before),
        "keep": options.request.keep,
        "data": pairs_hash(options.attacked()),
        "comparing_lm": compared,
        "tokenizer": read_by,
        **untuned,
    }
    items = [pair.id for pair in pairs]
    return resume.findings(options.resume, options.model_id, task, decisive, items, suffix_finding_from_json)


def _found(
    lm: LM,
    pairs: Sequence[Pair],
    options: SuffixOptions,
    before: str | None,
    stored: Findings[SuffixFinding],
) -> list[SuffixFinding]:
    if not stored.missing:
        return [stored.known[index] for index in range(len(pairs))]
    target = suffix_target(lm, pairs, options.given.get("tokenizer"), before)
    options.check_tokens(target, pairs)
    compared = None if options.comparing_lm is None else comparing_model(lm, options.comparing_lm, target, pairs)
    untuned = untuned_model(lm, options.untuned, target, pairs)
    bar = functools.partial(progress, shown=rank_of(lm) == 0, unit="pair")
    trained = _trained(target, options, bar)
    data, digest = pairs_hash(options.attacked()), settings_hash(options, before)
    extra = {} if trained is None else {"trained": trained.to_json()}
    access = _access(lm, target, options)

    def stamped(finding: SuffixFinding) -> SuffixFinding:
        return dataclasses.replace(
            finding, data=data, settings_hash=digest, access=access, extra={**finding.extra, **extra}
        )

    def add(index: int, finding: SuffixFinding) -> None:
        check_others(lm)
        stored.add(index, finding.scheme, stamped(finding).to_json())

    findings = attack_pairs(
        target,
        pairs,
        options.request,
        compared_with=compared,
        untuned=untuned,
        trained=trained,
        progress=functools.partial(bar, what=f"Extracting {len(pairs)} suffixes"),
        known=stored.known,
        done=add,
    )
    return [stamped(finding) for finding in findings]


def _access(lm: LM, target: DrawsSuffixes, options: SuffixOptions) -> str:
    """Describe the access to the model that drawing and choosing need; a tuned prompt needs the weights."""
    prompted = isinstance(lm, HFLM) and has_soft_prompt(lm.model)
    likelihoods = "" if target.only_writes else ", and likelihoods"
    black = f"{TEXT}{likelihoods}" if isinstance(target, HarnessSuffixes) else NEXT_TOKEN
    taken = [f"{WEIGHTS}, for a prompt tuned on other pairs" if prompted else black]
    taken += ["and another model with an equal tokenizer"] * (options.request.confidence == "comparing_lm")
    taken += ["and other pairs of the training data"] * (options.request.confidence == TRAINED)
    return ", ".join(taken)


def settings_hash(options: SuffixOptions, before: str | None = None) -> str:
    """Return a SHA-256 of all settings that determine the findings on a pair.

    ``before`` is the text that a chat template puts before every prefix, if a template is applied; it is empty for
    rendered conversations.
    """
    left_out = {"keep"} if options.request.near else {"keep", "near", "near_beam"}
    request = {name: value for name, value in dataclasses.asdict(options.request).items() if name not in left_out}
    fitted_on, rendering = options.fitted_on(), options.source.rendering
    settings = {
        **request,
        "comparing_lm": options.comparing_lm,
        **({} if options.untuned is None else {"untuned": options.untuned}),
        "fitted_on": pairs_hash(fitted_on) if fitted_on else None,
        "version": __version__,
        **({} if before is None else {"before": before}),
        **({} if rendering is None else {"rendering": rendering.key}),
    }
    return fingerprint(settings)


def _trained(target: DrawsSuffixes, options: SuffixOptions, bar: Callable[..., Any]) -> TrainedConfidence | None:
    """Return the fitted confidence; None if none is requested, or it cannot be fitted and guesses are chosen by
    another."""
    pairs = options.fitted_on()
    if not pairs:
        return None
    shown = functools.partial(bar, what=f"Fitting a confidence on {len(pairs)} pairs")
    try:
        return fit_confidence(target, pairs, options.request, progress=shown)
    except NothingToFit as error:
        if options.request.confidence == TRAINED:
            raise
        warn_once(f"{TASK}: column {TRAINED!r} stays empty: {error}")
        return None


def suffix_target(
    lm: LM, pairs: Sequence[Pair], tokenizer: str | None = None, before: str | None = None
) -> DrawsSuffixes:
    """Return the target for draws: token ids for a causal ``HFLM``, text for any other model of the harness.

    ``before`` is the text that a chat template puts before every prefix; it is empty for rendered conversations, which
    have their own first token. Raises TargetError if the model takes only text.
    """
    if isinstance(lm, HFLM) and lm.backend == "causal":
        spoken: Any = lm.tokenizer
        embedded = embedded_tokens(lm)
        for pair in pairs:
            embedded.check([(*pair.prefix, *pair.suffix)], str(pair))
        # The check reads both texts after the prefix token, which the start of a rendered conversation may repeat.
        starts = [pair.prefix[pair.prefix[0] == lm.prefix_token_id :] for pair in (pairs[0], pairs[-1])]
        texts = spoken.batch_decode([list(start[:CHECK_TOKENS]) for start in starts])
        target = causal_target(lm, [text or "." for text in texts])
        if target is not None:
            return causal_suffixes(lm, target) if before is None else CausalSuffixes(target, target.encode([before])[0])
    if before is not None:
        raise TargetError(
            f"--apply_chat_template: {type(lm).__name__} draws suffixes through text, which no template is put around: "
            "use --model hf, or leave the flag out"
        )
    return HarnessSuffixes(lm, tokenizer)


def causal_target(lm: Any, texts: Sequence[str]) -> CausalTarget | None:
    """Return a causal ``HFLM`` as a target that reads token ids, verified on ``texts``; None if it cannot be one.

    The callers score no text from its first token, so a tokenizer without a first token is accepted.
    """
    prefix = ANY_TOKEN if lm.prefix_token_id is None else lm.prefix_token_id
    target = fast_target(lm, HarnessTarget(lm), texts, private=True, prefix=prefix)
    return target if isinstance(target, CausalTarget) else None
