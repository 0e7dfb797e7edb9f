"""The manifest: a file with one canary per line, as JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from leakage_tasks.canaries.canary import Canary, canary_from_json
from leakage_tasks.canaries.coins import coin_fault
from leakage_tasks.core.atomic import replacing
from leakage_tasks.core.errors import ManifestError
from leakage_tasks.core.inputs import TOO_DEEP, json_fault, read_named
from leakage_tasks.core.jsonl import LineError, read_json_lines, write_json_lines

TEXTS = ("template", "known", "source")
"""The fields of a canary that hold the text around its secret."""


def read_manifest(path: str | Path) -> list[Canary]:
    """Read all canaries of a manifest, in its order.

    Raises ManifestError, which names file, line and field, for a line that is not a canary, for a duplicate id, for a
    supporting canary whose main canary is missing, and for a manifest without canaries.

    Examples:
        >>> from leakage_tasks import read_manifest
        >>> [canary.id for canary in read_manifest("canaries.jsonl")]
        ['canary-0', 'canary-1', 'control-0']
    """
    canaries: list[Canary] = []
    lines: dict[str, int] = {}
    for number, value in _values(path):
        where = f"{path}:{number}"
        canary = canary_from_json(value, where)
        if (fault := coin_fault(canary)) is not None:
            raise ManifestError(f"{where}: {fault}")
        if canary.id in lines:
            raise ManifestError(f"{where}: field 'id': {canary.id!r} is already used in line {lines[canary.id]}")
        lines[canary.id] = number
        canaries.append(canary)
    if not canaries:
        raise ManifestError(f"{path}: holds no canary: make some with 'leakage canaries … -o {Path(path).name}'")
    for canary in canaries:
        if canary.supports is not None and canary.supports not in lines:
            where = f"{path}:{lines[canary.id]}"
            raise ManifestError(f"{where}: field 'supports': no canary has the id {canary.supports!r}: add it")
    return canaries


def _values(path: str | Path) -> Iterator[tuple[int, Any]]:
    try:
        yield from read_json_lines(read_named(path, "manifest", ManifestError).split("\n"))
    except LineError as bad:
        where, error = f"{path}:{bad.number}", bad.error
        if isinstance(error, json.JSONDecodeError):
            fault = json_fault(error)
            raise ManifestError(f"{where}: not JSON ({fault.reason} at column {fault.column}): fix the line") from None
        reason = str(error) if str(error) == TOO_DEEP else "a number too long"
        raise ManifestError(f"{where}: not a canary ({reason}): fix the line") from None


def write_manifest(canaries: Iterable[Canary], path: str | Path) -> None:
    """Write a manifest atomically; only its owner can read the file if it may hold personal text.

    Examples:
        >>> from leakage_tasks import make_canaries, read_manifest, write_manifest
        >>> pins = make_canaries("The pin of {unique} is {digits:4}.", 2, seed=1)
        >>> write_manifest(pins, "pins.jsonl")
        >>> read_manifest("pins.jsonl") == pins
        True
    """
    items = list(canaries)
    with replacing(path, private=is_private(items)) as beside, beside.open("w", encoding="utf-8") as out:
        write_json_lines((canary.to_json() for canary in items), out)


def manifest_hash(canaries: Iterable[Canary]) -> str:
    """Return the SHA-256 of the canaries' content; it does not depend on their order or the file's layout.

    Results publish this hash. It must not confirm a guess at a natural secret: the salt in the manifest is part of the
    hashed content, and for a natural canary without a salt, secret and text are left out.
    """
    lines = sorted(json.dumps(_content_to_hash(canary), ensure_ascii=False, sort_keys=True) for canary in canaries)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _content_to_hash(canary: Canary) -> dict[str, Any]:
    data = canary.to_json()
    if canary.kind != "natural" or canary.salt is not None:
        return data
    return {name: value for name, value in data.items() if name not in ("secret", *TEXTS)}


def is_private(canaries: Iterable[Canary]) -> bool:
    """Return True if a manifest may hold personal text: a natural secret, or sentences of the data around a secret."""
    return any(canary.kind == "natural" or canary.family is not None for canary in canaries)
