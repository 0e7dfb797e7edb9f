"""Samples of windows of documents, made by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leakage_tasks.attacks.suffix.finding import Choice, SuffixFinding, SuffixView

STAMP = "2026-01-02T03-04-05.678901"
PREFIX, SUFFIX = 10, 10
Blocks = tuple[tuple[int, int, int], ...]
WHOLE: Blocks = ((0, 0, SUFFIX),)


def finding(
    pair: int,
    document: int | None,
    offset: int | None,
    *,
    bits: float = 5.0,
    exact: bool = False,
    blocks: Blocks | None = (),
    scheme: str = "greedy",
    **changed: Any,
) -> SuffixFinding:
    """A window of ten and ten tokens."""
    choice = Choice(1.0, 1.0, 1 if exact else None, 0.0 if exact else 0.5, 1, bits)
    usual: dict[str, Any] = {"p_z_bits": bits, "top1": SUFFIX if exact else 3, "top1_tail": 0, "blocks": blocks}
    view = SuffixView(PREFIX, SUFFIX, 1, 1, bits, reachable=True, choices={"frequency": choice}, **{**usual, **changed})
    return SuffixFinding(
        pair, scheme, 1, "frequency", {"none": view}, nodes=10, access="black box", document=document, offset=offset
    )


def write(folder: Path, findings: Sequence[SuffixFinding], task: str = "suffix_extraction") -> Path:
    """Write samples as the harness does; the file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"samples_{task}_{STAMP}.jsonl"
    lines = [
        {
            "doc_id": number,
            "doc": {"pair": each.pair},
            "arguments": {"gen_args_0": {"arg_0": "", "arg_1": {"data": "x", "decoding": "greedy"}}},
            "resps": [[each.to_json()]],
            "filter": "none",
            "filtered_resps": [["none", each.to_json()]],
        }
        for number, each in enumerate(findings)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def two_documents() -> list[SuffixFinding]:
    """A document of which two neighbouring windows of four are written, one that shares a part, and a control."""
    first = [
        finding(n, 0, offset, exact=offset in (10, 20), blocks=WHOLE if offset in (10, 20) else ())
        for n, offset in enumerate((30, 20, 10, 0))
    ]
    second = [finding(4, 1, 0, bits=1.0, blocks=((2, 1, 8),)), finding(5, 1, 10, bits=3.0, blocks=((0, 2, 8),))]
    return [*first, *second, finding(-1, 0, 0), finding(-2, 0, 10)]
