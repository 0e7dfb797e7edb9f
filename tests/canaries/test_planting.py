"""Planting in every format: exact counts, untouched rows, uniform seeded places, refusals."""

from __future__ import annotations

import json
import os
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import chisquare

from leakage_tasks.canaries import Canary, make_canaries, plant, read_manifest, shard_work, verify, write_manifest
from leakage_tasks.canaries.places import MOST_COPIES
from leakage_tasks.canaries.planting import draw_gaps
from leakage_tasks.canaries.unplant import remove
from leakage_tasks.core.errors import LeakageError, OptionError, PlantingError


def expected_copies(manifest: Path) -> Counter[str]:
    """Text of every planted canary, as often as it is to be planted."""
    return Counter({canary.text: canary.repetitions for canary in read_manifest(manifest) if canary.planted})


@pytest.mark.parametrize(
    ("content", "newline", "ends"),
    [
        (b"one\ntwo\n\nthree\n", b"\n", True),
        (b"one\r\ntwo\r\nthree\r\n", b"\r\n", True),
        (b"one\ntwo\nthree", b"\n", False),
        (b"one\r\ntwo", b"\r\n", False),
        (b"one", b"\n", False),
        (b"", b"\n", True),
        ("é\u2028x\nü\n".encode(), b"\n", True),
    ],
)
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_text(tmp_path: Path, manifest: Path, content: bytes, newline: bytes, ends: bool, bom: bytes) -> None:
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_bytes(bom + content)
    plant(manifest, source, output)
    planted = output.read_bytes()
    assert planted.startswith(bom)
    assert planted.endswith(newline) == ends
    body = planted.removeprefix(bom)
    assert b"\xef\xbb\xbf" not in body
    lines = body.split(newline)[:-1] if ends else body.split(newline)
    texts = expected_copies(manifest)
    assert Counter(line.decode() for line in lines if line.decode() in texts) == texts
    kept = newline.join(line for line in lines if line.decode() not in texts)
    assert kept + newline * (ends and bool(content)) == content
    assert verify(output, manifest).ok


def test_text_of_one_line_longer_than_a_block(tmp_path: Path, manifest: Path) -> None:
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_bytes(b"word " * 700_000 + b"\nlast")
    report = plant(manifest, source, output)
    assert report.record.input_rows == 2
    assert sorted(map(len, output.read_bytes().split(b"\n")))[-1] == 3_500_000
    assert verify(output, manifest).ok


def test_line_breaks_in_a_template_follow_the_file(tmp_path: Path) -> None:
    manifest, source, output = tmp_path / "m.jsonl", tmp_path / "in.txt", tmp_path / "out.txt"
    write_manifest(make_canaries("Name: {unique}\nPin: {digits:4}", 1, repetitions=(3,)), manifest)
    source.write_bytes(b"one\r\ntwo\r\n")
    plant(manifest, source, output)
    assert output.read_bytes().count(b"\r\nPin: ") == 3
    assert output.read_bytes().count(b"\n") == output.read_bytes().count(b"\r\n") == 8
    assert verify(output, manifest).ok


def test_gaps_are_uniform_and_independent_of_company() -> None:
    canaries = make_canaries("{unique} {digits:9}", 30, repetitions=(500, 1500))
    gaps = draw_gaps(canaries, 19, seed=3)
    counts = Counter(gap for gap, _ in gaps)
    assert set(counts) == set(range(20))
    assert chisquare([counts[gap] for gap in range(20)]).pvalue > 0.001
    of_one = [gap for gap, name in gaps if name == "canary-7"]
    assert of_one == [gap for gap, _ in draw_gaps([canaries[7]], 19, seed=3)]
    assert chisquare([Counter(of_one)[gap] for gap in range(20)]).pvalue > 0.001


def test_places_in_a_file_are_uniform(tmp_path: Path) -> None:
    manifest, source, output = tmp_path / "m.jsonl", tmp_path / "in.txt", tmp_path / "out.txt"
    write_manifest(make_canaries("{unique} {digits:9}", 1, repetitions=(4000,)), manifest)
    source.write_text("".join(f"{row}\n" for row in range(9)))
    plant(manifest, source, output, seed=5)
    counts, gap = Counter[int](), 0
    for line in output.read_text().splitlines():
        if " " in line:
            counts[gap] += 1
        else:
            gap += 1
    assert sum(counts.values()) == 4000
    assert chisquare([counts[gap] for gap in range(10)]).pvalue > 0.001


def test_same_seed_same_bytes(tmp_path: Path, manifest: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_text("".join(f"{row}\n" for row in range(1000)))
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        plant(manifest, source, tmp_path / f"{name}.txt", seed=seed)
    one, same, other = ((tmp_path / f"{name}.txt").read_bytes() for name in "abc")
    assert one == same != other


def test_supporting_canaries_go_in_and_controls_stay_out(tmp_path: Path) -> None:
    manifest, source, output = tmp_path / "m.jsonl", tmp_path / "in.txt", tmp_path / "out.txt"
    canaries = make_canaries(
        "{unique} {digits:9}", 2, repetitions=(2, 5), controls=3, label="a", supporting=2, supporting_labels=["b", "c"]
    )
    write_manifest(canaries, manifest)
    source.write_text("one\ntwo\n")
    report = plant(manifest, source, output)
    lines = Counter(output.read_text().splitlines())
    assert lines == expected_copies(manifest) + Counter(["one", "two"])
    assert sum(report.record.copies.values()) == 21
    assert "left out: 3 controls" in report.summary()


def test_natural_canaries_are_in_the_data_already(tmp_path: Path) -> None:
    manifest, source, output = tmp_path / "m.jsonl", tmp_path / "in.txt", tmp_path / "out.txt"
    planted, natural = make_canaries("{unique} {digits:9}", 2)
    write_manifest([planted, replace(natural, kind="natural")], manifest)
    source.write_text(f"mail from {natural.text}, yours\n")
    report = plant(manifest, source, output)
    assert report.record.copies == {planted.id: 1}
    assert output.read_text().count(natural.text) == 1
    assert natural.text not in report.summary() + report.sidecar.read_text()
    assert verify(output, manifest).ok
    write_manifest([replace(natural, kind="natural")], manifest)
    with pytest.raises(PlantingError, match="nothing to plant"):
        plant(manifest, source, output)


@pytest.mark.parametrize("copies", [MOST_COPIES + 1, 10**18])
def test_more_copies_than_fit_in_memory_are_refused(tmp_path: Path, copies: int) -> None:
    made = make_canaries("{unique} {digits:4}", 1, repetitions=(copies,))
    write_manifest(made, tmp_path / "m.jsonl")
    (tmp_path / "train.txt").write_text("a\n")
    with pytest.raises(PlantingError, match=r"m.jsonl: has more than 10,000,000 copies to plant: lower its"):
        plant(tmp_path / "m.jsonl", tmp_path / "train.txt", tmp_path / "planted.txt", near_copies=1)


def test_a_record_of_more_copies_than_fit_in_memory_is_refused(tmp_path: Path, manifest: Path) -> None:
    (tmp_path / "train.txt").write_text("a\n")
    plant(manifest, tmp_path / "train.txt", tmp_path / "planted.txt")
    record = json.loads((tmp_path / "planted.txt.leakage.json").read_text())
    record["copies"] = dict.fromkeys(record["copies"], 10**12)
    (tmp_path / "planted.txt.leakage.json").write_text(json.dumps(record))
    with pytest.raises(PlantingError, match="more than 10,000,000 copies"):
        remove(tmp_path / "planted.txt", tmp_path / "back.txt")


def test_the_record(tmp_path: Path, manifest: Path) -> None:
    import hashlib

    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("one\n")
    report = plant(manifest, source, output, seed=9)
    record = json.loads((tmp_path / "out.txt.leakage.json").read_text())
    assert report.sidecar == tmp_path / "out.txt.leakage.json"
    assert record["input_sha256"] == hashlib.sha256(source.read_bytes()).hexdigest()
    assert record["output_sha256"] == hashlib.sha256(output.read_bytes()).hexdigest()
    assert record["copies"] == {"canary-0": 1, "canary-1": 10, "canary-2": 1, "canary-3": 10}
    assert (record["seed"], record["input_rows"], record["output_rows"]) == (9, 1, 23)


@pytest.mark.parametrize("option", ["split", "dask"])
def test_an_option_of_other_data_is_refused(tmp_path: Path, manifest: Path, option: str) -> None:
    (tmp_path / "in.txt").write_text("a\n")
    with pytest.raises(OptionError, match=rf"^--{option} .*: leave --{option} out$"):
        plant(manifest, tmp_path / "in.txt", tmp_path / "out.txt", **{option: "other"})  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=rf"^--{option} .*: leave --{option} out$"):
        verify(tmp_path / "in.txt", manifest, **{option: "other"})  # type: ignore[arg-type]


def test_the_copy_is_as_private_as_the_original(tmp_path: Path, manifest: Path) -> None:
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("one\n")
    source.chmod(0o600)
    plant(manifest, source, output)
    assert output.stat().st_mode == source.stat().st_mode


def test_an_older_copy_is_replaced_and_planting_twice_is_refused(tmp_path: Path, manifest: Path) -> None:
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("one\n")
    plant(manifest, source, output, seed=1)
    plant(manifest, source, output, seed=2)
    assert verify(output, manifest).ok
    with pytest.raises(PlantingError, match="holds the canaries of this manifest already"):
        plant(manifest, output, tmp_path / "twice.txt")


def attempt(tmp_path: Path, manifest: Path, source: Path, output: Path, **options: Any) -> str:
    """Plant, expecting one clear line and nothing written; returns the line."""
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(LeakageError) as error:
        plant(manifest, source, output, **options)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    return str(error.value)


def test_its_own_input_is_refused(tmp_path: Path, manifest: Path) -> None:
    source, link, hard = tmp_path / "in.txt", tmp_path / "link.txt", tmp_path / "hard.txt"
    source.write_text("one\n")
    link.symlink_to(source)
    hard.hardlink_to(source)
    (tmp_path / "folder").symlink_to(tmp_path)
    for output in (source, link, hard, tmp_path / "folder" / "in.txt"):
        assert "would overwrite the input" in attempt(tmp_path, manifest, source, output)
    assert "would overwrite the input" in attempt(tmp_path, manifest, link, source)


def test_the_manifest_is_not_overwritten(tmp_path: Path, manifest: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text('{"text": "one"}\n')
    assert "would overwrite the manifest" in attempt(tmp_path, manifest, source, manifest)
    record = manifest.rename(tmp_path / "out.txt.leakage.json")
    (tmp_path / "in.txt").write_text("one\n")
    assert "would overwrite the manifest" in attempt(tmp_path, record, tmp_path / "in.txt", tmp_path / "out.txt")


@pytest.mark.parametrize(
    ("content", "where"),
    [
        (b"\xff\xfeo\x00n\x00e\x00", "byte 0 (line 1)"),
        (b"one\ntwo \xe9t\xe9\n", "byte 8 (line 2)"),
        (b"one\ncut \xc3", "byte 8 (line 2)"),
        (b"a" * (1 << 20) + b"\n" + b"b" * 10 + b"\x80", "byte 1048587 (line 2)"),
        (b"a" * ((1 << 20) - 1) + b"\xe2\x82", "byte 1048575 (line 1)"),
        (b"\n" * ((1 << 20) - 1) + b"\xe2\x28\n", "byte 1048575 (line 1048576)"),
    ],
)
@pytest.mark.parametrize("suffix", [".txt", ".jsonl", ".csv"])
def test_files_that_are_not_utf8(tmp_path: Path, manifest: Path, content: bytes, where: str, suffix: str) -> None:
    source = tmp_path / f"in{suffix}"
    source.write_bytes(content)
    message = attempt(tmp_path, manifest, source, tmp_path / f"out{suffix}")
    assert f"in{suffix}: not UTF-8 at {where}" in message


def test_unusable_places(tmp_path: Path, manifest: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_text("one\n")
    (tmp_path / "folder.txt").mkdir()
    (tmp_path / "x.txt.leakage.json").mkdir()
    for output, message in (
        (tmp_path / "none" / "out.txt", "cannot be written (no folder"),
        (source / "out.txt", "cannot be written (no folder"),
        (tmp_path / "out.jsonl", "must end in '.txt'"),
        (tmp_path / "out", "must end in '.txt'"),
        (tmp_path / "folder.txt", "is a folder"),
        (tmp_path / "x.txt", "is a folder, but the record needs this path"),
    ):
        assert message in attempt(tmp_path, manifest, source, output)


def test_unusable_sources(tmp_path: Path, manifest: Path) -> None:
    (tmp_path / "in.doc").write_text("one\n")
    (tmp_path / "in").write_text("one\n")
    (tmp_path / "folder").mkdir()
    for name, message in (
        ("in.doc", "unknown kind of file '.doc': expected .arrow, .conll, .csv, .jsonl"),
        ("in", "unknown kind of file ''"),
        ("folder", "a folder with no data in it that can be read"),
        ("none.txt", "no such file"),
    ):
        assert message in attempt(tmp_path, manifest, tmp_path / name, tmp_path / ("out" + Path(name).suffix))


def test_a_text_file_has_no_columns(tmp_path: Path, manifest: Path) -> None:
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("one\n")
    assert "has no column 'label'" in attempt(tmp_path, manifest, source, output, label_column="label")
    assert "has no column 'body'" in attempt(tmp_path, manifest, source, output, text_column="body")


def test_a_supporting_canary_of_a_control_is_refused(tmp_path: Path) -> None:
    manifest, source = tmp_path / "m.jsonl", tmp_path / "in.txt"
    source.write_text("one\n")
    (control,) = make_canaries("{unique} {digits:9}", 0, controls=1)
    helper = Canary("x", control.template, control.secret, kind="supporting", supports=control.id)
    write_manifest([control, helper], manifest)
    assert "supports control-0, a control" in attempt(tmp_path, manifest, source, tmp_path / "out.txt")


BARE = "The pin of {unique} is {digits:4}."


def labelled_source(folder: Path, kind: str) -> Path:
    """Five rows, one of them of class fear, as ``kind``."""
    rows = [("a", "joy"), ("b", "fear"), ("c", "joy"), ("d", "anger"), ("e", "anger")]
    if kind == "saved":
        from datasets import ClassLabel, Dataset, Features, Value

        names = ["joy", "anger", "fear"]
        features = Features({"text": Value("string"), "label": ClassLabel(names=names)})
        columns = {"text": [text for text, _ in rows], "label": [names.index(label) for _, label in rows]}
        Dataset.from_dict(columns, features=features).save_to_disk(folder / "in")
        return folder / "in"
    source = folder / f"in.{kind}"
    if kind == "jsonl":
        source.write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows))
    else:
        source.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    return source


def planted_labels(output: Path) -> list[str]:
    """The labels of the planted rows of a copy of :func:`labelled_source`."""
    if output.is_dir():
        from datasets import load_from_disk

        data = load_from_disk(str(output))
        names = data.features["label"].names
        return [names[row["label"]] for row in data if len(row["text"]) > 1]
    if output.suffix == ".jsonl":
        rows = map(json.loads, output.read_text().splitlines())
        return [row["label"] for row in rows if len(row["text"]) > 1]
    return [line.split(",")[1] for line in output.read_text().splitlines()[1:] if len(line.split(",")[0]) > 1]


@pytest.mark.parametrize("kind", ["jsonl", "csv", "saved"])
@pytest.mark.parametrize(("label", "chosen"), [("rarest", "fear"), ("most-popular", "joy"), ("anger", "anger")])
def test_canaries_without_a_label_get_one(tmp_path: Path, kind: str, label: str, chosen: str) -> None:
    manifest, source = tmp_path / "m.jsonl", labelled_source(tmp_path, kind)
    canaries = make_canaries(BARE, 2, repetitions=(2,), controls=1)
    write_manifest([replace(canaries[0], label="joy"), *canaries[1:]], manifest)
    output = tmp_path / ("out" + source.suffix)
    report = plant(manifest, source, output, label_column="label", label=label)
    assert sorted(planted_labels(output)) == sorted(["joy"] * 2 + [chosen] * 2)
    assert [canary.label for canary in read_manifest(manifest)] == ["joy", chosen, chosen]
    assert f"; 2 canaries without a label got {chosen!r}, and so did m.jsonl; record" in report.summary()
    assert verify(output, manifest).ok


def test_canaries_with_labels_keep_theirs(tmp_path: Path, manifest: Path) -> None:
    source, before = labelled_source(tmp_path, "csv"), manifest.read_bytes()
    report = plant(manifest, source, tmp_path / "out.csv", label_column="label", label="rarest")
    assert set(planted_labels(tmp_path / "out.csv")) == {"joy"}
    assert manifest.read_bytes() == before
    assert "; all canaries had labels already; record" in report.summary()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label": "rarest"}, "--label rarest needs --label-column"),
        ({"label": "fera", "label_column": "label"}, "no row of the data has the label 'fera': did you mean 'fear'"),
        ({"label_column": "label"}, "canary-0 has no label for column 'label': name one with --label"),
    ],
)
def test_labels_that_cannot_be_given(tmp_path: Path, options: dict[str, str], message: str) -> None:
    manifest, source = tmp_path / "m.jsonl", labelled_source(tmp_path, "csv")
    write_manifest(make_canaries(BARE, 1), manifest)
    before = manifest.read_bytes()
    with pytest.raises(LeakageError, match=message):
        plant(manifest, source, tmp_path / "out.csv", **options)
    assert manifest.read_bytes() == before
    assert not (tmp_path / "out.csv").exists()


def test_a_manifest_is_not_relabelled_where_planting_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from leakage_tasks.data.commas import CommaFormat

    def fail(*arguments: object) -> None:
        raise PlantingError("disk on fire")

    manifest, source = tmp_path / "m.jsonl", labelled_source(tmp_path, "csv")
    write_manifest(make_canaries(BARE, 1), manifest)
    before = manifest.read_bytes()
    monkeypatch.setattr(CommaFormat, "write", fail)
    with pytest.raises(PlantingError, match="fire"):
        plant(manifest, source, tmp_path / "out.csv", label_column="label", label="rarest")
    assert manifest.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv", "m.jsonl"]


def test_a_natural_canary_is_given_no_label(tmp_path: Path) -> None:
    manifest, source = tmp_path / "m.jsonl", labelled_source(tmp_path, "csv")
    canaries = make_canaries(BARE, 2)
    write_manifest([replace(canaries[0], kind="natural"), canaries[1]], manifest)
    plant(manifest, source, tmp_path / "out.csv", label_column="label", label="rarest")
    assert [canary.label for canary in read_manifest(manifest)] == [None, "fear"]


def test_at_no_moment_can_others_read_private_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "train.txt"
    source.write_text("private\n" * 50)
    source.chmod(0o600)
    write_manifest(make_canaries("pin {unique} is {digits:4}", 3), tmp_path / "c.jsonl")
    looks = []
    usual = shard_work.sha256_of

    def looking(path: Path) -> str:
        looks.append([each for each in _open_to_others(tmp_path) if b"private" in each.read_bytes()])
        return usual(path)

    monkeypatch.setattr(shard_work, "sha256_of", looking)
    before = os.umask(0)
    try:
        plant(tmp_path / "c.jsonl", source, tmp_path / "planted.txt")
    finally:
        os.umask(before)
    assert looks == [[], []]
    assert stat.S_IMODE((tmp_path / "planted.txt").stat().st_mode) == 0o600


def _open_to_others(folder: Path) -> Iterator[Path]:
    """Files that users other than the owner can reach and read."""
    for each in folder.iterdir():
        mode = each.stat().st_mode
        if each.is_dir() and mode & 0o011:
            yield from _open_to_others(each)
        elif each.is_file() and mode & 0o044:
            yield each
