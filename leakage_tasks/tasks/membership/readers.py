"""A harness model as a reader of whole texts, and the attacks that it can serve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from leakage_tasks.attacks.membership.attack import Inputs
from leakage_tasks.attacks.membership.registry import MembershipAttack, Need
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.core.log import warn_once
from leakage_tasks.harness.api import LM
from leakage_tasks.harness.hf import HFLM
from leakage_tasks.targets.causal.target import CausalTarget
from leakage_tasks.targets.harness.endpoint import takes_messages_alone
from leakage_tasks.targets.harness.target import target_for_texts
from leakage_tasks.targets.harness.text_reader import HarnessTextReader
from leakage_tasks.targets.protocols import CutText, ReadsTexts, ScoresSequences
from leakage_tasks.targets.suffix.text_reader import CausalTextReader
from leakage_tasks.tasks.membership.inputs import context_of, frequencies_of, references_of, similar_of
from leakage_tasks.tasks.membership.options import MembershipOptions
from leakage_tasks.tasks.membership.texts import TestedTexts


class Prepared(NamedTuple):
    """The reader, the texts cut to the tokens that are read, the attacks to run, the reasons for the others, and the
    inputs."""

    reader: ReadsTexts
    texts: list[CutText]
    attacks: list[MembershipAttack]
    not_run: dict[str, str]
    inputs: Inputs


def prepare(lm: LM, options: MembershipOptions, tested: TestedTexts, before: str | None) -> Prepared:
    """Return everything that the attacks need.

    ``before`` is the text that a chat template puts before each text; it is empty for rendered conversations.

    Raises:
        OptionError: The user named an attack that cannot run, or a further input is unusable.
        TargetError: The model gives no log-likelihoods of texts.
    """
    plain = [text.text for text in tested.texts]
    reader = reader_of(lm, plain, before, options.tokenizer)
    tokens = _tokens_read(reader, options)
    texts = reader.cut(plain, tokens)
    request = options.request
    references = references_of(lm, options, reader, before, texts) if request.needs("reference") else []
    attacks, not_run = _served(reader, options, bool(references), tested)
    needs = {need for attack in attacks for need in attack.needs}
    inputs = Inputs(
        references if "reference" in needs else (),
        context_of(reader, tested.context, tokens) if "context" in needs else None,
        frequencies_of(options, reader) if "frequencies" in needs else None,
        similar_of(options, lm, tested, texts) if "neighbours" in needs else None,
    )
    return Prepared(reader, texts, attacks, not_run, inputs)


def reader_of(lm: LM, texts: Sequence[str], before: str | None, tokenizer: str | None) -> ReadsTexts:
    """Return the reader of a model, with the most figures that it gives. Raises TargetError if it gives none."""
    if takes_messages_alone(lm):
        raise TargetError(f"{type(lm).__name__} accepts only messages and scores no text: use another model or API")
    target = target_for_texts(lm, texts)
    if isinstance(target, CausalTarget):
        return CausalTextReader(target, before)
    if before == "":
        raise TargetError(
            f"--apply_chat_template: {type(lm).__name__} takes text, and may read a template's tokens in it otherwise: "
            "use a causal model of --model hf, or leave the flag out"
        )
    if not isinstance(target, ScoresSequences):
        raise TargetError(f"{type(lm).__name__} gives no log-likelihood of a text, which every membership attack needs")
    return HarnessTextReader(lm, target, before, None if isinstance(lm, HFLM) else tokenizer)


def _tokens_read(reader: ReadsTexts, options: MembershipOptions) -> int:
    wanted, most, context = options.request.tokens, reader.max_length, options.request.needs("context")
    if most is not None and context:
        most //= 2
    if most is None or wanted <= most:
        return wanted
    if most < 1:
        raise TargetError("membership: the chat template leaves no room for a text: use a model with a longer context")
    after = " after the context of recall" if context else ""
    if "tokens" in options.given:
        raise OptionError(f"tokens={wanted}: the model reads at most {most}{after}: lower tokens")
    warn_once(f"membership: reads {most} tokens of each text, because the model reads no more{after}")
    return most


def _served(
    reader: ReadsTexts, options: MembershipOptions, reference: bool, tested: TestedTexts
) -> tuple[list[MembershipAttack], dict[str, str]]:
    """Return the attacks to run, and the reason for each other one. Raises OptionError for a named one."""
    request, not_run, attacks = options.request, {}, []
    lacks: dict[Need, str] = {}
    if not reader.gives_tokens:
        lacks["tokens"] = "the model gives no log-probabilities of tokens"
    if not reader.gives_distributions:
        lacks["distributions"] = "the model gives no probabilities of the whole vocabulary"
    if not reader.takes_context:
        lacks["context"] = "the model reads no text before a text"
    if not reference:
        lacks["reference"] = "there is no reference model and no adapter: pass reference=MODEL"
    if options.request.frequencies is None:
        lacks["frequencies"] = "there is no reference corpus: pass frequencies=DATA"
    if changed := sum(text.spoken == () for text in tested.texts):
        lacks["neighbours"] = (
            f"the chat template changes every turn of {changed} of {len(tested.texts)} texts, so that their words "
            "cannot be found: name other attacks"
        )
    for attack in request.chosen():
        reason = next((lacks[need] for need in attack.needs if need in lacks), None)
        if reason is None:
            attacks.append(attack)
        elif request.named:
            raise OptionError(f"attacks={request.attacks}: {attack.name} cannot run: {reason}")
        else:
            not_run[attack.name] = reason
    return attacks, not_run
