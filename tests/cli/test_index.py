"""``leakage index``."""

from __future__ import annotations

from leakage_tasks.pairs.index.store import open_index
from tests.oracles import letters


def test_a_corpus_becomes_an_index(leakage, tmp_path):
    (tmp_path / "c.txt").write_text("the pin is 12")
    letters().save_pretrained(tmp_path / "spoken")
    output = tmp_path / "index"
    code, out, _ = leakage("index", tmp_path / "c.txt", "-o", output, "--tokenizer", tmp_path / "spoken")
    assert (code, out.partition(", corpus")[0]) == (0, f"{output}: 13 tokens of 1 documents")
    assert open_index(output).about.tokens == 13


def test_a_column_that_is_missing_is_one_line(leakage, tmp_path):
    (tmp_path / "c.jsonl").write_text('{"body": "x"}\n')
    letters().save_pretrained(tmp_path / "spoken")
    words = ("index", tmp_path / "c.jsonl", "-o", tmp_path / "index", "--tokenizer", tmp_path / "spoken")
    code, _, err = leakage(*words)
    assert code != 0
    assert "no column 'text' (it has body): name one with --text-column" in err
    assert err.count("\n") == 1
