"""Whether canaries were planted: shown by the data, or only said by the manifest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.manifest import manifest_hash
from leakage_tasks.canaries.sidecar import records_of, sha256_of
from leakage_tasks.canaries.verify import verify
from leakage_tasks.errors import OptionError

State = Literal["proven", "claimed", "none"]


@dataclass(frozen=True)
class Planting:
    """``data`` is the name of what proves it, ``sha256`` its hash; None where nothing does.

    Proven is that the data hold the copies, not that a model was trained on the data.
    """

    state: State
    data: str | None = None
    sha256: str | None = None


def planting_of(manifest: Path, canaries: Sequence[Canary], planted: Path | None = None) -> Planting:
    """How well it is known that the planted ones of ``canaries``, which are the manifest's, are in some data.

    ``planted`` is searched for every copy. Without it, data beside the manifest prove it that are still what
    ``leakage plant`` wrote from this manifest. Raises OptionError for ``planted`` data that do not hold the canaries.
    """
    if not any(canary.planted for canary in canaries):
        return Planting("none")
    if planted is not None:
        return _searched(manifest, planted)
    for _, record in records_of(manifest, manifest_hash(canaries)):
        data = manifest.parent / record.output
        if data.exists() and sha256_of(data) == record.output_sha256:
            return Planting("proven", data.name, record.output_sha256)
    return Planting("claimed")


def _searched(manifest: Path, planted: Path) -> Planting:
    report = verify(planted, manifest)
    if not report.ok:
        more = len(report.problems) - 1
        others = f", and {more} more" if more else ""
        raise OptionError(
            f"--metadata planted={planted}: does not hold the canaries of {manifest} ({report.problems[0]}{others}): "
            "give the data that 'leakage plant' wrote from it"
        )
    return Planting("proven", planted.name, sha256_of(planted))
