"""What ``--metadata context=…`` may say."""

import pytest

from leakage_tasks.canaries.context import Context, read_context
from leakage_tasks.core.errors import OptionError


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("auto", Context()),
        ("bos", Context("bos")),
        ("none", Context("none")),
        ("\\n", Context(before="\n")),
        ("\n", Context(before="\n")),
        ("a\\\\n{{b}}\\t", Context(before="a\\n{b}\t")),
        ("C:\\dir", Context(before="C:\\dir")),
        ({"start": "none", "before": "x", "after": "\\n"}, Context("none", "x", "\n")),
        ({}, Context()),
    ],
)
def test_what_is_written_is_what_is_meant(written, meant):
    assert read_context(written) == meant
    assert Context(**meant.to_json()) == meant


@pytest.mark.parametrize("context", [Context(), Context("none"), Context(before="\n"), Context(before="a\\n {x}\t")])
def test_a_context_is_shown_as_it_is_written(context):
    assert read_context(str(context)) == context


def test_contexts_of_several_parts_are_told_apart():
    shown = [str(Context("none", "x")), str(Context("bos", "x")), str(Context(before="x", after="y"))]
    assert shown == ["start=none before=x", "start=bos before=x", "before=x after=y"]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("My pin is {digits:4}", r"has a slot, \{digits\}: secrets belong to the canaries"),
        ("a {words} b", r"has a slot, \{words\}"),
        ("{", "has a single brace: write"),
        ("", "is empty: use auto, bos, none, or a text"),
        (None, "context=None: expected auto, bos, none or a text"),
        (5, "context=5: expected auto, .* put it in quotes"),
        ({"start": "eos"}, "start='eos' is unknown: use auto, bos, none"),
        ({"role": "user"}, "role='user': expected texts by name, of start, before, after"),
        ({"before": 3}, "before=3: expected texts by name"),
        ({"after": "{hex}"}, r"has a slot, \{hex\}"),
    ],
)
def test_what_is_no_context_is_refused_in_one_line(written, message):
    with pytest.raises(OptionError, match=message):
        read_context(written)


def test_bytes_that_the_locale_could_not_decode_are_no_context() -> None:
    with pytest.raises(OptionError, match="^--metadata context='caf"):
        read_context("caf\udcc3\udca9")
