"""Planting into training and validation data at once, 9 : 1, and verifying each."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.canaries import (
    PlantReport,
    make_canaries,
    nlu_canaries,
    plant,
    read_manifest,
    verify,
    write_manifest,
)
from leakage_tasks.canaries.sidecar import read_sidecar, repetitions_in, sidecar_path
from leakage_tasks.core.errors import LeakageError, PlantingError
from leakage_tasks.data.utterances import Utterance, read_utterances, write_folder

REPETITIONS = (1, 9, 10, 19, 100)
HELD = (0, 0, 1, 1, 10)


@dataclass(frozen=True)
class Places:
    """A manifest, two data sets of lines and where their copies go."""

    folder: Path
    suffix: str

    @property
    def manifest(self) -> Path:
        return self.folder / "m.jsonl"

    def __getitem__(self, name: str) -> Path:
        return self.folder / f"{name}{self.suffix}"

    def plant(self, **options: Any) -> PlantReport:
        """Plant ``train`` to ``t`` and ``valid`` to ``v``, unless told otherwise."""
        held = {"validation": self["valid"], "validation_output": self["v"]}
        return plant(self.manifest, self["train"], self["t"], **{**held, **options})


def lines_of(path: Path) -> list[str]:
    """The texts of the rows."""
    rows = path.read_text().splitlines()
    return [json.loads(row)["text"] for row in rows] if path.suffix == ".jsonl" else rows


def places(folder: Path, suffix: str) -> Places:
    made = Places(folder, suffix)
    write_manifest(make_canaries("{unique} {digits:9}", 5, repetitions=REPETITIONS, controls=2), made.manifest)
    for name, count in (("train", 50), ("valid", 8)):
        rows = [f"{name} {row}" for row in range(count)]
        made[name].write_text(
            "".join((json.dumps({"text": row}) if suffix == ".jsonl" else row) + "\n" for row in rows)
        )
    return made


@pytest.fixture(params=[".txt", ".jsonl"])
def both(tmp_path: Path, request: pytest.FixtureRequest) -> Places:
    return places(tmp_path, request.param)


@pytest.fixture
def text(tmp_path: Path) -> Places:
    return places(tmp_path, ".txt")


@given(st.integers(0, 10_000))
def test_a_tenth_is_held_back(repetitions: int) -> None:
    training, held = repetitions_in("training", repetitions), repetitions_in("validation", repetitions)
    assert training + held == repetitions_in(None, repetitions) == repetitions
    assert held == int(f"0{repetitions}"[:-1])


def test_each_file_gets_its_part(both: Places) -> None:
    report = both.plant()
    canaries = [canary for canary in read_manifest(both.manifest) if canary.planted]
    held = Counter({canary.text: copies for canary, copies in zip(canaries, HELD, strict=True)})
    whole = Counter({canary.text: canary.repetitions for canary in canaries})
    assert Counter(lines_of(both["t"])) == whole - held + Counter(lines_of(both["train"]))
    assert Counter(lines_of(both["v"])) == held + Counter(lines_of(both["valid"]))
    assert report.validation is not None
    assert report.validation.record.copies == {"canary-2": 1, "canary-3": 1, "canary-4": 10}
    assert (report.record.part, report.validation.record.part) == ("training", "validation")
    assert read_sidecar(sidecar_path(both["v"])) == report.validation.record


def test_what_went_where_is_said(text: Places, ran: Any) -> None:
    options = ("--validation", text["valid"], "--validation-output", text["v"])
    out, err = ran("plant", text.manifest, text["train"], "-o", text["t"], *options)
    # Validation data trains nothing, so its share of copies is no matter.
    assert err.startswith("leakage: warning: 72 % of t.txt are copies of canaries (127 added to 50 rows)")
    assert err.count("\n") == 1
    assert out.splitlines() == [
        f"{text['t']}: 127 copies of 5 canaries for training among 50 rows of 'text'; left out: 2 controls; "
        "record in t.txt.leakage.json",
        f"{text['v']}: 12 copies of 3 canaries for validation among 8 rows of 'text'; left out: 2 controls, "
        "2 with fewer than 10 repetitions; record in v.txt.leakage.json",
    ]


def test_each_part_is_as_planted(text: Places) -> None:
    text.plant()
    assert list(verify(text["t"], text.manifest).lines())[:1] == [
        f"{text['t']}: as planted; 127 copies in 177 rows; hashes checked"
    ]
    assert list(verify(text["v"], text.manifest).lines())[:1] == [
        f"{text['v']}: as planted; 12 copies in 20 rows; hashes checked"
    ]


def test_natural_canaries_must_stand_in_the_training_part_alone(text: Places) -> None:
    natural = replace(make_canaries("said {digits:9}", 1)[0], id="found", kind="natural")
    write_manifest([*read_manifest(text.manifest), natural], text.manifest)
    lines = text["train"].read_text()
    text["train"].write_text(f"{lines}he {natural.text}\n")
    text.plant()
    assert [verify(text[name], text.manifest).problems for name in ("t", "v")] == [[], []]
    text["train"].write_text(lines)
    text.plant(seed=1)
    assert [verify(text[name], text.manifest).problems for name in ("t", "v")] == [
        ["found: its text does not occur any more"],
        [],
    ]


@pytest.mark.parametrize(("name", "part", "expected"), [("t", "training", 90), ("v", "validation", 10)])
def test_a_missing_copy_is_found_in_either(text: Places, name: str, part: str, expected: int) -> None:
    text.plant()
    own = next(canary for canary in read_manifest(text.manifest) if canary.id == "canary-4")
    text[name].write_text(text[name].read_text().replace(own.text + "\n", "", 1))
    problems = verify(text[name], text.manifest).problems
    assert problems[1:] == [f"canary-4: {expected - 1} copies, the manifest says {expected} for {part}"]


def test_a_canary_of_few_repetitions_must_not_stand_in_validation(text: Places) -> None:
    text.plant()
    few = read_manifest(text.manifest)[0]
    text["v"].write_text(text["v"].read_text() + few.text + "\n")
    assert verify(text["v"], text.manifest).problems[1:] == ["canary-0: 1 copy, the manifest says 0 for validation"]


def test_without_its_record_a_part_is_taken_for_the_whole(text: Places) -> None:
    text.plant()
    sidecar_path(text["t"]).unlink()
    assert "canary-4: 90 copies, the manifest says 100" in verify(text["t"], text.manifest).problems


def test_places_in_the_two_files_are_drawn_apart(tmp_path: Path) -> None:
    both = places(tmp_path, ".txt")
    write_manifest(make_canaries("{unique} {digits:9}", 1, repetitions=(20,)), both.manifest)
    both["valid"].write_bytes(both["train"].read_bytes())
    both.plant()
    # With the same stream the two held copies would stand where the first two of training do.
    (text,) = (canary.text for canary in read_manifest(both.manifest))
    gaps = [
        [row - place for place, row in enumerate(row for row, line in enumerate(lines_of(both[name])) if line == text)]
        for name in "tv"
    ]
    assert not set(gaps[1]) <= set(gaps[0])


def test_a_label_found_by_counting_is_that_of_the_training_data(tmp_path: Path) -> None:
    both = places(tmp_path, ".csv")
    write_manifest(make_canaries("{unique} {digits:4}", 1, repetitions=(10,)), both.manifest)
    both["train"].write_text("text,label\na,x\nb,y\nc,y\n")
    both["valid"].write_text("text,label\na,x\nb,x\nc,y\n")
    both.plant(label_column="label", label="rarest")
    assert sorted(line.split(",")[1] for line in both["v"].read_text().splitlines()) == ["label", "x", "x", "x", "y"]
    assert verify(both["v"], both.manifest).ok


def attempt(both: Places, **options: Any) -> str:
    """Plant, expecting one clear line and nothing written; returns the line."""
    before = {path: path.read_bytes() for path in both.folder.rglob("*") if path.is_file()}
    with pytest.raises(LeakageError) as error:
        both.plant(**options)
    assert {path: path.read_bytes() for path in both.folder.rglob("*") if path.is_file()} == before
    return str(error.value)


def test_one_without_the_other(text: Places) -> None:
    message = "--validation and --validation-output go together: name the validation data and the path of its copy"
    assert attempt(text, validation=None) == message
    assert attempt(text, validation_output=None) == message


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("train", "would overwrite the input"),
        ("valid", "would overwrite the input"),
        ("t", "would overwrite the output"),
        ("none/v", "cannot be written (no folder"),
    ],
)
def test_outputs_in_each_others_way(text: Places, output: str, message: str) -> None:
    assert message in attempt(text, validation_output=text[output])


def nlu_folders(folder: Path) -> tuple[Path, Path, Path]:
    """A manifest of ten repetitions of a pin, training and validation data."""
    manifest, row = folder / "m.jsonl", Utterance(("rain", "today"), ("O", "B-day"), "GetWeather")
    write_manifest(nlu_canaries("pin", repetitions=(10,)), manifest)
    for name in ("train", "valid"):
        write_folder([row] * 3, folder / name)
    return manifest, folder / "train", folder / "valid"


def test_nlu_data(tmp_path: Path) -> None:
    manifest, train, valid = nlu_folders(tmp_path)
    plant(manifest, train, tmp_path / "t", validation=valid, validation_output=tmp_path / "v")
    for name, copies in (("t", 9), ("v", 1)):
        intents = Counter(row.intent for row in read_utterances(tmp_path / name))
        assert intents == {"GetWeather": 3, "PinIntent": copies}
        assert verify(tmp_path / name, manifest).ok


def test_an_output_where_the_other_ones_record_goes(tmp_path: Path) -> None:
    manifest, train, valid = nlu_folders(tmp_path)
    record = tmp_path / "t.leakage.json"
    with pytest.raises(PlantingError, match="would overwrite the output's record"):
        plant(manifest, train, tmp_path / "t", validation=valid, validation_output=record)


def test_neither_copy_is_written_where_one_fails(text: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    from leakage_tasks.data.lines import TextFormat

    write = TextFormat.write

    def fail(self: TextFormat, source: Path, *arguments: Any) -> None:
        if source == text["valid"]:
            raise PlantingError("disk on fire")
        write(self, source, *arguments)

    monkeypatch.setattr(TextFormat, "write", fail)
    assert attempt(text) == "disk on fire"


def test_validation_data_that_cannot_be_read(text: Places) -> None:
    text["valid"].write_bytes(b"one\n\xff\n")
    assert "valid.txt: not UTF-8 at byte 4 (line 2)" in attempt(text)
    text["valid"].unlink()
    assert "valid.txt: no such file" in attempt(text)
