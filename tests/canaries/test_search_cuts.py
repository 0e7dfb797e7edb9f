"""Chunks that cut copies in two, in characters and tokens, against a plain recount."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.canaries import make_canaries, plant, read_manifest, verify, write_manifest
from leakage_tasks.canaries.search import SEGMENT, Span, _segments, cut_by_characters
from leakage_tasks.core.errors import LeakageError


@given(st.integers(0, 50), st.integers(1, 20), st.integers(1, 30))
def test_a_span_is_cut_if_a_boundary_lies_in_it(start: int, length: int, chunk: int) -> None:
    span = Span(start, start + length, "", True)
    boundary_inside = any(place % chunk == 0 for place in range(start + 1, start + length))
    assert bool(cut_by_characters([span], chunk)) == boundary_inside


def test_characters_of_a_text_file(tmp_path: Path, manifest: Path) -> None:
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_bytes("é line\r\n".encode() * 300)
    plant(manifest, source, output)
    report = verify(output, manifest, chunk=100)
    text = output.read_text(encoding="utf-8")
    chunks = [text[at : at + 100] for at in range(0, len(text), 100)]
    for canary in read_manifest(manifest):
        uncut = sum(chunk.count(canary.text) for chunk in chunks)
        assert report.cut is not None
        assert report.cut.get(canary.id, 0) == canary.repetitions - uncut
    assert sum(report.cut.values()) > 0


@pytest.mark.parametrize("suffix", [".txt", ".jsonl"])
def test_tokens(tmp_path: Path, byte_level: Path, suffix: str) -> None:
    from transformers import AutoTokenizer

    manifest, source, output = tmp_path / "m.jsonl", tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    write_manifest(make_canaries("{unique} red 12 is {digits:9}", 3, repetitions=(7,)), manifest)
    rows = [f"a red {row} ü" for row in range(300)]
    source.write_text("".join(json.dumps({"text": row}) + "\n" if suffix == ".jsonl" else row + "\n" for row in rows))
    plant(manifest, source, output)
    report = verify(output, manifest, chunk=40, tokenizer=str(byte_level))
    assert report.unit == "tokens"
    tokenizer = AutoTokenizer.from_pretrained(byte_level)
    lines = output.read_text().split("\n")[:-1]
    texts = [json.loads(line)["text"] if suffix == ".jsonl" else line for line in lines]
    place, cut = 0, dict.fromkeys((canary.id for canary in read_manifest(manifest)), 0)
    ids = {canary.text: canary.id for canary in read_manifest(manifest)}
    for text in texts:
        length = len(tokenizer(text)["input_ids"])
        if text in ids:
            cut[ids[text]] += place // 40 != (place + length - 1) // 40
        place += length + (suffix == ".txt")
    assert report.cut == {name: number for name, number in cut.items() if number}
    assert report.cut


@given(st.integers(0, 3 * SEGMENT), st.booleans())
def test_segments_join_to_the_text_and_spare_spans(start: int, lines: bool) -> None:
    text = ("line\n" if lines else "x") * (4 * SEGMENT // (5 if lines else 1))
    span = Span(start, start + 30, "", True)
    segments = list(_segments(iter([(text[: len(text) // 2],), (text[len(text) // 2 :],)]), [span]))
    assert "".join(segments) == text
    ends = [0]
    for segment in segments:
        ends.append(ends[-1] + len(segment))
    assert not any(span.start < end < span.end for end in ends)


@pytest.mark.parametrize(
    ("chunk", "tokenizer", "message"), [(0, None, "--chunk is 0"), (None, "gpt2", "give --chunk N")]
)
def test_bad_options(tmp_path: Path, manifest: Path, chunk: int | None, tokenizer: str | None, message: str) -> None:
    with pytest.raises(LeakageError, match=message):
        verify(tmp_path / "out.txt", manifest, chunk, tokenizer)
