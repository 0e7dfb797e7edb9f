"""A manifest is read once a run: by its task, and not again by the attacks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from lm_eval.models.huggingface import HFLM

from leakage_tasks.attacks import finding_from_json
from leakage_tasks.canaries import Canary, make_canaries, read_manifest, write_manifest
from leakage_tasks.tasks import manifests
from leakage_tasks.tasks.manifests import ReadManifest, manifest_of, read_once, share_manifest
from tests.oracles import letters, tiny_gpt2
from tests.tasks.test_canary_tasks import BOTH, evaluate


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A manifest with a natural canary, whose secret no document holds, and a supporting one."""
    first, *others = make_canaries("pin {unique} is {digits:2}", 3, repetitions=(1, 10), controls=2)
    natural = replace(others[0], id="natural-0", kind="natural", seed=None)
    supporting = replace(others[1], id="supporting-0", kind="supporting", supports=first.id)
    path = tmp_path / "canaries.jsonl"
    write_manifest([first, *others, natural, supporting], path)
    return path


@contextmanager
def piped(path: Path) -> Iterator[str]:
    """The name that a shell gives ``<(cat path)``."""
    end, start = os.pipe()
    os.write(start, path.read_bytes())
    os.close(start)
    try:
        yield f"/dev/fd/{end}"
    finally:
        os.close(end)


def findings(manifest: str) -> dict[str, list[tuple[str, float | None, int]]]:
    """What both tasks find out about each canary."""
    lm = HFLM(pretrained=tiny_gpt2(letters()), tokenizer=letters(), batch_size=16)
    samples = evaluate(lm, BOTH, {"canaries": manifest})["samples"]
    read = {name: [finding_from_json(sample["resps"][0][0]) for sample in samples[name]] for name in BOTH}
    return {name: [(each.canary, each.rank, each.supporting) for each in found] for name, found in read.items()}


def test_a_pipe_serves_both_tasks_as_the_file_does(written: Path) -> None:
    expected = findings(str(written))
    with piped(written) as manifest:
        assert findings(manifest) == expected
    assert {name for name, _, _ in expected["canary_exposure"]} >= {"natural-0"}
    assert ("canary-0", 1) in {(name, supporting) for name, _, supporting in expected["canary_exposure"]}


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The manifests that were read, once for each time."""
    paths: list[str] = []

    def read(path: str) -> list[Canary]:
        paths.append(path)
        return read_manifest(path)

    monkeypatch.setattr(manifests, "read_manifest", read)
    return paths


def test_tasks_and_attacks_read_the_manifest_once(written: Path, reads: list[str]) -> None:
    assert findings(str(written))["canary_exposure"]
    assert reads == [str(written)]


def test_a_changed_manifest_is_read_again(written: Path, reads: list[str]) -> None:
    before = read_once(str(written))
    write_manifest(before.canaries[:1], written)
    assert read_once(str(written)).canaries == before.canaries[:1]
    assert len(reads) == 2


def test_a_manifest_that_was_changed_is_not_mixed_up_with_what_was_read_before(written: Path) -> None:
    before, after = (ReadManifest(str(written), tuple(read_manifest(written)[:number])) for number in (1, 2))
    share_manifest(before, "hash of the first")
    share_manifest(after, "hash of the second")
    for read, sha256 in ((before, "hash of the first"), (after, "hash of the second")):
        assert manifest_of({"canaries": str(written), "manifest": sha256}) == read.canaries


def test_what_no_task_has_read_is_read(written: Path) -> None:
    assert manifest_of({"canaries": str(written), "manifest": "of no task"}) == tuple(read_manifest(written))
