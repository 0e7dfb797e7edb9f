from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leakage_tasks.report.evidence.page import page
from leakage_tasks.report.evidence.record import Evidence
from tests.report.browsing import CONTRASTS, opened

A4 = 210 / 297


@pytest.fixture(scope="module")
def path(evidence: Evidence, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("evidence") / "report.html"
    made.write_text(page(evidence), encoding="utf-8")
    return made


def test_it_is_read_without_scripts_and_loads_nothing(browser: Any, path: Path):
    with opened(browser, path, java_script_enabled=False) as shown:
        assert shown.locator("h1").text_content() == "Evidence on training-data leakage"
        assert shown.locator("section").count() == 10
        assert shown.locator("section:visible").count() == 10


def test_it_prints_on_pages_of_a4(browser: Any, path: Path, tmp_path: Path):
    with opened(browser, path) as shown:
        shown.pdf(path=tmp_path / "report.pdf", prefer_css_page_size=True)
    content = (tmp_path / "report.pdf").read_bytes()
    assert content.startswith(b"%PDF-")
    boxes = {tuple(map(float, box.split(b"]")[0].split())) for box in content.split(b"/MediaBox [")[1:]}
    ((left, bottom, right, top),) = boxes
    assert (right - left) / (top - bottom) == pytest.approx(A4, abs=1e-3)
    assert content.count(b"/MediaBox [") >= 8


@pytest.mark.parametrize(("width", "media"), [(688, "print"), (1280, "screen"), (360, "screen")])
def test_no_table_is_wider_than_the_page(browser: Any, path: Path, width: int, media: str):
    with opened(browser, path, viewport={"width": width, "height": 900}) as shown:
        shown.emulate_media(media=media)
        assert shown.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(browser: Any, path: Path, scheme: str):
    with opened(browser, path, color_scheme=scheme) as shown:
        ratio, text = shown.evaluate(CONTRASTS)[0]
        assert ratio >= 4.5, text
