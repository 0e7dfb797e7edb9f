"""Attacks and tasks that the model of a run can serve, as far as its results show."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from leakage_tasks.attacks import ATTACKS
from leakage_tasks.attacks.access import LABELS_AND_TAGS, LIKELIHOOD, MASKS, NEXT_TOKEN, TEXT
from leakage_tasks.attacks.registry import Attack
from leakage_tasks.core.task_names import CONTAMINATION, EXPOSURE, MEMBERSHIP, SUFFIXES, TEXTS, WINDOWS
from leakage_tasks.metrics.scoring import SCORINGS
from leakage_tasks.report.load.run import Run, is_encoder_decoder
from leakage_tasks.targets import protocols
from leakage_tasks.targets.protocols import PredictsNextToken, ProposesValues, RelaxesTokens, ScoresLabels

Kind = Literal["classifier", "tagger", "masked", "seq2seq", "causal", "text", "chat", "unknown"]
_OF_CLASSIFIERS = frozenset({ProposesValues, RelaxesTokens, ScoresLabels})
_OF_WRITERS = frozenset({protocols.WritesTexts, protocols.CompletesText})
_OF_TOKENS = frozenset({PredictsNextToken, protocols.ScoresSequences})
SERVED: dict[Kind, frozenset[type]] = {
    "classifier": _OF_CLASSIFIERS,
    "tagger": _OF_CLASSIFIERS - {ProposesValues},
    "masked": frozenset({protocols.ScoresSequences}),
    "seq2seq": _OF_TOKENS,
    "causal": _OF_TOKENS,
    "text": _OF_WRITERS | {protocols.ScoresSequences},
    "chat": _OF_WRITERS,
    "unknown": _OF_WRITERS | _OF_TOKENS,
}
"""The protocols of attacks that each kind of model can serve."""
_KNOWN = frozenset().union(*SERVED.values())
UNSERVED: dict[Kind, frozenset[str]] = {
    "masked": frozenset({SUFFIXES, WINDOWS, TEXTS, CONTAMINATION}),
    "seq2seq": frozenset({MEMBERSHIP, CONTAMINATION}),
    "chat": frozenset({EXPOSURE, MEMBERSHIP, CONTAMINATION}),
}
"""The tasks of this package that a kind of model cannot serve. Models of labels serve only canary tasks."""
_MODELS: dict[str, Kind] = {
    "classifier-scorer": "classifier",
    "frankenstein-mlm": "classifier",
    "nlu-tagger": "tagger",
    "masked-lm": "masked",
    "soft-prompt": "causal",
    "hf": "causal",
    "hf-auto": "causal",
    "huggingface": "causal",
}


def fitting_attacks(run: Run) -> list[str]:
    """Return the attacks for the goals and the kind of model of a run that it did not use."""
    ran, (_, goals) = {attack for attack, _ in _attacks(run)}, _answered(run)
    fitting = [name for name, attack in ATTACKS.items() if attack.goal in goals and fits_model(run, attack)]
    return sorted(name for name in fitting if name not in ran)


def untried_tasks(run: Run) -> list[str]:
    """Return the tasks of this package for other goals than a run's that the run's model can serve."""
    names, goals = _answered(run)
    shipped = SCORINGS.without_plugins().items()
    untried = [name for name, scoring in shipped if name not in names and scoring.goal not in goals]
    # The order of the registry depends on which task was imported first.
    return sorted(name for name in untried if fits_task(run, name))


def _answered(run: Run) -> tuple[set[str], set[str]]:
    """Return the names of the scorings of a run's tasks that have values, and their goals."""
    names = {result.scoring_name for result in run.tasks.values() if result.answered}
    return names, {scoring.goal for name, scoring in SCORINGS.items() if name in names} - {""}


def fits_model(run: Run, attack: Attack) -> bool:
    """Return True if the model of a run can serve an attack. Protocols of other packages count as those of texts."""
    kind = kind_of(run)
    if _KNOWN.isdisjoint(attack.needs):
        return kind not in ("classifier", "tagger")
    return not SERVED[kind].isdisjoint(attack.needs)


def fits_task(run: Run, task: str) -> bool:
    """Return True if the model of a run can serve a task; for a task of another package always True."""
    kind, scoring = kind_of(run), SCORINGS.without_plugins().get(task)
    if scoring is not None and kind in ("classifier", "tagger"):
        return scoring.goal in {attack.goal for attack in ATTACKS.values() if _is_of_classifiers(attack)}
    return scoring is None or task not in UNSERVED.get(kind, ())


def kind_of(run: Run) -> Kind:
    """Return the kind of a run's model, from the attacks that ran, their access, and the harness' name of the model."""
    attacks = [(ATTACKS[name], access) for name, access in _attacks(run) if name in ATTACKS]
    named = _MODELS.get(run.model)
    if any(_is_of_classifiers(attack) for attack, _ in attacks):
        tags = any(access.startswith(LABELS_AND_TAGS) for _, access in attacks)
        return "tagger" if tags or named == "tagger" else "classifier"
    if any(access.startswith(MASKS) for _, access in attacks):
        return "masked"
    if _translates(run):
        return "seq2seq"
    if any(access.startswith(NEXT_TOKEN) for _, access in attacks):
        return "causal"
    if "chat" in run.model:
        return "chat"
    # An attack that may use probabilities of next tokens uses them if the model gives them.
    could = [access for attack, access in attacks if attack.needs[0] is PredictsNextToken]
    if any(access.startswith((LIKELIHOOD, TEXT)) for access in could):
        return "text"
    # A causal model of the harness gives probabilities of next tokens; an encoder-decoder only writes.
    if named == "causal" and any(access.startswith(TEXT) for _, access in _attacks(run)):
        return "seq2seq"
    return named or "unknown"


def _translates(run: Run) -> bool:
    """Return True if the model reads a source sentence. The harness can recognize such a model without an argument, and
    earlier versions did not record the number of source sentences."""
    declared = [result.declared for result in run.tasks.values() if result.is_leakage and result.declared is not None]
    sources = any(declaration.tested.get("sources") for declaration in declared)
    spoken = any({"source_language", "target_language"} & declaration.protocol.keys() for declaration in declared)
    backend = run.arguments.get("backend", "default")
    return (
        sources or spoken or backend == "seq2seq" or (backend == "default" and is_encoder_decoder(Path(run.parts[0])))
    )


def _attacks(run: Run) -> set[tuple[str, str]]:
    """Return the attacks of a run's leakage tasks, each with the access that it needed."""
    declared = [result.declared for result in run.tasks.values() if result.declared is not None and result.is_leakage]
    return {attack for declaration in declared for attack in declaration.attacks}


def _is_of_classifiers(attack: Attack) -> bool:
    return not _OF_CLASSIFIERS.isdisjoint(attack.needs)
