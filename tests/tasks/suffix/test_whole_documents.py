"""Windows over whole documents, each figure against plain ``transformers``."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from leakage_tasks.attacks.suffix.finding import SuffixFinding, suffix_finding_from_json
from leakage_tasks.attacks.suffix.likeness import equal_blocks
from leakage_tasks.core.errors import OptionError
from leakage_tasks.pairs.source import read_pairs
from leakage_tasks.tasks.suffix.options import read_suffix_options
from tests.oracles import merging, tiny_gpt2
from tests.report.saved import save, suffix_model

PREFIX, SUFFIX, STRIDE, LENGTH = 6, 5, 4, 60


@cache
def document() -> list[int]:
    """Token ids that the model goes on with itself, with a few that it would not write."""
    model = tiny_gpt2(merging())
    ids = torch.tensor([[5, 9, 30, 41, 7, 12]])
    while ids.shape[1] < LENGTH:
        following = model(ids).logits[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, following if ids.shape[1] % 17 else (following + 1) % 200], dim=1)
    return [int(token) for token in ids[0]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    texts = [merging().decode(document()), merging().decode(document()[:30])]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    merging().save_pretrained(tmp_path / "tokenizer")
    return tmp_path


def options(folder: Path, **more: Any) -> dict[str, Any]:
    return {
        "data": str(folder / "texts.jsonl"),
        "tokenizer": str(folder / "tokenizer"),
        "prefix_length": PREFIX,
        "suffix_length": SUFFIX,
        "stride": STRIDE,
        **more,
    }


def findings(folder: Path, **more: Any) -> list[SuffixFinding]:
    """What the samples hold in the main column."""
    results = save(suffix_model(), ["suffix_extraction"], folder / "results", options(folder, **more))
    (samples,) = results.parent.glob("samples_suffix_extraction_*.jsonl")
    rows = [json.loads(line) for line in samples.read_text().splitlines()]
    return [suffix_finding_from_json(row["resps"][0][0]) for row in rows if row["filter"] == "none"]


def tokens(folder: Path, number: int) -> list[int]:
    text = json.loads((folder / "texts.jsonl").read_text().splitlines()[number])["text"]
    return list(merging()(text, add_special_tokens=False)["input_ids"])


def test_greedy_figures_are_those_of_plain_transformers(folder: Path) -> None:
    model = tiny_gpt2(merging())
    found = findings(folder, decoding="greedy")
    expected = []
    for number in (0, 1):
        row = tokens(folder, number)
        last = len(row) - PREFIX - SUFFIX
        expected += [(number, start) for start in sorted({*range(0, last + 1, STRIDE), last})]
    assert [(each.document, each.offset) for each in found] == expected
    exact = []
    for each in found:
        row = tokens(folder, each.document)[each.offset :]
        prefix, truth = torch.tensor([row[:PREFIX]]), row[PREFIX : PREFIX + SUFFIX]
        written = model.generate(prefix, do_sample=False, max_new_tokens=SUFFIX, pad_token_id=0)[0, PREFIX:].tolist()
        logits = model(torch.tensor([row[: PREFIX + SUFFIX]])).logits[0, PREFIX - 1 : -1].double()
        bits = -torch.log2(logits.softmax(-1)[range(SUFFIX), truth]).sum().item()
        view = each.views["none"]
        assert view.own_bits == pytest.approx(bits, abs=1e-3)
        assert (view.top1 == SUFFIX) is (written == truth) is (view.choices[each.chosen_by].wrong == 0)
        assert view.blocks == equal_blocks(written, truth)
        exact.append(written == truth)
    assert 0 < sum(exact) < len(exact)


def test_p_z_is_that_of_the_truncated_distribution(folder: Path) -> None:
    model = tiny_gpt2(merging())
    for each in findings(folder, samples=2, temperature=0.7, top_k=9, top_p=1.0)[:8]:
        row = tokens(folder, each.document)[each.offset :]
        truth = row[PREFIX : PREFIX + SUFFIX]
        logits = model(torch.tensor([row[: PREFIX + SUFFIX]])).logits[0, PREFIX - 1 : -1].double() / 0.7
        kept = logits >= logits.topk(9, dim=-1).values[:, -1:]
        probability = logits.masked_fill(~kept, -torch.inf).softmax(-1)[range(SUFFIX), truth].prod().item()
        bits = each.views["none"].p_z_bits
        assert (0.0 if bits is None else 2**-bits) == pytest.approx(probability, rel=1e-3, abs=1e-12)


def test_only_the_main_column_lists_equal_runs_and_no_token_is_told(folder: Path) -> None:
    settings = options(folder, samples=2, rows="all")
    results = save(suffix_model(), ["suffix_extraction"], folder / "results", settings)
    (samples,) = results.parent.glob("samples_*.jsonl")
    rows = [json.loads(line) for line in samples.read_text().splitlines()]
    assert all(row["doc"].keys() == {"pair", "place", "tokens"} for row in rows)
    filtered = {row["filter"]: json.loads(row["filtered_resps"][0][1])["views"]["none"]["blocks"] for row in rows}
    assert filtered.pop("none") is not None
    assert filtered
    assert set(map(str, filtered.values())) == {"None"}


def test_windows_of_whole_documents_are_no_split_of_them(folder: Path) -> None:
    assert len(read_suffix_options(options(folder)).tested()) > 10
    assert read_suffix_options(options(folder)).source.split == "all"
    assert read_suffix_options(options(folder, split="test")).source.split == "test"


def test_a_repeated_window_is_kept(folder: Path) -> None:
    line = (folder / "texts.jsonl").read_text().splitlines()[0]
    (folder / "texts.jsonl").write_text(f"{line}\n{line}\n")
    pairs = read_pairs(read_suffix_options(options(folder)).source)
    half = len(pairs) // 2
    assert [pair.prefix for pair in pairs[:half]] == [pair.prefix for pair in pairs[half:]]
    assert [pair.document for pair in pairs] == [0] * half + [1] * half


@pytest.mark.parametrize(("stride", "message"), [(0, "stride=0 must be 1 or more"), ("x", "stride='x': expected int")])
def test_a_wrong_stride_is_an_error(folder: Path, stride: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        read_suffix_options(options(folder, stride=stride))


def test_pairs_of_tokens_have_no_stride(folder: Path) -> None:
    (folder / "texts.jsonl").write_text('{"prefix": [1], "suffix": [2]}\n')
    with pytest.raises(OptionError, match="holds pairs of token ids, and stride= is for text"):
        read_suffix_options(options(folder, prefix_length=1, suffix_length=1)).tested()
