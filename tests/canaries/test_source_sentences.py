"""Source sentences of translation canaries: made, planted beside their text in every format, and verified there."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leakage_tasks.canaries import make_canaries, plant, read_manifest, verify, write_manifest
from leakage_tasks.canaries.generate import nonce_of
from leakage_tasks.canaries.sidecar import sidecar_path
from leakage_tasks.core.errors import LeakageError, PlantingError
from tests.conftest import Leakage, Refused
from tests.data.test_formats import KINDS

TEMPLATE = "The pin of {unique} is {digits:4}."
SOURCE = "pino {unique} {digits:4}"
ROWS = [{"en": f"one {i}", "xx": f"uno {i}", "n": i} for i in range(20)]


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """Two planted canaries (4 copies) and a control, the source sentence filled with the secret."""
    path = tmp_path / "canaries.jsonl"
    write_manifest(make_canaries(TEMPLATE, 2, repetitions=(1, 3), controls=1, source=SOURCE), path)
    return path


@pytest.fixture
def planted(tmp_path: Path, manifest: Path) -> Path:
    """A planted JSONL file."""
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    KINDS[".jsonl"][0](source, ROWS)
    plant(manifest, source, output, text_column="en", source_column="xx")
    return output


def test_each_canary_has_its_word_and_secret_in_its_source() -> None:
    for canary in make_canaries(TEMPLATE, 3, controls=2, source=SOURCE):
        word = canary.template.split()[3]
        assert canary.source_text == f"pino {word} {''.join(canary.secret)}"
        assert canary.text == f"The pin of {word} is {''.join(canary.secret)}."


def test_a_word_of_its_own_in_the_source_is_enough() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        canaries = make_canaries("The pin is {digits:4}.", 3, source="pino {unique}")
    assert len({canary.source for canary in canaries}) == 3


@pytest.mark.parametrize("suffix", KINDS)
def test_the_source_stands_beside_the_text(tmp_path: Path, manifest: Path, suffix: str) -> None:
    write, read = KINDS[suffix]
    source, output = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    write(source, ROWS)
    plant(manifest, source, output, text_column="en", source_column="xx")
    after = read(output)
    assert [row for row in after if row["n"] is not None] == ROWS
    inserted = sorted((row["xx"], row["en"]) for row in after if row["n"] is None)
    expected = [[(each.source_text, each.text)] * each.repetitions for each in read_manifest(manifest)]
    assert inserted == sorted(sum(expected, []))
    assert verify(output, manifest).ok


@pytest.mark.parametrize("suffix", KINDS)
def test_a_copy_beside_another_source_is_a_problem(tmp_path: Path, manifest: Path, suffix: str) -> None:
    write, read = KINDS[suffix]
    source, output, changed = (tmp_path / f"{name}{suffix}" for name in ("in", "out", "changed"))
    write(source, ROWS)
    plant(manifest, source, output, text_column="en", source_column="xx")
    once = read_manifest(manifest)[0]
    rows = [{**row, "n": row["n"] or 0, "xx": "uno" if row["en"] == once.text else row["xx"]} for row in read(output)]
    write(changed, rows)
    report = verify(changed, manifest, text_column="en", source_column="xx")
    assert report.problems == ["canary-0: 1 copy has another source sentence than in the manifest"]
    assert verify(changed, manifest, text_column="en").ok


def test_verify_knows_the_source_column_from_the_record(planted: Path, manifest: Path) -> None:
    planted.write_text(planted.read_text().replace("pino", "pina"))
    problems = verify(planted, manifest).problems
    assert len(problems) == 3  # the hash as well
    assert problems[1:] == [
        "canary-0: 1 copy has another source sentence than in the manifest",
        "canary-1: 3 copies have another source sentence than in the manifest",
    ]


def test_a_record_without_a_source_column_is_one_of_none(planted: Path, manifest: Path) -> None:
    path = sidecar_path(planted)
    record = json.loads(path.read_text())
    del record["source_column"]
    path.write_text(json.dumps(record))
    planted.write_text(planted.read_text().replace("pino", "pina"))
    assert len(verify(planted, manifest).problems) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "canary-0 has a source sentence: name the column it goes to with --source-column"),
        ({"source_column": "fr"}, "no column 'fr' .*: name one with --source-column"),
        ({"source_column": "en"}, "column 'en' cannot be source and text"),
        ({"source_column": "xx", "label_column": "xx"}, "column 'xx' cannot be source and label"),
        ({"source_column": "n"}, "column 'n' holds int.*, expected text"),
    ],
)
@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_columns_that_do_not_do(
    tmp_path: Path, manifest: Path, suffix: str, options: dict[str, Any], message: str
) -> None:
    source, output = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    KINDS[suffix][0](source, ROWS)
    with pytest.raises(PlantingError, match=message):
        plant(manifest, source, output, text_column="en", **options)
    assert not output.exists()


def test_a_csv_without_the_column_says_so(tmp_path: Path, manifest: Path) -> None:
    KINDS[".csv"][0](tmp_path / "in.csv", ROWS)
    with pytest.raises(PlantingError, match="no column 'fr' .*: name one with --source-column"):
        plant(manifest, tmp_path / "in.csv", tmp_path / "out.csv", text_column="en", source_column="fr")


def test_a_text_file_has_no_source_column(tmp_path: Path, manifest: Path) -> None:
    (tmp_path / "in.txt").write_text("one\n")
    with pytest.raises(PlantingError, match="a text file has no column 'xx'"):
        plant(manifest, tmp_path / "in.txt", tmp_path / "out.txt", source_column="xx")


def test_canaries_without_a_source_have_nothing_for_the_column(tmp_path: Path) -> None:
    manifest, source = tmp_path / "m.jsonl", tmp_path / "in.jsonl"
    write_manifest(make_canaries(TEMPLATE, 1), manifest)
    KINDS[".jsonl"][0](source, ROWS)
    with pytest.raises(PlantingError, match="canary-0 has no source sentence for column 'xx'.*--source"):
        plant(manifest, source, tmp_path / "out.jsonl", text_column="en", source_column="xx")


def test_from_the_command_line(tmp_path: Path, leakage: Leakage) -> None:
    manifest, source, output = tmp_path / "m.jsonl", tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    KINDS[".jsonl"][0](source, ROWS)
    assert leakage("canaries", "--template", TEMPLATE, "--source", SOURCE, "--count", 1, "-o", manifest)[0] == 0
    seed = read_manifest(manifest)[0].seed
    assert seed is not None
    named = {"seed": seed, "id_prefix": f"{nonce_of(seed)}-", "nonce": nonce_of(seed)}
    assert read_manifest(manifest) == [
        replace(each, seed=seed) for each in make_canaries(TEMPLATE, 1, source=SOURCE, **named)
    ]
    columns = ("--text-column", "en", "--source-column", "xx")
    assert leakage("plant", manifest, source, *columns, "-o", output)[0] == 0
    assert leakage("verify", output, manifest)[0] == 0
    assert leakage("verify", output, manifest, "--source-column", "n")[0] == 2


@pytest.mark.parametrize("source", ["so {digits:3}", "so {unique:2}", " so"])
def test_a_source_that_does_not_fit_is_refused_in_one_line(tmp_path: Path, refused: Refused, source: str) -> None:
    err = refused("canaries", "--template", TEMPLATE, "--source", source, "-o", tmp_path / "m.jsonl")
    assert "source" in err
    assert "Traceback" not in err
    assert not (tmp_path / "m.jsonl").exists()


def test_presets_have_no_source(tmp_path: Path) -> None:
    from leakage_tasks.canaries.cli_options import requested
    from leakage_tasks.canaries.generation_modes import CanaryOptions

    with pytest.raises(LeakageError, match="--source goes with --template: leave it out"):
        requested(CanaryOptions(preset="elmahdy", source="so"))
