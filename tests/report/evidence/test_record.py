from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.core.records import WrongField
from leakage_tasks.report.evidence.record import Evidence, canonical, digest_of, evidence_from_json


def test_a_record_is_read_back_equal(evidence: Evidence):
    assert evidence_from_json(json.loads(canonical(evidence))) == evidence


def test_the_text_is_canonical_json_without_markup(evidence: Evidence):
    text = canonical(evidence)
    plain = json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
    escapes = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
    assert text == "".join(escapes.get(letter, letter) for letter in plain)
    assert text.isascii()


def test_the_digest_is_the_sha256_of_the_text(evidence: Evidence):
    text = canonical(evidence)
    assert digest_of(text) == hashlib.sha256(text.encode("ascii")).hexdigest()


@given(words=st.text())
def test_any_name_survives(evidence: Evidence, words: str):
    renamed = dataclasses.replace(evidence, settings=dataclasses.replace(evidence.settings, name=words))
    text = canonical(renamed)
    assert "</" not in text
    assert json.loads(text)["settings"]["name"] == words


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda data: data.pop("date"), "date"),
        (lambda data: data.update(more=1), "more"),
        (lambda data: data["results"][0].update(value="high"), "results.0.value"),
        (lambda data: data["code"].update(sources=1), "code.sources"),
    ],
)
def test_a_wrong_field_is_named(evidence: Evidence, change: Any, field: str):
    data = json.loads(canonical(evidence))
    change(data)
    with pytest.raises(WrongField) as wrong:
        evidence_from_json(data)
    assert wrong.value.name == field
