"""Pairs of text that the model never saw, attacked alike: rows of their own, and nothing of them in any other."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from lm_eval.utils import make_table

from leakage_tasks.core.errors import OptionError
from tests.oracles import letters
from tests.targets.text_models import TextOnly, hf
from tests.tasks.suffix.test_only_writes import ids, writing
from tests.tasks.suffix.test_task import TASK, arrays, data, evaluate, lm  # noqa: F401  fixtures


@pytest.fixture
def folders(tmp_path: Any) -> Any:
    """Three pairs of data, two of other text."""
    for folder, rows in {
        "seen": ["the pin is 12", "the pin at 12", "the pin in 34"],
        "unseen": ["the tin is 12", "the tin at 34"],
    }.items():
        (tmp_path / folder).mkdir()
        for name, part in (("prefix", slice(0, 11)), ("suffix", slice(11, 13))):
            cut = np.array([ids(row)[part] for row in rows], dtype=np.uint16)
            np.save(tmp_path / folder / f"train_{name}.npy", cut)
    return tmp_path


def test_controls_have_rows_of_their_own(folders: Any) -> None:
    writer = writing("12", "12", "12", "34")
    results = evaluate(writer, folders / "seen", controls=str(folders / "unseen"), samples=8)
    row = results["results"][TASK]
    assert (row["n,none"], row["n_controls,none"]) == (3, 2)
    assert row["p_z,none"] == pytest.approx((6 + 6 + 2) / 24)
    assert row["control_p_z,none"] == pytest.approx((6 + 2) / 16)
    assert (row["recall,none"], row["control_recall,none"]) == (pytest.approx(2 / 3), 0.5)
    assert (row["drawn,none"], row["control_drawn,none"]) == (1, 1)
    assert "control_recall,frequency" not in row
    declared = results["configs"][TASK]["leakage"]
    assert (declared["tested"]["pairs"], declared["tested"]["unseen_pairs"]) == (3, 2)
    assert declared["rows"]["p_z"]["control"] == "control_p_z"


@pytest.mark.slow
def test_the_pairs_figures_are_those_without_controls(lm: Any, data: Any, folders: Any) -> None:  # noqa: F811
    """On a model that takes token ids: draws, p_z, and the guesses in their file."""
    prefixes, suffixes = arrays()
    for name, rows in (("prefix", prefixes[::-1][:20]), ("suffix", suffixes[:20])):
        np.save(folders / "unseen" / f"train_{name}.npy", rows)
    alone = evaluate(lm, data, guesses=str(folders / "alone.csv"))["results"][TASK]
    beside = evaluate(lm, data, guesses=str(folders / "both.csv"), controls=str(folders / "unseen"))["results"][TASK]
    own = {name for name in beside if not name.startswith(("control_", "n_controls", "cost_"))}
    assert own == set(alone)
    for name in own - {"alias", "name", "sample_len"}:
        assert beside[name] == (pytest.approx(alone[name], abs=1e-6) if isinstance(alone[name], float) else alone[name])
    assert beside["n_controls,none"] == 20
    assert beside["control_p_z,none"] < beside["p_z,none"]
    assert (folders / "alone.csv").read_text() == (folders / "both.csv").read_text()


def test_a_part_holds_both_and_logs_tell_them_apart(folders: Any) -> None:
    writer = writing("12")
    results = evaluate(writer, folders / "seen", {"limit": 2}, controls=str(folders / "unseen"), samples=3)
    assert [each["doc"]["pair"] for each in results["samples"][TASK] if each["filter"] == "none"] == [0, -1]
    assert "the tin" not in json.dumps(results["samples"], default=str)


def test_other_controls_are_another_protocol(folders: Any) -> None:
    def protocol(**given: str) -> dict[str, Any]:
        found = evaluate(writing("12"), folders / "seen", samples=3, **given)
        return dict(found["configs"][TASK]["leakage"]["protocol"])

    none, unseen, seen = (
        protocol(),
        protocol(controls=str(folders / "unseen")),
        protocol(controls=str(folders / "seen")),
    )
    assert "controls" not in none
    assert unseen["controls"] != seen["controls"]
    assert {name: unseen[name] for name in none} == none


def test_controls_too_long_are_called_so(folders: Any) -> None:
    with pytest.raises(OptionError, match="prefix_lengths has 12, the prefix of .* 11 tokens"):
        evaluate(TextOnly(hf(letters())), folders / "seen", controls=str(folders / "unseen"), prefix_lengths="12")
    with pytest.raises(OptionError, match="nowhere"):
        evaluate(writing("12"), folders / "seen", controls=str(folders / "nowhere"))


def test_costs_of_pairs_are_compared_with_those_of_controls(lm: Any, data: Any, folders: Any) -> None:  # noqa: F811
    """Suffixes that the model itself would draw, next to random ones; a short table, with its verdict."""
    prefixes, suffixes = arrays()
    likely = [place for place in range(len(suffixes)) if place % 3]
    for folder, rows in ((data, likely), (folders / "unseen", range(0, len(suffixes), 3))):
        for name, part in (("prefix", prefixes), ("suffix", suffixes)):
            np.save(folder / f"train_{name}.npy", part[list(rows)])
    results = evaluate(lm, data, controls=str(folders / "unseen"), rows=None, wrong=None)
    row = results["results"][TASK]
    assert len([name for name in row if "," in name and "_stderr" not in name]) <= 15
    assert row["bits_per_token,none"] < row["control_bits_per_token,none"]
    assert row["cost_auc,none"] > 0.9
    assert row["cost_p,none"] < 1e-6
    assert f"{TASK} (above the controls)" in make_table(results)
    hidden = results["configs"][TASK]["leakage"]["hidden_metrics"]
    assert hidden["top1_tokens"] > hidden["control_top1_tokens"]
    assert hidden["n_documents"] == row["n,none"] == 60
