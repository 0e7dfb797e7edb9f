"""Harness tasks on canaries: a document is a canary, its ``attack`` request returns a finding."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from leakage_tasks.attacks import ATTACKS
from leakage_tasks.attacks.classes import AttackClass
from leakage_tasks.attacks.finding import CONTEXT
from leakage_tasks.attacks.registry import AUTO, Goal, option_of
from leakage_tasks.attacks.suffix.finding import HEADLINE
from leakage_tasks.canaries import Canary, make_canaries, manifest_hash
from leakage_tasks.canaries.canary import FAMILIES, MASK, attacked, attacker_view
from leakage_tasks.canaries.chat import Chat, protocol_of
from leakage_tasks.canaries.natural import warn_of_shown_secrets
from leakage_tasks.canaries.near import near_counts
from leakage_tasks.canaries.profiles import has_headline
from leakage_tasks.canaries.proof import PlantingProof, planting_of
from leakage_tasks.canaries.sidecar import planted_prompt, planted_role
from leakage_tasks.canaries.spaces import EXACT_SIZE
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.log import warn_once
from leakage_tasks.data.chat import USER_TURN, Role
from leakage_tasks.harness.chat_templates import template_name
from leakage_tasks.metrics import scoring
from leakage_tasks.metrics.exposure import IDENTIFIER_ROWS
from leakage_tasks.metrics.metric import Metric
from leakage_tasks.metrics.tiers import Copies, copies_of
from leakage_tasks.tasks.attack_handler import answering
from leakage_tasks.tasks.base_task import Document, LocalTask, fingerprint
from leakage_tasks.tasks.manifests import ReadManifest, read_once, share_manifest
from leakage_tasks.tasks.options import read_options
from leakage_tasks.tasks.preflight_file import PreflightSummary, read_preflight
from leakage_tasks.tasks.sharing import Sharing

BUILT_IN_TEMPLATE = "The random number of {unique} is {digits:6}."
BUILT_IN_CONTROLS = 8
BUILT_IN = "builtin"
"""Value of ``canaries=`` for the built-in canaries."""


class CanaryTask(LocalTask):
    """A task whose documents are canaries and whose requests are attacks on them.

    Subclasses set the goal of the attack (``GOAL``), and its metrics and their values (``SCORING``).
    """

    OUTPUT_TYPE = "attack"
    CHATS = True
    DOCUMENTS, SOURCE = "canaries", "manifests"
    HANDLER = staticmethod(answering)
    SHARING = Sharing(by_attack=True)
    GOAL: Goal
    SCORING: scoring.Scoring

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        self._generators: set[str] = set()
        super().__init__(config)
        self.options = read_options(self.metadata, self.task_name)
        self._check_attack(self.options.attack)
        self._note_built_in()
        # Read once, because a manifest may be a pipe, and a long manifest takes time.
        read = None if self.options.canaries is None else read_once(self.options.canaries)
        self._read = () if read is None else read.canaries
        canaries = _canaries(self.options.canaries, self._read)
        warn_of_shown_secrets(canaries)
        self._counted: tuple[list[Document], Copies] | None = None
        self._planting = self._proven() if self.options.planted is not None else None
        self._manifest = manifest_hash(canaries)
        self._shared_manifest = read or ReadManifest(None, tuple(canaries))
        share_manifest(self._shared_manifest, self._manifest)
        self._near = near_counts(self._read)
        self._preflight = PreflightSummary()
        if self.options.preflight is not None:
            near = [canary for canary in self._read if canary.kind == "near"]
            self._preflight = read_preflight(self.options.preflight, manifest_hash(self._read), canaries, near)
        known = self.options.known
        self.canaries = canaries if known is None else [attacker_view(canary, known) for canary in canaries]
        """The canaries to attack, in the order of the manifest."""
        self._known = {} if self.canaries == canaries else {"known": known}
        self._has_identifiers = self.GOAL == "exposure" and any(canary.uniform for canary in canaries)
        # Planted canaries and controls alternate; natural canaries come without their secret.
        self._docs = [_document(canary) for canary in _in_turn(self.canaries)]

    def _note_built_in(self) -> None:
        """Use the built-in canaries if requested, and warn if no canaries are given."""
        if self.options.canaries == BUILT_IN:
            self.options = dataclasses.replace(self.options, canaries=None)
        elif self.options.canaries is None:
            warn_once(
                "no canaries=… given: a self-test on built-in canaries, which show chance and nothing of this model; "
                "plant your own with 'leakage canaries' and 'leakage plant' to measure a leak"
            )

    def _proven(self) -> PlantingProof:
        """Return the evidence that the canaries were planted; reads the planted data."""
        manifest, planted = self.options.canaries, self.options.planted
        if manifest is None:
            if planted is not None:
                raise OptionError(f"--metadata planted={planted}: goes with canaries=…: give their manifest too")
            return PlantingProof("none")
        return planting_of(Path(manifest), self._read, None if planted is None else Path(planted))

    def _check_attack(self, name: str) -> None:
        if name != AUTO and (name not in ATTACKS or ATTACKS[name].goal != self.GOAL):
            fitting = [AUTO, *sorted(attack.name for attack in ATTACKS.values() if attack.goal == self.GOAL)]
            which = f"is for {ATTACKS[name].goal}, not for {self.task_name}" if name in ATTACKS else "is unknown"
            raise OptionError(
                f"attack={name!r} {which}: use {', '.join(fitting)}, or give each task its own as in "
                f'--metadata \'{{"{self.task_name}": {{"attack": "{fitting[1]}"}}}}\''
            )

    def take_chat(self, given: Mapping[str, Any]) -> None:
        """Set the chat that the harness' options request, if any. Raises OptionError for prefill without a chat."""
        super().take_chat(given)
        if self.options.prefill and self._chat is None:
            raise OptionError("--metadata prefill=true: is for turns of a chat: pass --apply_chat_template too")

    def chat_of(self, given: Mapping[str, Any]) -> Chat:
        """Return the chat: a canary is in the turn of the role it was planted in."""
        planting = self._planting_of_manifest()
        prompt = None if planting is None else planted_prompt(*planting, in_chats=True)
        system = given.get("system_instruction")
        return Chat(self._role(), system, self.options.prefill, prompt or USER_TURN, template_name())

    def _planting_of_manifest(self) -> tuple[Path, str, Path | None] | None:
        """Return the manifest, its hash and the planted data, which determine the planting record; None without a
        manifest."""
        manifest, planted = self.options.canaries, self.options.planted
        if manifest is None:
            return None
        return Path(manifest), manifest_hash(self._read), None if planted is None else Path(planted)

    def _role(self) -> Role:
        """Return the role whose turns hold the canaries. Raises OptionError if they were planted in turns of several
        roles."""
        role, planting = self.options.role, self._planting_of_manifest()
        recorded = None if planting is None or role else planted_role(*planting)
        return role or recorded or "assistant"

    def doc_to_text(self, doc: Mapping[str, Any]) -> str:
        """Return the template that the attacker fills."""
        return doc.get("known") or doc.get("template") or MASK

    def doc_to_target(self, doc: Mapping[str, Any]) -> str:
        """Return the secret, or a mask for a natural secret."""
        return " ".join(doc["secret"]) if "secret" in doc else MASK

    @property
    def task_settings(self) -> dict[str, Any]:
        """The settings of the attack."""
        return {
            "goal": self.GOAL,
            "attack": self.options.attack,
            "budget": self.options.budget,
            "settings": dict(self.options.values),
            "for_others": self.options.for_others(self.other_tasks),
            "seed": self.options.seed,
            "known": self.options.known,
            "languages": self._languages(),
            "context": self.options.context.to_json(),
            "chat": None if self._chat is None else self._chat.to_json(),
            "reveal": self.options.reveal,
            "canaries": self.options.canaries,
            "manifest": self._manifest,
            "optional": self.optional,
            **scoring.inherited(self.SCORING, self.task_name),
            **({} if self.options.planted is None else {"planted": self.options.planted}),
            **({} if self.options.memory is None else {"memory": self.options.memory}),
            **self._resuming(),
        }

    def _resuming(self) -> dict[str, str]:
        named = {"resume": self.options.resume, "model_id": self.options.model_id}
        return {name: value for name, value in named.items() if value is not None and self.options.resume is not None}

    def _languages(self) -> dict[str, str]:
        named = {"source": self.options.source_language, "target": self.options.target_language}
        return {side: code for side, code in named.items() if code is not None}

    def request_argument(self, doc: Document) -> dict[str, Any]:
        """Return the settings of the attack, and the training exposure of a canary that was not in the loss."""
        reading = self._preflight.readings.get(doc["id"])
        return {**self.task_settings, "reading": reading} if reading else self.task_settings

    def note_attack(self, finding: Any) -> None:
        """Record the attack with its access, and the generator that proposed its candidates, if it has one."""
        super().note_attack(finding)
        if isinstance(generator := finding.extra.get("generator"), str):
            self._generators.add(generator)

    def values_of(self, doc: Document, answer: str) -> dict[str, Any]:
        """Return the value of every metric for one canary; None if a metric does not apply to it."""
        finding = self.SCORING.read(answer)
        self.note_attack(finding)
        values = self.SCORING.values(finding, HEADLINE, self.task_settings, self._copies)
        if self._has_identifiers:
            # The harness warns of metrics that only some documents have.
            values = {**dict.fromkeys(IDENTIFIER_ROWS), **values}
        if self.built_in:
            return {
                name: value for name, value in values.items() if name.startswith("control_") or name == "n_controls"
            }
        return values if self.options.rows == "all" else self.in_rows(values)

    @property
    def metrics(self) -> Sequence[Metric]:
        """The metrics, including one set per repetition count."""
        return self.SCORING.metrics(self.task_settings, self._copies)

    @property
    def _copies(self) -> Copies:
        """The number of canaries of the run by repetition count or family."""
        if self._counted is None or self._counted[0] is not self.used:
            grouped = ((doc["planted"], doc["kind"], self._tier(doc), doc.get("family", "")) for doc in self.used)
            self._counted = self.used, copies_of(grouped)
        return self._counted[1]

    def _tier(self, doc: Document) -> int | None:
        reading = self._preflight.readings.get(doc["id"])
        copies: int = doc["repetitions"] + self._near[doc["id"]]
        return copies if reading is None else CONTEXT if reading == "context" else None

    def protocol(self) -> dict[str, Any]:
        """Return the hash of the manifest, the attack's options, a non-default view, language or context, and a hash of
        the canaries outside the training loss.

        The seed is left out, because comparable runs may have different seeds.
        """
        attack = {} if self.options.attack == AUTO else {"attack": self.options.attack}
        # A default budget depends on the model.
        chosen = {} if self.options.budget is None else {"budget": self.options.budget}
        used = {name for run, _ in self._attacks for name in ATTACKS[run].options_by_name}
        unused = {*self.options.for_others(self.other_tasks)} - used
        for name, value in self.options.values.items():
            option = None if name in unused else option_of(name, self.options.attack)
            if option is not None and option.affects_results and value not in (None, option.default):
                chosen[name] = value
        spoken = {f"{side}_language": code for side, code in self._languages().items()}
        context = {} if self.options.context.is_auto else {"context": str(self.options.context)}
        chat = protocol_of(self._chat)
        # Canaries outside the loss count in other metrics.
        readings = self._preflight.readings
        learnt = {"preflight": fingerprint(readings)} if readings else {}
        return {"canaries": self._manifest, **attack, **chosen, **self._known, **spoken, **context, **chat, **learnt}

    def tested(self) -> dict[str, Any]:
        """Return the number of canaries by kind and repetition count, and the sizes of their spaces.

        Numbers of copies of natural secrets are left out: they may identify a secret.
        """
        ids = {doc["id"] for doc in self.used}
        there = [canary for canary in self.canaries if canary.id in ids]
        planted = [canary for canary in there if canary.planted]
        repetitions = Counter(
            canary.repetitions + self._near[canary.id] for canary in planted if canary.kind != "natural"
        )
        sizes = [canary.space.size for canary in there]
        ends = min(sizes), max(sizes)
        planting = self._planting or self._proven()
        shares = planting.shares if len(there) == len(self.canaries) else {}
        # Natural canaries and canaries of families contain text of the data.
        example = next(
            (canary.template for canary in there if canary.kind != "natural" and canary.family is None), None
        )
        families = Counter(canary.family for canary in planted if canary.family is not None)
        return {
            "planted": len(planted),
            "planting": planting.state,
            **({} if planting.data is None else {"planted_data": planting.data, "planted_sha256": planting.sha256}),
            **({"planted_share": {str(times): share for times, share in sorted(shares.items())}} if shares else {}),
            **(
                {"learnt_from": self._preflight.learnt}
                if self._preflight.learnt and len(there) == len(self.canaries)
                else {}
            ),
            "controls": len(there) - len(planted),
            "repetitions": {str(times): number for times, number in sorted(repetitions.items())},
            **({"near_copies": near} if (near := sum(self._near[canary.id] for canary in planted)) else {}),
            **({"sources": sources} if (sources := sum(canary.source is not None for canary in there)) else {}),
            "kinds": sorted({canary.kind for canary in there}),
            **({"uniform": True} if all(canary.uniform for canary in there) else {}),
            **({"families": {name: families[name] for name in FAMILIES if families[name]}} if families else {}),
            "log2_size": [round(math.log2(size), 2) for size in ends],
            **({"sizes": exact} if any(exact := [size if size < EXACT_SIZE else None for size in ends]) else {}),
            **({"generator": " and ".join(sorted(self._generators))} if self._generators else {}),
            **({} if example is None else {"example": example}),
        }

    def attack_classes(self) -> set[AttackClass]:
        """Return the classes of the attacks that ran; the task has classes for the other attacks."""
        return {kind for name, _ in self._attacks for kind in ATTACKS[name].classes or self.SCORING.classes}

    def no_headline(self) -> str:
        """Return the reason why no metric represents the model, or an empty string.

        Reasons are built-in canaries, omitted canaries, canaries that were never planted, and a profile for trials.
        """
        if self.built_in:
            return "a self-test on built-in canaries, which no model was trained on: give canaries=…"
        if self.limited is not None:
            return super().no_headline()
        if not any(canary.planted for canary in self.canaries):
            return "no canary of the manifest was planted, so nothing could leak"
        if self._preflight.learnt and not self._copies.keys() - {CONTEXT, *FAMILIES}:
            return "preflight found no planted canary's secret in the training loss"
        if not all(has_headline(canary.profile) for canary in self.canaries):
            return "canaries of --profile smoke are too few: they are only for trying the commands"
        return ""

    @property
    def built_in(self) -> bool:
        """True if the canaries are the built-in ones: the run is then a self-test that reports only controls."""
        return self.options.canaries is None


class CanaryExposure(CanaryTask):
    """The exposure of canaries in bits: the rank of a secret among all fillings of its template."""

    GOAL = "exposure"
    SCORING = scoring.CANARY_EXPOSURE


class CanaryExtraction(CanaryTask):
    """The extraction of canaries: is the secret among an attack's best guesses?"""

    GOAL = "extraction"
    SCORING = scoring.CANARY_EXTRACTION


def _canaries(manifest: str | None, read: Sequence[Canary]) -> list[Canary]:
    if manifest is None:
        return make_canaries(BUILT_IN_TEMPLATE, 0, controls=BUILT_IN_CONTROLS)
    canaries = attacked(read)
    if not canaries:
        raise OptionError(f"canaries={manifest}: holds supporting canaries only, nothing to attack: add others")
    return canaries


def _in_turn(canaries: Sequence[Canary]) -> list[Canary]:
    """Return planted canaries and controls alternately, so that a subset has both."""
    planted = [canary for canary in canaries if canary.planted]
    controls = [canary for canary in canaries if not canary.planted]
    return [canary for canary in chain.from_iterable(zip_longest(planted, controls)) if canary is not None]


def _document(canary: Canary) -> Document:
    data = canary.to_json()
    if canary.kind == "natural":
        # The harness writes documents verbatim; the attack reads the secret from the manifest by id.
        return {name: data[name] for name in ("schema", "id", "kind", "planted", "repetitions")} | {"mask": MASK}
    return data
