"""The records beside planted data."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path
from random import Random

from leakage_tasks.canaries.canary import canary_from_json
from leakage_tasks.canaries.manifest import manifest_hash, read_manifest, write_manifest
from leakage_tasks.canaries.planting import plant
from leakage_tasks.canaries.proof import planting_of
from leakage_tasks.canaries.sidecar import records_of
from leakage_tasks.canaries.verify import verify
from tests.fuzzing import mutate
from tests.fuzzing.case import Call, ensure
from tests.fuzzing.surfaces.manifests import line


@cache
def _files() -> dict[str, bytes]:
    """A manifest, data planted from it, and the record."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_manifest([canary_from_json(line("a"))], folder / "canaries.jsonl")
        (folder / "data.txt").write_text("one\ntwo\n")
        plant(folder / "canaries.jsonl", folder / "data.txt", folder / "planted.txt")
        return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "data.txt"}


def make(stream: Random, folder: Path) -> Call:
    """A record with something changed, beside what it tells of."""
    files = dict(_files())
    record = "planted.txt.leakage.json"
    files[record] = mutate.json_file(stream, json.loads(files[record]))
    for name, told in files.items():
        (folder / name).write_bytes(told)
    return Call(lambda: _read(folder))


def _read(folder: Path) -> None:
    manifest, planted = folder / "canaries.jsonl", folder / "planted.txt"
    records_of(manifest, manifest_hash(read_manifest(manifest)))
    ensure(bool(list(verify(planted, manifest, chunk=8).lines())), "what was verified is told")
    planting_of(manifest, read_manifest(manifest))
    planting_of(manifest, read_manifest(manifest), planted)
