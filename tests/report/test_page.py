from __future__ import annotations

import base64
import hashlib
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from leakage_tasks.attacks.finding import Finding
from leakage_tasks.attacks.suffix.finding import HEADLINE
from leakage_tasks.report.load.findings import CanaryDetail
from leakage_tasks.report.load.format import interval, number
from leakage_tasks.report.load.validate import printable
from leakage_tasks.report.page import page
from leakage_tasks.report.page.guesses import marked
from leakage_tasks.report.page.runs import PAIR_HEADS, describe_canary, describe_runs
from leakage_tasks.report.plots.style import plain
from tests.report.pages import Parsed, board, canary, pair, usual_canaries, write_run

NASTY = '"><img src=x onerror=alert(1)></script><script>alert(1)</script>\u2028\u2029&<!--'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("runs")
    write_run(place, "models/a", usual_canaries(0.9, each=3), useful={"arc": 0.6})
    write_run(place, "models/b", usual_canaries(0.5, each=3), protocol={"canaries": "cd" * 32})
    return place


@pytest.fixture(scope="module")
def text(folder: Path) -> str:
    """The page of the runs."""
    return page(board(folder))


def test_a_canary_that_was_read_as_context_has_no_number_of_copies():
    finding = Finding("a", "exposure", True, 4, "random", 6.6, rank=1.0, reading="context")
    assert describe_canary(CanaryDetail("a", True, "random", exposure=finding))["head"][1] == "read only as context"


def test_has_every_figure_with_interval_controls_and_count(folder: Path, text: str):
    words = " ".join(" ".join(Parsed(text).text).split())
    found = board(folder).groups[0].entries[0].figures["canary_extraction/extracted"]
    assert interval(found).startswith("[")
    assert f"{number(found.value)} {interval(found)} controls 0.00 n = 9" in words


def test_says_why_a_group_stands_apart(text: str):
    words = " ".join(Parsed(text).text)
    assert "not ranked against group 1: " in words
    assert "other canaries (cdcdcdcd… instead of abababab…)" in words


def test_says_flags_in_words(text: str):
    words = " ".join("".join(Parsed(text).text).split())
    assert "▲ underpowered" in words
    assert "a: canary_exposure, canary_extraction: underpowered: with fewer than 17 canaries" in words


def test_explains_every_column(folder: Path, text: str):
    made = board(folder)
    parsed = Parsed(text)
    words = " ".join(parsed.text)
    assert all(column.description in words for column in made.columns)
    links = [each["href"] for each in parsed.of("a") if each.get("class") == "about"]
    places = {each.get("id") for _, each in parsed.elements}
    assert len(links) == len(made.columns)
    assert {str(link)[1:] for link in links} <= places


@pytest.mark.slow
def test_the_same_board_is_the_same_text_in_another_process(folder: Path, text: str):
    code = (
        "import sys; from leakage_tasks.report.page import page; from tests.report.pages import board;"
        f"sys.stdout.buffer.write(page(board(__import__('pathlib').Path({str(folder)!r}))).encode())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
    assert done.stdout.decode() == text


def test_the_policy_allows_our_script_and_style_alone(text: str):
    parsed = Parsed(text)
    (policy,) = (each["content"] for each in parsed.of("meta") if each.get("http-equiv") == "Content-Security-Policy")
    style, script = parsed.raw[0][1], parsed.raw[-1][1]
    hashes = [hashlib.sha256(each.encode()).digest() for each in (script, style)]
    digests = ["sha256-" + base64.b64encode(each).decode() for each in hashes]
    assert policy == (
        f"default-src 'none'; script-src '{digests[0]}'; style-src '{digests[1]}'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


def test_names_from_results_stay_text(tmp_path: Path):
    name = NASTY.replace("\u2028\u2029", "")
    write_run(tmp_path, NASTY, [canary(name, rank=1)], model=NASTY, useful={NASTY: 0.5})
    parsed = Parsed(page(board(tmp_path)))
    assert len(parsed.of("script")) == 1
    # Canary, facts, and the table beside the figure.
    assert parsed.text.count(name) == 1
    assert parsed.text.count(printable(NASTY)) > 2
    assert not any("\u2028" in text for text in parsed.text)


def test_names_in_figures_stay_text(tmp_path: Path):
    write_run(tmp_path, NASTY, [canary("a", rank=1)], model=NASTY, useful={"arc": 0.5})
    figures = [str(each["src"]) for each in Parsed(page(board(tmp_path))).of("img")]
    assert len(figures) == 3
    for figure in reversed(figures):
        kind, _, content = figure.partition(",")
        assert kind == "data:image/svg+xml;base64"
        tree = ElementTree.fromstring(base64.b64decode(content))
        assert {element.tag.rpartition("}")[2] for element in tree.iter()}.isdisjoint({"script", "img", "a"})
    assert plain(printable(NASTY)) in ElementTree.tostring(tree, encoding="unicode", method="text")


@pytest.mark.parametrize("scheme", [lambda part: part, lambda part: 1 - part], ids=["light", "dark"])
def test_letters_in_figures_stand_out_from_the_ground(text: str, scheme: Callable[[float], float]):
    """A dark scheme exchanges light and dark."""

    def light(colour: str) -> float:
        parts = [scheme(int(colour[at : at + 2], 16) / 255) for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return sum(part * share for part, share in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))

    colours = set()
    for figure in Parsed(text).of("img"):
        tree = ElementTree.fromstring(base64.b64decode(str(figure["src"]).partition(",")[2]))
        texts = [element for element in tree.iter() if element.tag.endswith("}text")]
        assert texts
        for element in texts:
            named = re.search(r"(?:^|; )fill: (#[0-9a-f]{6})", element.get("style") or "")
            colours.add(named[1] if named else "#000000")
    ground = "#ffffff" if scheme(0) == 0 else "#ebe7e2"
    ratios = {each: sorted((light(each) + 0.05, light(ground) + 0.05)) for each in colours}
    assert {each: high / low for each, (low, high) in ratios.items() if high / low < 4.5} == {}


def test_every_figure_has_its_text(text: str):
    figures = Parsed(text).of("img")
    words = [str(each["alt"]) for each in figures]
    assert "Group 1: arc acc against Exposure, planted once: one mark per run" in words[0]
    assert "planted never (controls): 3 canaries, median" in words[-1]
    assert "planted never (controls): 0 of 3 extracted, 0.00 [0.00, 0.708]" in words[-1]


def test_a_table_has_the_values_of_every_mark(folder: Path, text: str):
    made = board(folder)
    entry = made.groups[0].entries[0]
    figure = entry.figure(next(column for column in made.columns if column.title == "Exposure, planted once"))
    assert f"a 0.600 [0.561, 0.639] {number(figure.value)}" in Parsed(text).words


def test_runs_beyond_the_drawn_ones_have_their_tables(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("leakage_tasks.report.page.runs.PLOTS", 1)
    monkeypatch.setattr("leakage_tasks.report.page.views.VIEWS", 0)
    parsed = Parsed(page(board(folder)))
    assert len(parsed.of("img")) == 1
    assert parsed.words.count("Exposure in bits, by number of copies") == 2


def test_a_page_without_plots_names_the_missing_value(tmp_path: Path):
    write_run(tmp_path, "a", usual_canaries(0.5, each=3))
    words = Parsed(page(board(tmp_path))).words
    assert "There is nothing to plot: no run has a value of usefulness: run a task that measures it" in words
    assert "no run has a value of leakage" not in words


def test_no_element_carries_style_or_script(text: str):
    attributes = {name for _, each in Parsed(text).elements for name in each}
    assert "style" not in attributes
    assert not [name for name in attributes if name.startswith("on")]


def test_nothing_is_loaded(text: str):
    parsed = Parsed(text)
    loading = [
        (tag, each) for tag, each in parsed.elements if "src" in each or tag in ("link", "iframe", "object", "base")
    ]
    assert {(tag, str(each["src"]).partition(",")[0]) for tag, each in loading} == {
        ("img", "data:image/svg+xml;base64")
    }
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
    (shown,) = describe_runs(board(tmp_path), reveal=revealing)[0]["canaries"]["shown"]
    assert [each["slots"] for each in shown["guesses"][:1]] == ([secret] if revealing else [])
    assert "person-7" in text
    for told in (f"<code>{' '.join(secret)}</code>", f"<b>{' '.join(secret)}</b>"):
        assert (told in text) is revealing


def test_the_page_says_that_ten_guesses_are_certain_to_beat_the_secret(tmp_path: Path):
    doc, ranked, searched = canary("canary-1", rank=500)
    settled = replace(searched, proven=0, extra={"place_settled": True})
    write_run(tmp_path, "one", [(doc, ranked, settled)])
    (shown,) = describe_runs(board(tmp_path))[0]["canaries"]["shown"]
    assert dict(shown["facts"])["Certain"] == "ten guesses are more probable than the secret"


def test_of_a_natural_secret_the_page_tells_the_power_of_ten_its_rank_is_in(tmp_path: Path):
    write_run(tmp_path, "one", [canary("person-7", rank=57, kind="natural", hit=False)])
    (shown,) = describe_runs(board(tmp_path))[0]["canaries"]["shown"]
    facts = dict(shown["facts"])
    assert shown["head"][1:] == ["in the data once", "12.8 to 17.1 of 19.9 bits", ""]
    assert facts["Exposure"] == "12.8 to 17.1 of 19.9 bits"
    assert facts["Rank"] == "48 [7, 141] of 1,000,000, known only by its band"
    assert (facts["Ranked by"], facts["Guessed by"]) == ("exposure", "shortest-path")


def test_a_pair_has_the_bound_on_near_verbatim_draws(tmp_path: Path):
    doc, found = pair(4, bits=2.0)
    near = replace(found.views[HEADLINE], near_edits=1, near_bits=1.0, near_high_bits=0.5)
    write_run(tmp_path, "one", pairs=[(doc, replace(found, views={HEADLINE: near}))])
    (shown,) = describe_runs(board(tmp_path))[0]["pairs"]["shown"]
    assert (PAIR_HEADS[-1][0], shown["cells"][-1]) == ("Near", "0.500")


@pytest.mark.parametrize("revealing", [False, True])
def test_tokens_of_pairs_are_in_the_file_only_when_revealed(tmp_path: Path, revealing: bool):
    write_run(tmp_path, "one", pairs=[pair(4, wrong=0.25, bits=2.0, reveal=True)])
    (shown,) = describe_runs(board(tmp_path), reveal=revealing)[0]["pairs"]["shown"]
    assert ("<code>91 92 93 94</code>" in page(board(tmp_path), reveal=revealing)) is revealing
    assert shown["cells"] == ["4", "no", "0.250", "–", "0.250", "7 of 20", "–"]
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
    guess = shown["guesses"][0]
    assert (len(shown["secret"]), len(guess["slots"]), len(guess["right"])) == (200, 200, 200)
    assert guess["words"] == "5,000 of 5,000 right, 10.0 bits, first 200 of 5,000 shown"


@pytest.mark.parametrize(
    ("right", "parts"),
    [
        ("1100", [(True, "a b␣c"), (False, "\u2068ש\u2069 d")]),
        ("", [(False, "a b␣c \u2068ש\u2069 d")]),
        ("01", [(False, "a"), (True, "b␣c"), (False, "\u2068ש\u2069 d")]),
    ],
)
def test_neighbouring_slots_of_a_guess_that_are_right_are_one_part(right: str, parts: list):
    assert marked({"slots": ["a", "b c", "ש", "d"], "right": right}) == parts


def test_the_wheel_holds_what_the_page_is_made_of(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        held = {Path(name).name for name in archive.namelist() if name.startswith("leakage_tasks/report/page/")}
    folder = Path(sys.modules["leakage_tasks.report.page"].__path__[0])
    assert {path.name for path in folder.rglob("*.*") if "__pycache__" not in path.parts} <= held
