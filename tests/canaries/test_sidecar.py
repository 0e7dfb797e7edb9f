"""The record beside a planted dataset."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leakage_tasks.canaries import plant
from leakage_tasks.canaries.sidecar import read_sidecar, sha256_of, sidecar_path
from leakage_tasks.errors import PlantingError


def test_round_trip(tmp_path: Path, manifest: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_text("one\n")
    report = plant(manifest, source, tmp_path / "out.txt")
    assert read_sidecar(sidecar_path(tmp_path / "out.txt")) == report.record
    assert read_sidecar(sidecar_path(source)) is None


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"schema": 2}', '{"schema": 1}', "\xff"])
def test_damaged_records(tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.leakage.json"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(PlantingError, match="plant anew, or remove it") as error:
        read_sidecar(path)
    assert "\n" not in str(error.value)


def test_unknown_fields(tmp_path: Path, manifest: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_text("one\n")
    report = plant(manifest, source, tmp_path / "out.txt")
    data = json.loads(report.sidecar.read_text())
    report.sidecar.write_text(json.dumps({**data, "extra": 1}))
    with pytest.raises(PlantingError, match="field 'extra'"):
        read_sidecar(report.sidecar)


def test_records_of_before_there_were_parts_and_sources(tmp_path: Path, manifest: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_text("one\n")
    report = plant(manifest, source, tmp_path / "out.txt")
    data = json.loads(report.sidecar.read_text())
    del data["part"], data["source_column"]
    report.sidecar.write_text(json.dumps(data))
    assert read_sidecar(report.sidecar) == report.record


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
    ("name", "value"),
    [
        ("part", 3),
        ("part", "half"),
        ("source_column", ["a"]),
        ("label_column", 3),
        ("split", {}),
        ("text_column", None),
        ("copies", []),
    ],
)
def test_a_field_of_another_type(tmp_path: Path, manifest: Path, leakage, name: str, value: object) -> None:
    (tmp_path / "in.txt").write_text("one\n")
    report = plant(manifest, tmp_path / "in.txt", tmp_path / "out.txt")
    report.sidecar.write_text(json.dumps({**json.loads(report.sidecar.read_text()), name: value}))
    code, _, err = leakage("verify", tmp_path / "out.txt", manifest)
    assert code == 2
    assert f"a damaged record (field {name!r})" in err
