"""The manifest: round trip, hash, privacy, and what is wrong with a broken one."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leakage_tasks.canaries import Canary, make_canaries, manifest_hash, read_manifest, write_manifest
from leakage_tasks.canaries.canary import Kind
from leakage_tasks.core.atomic import leftovers
from leakage_tasks.core.errors import LeakageError, ManifestError

CANARIES = make_canaries("The pin of {unique} is {digits:4}.", 3, repetitions=(1, 10), controls=2)
LINES = [json.dumps(canary.to_json()) for canary in CANARIES]


def test_round_trip(tmp_path: Path) -> None:
    write_manifest(CANARIES, tmp_path / "m.jsonl")
    assert read_manifest(tmp_path / "m.jsonl") == CANARIES


def test_blank_lines_windows_line_ends_and_a_byte_order_mark_are_fine(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_bytes(b"\xef\xbb\xbf" + "\r\n\r\n".join(LINES).encode())
    assert read_manifest(tmp_path / "m.jsonl") == CANARIES


def test_hash_is_of_the_content() -> None:
    assert manifest_hash(CANARIES) == manifest_hash(CANARIES[::-1])
    assert manifest_hash(CANARIES) != manifest_hash([replace(CANARIES[0], repetitions=2), *CANARIES[1:]])


def test_natural_secrets_are_for_the_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    write_manifest([replace(CANARIES[0], kind="natural")], path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    write_manifest([replace(CANARIES[0], kind="natural")], path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_manifest_is_as_open_as_the_one_that_it_replaces(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    write_manifest(CANARIES, path)
    assert stat.S_IMODE(path.stat().st_mode) & 0o400
    path.chmod(0o640)
    write_manifest(CANARIES, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_natural_manifest_is_never_open_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.jsonl"
    modes = []

    def looking(canary, to_json=Canary.to_json):
        modes.extend(stat.S_IMODE(each.stat().st_mode) for each in leftovers(tmp_path))
        return to_json(canary)

    monkeypatch.setattr(Canary, "to_json", looking)
    write_manifest([replace(CANARIES[0], kind="natural")], path)
    assert modes == [0o700]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_hash_of_a_natural_manifest_goes_by_its_salt() -> None:
    natural = [replace(canary, kind="natural", salt="5" * 32) for canary in CANARIES]
    digest = manifest_hash(natural)
    assert digest == manifest_hash(natural[::-1])
    assert digest != manifest_hash([replace(natural[0], repetitions=2), *natural[1:]])
    assert digest != manifest_hash([replace(natural[0], salt="6" * 32), *natural[1:]])


@pytest.mark.parametrize("changed", [{"secret": tuple("000")}, {"template": "other {digits:3}"}])
def test_without_a_salt_the_hash_is_not_of_a_natural_secret_nor_of_its_text(changed: dict[str, Any]) -> None:
    bare = Canary("n", "pin {digits:3}", tuple("123"), kind="natural")
    salted = replace(bare, salt="5" * 32)
    assert manifest_hash([replace(bare, **changed)]) == manifest_hash([bare])
    assert manifest_hash([replace(salted, **changed)]) != manifest_hash([salted])


def test_writing_fails_whole(tmp_path: Path) -> None:
    with pytest.raises(LeakageError, match="cannot be written"):
        write_manifest(CANARIES, tmp_path / "none" / "m.jsonl")

    def broken() -> list[Canary]:
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        write_manifest(broken(), tmp_path / "m.jsonl")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "m.jsonl: holds no canary"),
        (b"\n \n", "m.jsonl: holds no canary"),
        (b"\xff\xfe", "m.jsonl: not UTF-8 at byte 0"),
        (b"{", "m.jsonl:1: not JSON"),
        (b"[" * 200_000, "m.jsonl:1: not a canary .nested too deeply"),
        (b'{"schema": 1' + b"1" * 5000 + b"}", "m.jsonl:1: not a canary .a number too long"),
        (b"3", "m.jsonl:1: expected an object, found a number"),
        (
            "\n".join([LINES[0], LINES[1], LINES[0]]).encode(),
            "m.jsonl:3: field 'id': 'canary-0' is already used in line 1",
        ),
        (LINES[0].replace('"id"', '"name"').encode(), "m.jsonl:1: field 'id' is missing"),
        (
            json.dumps(replace(CANARIES[0], kind="supporting", supports="gone").to_json()).encode(),
            "m.jsonl:1: field 'supports': no canary has the id 'gone'",
        ),
    ],
)
def test_broken_manifests(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "m.jsonl").write_bytes(content)
    with pytest.raises(ManifestError, match=message):
        read_manifest(tmp_path / "m.jsonl")


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('{"schema": 1, "id": "a", "temp', "the text breaks off at column 31"),
        ('{"schema": 1,', "the text breaks off at column 14"),
        ('{"schema": 1, "id" 3}', "Expecting ':' delimiter at column 20"),
        ('{"id": "a\tb"}', "Invalid control character at column 10"),
    ],
)
def test_a_torn_line_is_reported_with_its_column(tmp_path: Path, line: str, fault: str) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text(f"{line}\n")
    with pytest.raises(ManifestError) as error:
        read_manifest(path)
    assert str(error.value) == f"{path}:1: not JSON ({fault}): fix the line"


KNOWN_FAULTS = [
    ("my code is {digits:2}", "is not a part of field 'template' with all of its slots"),
    ("{digits:1}", "is not a part of field 'template' with all of its slots"),
    ("pin", "has no slot: put in one such as {digits:4}"),
    ("pin {", "has a single '{' at 4: write it twice"),
    ("{nothing:2}", "has a slot of an unknown space, or with a count that is not a number"),
]


def refused(path: Path, kind: Kind = "random", **changed: object) -> str:
    """The error for a manifest of one canary with some fields changed, after the path."""
    path.write_text(json.dumps(Canary("c", "pin {digits:2}", ("4", "2"), kind=kind).to_json() | changed) + "\n")
    with pytest.raises(ManifestError) as error:
        read_manifest(path)
    return str(error.value).removeprefix(f"{path}:1: ")


@pytest.mark.parametrize(("known", "fault"), KNOWN_FAULTS)
def test_a_wrong_known_is_reported_as_field_known_without_the_text_of_a_natural_canary(
    tmp_path: Path, known: str, fault: str
) -> None:
    assert refused(tmp_path / "m.jsonl", known=known).startswith(f"field 'known': known {known!r}")
    natural = refused(tmp_path / "m.jsonl", "natural", known=known)
    assert natural == f"field 'known': {fault} (text not shown: natural)"


def test_unreadable_manifests(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(ManifestError, match="cannot read the manifest"):
            read_manifest(path)


def test_a_natural_secret_is_not_shown_by_the_error_that_refuses_it(tmp_path):
    error = refused(tmp_path / "m.jsonl", "natural", secret=["X-SECRET", "2"])
    assert error.startswith("field 'secret': ")
    assert "not shown" in error
    assert "SECRET" not in error


def test_a_misspelt_kind_is_told_before_anything_of_the_secret(tmp_path: Path) -> None:
    path = tmp_path / "canaries.jsonl"
    line = {"schema": 1, "id": "n", "template": "my card 4929-{n:4}", "secret": ["1"], "space": {"": {}}}
    path.write_text(json.dumps({**line, "repetitions": 1, "planted": True, "kind": "nat"}) + "\n")
    with pytest.raises(ManifestError, match="field 'kind' is not one of .*did you mean 'natural'") as told:
        read_manifest(path)
    assert "4929" not in str(told.value)


def test_a_kind_that_slipped_there_from_another_field_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "canaries.jsonl"
    write_manifest(make_canaries("the pin of {unique} is {digits:4}", 1, seed=1), path)
    path.write_text(path.read_text().replace('"kind": "random"', '"kind": "my card 4929-1234 thanks"'))
    with pytest.raises(ManifestError, match="field 'kind' is not one of ") as caught:
        read_manifest(path)
    assert "4929" not in str(caught.value)
