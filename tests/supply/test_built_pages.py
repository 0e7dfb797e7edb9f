from __future__ import annotations

from pathlib import Path

import pytest

from tests.supply.built_pages import main, requests


@pytest.mark.parametrize(
    "page",
    [
        '<script src="https://cdn.example/a.js"></script>',
        '<link rel="stylesheet" href="//fonts.example/css">',
        '<link rel="preconnect" href="https://fonts.example">',
        '<img srcset="https://example.org/a.png 2x">',
        '<p style="background: url(https://example.org/a.png)">',
        "<style>@import 'https://fonts.example/css';</style>",
    ],
)
def test_what_a_browser_would_ask_another_host_is_found(page: str) -> None:
    assert len(requests(page, ".html")) == 1


def test_links_to_follow_and_own_files_are_no_requests() -> None:
    page = '<a href="https://example.org">x</a><script src="assets/a.js"></script><link rel="icon" href="assets/a.svg">'
    assert requests(page, ".html") == []
    assert requests("a { background: url(../a.png) }", ".css") == []


def test_a_folder_without_pages_does_not_pass(tmp_path: Path) -> None:
    assert main(tmp_path) == 1
    (tmp_path / "index.html").write_text("<p>a</p>")
    assert main(tmp_path) == 0
    (tmp_path / "a.css").write_text("@import url(//fonts.example/css);")
    assert main(tmp_path) == 1
