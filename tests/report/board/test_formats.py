from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from leakage_tasks.report.board.outputs import BOARDS
from leakage_tasks.report.load.figures import control_words
from tests.conftest import Leakage, Ran, Refused
from tests.report.made import declaration, leaking, results, tiered, write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two runs that compare and one that does not."""
    write(tmp_path / "a", results({**leaking(n_planted=4), "arc": {"acc": 0.5, "acc_norm": 0.6}}, model="a"))
    write(tmp_path / "b", results(leaking(exposure=2.0), model="b"))
    declared = {task: declaration(task, protocol={"canaries": "cd" * 32}) for task in leaking()}
    write(tmp_path / "c", results(leaking(), model="c", declared=declared))
    return tmp_path


def test_prints_a_figure_with_its_interval_controls_and_count(ran: Ran, folder: Path):
    out, _ = ran("leaderboard", folder / "b")
    lines = [line.split() for line in out.splitlines()]
    row = next(place for place, words in enumerate(lines) if words[:2] == ["1.", "b"])
    assert lines[row][2] == "2.00"
    assert lines[row + 1][:3] == ["hf", "[7.50,", "10.5]"]
    assert lines[row + 2][:2] == ["controls", "1.50"]


def test_prints_groups_with_their_reason_and_flags_in_words(leakage: Leakage, folder: Path):
    _, out, _ = leakage("leaderboard", folder)
    assert "Group 2 of 2, not ranked against group 1: canary_exposure, canary_extraction: other canaries" in out
    assert "! a: canary_exposure, canary_extraction: underpowered" in out
    assert "2. ! a" in out


def test_shows_headlines_unless_all_is_asked_for(leakage: Leakage, folder: Path):
    assert "acc_norm" not in leakage("leaderboard", folder)[1]
    assert "acc_norm" in leakage("leaderboard", folder, "--all")[1]


def test_writes_all_kinds_of_files(ran: Ran, folder: Path, tmp_path: Path):
    files = [tmp_path / f"board.{kind}" for kind in ("md", "csv", "json")]
    out, _ = ran("leaderboard", folder, *(word for file in files for word in ("-o", file)))
    assert [line for line in out.splitlines() if line.startswith("wrote")] == [f"wrote {file}" for file in files]
    assert all(file.stat().st_size for file in files)


def test_csv_holds_every_figure_with_what_belongs_to_it(leakage: Leakage, folder: Path, tmp_path: Path):
    leakage("leaderboard", folder, "-o", tmp_path / "board.csv")
    rows = {row["name"]: row for row in csv.DictReader(io.StringIO((tmp_path / "board.csv").read_text()))}
    key = "canary_exposure/exposure"
    found = [rows["b"][f"{key}{each}"] for each in ("", "_ci_low", "_ci_high", "_control", "_n")]
    assert found == ["2.0", "7.5", "10.5", "1.5", "20"]
    assert rows["b"]["arc/acc"] == ""
    assert rows["a"]["arc/acc_norm"] == "0.6"


def test_csv_keeps_text_from_being_a_formula(leakage: Leakage, tmp_path: Path):
    write(tmp_path / "a", results(leaking(), model="=1+1"))
    leakage("leaderboard", tmp_path, "-o", tmp_path / "board.csv")
    (row,) = csv.DictReader(io.StringIO((tmp_path / "board.csv").read_text()))
    assert row["name"] == "'=1+1"


def test_csv_keeps_headers_from_being_formulas(leakage: Leakage, tmp_path: Path):
    write(tmp_path / "a", results({"=1+1": {"acc": 0.5}}))
    leakage("leaderboard", tmp_path, "-o", tmp_path / "board.csv")
    assert "'=1+1/acc" in next(csv.reader(io.StringIO((tmp_path / "board.csv").read_text())))


def test_files_tell_when_the_results_were_written(leakage: Leakage, tmp_path: Path):
    write(tmp_path / "a", results(leaking(), date=86400.5))
    leakage("leaderboard", tmp_path, "-o", tmp_path / "board.csv", "-o", tmp_path / "board.json")
    (row,) = csv.DictReader(io.StringIO((tmp_path / "board.csv").read_text()))
    (run,) = json.loads((tmp_path / "board.json").read_text())["groups"][0]["runs"]
    assert row["date"] == run["date"] == "1970-01-02T00:00:00+00:00"


@pytest.mark.parametrize(("tasks", "said"), [(leaking(), True), ({"arc": {"acc": 0.5}}, False)])
def test_controls_are_explained_where_there_are_any(leakage: Leakage, tmp_path: Path, tasks: dict, said: bool):
    write(tmp_path / "a", results(tasks))
    _, out, _ = leakage("leaderboard", tmp_path)
    assert "Each value is above its 95 % interval, if it has one" in out
    assert ("Controls were never shown to the model." in out) is said


def test_a_name_that_no_encoding_has_is_shown_and_written(ran: Ran, tmp_path: Path):
    write(tmp_path / "a", results({**leaking(), "t\ud800": {"acc\ud800": 0.5}}, model="m\ud800"))
    files = [tmp_path / f"board.{kind}" for kind in ("html", "md", "csv", "json")]
    out, _ = ran("leaderboard", tmp_path, "--all", *(word for file in files for word in ("-o", file)))
    assert "m\ufffd" in out


def test_json_is_strict_and_holds_intervals(leakage: Leakage, folder: Path, tmp_path: Path):
    leakage("leaderboard", folder, "-o", tmp_path / "board.json")
    board = json.loads((tmp_path / "board.json").read_text(), parse_constant=pytest.fail)
    best = board["groups"][0]["runs"][0]
    assert best["name"] == "b"
    assert best["figures"]["canary_exposure/exposure"]["high"] == 10.5
    assert [each["description"] for each in board["columns"] if each["key"] == "canary_extraction/extracted"] == [
        "share of canaries whose best guess is the secret"
    ]


def test_markdown_keeps_names_from_being_markup(leakage: Leakage, tmp_path: Path):
    write(tmp_path / "a", results(leaking(), model="a|b<script>[x](y)`c`"))
    leakage("leaderboard", tmp_path, "-o", tmp_path / "board.md")
    text = (tmp_path / "board.md").read_text()
    assert "a\\|b&lt;script&gt;\\[x\\](y)\\`c\\`" in text
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len({line.replace("\\|", "").count("|") for line in rows}) == 1


def test_another_kind_of_file_is_refused_before_anything_is_read(refused: Refused, tmp_path: Path):
    err = refused("leaderboard", tmp_path / "nowhere", "-o", tmp_path / "board.xls")
    assert err.strip().endswith(f"use a name that ends in {', '.join(f'.{name}' for name in sorted(BOARDS))}")


def test_a_place_that_cannot_be_written_is_refused(refused: Refused, folder: Path, tmp_path: Path):
    assert "make it first" in refused("leaderboard", folder, "-o", tmp_path / "no" / "board.md")


def learnt(tmp_path: Path, told: object) -> Path:
    """A run with canaries planted once and 16 times, of whose copies a look before training told."""
    content = tiered()
    for task in ("canary_exposure", "canary_extraction"):
        content["configs"][task]["leakage"]["tested"]["learnt_from"] = told
    return write(tmp_path / "run", content)


def test_figures_stand_beside_how_many_copies_they_were_learnt_from(leakage: Leakage, tmp_path: Path):
    run = learnt(tmp_path, {"1": [11, 12], "16": [120, 128]})
    _, text, _ = leakage("leaderboard", run)
    assert "learnt from 11 of" in text
    found = {name: tmp_path / f"board.{name}" for name in ("md", "html", "csv", "json")}
    for path in found.values():
        assert leakage("leaderboard", run, "-o", path)[0] == 0
    assert "learnt from 11 of 12 copies" in found["md"].read_text()
    assert "learnt from 11 of 12 copies" in found["html"].read_text()
    (row,) = csv.DictReader(io.StringIO(found["csv"].read_text()))
    assert (row["canary_exposure/exposure_x1_learnt"], row["canary_exposure/exposure_x1_copies"]) == ("11", "12")
    assert (row["canary_exposure/exposure_x16_learnt"], row["canary_exposure/exposure_learnt"]) == ("120", "131")
    figures = json.loads(found["json"].read_text())["groups"][0]["runs"][0]["figures"]
    assert figures["canary_exposure/exposure_x1"]["learnt"] == [11, 12]
    assert figures["canary_exposure/exposure"]["learnt"] == [131, 140]


@pytest.mark.parametrize("told", [None, 3, {"1": 5}, {"x": [1, 2]}, {"1": [13, 12]}, {"1": ["a", 2]}])
def test_what_others_wrote_there_is_no_count(ran: Ran, tmp_path: Path, told: object):
    text, _ = ran("leaderboard", learnt(tmp_path, told))
    assert "learnt from" not in text


def test_the_control_of_membership_is_explained():
    blind = "The control of an attack on membership is the best blind baseline, which does not use it."
    assert control_words(["blind_auc", None]) == blind
    assert control_words(["control_p_z", "blind_auc"], ": so") == f"Controls were never shown to the model: so. {blind}"
    assert control_words([None]) == ""
