"""Links, anchors and file names in README and the guides are valid, and README stays short."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.conftest import ROOT

PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
PARSER = MarkdownIt("commonmark").enable("table")


@cache
def parsed(page: Path) -> list[Token]:
    return PARSER.parse(page.read_text(encoding="utf-8"))


def tokens(page: Path) -> Iterator[Token]:
    for token in parsed(page):
        yield token
        yield from token.children or ()


def links(page: Path) -> list[str]:
    targets = [token.attrs.get("href", token.attrs.get("src")) for token in tokens(page)]
    return [str(link) for link in targets if link is not None]


def anchors(page: Path) -> set[str]:
    """Return the headings of ``page`` that have an equal anchor on the site and on GitHub and GitLab."""
    pairs = zip(parsed(page), parsed(page)[1:], strict=False)
    headings = (after.children or [] for token, after in pairs if token.type == "heading_open")
    texts = ["".join(child.content for child in children) for children in headings]
    return {site_anchor(text) for text in texts if site_anchor(text) == repository_anchor(text)}


def site_anchor(heading: str) -> str:
    """Return the anchor that Python-Markdown makes."""
    plain = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def repository_anchor(heading: str) -> str:
    """Return the anchor that GitHub and GitLab make."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    dead = []
    for link in links(page):
        if re.match(r"https?:", link):
            continue
        path, _, anchor = unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.is_file() or (anchor and anchor not in anchors(target)):
            dead.append(link)
    assert dead == []


@pytest.mark.parametrize("page", (ROOT / "docs").glob("*.md"), ids=lambda page: page.name)
def test_a_guide_links_to_nothing_outside_the_site(page: Path) -> None:
    assert [link for link in links(page) if link.startswith("../")] == []


@pytest.mark.parametrize("page", (ROOT / "docs").glob("*.md"), ids=lambda page: page.name)
def test_readme_and_the_site_lead_to_every_guide(page: Path) -> None:
    reached = {link.partition("#")[0] for link in links(ROOT / "README.md")}
    assert page.name == "index.md" or f"docs/{page.name}" in reached
    assert f'= "{page.name}"' in (ROOT / "zensical.toml").read_text(encoding="utf-8")


def test_readme_is_short_and_names_the_startup_file_on_its_first_screen() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 120
    assert any("Startup file" in line for line in lines[:30])
    assert any("LM_EVAL_LEAKAGE_AUTOLOAD=0" in line for line in lines[:30])


def test_architecture_lists_the_rooms_in_the_order_of_their_imports() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)/` \|", text, re.MULTILINE) == layers[::-1]


@pytest.mark.parametrize("page", ["docs/architecture.md", "docs/glossary.md", "SECURITY.md"])
def test_files_named_in_a_page_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    paths = re.findall(r"`([a-z]\w*/[\w/]*(?:\.py)?)`", text)
    assert len(paths) >= 25
    roots = (ROOT, ROOT / "leakage_tasks")
    assert [path for path in paths if not any((root / path).exists() for root in roots)] == []


def test_glossary_is_short_and_has_few_terms_of_this_project() -> None:
    _, field, project = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").split("\n## ")
    rows = [len(re.findall(r"^\| (?!Term)", part, re.MULTILINE)) for part in (field, project)]
    assert sum(rows) <= 40
    assert rows[1] <= 15
