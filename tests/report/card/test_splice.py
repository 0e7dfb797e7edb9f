"""Results in a card's front matter: what the hub's library reads there, and every other byte as it was."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest
import yaml
from huggingface_hub import EvalResult, ModelCard
from hypothesis import given, settings
from hypothesis import strategies as st

from leakage_tasks.core.errors import OptionError
from leakage_tasks.report.card.file import split_card
from leakage_tasks.report.card.index import OURS, model_name
from leakage_tasks.report.card.splice import front_data, with_results

CARD = Path("README.md")


def ours(*values: float, task: str = "canary_exposure") -> list[EvalResult]:
    return [
        EvalResult(
            "text-generation", f"{OURS}/{task}", task, f"metric_{place}", value, metric_args={"note": "a: #|'\""}
        )
        for place, value in enumerate(values)
    ]


def spliced(text: str, results: list[EvalResult], name: str = "mine") -> str:
    return with_results(split_card(text, CARD), name, results).text


def loaded(text: str) -> list[tuple[str, object]]:
    found = ModelCard(text).data.eval_results or []
    return [(result.dataset_type, result.metric_value) for result in found]


def other(name: str, column: int, *, dash: int = 0) -> str:
    """Another's result, its dash at ``column``, with comments and quotes."""
    text = f"""\
    - task: {{type: text-generation}}   # theirs
      dataset:
        type: "{name}"
        name: '{name} it''s'
    # a comment - with a dash
      metrics:
      - {{type: acc, value: 0.25}}
    """
    return textwrap.indent(textwrap.dedent(text), " " * column)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# Title\n\nBody\n",
        "no line end",
        "---\n---\n# Body\n",
        "---\n---\n# Body\n\n---\nafter a rule\n",
        "---\n\n---\n# Body\n",
        "---\n# only a comment\n---\n",
        "---\nlicense: mit\n---",
        "---\nlicense: mit  # why\n\n# last\n---\n\n---\nBody\n",
        "---\n  license: mit\n  tags:\n  - a\n---\nBody",
        "---\ntext: |\n  literal\n  text\n---\nBody",
        "---\ntext: >+\n  folded\n\n\n---\nBody",
        "---\nlicense: mit\n...\n---\nBody",
        "---\n文: 字 # ü\n---\n# 標題\n",
        "\n\n---\nlicense: mit\n---\nBody",
        "---\r\nlicense: mit\r\n---\r\nBody\r\n",
    ],
)
def test_a_card_without_results_gets_them_and_keeps_its_bytes(text):
    new = spliced(text, ours(1.5, 2.5))
    assert loaded(new) == [(f"{OURS}/canary_exposure", 1.5), (f"{OURS}/canary_exposure", 2.5)]
    assert is_insertion(text, new)
    assert spliced(new, ours(1.5, 2.5)) == new


def is_insertion(old: str, new: str) -> bool:
    """Whether ``new`` is ``old`` with one piece more in it."""
    start = len(os.path.commonprefix([old, new]))
    end = len(os.path.commonprefix([old[::-1], new[::-1]]))
    return start + end >= len(old)


@pytest.mark.parametrize("nothing", ["", " null", " ~", " []", " [ ]", "\n  []", "   []  "])
def test_an_empty_model_index_is_filled_and_its_comment_stays(nothing):
    new = spliced(f"---\na: 1\nmodel-index:{nothing} # theirs\nb: 2\n---\nBody", ours(1.5))
    assert loaded(new) == [(f"{OURS}/canary_exposure", 1.5)]
    assert new.startswith("---\na: 1\nmodel-index:")
    assert "# theirs\n" in new
    assert new.endswith("\nb: 2\n---\nBody")
    assert spliced(new, ours(1.5)) == new


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("nesting", [0, 2, 4])
def test_results_of_others_keep_their_bytes(nesting, newline):
    column = 2 * nesting + 2
    before = f"model-index:\n{' ' * nesting}- name: 'mine'  # me\n{' ' * nesting}  results:\n"
    theirs, last = other("one", column), other("two", column)
    after = "      # a last word\nlicense: mit\n---\nBody\n"
    text = "---\n" + before + theirs + last + after
    new = spliced(text.replace("\n", newline), ours(1.5)).replace(newline, "\n")
    start, end = "---\n" + before + theirs + last, after
    assert new.startswith(start)
    assert new.endswith(end)
    added = new[len(start) : -len(end)]
    assert all(line.startswith(" " * column) for line in added.splitlines())
    assert loaded(new) == [("one", 0.25), ("two", 0.25), (f"{OURS}/canary_exposure", 1.5)]


def test_ours_are_replaced_where_they_stand():
    start = "---\nmodel-index:\n- name: mine\n  results:\n" + other("one", 2)
    end = "  # between\n" + other("two", 2) + "---\nBody\n"
    first = spliced(start + "---\nBody\n", ours(1.5, 2.5, 3.5)).replace("---\nBody\n", end)
    new = spliced(first, ours(9.5))
    assert new.startswith(start)
    assert new.endswith(end)
    assert loaded(new) == [("one", 0.25), (f"{OURS}/canary_exposure", 9.5), ("two", 0.25)]


def test_without_new_results_ours_go_away():
    text = "---\nlicense: mit\n---\n"
    assert spliced(text, []) == text
    gone = spliced(spliced(text, ours(1.5)), [])
    assert loaded(gone) == []
    assert loaded(spliced(gone, ours(2.5))) == [(f"{OURS}/canary_exposure", 2.5)]
    shared = "---\nmodel-index:\n- name: mine\n  results:\n" + other("one", 2) + "---\n"
    assert spliced(spliced(shared, ours(1.5)), []) == shared


def test_models_of_other_names_stay_and_a_new_one_comes_last():
    text = "---\nmodel-index:\n  - name: one\n    results: []\n  - name: two\n    results: [] # none\nx: 1\n---\n"
    second = yaml.safe_load(spliced(text, ours(1.5), "two").split("---")[1])["model-index"]
    assert [(each["name"], len(each["results"])) for each in second] == [("one", 0), ("two", 1)]
    new = spliced(text, ours(1.5), "three")
    third = yaml.safe_load(new.split("---")[1])["model-index"]
    assert [(each["name"], len(each["results"])) for each in third] == [("one", 0), ("two", 0), ("three", 1)]
    assert new.startswith(text[: text.index("x: 1")])


@pytest.mark.parametrize(
    ("index", "asked", "name"),
    [
        (None, None, "run"),
        ([], None, "run"),
        ([{"name": "one"}, {"name": "run"}], None, "run"),
        ([{"name": "one"}, {"name": "two"}], None, "one"),
        ([{"name": "one"}], "three", "three"),
        ([{"name": 5}], None, "run"),
        ("text", None, "run"),
    ],
)
def test_whose_results_they_are(index, asked, name):
    assert model_name({"model-index": index}, "run", asked) == name


@pytest.mark.parametrize(
    ("front", "place", "message"),
    [
        ("- a\n- b", ":2", "not front matter"),
        ("just text", ":2", "not front matter"),
        ("{license: mit}", ":2", "write it in this form"),
        ("a: 1\nb: [", ":4", "not YAML"),
        ("a: 1\n\tb: 2", ":3", "not YAML"),
        ("a: !thing 1", ":2", "not YAML"),
        ("a: 1\nmodel-index: [{name: mine, results: []}]", ":3", "model-index is not written as '- ' lines"),
        ("model-index:\n- {name: mine, results: []}", ":3", "'name: value' lines"),
        ("model-index:\n- name: mine\n  results: [{task: {type: a}}]", ":4", "results in model-index"),
        ("model-index:\n- name: mine", ":3", "has no results: add"),
        ("model-index: text", ":2", "'- ' lines"),
        ("a: &x []\nmodel-index: *x", ":3", "aliases"),
        ("model-index: []\nmodel-index: []", ":3", "second"),
    ],
)
def test_what_leaves_no_place_is_refused_with_its_line(front, place, message):
    with pytest.raises(OptionError, match=message) as error:
        spliced(f"---\n{front}\n---\nBody\n", ours(1.5))
    assert str(error.value).startswith(f"README.md{place}: ")


def test_an_anchor_in_ours_that_others_lean_on_is_refused():
    text = (
        spliced("---\na: 1\n---\n", ours(1.5)).replace("value: 1.5", "value: &v 1.5").replace("\n---", "\nb: *v\n---")
    )
    with pytest.raises(OptionError, match="README.md"):
        spliced(text, ours(2.5))


KEYS = st.from_regex(r"[a-z][a-z_]{1,8}x", fullmatch=True)
PLAIN = st.from_regex(r"[a-zA-Z0-9./é字-]{0,6}[a-zA-Z]", fullmatch=True).filter(lambda text: text[0] != "-")
SCALARS = st.one_of(PLAIN, PLAIN.map(lambda text: f"'{text}: # it''s'"), PLAIN.map(lambda text: f'"{text}\\t\\" #"'))
COMMENTS = st.sampled_from(["", "  # why", " # - a: [", "   "])
NESTED = st.sampled_from(
    ["\n- a\n- 'b'", "\n  x: 1 # c\n\n  y: [a, {b: c}]", " |\n  literal: #\n\n  text", " >-\n  folded"]
)
VALUES = st.one_of(st.tuples(SCALARS, COMMENTS).map(lambda both: f" {both[0]}{both[1]}"), NESTED)
LINES = st.sampled_from([[], [], ["# a comment"], [""], ["  # deeper", ""], ["# - name: x"]])
Lines = list[tuple[str, bool]]
"""Lines of a front matter, and whether each is of ours."""


def theirs(*lines: str) -> Lines:
    return [(line, False) for text in lines for line in text.split("\n")]


@st.composite
def fronts(draw):
    """Front matters with comments, quotes and gaps, some with results of others and of ours among them."""
    keys = draw(st.lists(KEYS, unique=True, max_size=3))
    entries = [theirs(*draw(LINES), f"{key}:{draw(VALUES)}") for key in keys]
    if draw(st.booleans()):
        entries.insert(draw(st.integers(0, len(keys))), draw(indexes()))
    return [line for entry in entries for line in entry] + theirs(*draw(LINES))


@st.composite
def indexes(draw):
    nesting, comment = draw(st.integers(0, 3)), draw(COMMENTS)
    column = nesting + 2 + draw(st.integers(0, 2))
    lines = theirs(f"model-index:{comment}", f"{' ' * nesting}- name: mine", f"{' ' * nesting}  results:{comment}")
    for number in range(draw(st.integers(1, 3))):
        lines += theirs(f"{' ' * draw(st.integers(0, 6))}# between") if draw(st.booleans()) else []
        own = draw(st.booleans())
        made = other(f"{OURS}/task" if own else f"theirs{number}", column).split("\n")[:-1]
        lines += [(line, own) for line in made]
    return lines


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    lines=fronts(),
    body=st.text(st.sampled_from("ab #-\n\n\t`|é字"), max_size=60),
    newline=st.sampled_from(["\n", "\r\n"]),
    values=st.lists(st.floats(0, 99), min_size=1, max_size=3),
)
def test_whatever_the_card_only_ours_changes(lines, body, newline, values):
    text = newline.join(["---", *(line for line, _ in lines), "---", body.replace("\n", newline)])
    card = split_card(text, CARD)
    new = spliced(text, ours(*values))
    after = split_card(new, CARD)
    assert after.after == card.after
    assert newline == "\n" or "\n" not in new.replace("\r\n", "")
    old, data = front_data(card), front_data(after)
    assert [each for each in loaded(new) if not each[0].startswith(OURS)] == [
        each for each in loaded(text) if not each[0].startswith(OURS)
    ]
    assert [value for kind, value in loaded(new) if kind.startswith(OURS)] == values
    assert {**data, "model-index": None} == {**old, "model-index": None}
    kept = [line for line, own in lines if not own]
    found = after.front.split(newline)[:-1]
    assert is_part_in_order(kept, found)
    added = yaml.safe_dump(data["model-index"][0]["results"][place_of_ours(data)], width=float("inf")).count("\n")
    assert len(found) - len(kept) == added + (0 if "model-index" in old else 3)
    assert spliced(new, ours(*values)) == new
    assert spliced(spliced(text, ours(0.5, 0.75)), ours(*values)) == new


def place_of_ours(data: dict) -> int:
    kinds = [result["dataset"]["type"].startswith(OURS) for result in data["model-index"][0]["results"]]
    assert kinds.count(True) == 1
    return kinds.index(True)


def is_part_in_order(part: list[str], whole: list[str]) -> bool:
    """Whether ``part`` is what is left of ``whole`` when some lines are taken out."""
    rest = iter(whole)
    return all(any(line == each for each in rest) for line in part)
