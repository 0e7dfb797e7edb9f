"""Differences between planted data and their manifest or record, one line each."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.manifest import manifest_hash
from leakage_tasks.canaries.occurrences import CopyCount
from leakage_tasks.canaries.sidecar import Part, Shard, Sidecar, sha256_of
from leakage_tasks.core.nouns import counted
from leakage_tasks.data.shards import WHOLE

_CHANGED = "changed since it was planted (its SHA-256 is not the recorded one)"


def against_record(
    record: Sidecar | None, planted: Path, canaries: Sequence[Canary], hashes: Mapping[str, str]
) -> Iterator[str]:
    """Yield differences between planted data and their record.

    Args:
        record: The record, or None without a record.
        planted: The path of the data.
        canaries: The canaries of the manifest.
        hashes: The SHA-256 of each shard by name.
    """
    if record is None:
        return
    if WHOLE in hashes or record.shards is None:
        if record.output_sha256 != (hashes.get(WHOLE) or sha256_of(planted)):
            yield f"{planted}: {_CHANGED}"
    else:
        yield from _against_shards(planted, record.shards, hashes)
    if record.manifest_sha256 != manifest_hash(canaries):
        yield f"{planted}: planted from another manifest (the recorded hash is not this one's)"


def _against_shards(planted: Path, recorded: Mapping[str, Shard], hashes: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(recorded.keys() | hashes.keys()):
        if name not in hashes:
            yield f"{planted / name}: is missing, but canaries were planted into it"
        elif name not in recorded:
            yield f"{planted / name}: did not exist when canaries were planted"
        elif recorded[name].output_sha256 != hashes[name]:
            yield f"{planted / name}: {_CHANGED}"


def against_manifest(canaries: Sequence[Canary], counts: dict[str, CopyCount], part: Part | None) -> Iterator[str]:
    """Yield missing copies, and texts that occur where they must not."""
    whereto = f" for {part}" if part else ""
    missing = {name for name, occurs in natural_occurrence(canaries, counts).items() if not occurs}
    for canary in canaries:
        count = counts[canary.id]
        if not canary.planted:
            if count.everywhere:
                times = counted(count.everywhere, "time")
                yield f"{canary.id}: a control, which the model must never see, occurs {times}"
        elif canary.kind == "natural":
            # Its repetitions count the secret in every context, so this context may occur less often. A validation part
            # need not contain it: it was probably detected in the training data.
            if part != "validation" and canary.id in missing:
                yield f"{canary.id}: its text does not occur any more"
        else:
            if count.rows != count.expected:
                yield f"{canary.id}: {counted(count.rows, 'copy')}, the manifest says {count.expected}{whereto}"
            if count.inside:
                yield f"{canary.id}: occurs {counted(count.inside, 'more time')}, inside other rows"


def natural_occurrence(canaries: Sequence[Canary], counts: Mapping[str, CopyCount]) -> dict[str, bool]:
    """Return True for each natural secret that occurs in its context, by the id of its canary."""
    occurring = sorted({canary.text for canary in canaries if counts[canary.id].everywhere})
    return {
        canary.id: counts[canary.id].everywhere > 0 or _begins_one_of(occurring, canary.text)
        for canary in canaries
        if canary.planted and canary.kind == "natural"
    }


def _begins_one_of(texts: Sequence[str], text: str) -> bool:
    """Return True if ``text`` is the beginning of a longer text in the sorted ``texts``. Then only the longer text is
    counted."""
    # In sorted order, longer texts with this beginning come directly after it.
    index = bisect_right(texts, text)
    return index < len(texts) and texts[index].startswith(text)


def against_sources(wrong: Counter[str], canaries: Sequence[Canary]) -> Iterator[str]:
    """Yield a line for each canary whose copies have the source sentence of another text.

    ``wrong`` counts such copies by text.
    """
    for canary in canaries:
        if number := wrong[canary.text]:
            have = "has" if number == 1 else "have"
            yield f"{canary.id}: {counted(number, 'copy')} {have} another source sentence than in the manifest"
