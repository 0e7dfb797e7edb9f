"""The record beside a planted dataset."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from leakage_tasks.canaries import Canary, manifest_hash, plant, read_manifest, verify, write_manifest
from leakage_tasks.canaries.plant_jobs import PlantReport
from leakage_tasks.canaries.sidecar import TRAINED_AFTER, read_sidecar, records_of, sha256_of, sidecar_path
from leakage_tasks.core.errors import PlantingError


@pytest.fixture
def report(tmp_path: Path, manifest: Path) -> PlantReport:
    """Of planting in a text file."""
    (tmp_path / "in.txt").write_text("one\n")
    return plant(manifest, tmp_path / "in.txt", tmp_path / "out.txt")


def test_round_trip(tmp_path: Path, report: PlantReport) -> None:
    assert read_sidecar(sidecar_path(tmp_path / "out.txt")) == report.record
    assert read_sidecar(sidecar_path(tmp_path / "in.txt")) is None


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"schema": 2}', '{"schema": 1}', "\xff"])
def test_damaged_records(tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.leakage.json"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(PlantingError, match="plant again, or remove the record"):
        read_sidecar(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("output", 1.5),
        ("output", "/dev/zero"),
        ("output", "../other.txt"),
        ("output", "x" * 300),
        ("output", "a\0b"),
        ("manifest_sha256", None),
        ("copies", {"a": "2"}),
        ("copies", {"a": -1}),
        ("copies", {"a": 10**400}),
        ("characters", 10**400),
        ("extra", 1),
        ("part", 3),
        ("part", "half"),
        ("source_column", ["a"]),
        ("label_column", 3),
        ("split", {}),
        ("text_column", None),
        ("copies", []),
        ("before", "a cliff"),
    ],
)
def test_a_field_that_cannot_be_is_named(report: PlantReport, name: str, value: object) -> None:
    data = json.loads(report.sidecar.read_text())
    report.sidecar.write_text(json.dumps({**data, name: value}))
    with pytest.raises(PlantingError, match=rf"a damaged record \(field '{name}'\)"):
        read_sidecar(report.sidecar)


def test_records_of_before_there_were_parts_and_sources(report: PlantReport) -> None:
    data = json.loads(report.sidecar.read_text())
    del data["part"], data["source_column"], data["before"], data["characters"]
    report.sidecar.write_text(json.dumps(data))
    assert read_sidecar(report.sidecar) == dataclasses.replace(report.record, before=None, characters=None)


def test_hash_of_a_folder_is_of_names_and_contents(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "a").write_text("1")
    hashes = {sha256_of(folder)}
    (folder / "sub" / "a").write_text("2")
    hashes.add(sha256_of(folder))
    (folder / "sub" / "a").rename(folder / "sub" / "b")
    hashes.add(sha256_of(folder))
    assert len(hashes) == 3
    (folder / "cache-123.arrow").write_text("made by reading")
    assert sha256_of(folder) in hashes


@pytest.mark.parametrize(
    ("name", "content", "before"),
    [
        ("in.txt", "one\n", "line break"),
        ("in.jsonl", '{"text": "one"}\n', "start of a row"),
        ("in.csv", "text\none\n", "start of a row"),
        ("in.jsonl", '{"messages": [{"role": "user", "content": "one"}]}\n', "chat turn"),
    ],
)
def test_what_stands_before_a_copy_is_recorded(
    tmp_path: Path, manifest: Path, name: str, content: str, before: str
) -> None:
    (tmp_path / name).write_text(content)
    report = plant(manifest, tmp_path / name, (tmp_path / "out").with_suffix(Path(name).suffix))
    assert report.record.before == before
    kept = verify(report.output, manifest)
    assert [line for line in kept.lines() if "training reads" in line] == [
        f"training reads each copy {TRAINED_AFTER[before]}"
    ]


def test_a_labelled_text_has_no_advice_on_a_language_model_s_context(tmp_path: Path) -> None:
    write_manifest([Canary("c", "my pin is {digits:1}", ("4",), label="Pin")], tmp_path / "pins.jsonl")
    (tmp_path / "in.jsonl").write_text('{"text": "call", "label": "Pin"}\n')
    report = plant(tmp_path / "pins.jsonl", tmp_path / "in.jsonl", tmp_path / "out.jsonl", label_column="label")
    assert "training reads" not in " ".join(verify(report.output, tmp_path / "pins.jsonl").lines())


def test_utterances_of_a_tagger_have_no_text_before_them(tmp_path: Path) -> None:
    canary = Canary("c", "my pin is {digit_words:1}", ("4",), label="Pin", tags=("O", "O", "O", "B-pin"))
    write_manifest([canary], tmp_path / "pins.jsonl")
    (tmp_path / "in.conll").write_text("# intent = Call\ncall O\n")
    report = plant(tmp_path / "pins.jsonl", tmp_path / "in.conll", tmp_path / "out.conll")
    assert "training reads" not in " ".join(verify(report.output, tmp_path / "pins.jsonl").lines())


def test_the_records_of_a_manifest_are_found_beside_it(tmp_path: Path, manifest: Path, report: PlantReport) -> None:
    own = manifest_hash(read_manifest(manifest))
    (tmp_path / "damaged.leakage.json").write_text("{")
    assert [name for name, _ in records_of(manifest, own)] == [report.sidecar.name]
    assert records_of(manifest, "0" * 64) == []
