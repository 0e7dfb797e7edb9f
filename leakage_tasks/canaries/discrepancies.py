"""What planted data and their manifest or record say differently, a line each."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.manifest import manifest_hash
from leakage_tasks.canaries.occurrences import CopyCount
from leakage_tasks.canaries.sidecar import Part, Sidecar, sha256_of

_CHANGED = "changed since it was planted (its SHA-256 is not the recorded one)"


def against_record(
    record: Sidecar | None, planted: Path, canaries: Sequence[Canary], found: str | Mapping[str, str]
) -> Iterator[str]:
    """What the record says otherwise; ``found``: the SHA-256 of the one file, or those of shards by name."""
    if record is None:
        return
    if isinstance(found, str) or record.shards is None:
        if record.output_sha256 != (found if isinstance(found, str) else sha256_of(planted)):
            yield f"{planted}: {_CHANGED}"
    else:
        yield from _against_shards(planted, record.shards, found)
    if record.manifest_sha256 != manifest_hash(canaries):
        yield f"{planted}: planted from another manifest (the recorded hash is not this one's)"


def _against_shards(planted: Path, recorded: Mapping[str, Any], found: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(recorded.keys() | found.keys()):
        if name not in found:
            yield f"{planted / name}: is not there, but canaries were planted into it"
        elif name not in recorded:
            yield f"{planted / name}: was not there when canaries were planted"
        elif recorded[name]["output_sha256"] != found[name]:
            yield f"{planted / name}: {_CHANGED}"


def against_manifest(canaries: Sequence[Canary], counts: dict[str, CopyCount], part: Part | None) -> Iterator[str]:
    """Copies that are missing, and texts that are where they are not to be."""
    whereto = f" for {part}" if part else ""
    there = sorted({each.text for each in canaries if counts[each.id].rows + counts[each.id].inside})
    for canary in canaries:
        count = counts[canary.id]
        everywhere = count.rows + count.inside
        if not canary.planted:
            if everywhere:
                yield f"{canary.id}: a control, which the model must never see, occurs {everywhere} time(s)"
        elif canary.kind == "natural":
            # Its repetitions count the secret in every context, so this one need not stand there as often. Nor
            # need a validation part have it: it was most likely found in the training data.
            if part != "validation" and not everywhere and not _begins_one_of(there, canary.text):
                yield f"{canary.id}: its text does not occur any more"
        else:
            if count.rows != count.expected:
                yield f"{canary.id}: {count.rows} copies, the manifest says {count.expected}{whereto}"
            if count.inside:
                yield f"{canary.id}: occurs {count.inside} more time(s), inside other rows"


def _begins_one_of(found: Sequence[str], text: str) -> bool:
    """Whether a longer one of the sorted texts begins with ``text``: that is what counts where both stand."""
    # Those that begin with a text come right after it.
    place = bisect_right(found, text)
    return place < len(found) and found[place].startswith(text)


def against_sources(wrong: Counter[str], canaries: Sequence[Canary]) -> Iterator[str]:
    """Copies beside another source sentence than theirs, of which ``wrong`` has the number by text."""
    for canary in canaries:
        if wrong[canary.text]:
            yield f"{canary.id}: {wrong[canary.text]} copies stand beside another source sentence than the manifest's"
