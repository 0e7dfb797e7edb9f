"""Text from outside that stays text in Markdown."""

from __future__ import annotations

import pytest
from markdown_it import MarkdownIt

from leakage_tasks.report.load.markdown import escaped

GITHUB = MarkdownIt("commonmark").enable(["table", "strikethrough"])
ALIVE = ("http://", "https://", "www.", "mailto:", "@")
"""What GitHub makes a link of without being asked."""


@pytest.mark.parametrize(
    "text",
    [
        "see http://example.com/x now",
        "see HTTPS://example.com now",
        "see www.example.com now",
        "write to mailto:a@example.com or a@example.com",
        "thanks to @someone",
        "*a* _b_ `c` [d](e) ~~f~~ <b>g</b> &amp; #h | i",
        "$x^2$ and $$y$$",
    ],
)
def test_it_is_shown_as_it_stands(text: str) -> None:
    assert not [each for each in ALIVE if each in escaped(text).lower()]
    (paragraph,) = [each for each in GITHUB.parse(escaped(text)) if each.type == "inline"]
    assert {each.type for each in paragraph.children or []} <= {"text", "text_special"}
    assert "".join(each.content for each in paragraph.children or []) == text


def test_mentions_and_formulas_are_marked_as_text() -> None:
    assert escaped("@someone $x$") == r"&#64;someone \$x\$"


def test_what_cannot_be_seen_is_shown_as_such() -> None:
    assert escaped("a\u202eb\u200bc\x1bd") == "a\ufffdb\ufffdc\ufffdd"
