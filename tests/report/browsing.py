"""A headless Chromium for tests of pages, and pages opened from disk in it that may do nothing wrong."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from leakage_tasks.report.board.board import Board

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@dataclass(frozen=True)
class Shown:
    """A board, and the page made of it; the names are those of a run and a kind of model that try to break out."""

    board: Board
    path: Path
    NASTY: ClassVar[str] = '"><img src=x onerror=alert(1)><script>alert(1)'
    KIND: ClassVar[str] = "</script><script>alert(1)</script>"


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser; skips the test where there is none, or no playwright to drive it."""
    api = pytest.importorskip("playwright.sync_api")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("needs Chromium")
    with api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


@contextmanager
def opened(browser: Any, path: Path, **settings: Any) -> Iterator[Any]:
    """A page opened from disk; asserts that it asked for nothing else and that nothing in it went wrong."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **settings})
    page, trouble, asked = context.new_page(), [], []
    page.on("console", lambda message: trouble.append(message.text))
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("dialog", lambda dialog: (trouble.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    yield page
    page.wait_for_timeout(50)
    assert trouble == []
    assert asked == [path.as_uri()]
    context.close()


CONTRASTS = """
() => {
  const numbers = (text) => (text.match(/[0-9.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((each) => each / 255)
    .map((each) => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4)
    .reduce((sum, each, at) => sum + each * [0.2126, 0.7152, 0.0722][at], 0);
  const ground = (node) => {
    for (let each = node; each; each = each.parentElement) {
      const found = numbers(getComputedStyle(each).backgroundColor);
      if (found.length === 3 || found[3] === 1) return found.slice(0, 3);
    }
    return [255, 255, 255];
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    const told = walker.currentNode.data.trim() && !node.closest("script, style, .unseen");
    if (!told || !node.getClientRects().length) continue;
    const style = getComputedStyle(node);
    const ink = light(numbers(style.color));
    const paper = light(ground(node));
    const ratio = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
    found.push([ratio, walker.currentNode.data.trim().slice(0, 40)]);
  }
  return found.sort((left, right) => left[0] - right[0]);
}
"""
"""The contrast of every text that shows, the lowest first, each with its beginning."""
FOCUSED = """
() => {
  return getComputedStyle(document.activeElement).outlineStyle !== "none";
}
"""
"""Whether what has the focus shows it."""
