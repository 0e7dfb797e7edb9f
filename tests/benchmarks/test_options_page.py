"""docs/options.md lists the options that the code declares."""

from __future__ import annotations

from benchmarks.options_page import PAGE, options_page


def test_the_page_of_options_equals_the_declarations() -> None:
    written = PAGE.read_text(encoding="utf-8").splitlines()
    assert written == options_page().splitlines(), "docs/options.md is out of date: run make options"
