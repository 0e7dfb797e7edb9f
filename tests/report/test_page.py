from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from leakage_tasks.report.load.format import interval, number
from leakage_tasks.report.load.validate import printable
from leakage_tasks.report.page import page
from leakage_tasks.report.page.runs import describe_runs
from tests.report.pages import board, canary, pair, usual_canaries, write_run

NASTY = '"><img src=x onerror=alert(1)></script><script>alert(1)</script>\u2028\u2029&<!--'


class Parsed(HTMLParser):
    """The elements of a document with their attributes, and the text in each script and style."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[tuple[dict[str, str | None], str]] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.cdata_elem:
            self.raw.append((self.elements[-1][1], data))
        else:
            self.text.append(data)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def data(self, name: str) -> Any:
        return json.loads("".join(text for attributes, text in self.raw if attributes.get("id") == name))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("runs")
    write_run(place, "models/a", usual_canaries(0.9, each=3), useful={"arc": 0.6})
    write_run(place, "models/b", usual_canaries(0.5, each=3), protocol={"canaries": "cd" * 32})
    return place


def test_has_every_figure_with_interval_controls_and_count(folder: Path):
    text = " ".join(" ".join(Parsed(page(board(folder))).text).split())
    found = board(folder).groups[0].entries[0].figures["canary_extraction/extracted"]
    assert interval(found).startswith("[")
    assert f"{number(found.value)} {interval(found)} controls 0.00 n = 9" in text


def test_says_why_a_group_stands_apart(folder: Path):
    text = " ".join(Parsed(page(board(folder))).text)
    assert "not ranked against group 1: " in text
    assert "other canaries (cdcdcdcd… instead of abababab…)" in text


def test_says_flags_in_words(folder: Path):
    text = " ".join("".join(Parsed(page(board(folder))).text).split())
    assert "▲ underpowered" in text
    assert "a: canary_exposure, canary_extraction: underpowered: with fewer than 17 canaries" in text


def test_explains_every_column(folder: Path):
    made = board(folder)
    parsed = Parsed(page(made))
    text = " ".join(parsed.text)
    assert all(column.description in text for column in made.columns)
    links = [each["href"] for each in parsed.of("a") if each.get("class") == "about"]
    places = {each.get("id") for _, each in parsed.elements}
    assert len(links) == len(made.columns)
    assert {str(link)[1:] for link in links} <= places


def test_the_same_board_is_the_same_text_in_another_process(folder: Path):
    code = (
        "import sys; from leakage_tasks.report.page import page; from tests.report.pages import board;"
        f"sys.stdout.buffer.write(page(board(__import__('pathlib').Path({str(folder)!r}))).encode())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
    assert done.stdout.decode() == page(board(folder))


def test_the_policy_allows_our_script_and_style_alone(folder: Path):
    parsed = Parsed(page(board(folder)))
    (policy,) = (each["content"] for each in parsed.of("meta") if each.get("http-equiv") == "Content-Security-Policy")
    style, script = parsed.raw[0][1], parsed.raw[-1][1]
    hashes = [hashlib.sha256(each.encode()).digest() for each in (script, style)]
    digests = ["sha256-" + base64.b64encode(each).decode() for each in hashes]
    assert policy == (
        f"default-src 'none'; script-src '{digests[0]}'; style-src '{digests[1]}'; base-uri 'none'; form-action 'none'"
    )


def test_names_from_results_stay_text(tmp_path: Path):
    write_run(tmp_path, NASTY, [canary(NASTY.replace("\u2028\u2029", ""), rank=1)], model=NASTY, useful={NASTY: 0.5})
    text = page(board(tmp_path))
    parsed = Parsed(text)
    assert {tag for tag, _ in parsed.elements} & {"img"} == set()
    assert len(parsed.of("script")) == 3
    assert parsed.data("run-data-0")["canaries"]["shown"][0]["head"][0] == NASTY.replace("\u2028\u2029", "")
    assert parsed.data("scatter-data")["groups"][0]["points"][0]["model"] == printable(NASTY)
    assert "\u2028" not in "".join(raw for _, raw in parsed.raw)


def test_no_element_carries_style_or_script(tmp_path: Path, folder: Path):
    attributes = {name for _, each in Parsed(page(board(folder))).elements for name in each}
    assert "style" not in attributes
    assert not [name for name in attributes if name.startswith("on")]


def test_nothing_is_loaded(folder: Path):
    parsed = Parsed(page(board(folder)))
    assert not [each for tag, each in parsed.elements if "src" in each or tag in ("link", "iframe", "object", "base")]
    assert all(str(each["href"]).startswith("#") for each in parsed.of("a"))


def test_half_a_surrogate_pair_does_not_stop_the_page(tmp_path: Path):
    write_run(tmp_path, "models/\ud83d", [canary("a", rank=1)])
    assert "\ufffd" in page(board(tmp_path)).encode().decode()


@pytest.mark.parametrize("revealing", [False, True])
def test_natural_secrets_are_in_the_file_only_when_revealed(tmp_path: Path, revealing: bool):
    secret = list("948271")
    natural = canary("person-7", rank=1, kind="natural", reveal=True, secret=secret, template="call {digits:6}")
    write_run(tmp_path, "one", [natural])
    text = page(board(tmp_path), reveal=revealing)
    shown = Parsed(text).data("run-data-0")["canaries"]["shown"][0]
    assert shown["head"][0] == "person-7"
    assert (json.dumps(secret, separators=(",", ":")) in text) is revealing
    assert [each["slots"] for each in shown["guesses"][:1]] == ([secret] if revealing else [])


def test_the_page_says_that_ten_guesses_are_certain_to_beat_the_secret(tmp_path: Path):
    doc, ranked, searched = canary("canary-1", rank=500)
    settled = replace(searched, proven=0, extra={"place_settled": True})
    write_run(tmp_path, "one", [(doc, ranked, settled)])
    shown = Parsed(page(board(tmp_path))).data("run-data-0")["canaries"]["shown"][0]
    assert dict(shown["facts"])["Certain"] == "ten guesses are more probable than the secret"


def test_of_a_natural_secret_the_page_tells_the_power_of_ten_its_rank_is_in(tmp_path: Path):
    write_run(tmp_path, "one", [canary("person-7", rank=57, kind="natural", hit=False)])
    shown = Parsed(page(board(tmp_path))).data("run-data-0")["canaries"]["shown"][0]
    facts = dict(shown["facts"])
    assert shown["head"][1:] == ["in the data once", "12.8 to 17.1 of 19.9 bits", ""]
    assert facts["Exposure"] == "12.8 to 17.1 of 19.9 bits"
    assert facts["Rank"] == "48 [7, 141] of 1,000,000, known only by its band"
    assert (facts["Ranked by"], facts["Guessed by"]) == ("exposure", "shortest-path")


@pytest.mark.parametrize("revealing", [False, True])
def test_tokens_of_pairs_are_in_the_file_only_when_revealed(tmp_path: Path, revealing: bool):
    write_run(tmp_path, "one", pairs=[pair(4, wrong=0.25, bits=2.0, reveal=True)])
    (shown,) = Parsed(page(board(tmp_path), reveal=revealing)).data("run-data-0")["pairs"]["shown"]
    assert shown["cells"] == ["4", "no", "0.250", "–", "0.250", "7 of 20"]
    assert ("secret" in shown) is revealing
    if revealing:
        assert [each["right"] for each in shown["guesses"]] == ["1110", "0000"]


def test_of_many_pairs_the_likeliest_are_kept(tmp_path: Path):
    write_run(tmp_path, "one", pairs=[pair(number, bits=float(number % 997)) for number in range(1500)])
    pairs = describe_runs(board(tmp_path))[0]["pairs"]
    assert (pairs["total"], len(pairs["shown"])) == (1500, 300)
    assert [each["cells"][0] for each in pairs["shown"][:3]] == ["0", "997", "1"]


def test_planted_canaries_come_first_and_then_the_most_exposed(tmp_path: Path):
    made = [("c", 1, 0), ("low", 90, 1), ("high", 2, 1), ("out", 70, 1)]
    canaries = [canary(name, rank=rank, repetitions=times, hit=name == "out") for name, rank, times in made]
    write_run(tmp_path, "one", canaries)
    shown = describe_runs(board(tmp_path))[0]["canaries"]["shown"]
    assert [each["head"][0] for each in shown] == ["out", "high", "low", "c"]


def test_long_secrets_are_cut(tmp_path: Path):
    secret = ["1"] * 5000
    write_run(tmp_path, "one", [canary("a", rank=1, secret=secret, guesses=[secret])])
    (shown,) = describe_runs(board(tmp_path))[0]["canaries"]["shown"]
    assert (len(shown["secret"]), len(shown["guesses"][0]["slots"]), shown["guesses"][0]["cut"]) == (200, 200, 4800)


def test_the_wheel_holds_what_the_page_is_made_of(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        held = {Path(name).name for name in archive.namelist() if name.startswith("leakage_tasks/report/page/")}
    folder = Path(sys.modules["leakage_tasks.report.page"].__path__[0])
    assert {path.name for path in folder.rglob("*.*") if "__pycache__" not in path.parts} <= held
