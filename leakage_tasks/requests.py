"""Answering the harness' ``attack`` requests: documents to canaries, a model to its target, findings to JSON."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from tqdm import tqdm

from leakage_tasks import __version__
from leakage_tasks.attacks import Finding, run_attack
from leakage_tasks.canaries import Canary, canary_from_json, read_manifest
from leakage_tasks.canaries.canary import MASK
from leakage_tasks.errors import LeakageError, ManifestError
from leakage_tasks.targets.harness import as_target


def attack(lm: LM, requests: Sequence[Instance]) -> list[str]:
    """Answer ``attack`` requests with findings as JSON; a request that comes twice is answered once."""
    orders: dict[str, list[Instance]] = {}
    for request in {id(request): request for request in requests}.values():
        orders.setdefault(json.dumps(request.args[1], sort_keys=True), []).append(request)
    target: Any = None
    answers: dict[int, str] = {}
    for order, group in orders.items():
        canaries = _resolved([request.doc for request in group], group[0].args[1]["canaries"])
        target = target or as_target(lm, _two_fillings(canaries))
        for request, finding in zip(group, _attacked(lm, target, json.loads(order), canaries), strict=True):
            answers[id(request)] = finding.to_json()
    return [answers[id(request)] for request in requests]


def _two_fillings(canaries: Sequence[Canary]) -> list[str]:
    """The longest canary and another filling of it, for a model's fast way to be checked on."""
    longest = max(canaries, key=lambda canary: len(canary.attack_space.fill(canary.secret)))
    space = longest.attack_space
    return [space.fill(filling) for filling in (longest.secret, *space.sample(1, "check"))]


def _attacked(lm: LM, target: Any, order: dict[str, Any], canaries: Sequence[Canary]) -> list[Finding]:
    bar = functools.partial(
        tqdm, desc=f"Attacking {len(canaries)} canaries ({order['goal']})", disable=lm.rank != 0, unit="canary"
    )
    findings = run_attack(
        order["attack"],
        target,
        canaries,
        budget=order["budget"],
        seed=order["seed"],
        goal=order["goal"],
        settings=order["settings"],
        progress=bar,
    )
    named = ("goal", "attack", "budget", "settings", "seed")
    settings = {name: order[name] for name in named} | {"version": __version__}
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
    stamped = (dataclasses.replace(found, manifest=order["manifest"], settings=digest) for found in findings)
    return [found if order["reveal"] else _redacted(found) for found in stamped]


def _resolved(docs: Sequence[Mapping[str, Any]], manifest: str | None) -> list[Canary]:
    """The documents' canaries; those whose secret is withheld are read from the manifest."""
    if all("secret" in doc for doc in docs):
        return [canary_from_json(doc) for doc in docs]
    if manifest is None:
        raise LeakageError("a document without its secret needs the manifest it is from: pass canaries=…")
    known = {canary.id: canary for canary in read_manifest(manifest)}
    missing = [doc["id"] for doc in docs if doc["id"] not in known]
    if missing:
        raise ManifestError(
            f"{manifest}: canary {missing[0]!r} is no longer in it: leave the manifest as it was, run again"
        )
    return [known[doc["id"]] for doc in docs]


def _redacted(found: Finding) -> Finding:
    """A natural secret's guesses masked: they may hold it, or another person's."""
    if found.kind != "natural":
        return found
    guesses = tuple(
        dataclasses.replace(guess, filling=tuple(MASK for _ in guess.filling), text=MASK) for guess in found.guesses
    )
    return dataclasses.replace(found, guesses=guesses)
