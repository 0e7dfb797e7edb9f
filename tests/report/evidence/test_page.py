from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.core.records import WrongField
from leakage_tasks.report.check import CLAIMED, CLAIMED_WORDS
from leakage_tasks.report.evidence.page import digest_in, page, record_in
from leakage_tasks.report.evidence.record import Check, Evidence, canonical, digest_of, evidence_from_json
from tests.report.evidence.leaves import another, changed, leaves
from tests.report.pages import Parsed

NASTY = '"><img src=x onerror=alert(1)></script><script>alert(1)</script><b>&amp;'


@pytest.fixture(scope="module")
def text(evidence: Evidence) -> str:
    return page(evidence)


def without_record(text: str) -> str:
    """What a reader sees: the page without its record and digest."""
    return re.sub(r'<script type="application/json".*?</script>|<code id="digest">.*?</code>', "", text, flags=re.S)


def test_the_sections_are_in_order(text: str):
    assert Parsed(text).headings == [
        "Evidence on training-data leakage",
        "1 Summary",
        "2 Protocol",
        "3 Results",
        "4 Controls and checks",
        "5 Limits",
        "6 Tests that did not run",
        "7 Hashes",
        "Annex A: questions of EDPB Opinion 28/2024",
        "Annex B: General-Purpose AI Code of Practice",
        "All other values",
    ]


def test_equal_records_give_equal_pages(evidence: Evidence, text: str):
    assert page(evidence_from_json(json.loads(canonical(evidence)))) == text


def test_the_page_holds_its_record_and_prints_its_digest(evidence: Evidence, text: str):
    assert record_in(text) == canonical(evidence)
    assert digest_in(text) == digest_of(canonical(evidence))


def test_the_page_runs_no_script_and_loads_nothing(text: str):
    outline = Parsed(text)
    assert outline.of("script") == [{"type": "application/json", "id": "record"}]
    (policy,) = [meta["content"] for meta in outline.of("meta") if meta.get("http-equiv")]
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "script-src" not in policy
    assert not outline.of("link")
    assert all(str(image["src"]).startswith("data:image/svg+xml;base64,") for image in outline.of("img"))
    assert not [attributes for _, attributes in outline.elements if any(name.startswith("on") for name in attributes)]


def test_it_prints_on_a4_with_chapters_on_new_pages(text: str):
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.S)
    assert re.findall(r"@page \{ size: ([^;]*);", style)[-1] == "A4 portrait"
    assert ".chapter { break-before: page; }" in style
    assert text.count('class="chapter"') == 8


def test_every_figure_has_its_description(text: str):
    images = Parsed(text).of("img")
    assert images
    assert all(image["alt"] for image in images)


def test_shown_numbers_carry_their_exact_value(evidence: Evidence, text: str):
    shown = {attributes["value"] for attributes in Parsed(text).of("data")}
    assert {str(row.value) for row in evidence.results} <= shown


def _set(value: Any, words: str) -> Any:
    if isinstance(value, dict):
        return {name: _set(item, words) for name, item in value.items()}
    if isinstance(value, list):
        return [_set(item, words) for item in value]
    return words if isinstance(value, str) else value


def test_no_text_of_a_record_becomes_markup(evidence: Evidence):
    plain = json.loads(canonical(evidence))
    tags = []
    for words in ("harmless", NASTY):
        hostile = _set(plain, words)
        # Directions select an arrow; a picture is an address.
        for row, known in zip(hostile["results"], plain["results"], strict=True):
            row["direction"] = known["direction"]
        tags.append([tag for tag, _ in Parsed(page(evidence_from_json(hostile))).elements])
    assert tags[0] == tags[1]


@pytest.mark.slow
@given(data=st.data())
def test_every_leaf_of_the_record_is_visible(evidence: Evidence, data: st.DataObject):
    plain = json.loads(canonical(evidence))
    path, value = data.draw(st.sampled_from(list(leaves(plain))))
    edited = changed(plain, path, another(value))
    try:
        read = evidence_from_json(edited)
    except WrongField:
        return
    assert without_record(page(read)) != without_record(page(evidence)), path


def test_a_check_states_the_condition_to_avoid_once(evidence: Evidence):
    planting = Check("canary_exposure", CLAIMED, CLAIMED_WORDS, "planting", None, 0.0, True)
    few = Check(
        "canary_exposure", "underpowered", "underpowered: fewer than 17 canaries", "n_planted", 3.0, 17.0, False
    )
    shown = page(dataclasses.replace(evidence, checks=(planting, few)))
    found = re.findall(r"<td>([\w-]+)<small>(.*?)</small></td>", shown)
    assert found == [(CLAIMED, CLAIMED_WORDS), ("underpowered", "fewer than 17 canaries")]
