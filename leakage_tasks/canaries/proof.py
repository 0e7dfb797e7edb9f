"""Evidence that canaries were planted: planted data prove it, or only the manifest claims it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.manifest import manifest_hash
from leakage_tasks.canaries.near import near_counts
from leakage_tasks.canaries.sidecar import Sidecar, read_sidecar, records_of, sha256_of, sidecar_path
from leakage_tasks.canaries.verify import verify
from leakage_tasks.core.errors import OptionError

State = Literal["proven", "claimed", "none"]


@dataclass(frozen=True)
class PlantingProof:
    """Evidence of planting: the name and hash of the data that prove it; both are None without proof.

    ``shares`` maps a number of copies to the share of the data's characters that all copies of such canaries take, near
    copies included; it is empty if no record states it. The proof covers the copies in the data, not that a model was
    trained on the data.
    """

    state: State
    data: str | None = None
    sha256: str | None = None
    shares: Mapping[int, float] = field(default_factory=dict)


def planting_of(manifest: Path, canaries: Sequence[Canary], planted: Path | None = None) -> PlantingProof:
    """Return the evidence that the canaries of the manifest that count as planted are in some data.

    If ``planted`` is given, it is searched for every copy. Otherwise, data next to the manifest are proof if their hash
    still equals the hash in the record that ``leakage plant`` wrote for this manifest. Natural secrets are not planted,
    so a manifest with natural canaries only needs no proof unless ``planted`` is given. Raises OptionError if the
    ``planted`` data do not match the manifest.
    """
    if not any(canary.planted for canary in canaries):
        return PlantingProof("none")
    if planted is not None:
        return _search(manifest, canaries, planted)
    if all(canary.kind == "natural" for canary in canaries if canary.planted):
        return PlantingProof("none")
    records = [record for _, record in records_of(manifest, manifest_hash(canaries)) if record.part != "validation"]
    for record in records:
        data = manifest.parent / record.output
        if data.exists() and sha256_of(data) == record.output_sha256:
            return PlantingProof("proven", data.name, record.output_sha256, _shares(canaries, record))
    return PlantingProof("claimed")


def _search(manifest: Path, canaries: Sequence[Canary], planted: Path) -> PlantingProof:
    report = verify(planted, manifest)
    if not report.ok:
        more = len(report.problems) - 1
        others = f", and {more} more" if more else ""
        raise OptionError(
            f"--metadata planted={planted}: does not hold the canaries of {manifest} ({report.problems[0]}{others}): "
            "give the data that 'leakage plant' wrote from it"
        )
    digest = sha256_of(planted)
    record = read_sidecar(sidecar_path(planted))
    if record is None or record.output_sha256 != digest or record.part == "validation":
        return PlantingProof("proven", planted.name, digest)
    return PlantingProof("proven", planted.name, digest, _shares(canaries, record))


def _shares(canaries: Sequence[Canary], record: Sidecar) -> dict[int, float]:
    """Return the share of the data's text that copies and near copies of canaries take, by their number per canary."""
    near = near_counts(canaries)
    copies = {canary.id: canary.repetitions + near[canary.id] for canary in canaries}
    lengths: Counter[int] = Counter()
    for canary in canaries:
        if canary.kind not in ("natural", "supporting"):
            attacked = canary.supports or canary.id
            lengths[copies[attacked]] += record.copies.get(canary.id, 0) * len(canary.text)
    return {times: length / record.characters for times, length in lengths.items() if length and record.characters}
