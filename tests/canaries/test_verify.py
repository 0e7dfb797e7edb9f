"""Verification finds what is missing, too many, leaked or changed, and says so without secrets."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from leakage_tasks.canaries import Canary, make_canaries, plant, read_manifest, verify, write_manifest
from leakage_tasks.canaries.sidecar import sidecar_path
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.core.nouns import counted
from tests.conftest import Refused


@pytest.fixture
def planted(tmp_path: Path, manifest: Path) -> Path:
    """A planted text file."""
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("".join(f"line {row}\n" for row in range(100)))
    plant(manifest, source, output)
    return output


def problems_after(planted: Path, manifest: Path, old: str, new: str, count: int = -1) -> list[str]:
    """What verify says after an edit, the hash of which nobody recorded."""
    sidecar_path(planted).unlink(missing_ok=True)
    planted.write_text(planted.read_text().replace(old, new, count))
    return verify(planted, manifest).problems


def test_what_was_planted_passes(planted: Path, manifest: Path) -> None:
    report = verify(planted, manifest)
    assert report.ok
    assert {name: (count.expected, count.rows, count.inside) for name, count in report.counts.items()} == {
        **{"canary-0": (1, 1, 0), "canary-1": (10, 10, 0), "canary-2": (1, 1, 0), "canary-3": (10, 10, 0)},
        **{f"control-{place}": (0, 0, 0) for place in range(4)},
    }
    assert list(report.lines()) == [
        f"{planted}: as planted; 22 copies in 122 rows; hashes checked",
        r"training reads each copy after a line break (context=\n)",
    ]


def test_no_jobs_are_refused_for_a_single_file_too(planted: Path, manifest: Path, refused: Refused) -> None:
    copy = planted.with_stem("copy")
    for command in (
        ("plant", manifest, planted, "-o", copy),
        ("plant", "--remove", planted, "-o", copy),
        ("verify", planted, manifest),
    ):
        assert "--jobs is 0: give 1 or more" in refused(*command, "--jobs", 0)


def test_without_a_record_the_counts_still_count(planted: Path, manifest: Path) -> None:
    sidecar_path(planted).unlink()
    report = verify(planted, manifest)
    assert report.ok
    assert not report.recorded
    assert "hashes not checked" in list(report.lines())[-1]


def test_a_changed_file_and_a_changed_manifest(planted: Path, manifest: Path) -> None:
    planted.write_text(planted.read_text() + "more\n")
    assert [problem.split(": ", 1)[1] for problem in verify(planted, manifest).problems] == [
        "changed since it was planted (its SHA-256 is not the recorded one)"
    ]
    write_manifest(read_manifest(manifest)[:-1], manifest)
    assert "planted from another manifest" in verify(planted, manifest).problems[1]


def test_missing_and_surplus_copies(planted: Path, manifest: Path) -> None:
    text = read_manifest(manifest)[1].text
    assert problems_after(planted, manifest, text + "\n", "", 2) == ["canary-1: 8 copies, the manifest says 10"]
    assert problems_after(planted, manifest, "line 3\n", (text + "\n") * 5) == [
        "canary-1: 13 copies, the manifest says 10"
    ]


def test_copies_inside_other_rows(planted: Path, manifest: Path) -> None:
    text = read_manifest(manifest)[1].text
    assert problems_after(planted, manifest, "line 3\n", f"said: {text} {text}\n") == [
        "canary-1: occurs 2 more times, inside other rows"
    ]


@pytest.mark.parametrize("around", ["{}\n", "said: {}.\n", "{}{}\n"])
def test_a_control_must_not_occur(planted: Path, manifest: Path, around: str) -> None:
    control = read_manifest(manifest)[-1]
    (problem,) = problems_after(planted, manifest, "line 3\n", around.replace("{}", control.text))
    assert (
        problem == f"control-3: a control, which the model must never see, occurs {counted(around.count('{}'), 'time')}"
    )


def test_a_row_of_a_longer_canary_is_not_the_shorter_ones(tmp_path: Path) -> None:
    manifest, source, output = tmp_path / "m.jsonl", tmp_path / "in.txt", tmp_path / "out.txt"
    long = Canary("long", "pin {digits:4}", tuple("1234"), repetitions=2)
    start = Canary("start", "pin {digits:2}", tuple("12"), repetitions=0, planted=False)
    part = Canary("part", "{digits:3}", tuple("234"), repetitions=3)
    write_manifest([long, start, part], manifest)
    source.write_text("a\nb\n")
    plant(manifest, source, output)
    assert verify(output, manifest).ok


def test_canaries_with_one_text_are_counted_together(tmp_path: Path) -> None:
    manifest, source, output = tmp_path / "m.jsonl", tmp_path / "in.txt", tmp_path / "out.txt"
    one = Canary("one", "pin {digits:4}", tuple("1234"), repetitions=2)
    write_manifest([one, replace(one, id="two", repetitions=3)], manifest)
    source.write_text("a\nb\n")
    plant(manifest, source, output)
    assert output.read_text().count("pin 1234") == 5
    assert verify(output, manifest).ok


def test_natural_secrets_must_be_there_and_are_never_shown(tmp_path: Path) -> None:
    manifest, source = tmp_path / "m.jsonl", tmp_path / "in.txt"
    planted, natural = make_canaries("{unique} {digits:9}", 2, repetitions=(1, 3))
    write_manifest([planted, replace(natural, kind="natural")], manifest)
    source.write_text(f"{planted.text}\nsays {natural.text}, {natural.text}\n")
    report = verify(source, manifest, chunk=7)
    assert report.ok
    assert report.cut is not None
    assert report.cut["canary-1"] == 2
    source.write_text(f"{planted.text}\n")
    report = verify(source, manifest)
    assert report.problems == ["canary-1: its text does not occur any more"]
    said = "\n".join(report.lines())
    assert natural.text not in said
    assert "".join(natural.secret) not in said


def natural_report(folder: Path, text: str, canaries: list[Canary]) -> str:
    """Return the last line of the report on ``text``, without the file's name."""
    source, manifest = folder / "in.txt", folder / "m.jsonl"
    source.write_text(text)
    write_manifest(canaries, manifest)
    return list(verify(source, manifest).lines())[-1].removeprefix(f"{source}: ")


def test_natural_secrets_that_occur_are_counted(tmp_path: Path) -> None:
    alone, other = make_canaries("{unique} {digits:9}", 2)
    canaries = [replace(canary, kind="natural") for canary in (alone, other)]
    said = natural_report(tmp_path, f"{alone.text}\nand {other.text}.\n", canaries)
    assert said == "2 rows read; 2 of 2 natural secrets still occur; no record next to it, so hashes not checked"
    said = natural_report(tmp_path, "and\n", canaries[:1])
    assert said.startswith("1 problem; 1 row read; 0 of 1 natural secret still occurs; ")


def test_copies_are_of_planted_canaries_and_not_of_natural_secrets(tmp_path: Path) -> None:
    planted, natural = make_canaries("{unique} {digits:9}", 2)
    said = natural_report(tmp_path, f"{planted.text}\n{natural.text}\n", [planted, replace(natural, kind="natural")])
    assert said.startswith("as planted; 1 copy in 2 rows; 1 of 1 natural secret still occurs; ")


def test_a_natural_secret_that_begins_another_ones_text_is_there(tmp_path: Path) -> None:
    manifest, source = tmp_path / "m.jsonl", tmp_path / "in.txt"
    first = Canary("a", "call {digits:3}", tuple("123"), kind="natural")
    second = Canary("b", "call 123 or {digits:3}", tuple("456"), kind="natural")
    write_manifest([first, second], manifest)
    source.write_text("call 123 or 456")
    assert verify(source, manifest).ok
    source.write_text("call 321 or 456")
    assert [problem[:2] for problem in verify(source, manifest).problems] == ["a:", "b:"]


def test_another_column_without_a_record(tmp_path: Path, manifest: Path) -> None:
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text(json.dumps({"body": "x"}) + "\n")
    plant(manifest, source, output, text_column="body")
    assert verify(output, manifest).ok
    sidecar_path(output).unlink()
    with pytest.raises(LeakageError, match="no column 'text'"):
        verify(output, manifest)
    assert verify(output, manifest, text_column="body").ok


@pytest.mark.slow
def test_time_grows_with_missing_natural_secrets_and_not_with_their_square(tmp_path: Path) -> None:
    def seconds(number: int) -> float:
        manifest, source = tmp_path / "natural.jsonl", tmp_path / "in.txt"
        texts = [f"user {place} writes {{digits:2}}" for place in range(number)]
        write_manifest([Canary(f"n{at}", text, ("1", "2"), kind="natural") for at, text in enumerate(texts)], manifest)
        source.write_text("none of them\n")
        start = time.process_time()
        assert len(verify(source, manifest).problems) == number
        return time.process_time() - start

    def best(number: int) -> float:
        # What else runs beside it makes a run slower, never faster.
        return min(seconds(number) for _ in range(3))

    seconds(100)
    assert best(4000) < 8 * best(1000)
