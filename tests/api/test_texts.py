from __future__ import annotations

from pathlib import Path

import pytest

from leakage_tasks import audit, search_texts
from leakage_tasks.core.errors import OptionError
from tests.oracles import letters, tiny_gpt2

SEEN = [f"the quick brown fox {number} jumps over it" for number in range(40)]
UNSEEN = [f"a slow red cat {number} sleeps under that" for number in range(40)]
FEW = {"kinds": "empty:short:prefix", "prompt_words": 2, "texts": 4, "length": 12, "run_length": 3, "corpus_prefix": 4}


def test_documents_in_memory_and_files_give_equal_figures(tmp_path: Path):
    for name, documents in (("corpus", SEEN), ("controls", UNSEEN)):
        (tmp_path / f"{name}.csv").write_text("text\n" + "\n".join(documents) + "\n")
    letters().save_pretrained(tmp_path / "tokenizer")
    model = tiny_gpt2(letters())
    found = search_texts(model, letters(), SEEN, UNSEEN, **FEW)
    task = {
        "data": f"{tmp_path}/corpus.csv",
        "controls": f"{tmp_path}/controls.csv",
        "tokenizer": f"{tmp_path}/tokenizer",
    }
    usual = audit(model, letters(), tasks=["untargeted_extraction"], untargeted_extraction=task, **FEW)
    assert found.figures == usual.figures
    assert found.figures["untargeted_extraction/extracted"].count == 8
    assert found.figures["untargeted_extraction/extracted"].control is not None


def test_without_controls_no_figure_represents_the_model():
    found = search_texts(tiny_gpt2(letters()), letters(), SEEN, **FEW)
    assert "no controls" in found.flags[0]


@pytest.mark.parametrize("corpus", [[], [1], ["a", None]])
def test_another_corpus_is_an_error(corpus: list[object]):
    with pytest.raises(OptionError, match="corpus: give a file, folder or index, or a list of texts"):
        search_texts(None, letters(), corpus)  # type: ignore[arg-type]
