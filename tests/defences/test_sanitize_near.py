"""Secrets in slightly different copies, which ``sanitize --near`` finds and drops as one, in files and in shards."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from leakage_tasks.canaries.canary import MASK
from leakage_tasks.core.errors import OptionError
from leakage_tasks.data import Columns
from leakage_tasks.data.shards import shards_of
from leakage_tasks.defences.near_texts import shingles_of, similarity_of
from leakage_tasks.defences.ranking import rank_samples
from leakage_tasks.defences.sanitize import sanitize
from leakage_tasks.defences.sanitize_shards import SanitizeOptions, sanitize_shards
from tests.conftest import Refused

COPIES = ("the gate code is 481516", "the gate code was 481516", "the door code is 481516", "The gate  code is 481516")
PLAIN = ("rain is expected in the north", "we leave from the second platform", "boil the rice for ten minutes",
         "chapters are in no order", "all seats have been taken", "somebody whistles in the yard")  # fmt: skip
MIXED = [PLAIN[0], COPIES[0], PLAIN[1], COPIES[1], PLAIN[2], PLAIN[3], COPIES[2], PLAIN[4], COPIES[3], PLAIN[5]]


def learns_runs(own: Sequence[str], seed: int) -> Callable[[Sequence[str]], np.ndarray]:
    """A model to which a text is as cheap as a text that it saw is similar, digits counting most."""
    seen = [shingles_of(text) for text in own]

    def score(asked: Sequence[str]) -> np.ndarray:
        best = [max((similarity_of(shingles_of(text), each) for each in seen), default=0.0) for text in asked]
        worth = [10.0 + 10 * sum(map(str.isdigit, text)) for text in asked]
        return np.array([much * (1 - near) for much, near in zip(worth, best, strict=True)])

    return score


def test_copies_that_differ_hide_each_other_unless_they_are_grouped() -> None:
    plain, grouped = (rank_samples(MIXED, learns_runs, seed=0, near=near) for near in (None, 0.4))
    assert (len(plain), len(grouped)) == (10, 7)
    assert sorted(grouped[0].texts) == sorted(COPIES)
    assert grouped[0].rows == [1, 3, 6, 8]
    hidden = [each for each in plain if each.text in COPIES and each.difference < grouped[0].difference / 2]
    assert len(hidden) >= 2


def test_a_groups_costs_are_means_over_its_texts() -> None:
    def counts(own: Sequence[str], seed: int) -> Callable[[Sequence[str]], np.ndarray]:
        return lambda asked: np.array([len(text) * (1 if text in own else 3) for text in asked], dtype=float)

    first = next(each for each in rank_samples(MIXED, counts, near=0.4) if each.near)
    mean = sum(map(len, COPIES)) / len(COPIES)
    assert first.seen == [pytest.approx(mean)]
    assert first.unseen == [pytest.approx(3 * mean)]
    assert first.rate == pytest.approx(2 * mean / (mean + 1))


@pytest.mark.parametrize("reveal", [False, True])
def test_the_report_counts_a_group_and_masks_its_texts(tmp_path: Path, reveal: bool) -> None:
    (tmp_path / "in.txt").write_text("".join(f"{text}\n" for text in MIXED))
    done = sanitize(tmp_path / "in.txt", tmp_path / "out.txt", drop=1, near=0.4, fit=learns_runs,
                    report=tmp_path / "report.jsonl", reveal=reveal)  # fmt: skip
    assert (tmp_path / "out.txt").read_text() == "".join(f"{text}\n" for text in PLAIN)
    first, *others = map(json.loads, (tmp_path / "report.jsonl").read_text().splitlines())
    assert (first["texts"], first["rows"]) == (4, [2, 4, 7, 9])
    assert {each["texts"] for each in others} == {1}
    assert (first["text"], first.get("near")) == ((COPIES[0], list(COPIES[1:])) if reveal else (MASK, None))
    assert ("481516" in (tmp_path / "report.jsonl").read_text()) == reveal
    assert "without 1 of 7 different samples (4 of 10 rows)" in done.summary()
    assert "near copies: 4 texts in 1 sample" in done.summary()
    assert "481516" not in done.summary()


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_near_copies_go_from_every_shard(tmp_path: Path, jobs: int) -> None:
    (tmp_path / "in").mkdir()
    for name, lines in {"a": (COPIES[0], *PLAIN[:3], COPIES[3]), "b": (*PLAIN[3:], COPIES[2]), "c": PLAIN[:2]}.items():
        (tmp_path / "in" / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
    shards = shards_of(tmp_path / "in")
    assert shards is not None
    settings = SanitizeOptions(1, Columns(), 1, "sample", 1, 4, 0, learns_runs, 0.4)
    done = sanitize_shards(shards, tmp_path / "out", settings, jobs)
    left = {path.stem: path.read_text().splitlines() for path in (tmp_path / "out").iterdir()}
    assert left == {"a": list(PLAIN[:3]), "b": list(PLAIN[3:]), "c": list(PLAIN[:2])}
    assert (done.dropped, done.rows_dropped) == (1, 3)


def test_a_similarity_that_parts_nothing_is_refused_before_anything_is_trained(
    tmp_path: Path, refused: Refused
) -> None:
    (tmp_path / "in.txt").write_text("".join(f"{text}\n" for text in MIXED))
    err = refused("sanitize", tmp_path / "in.txt", "-o", tmp_path / "out.txt", "--near", 0.05, "--drop", 1)
    assert "near is 0.05: give a similarity from 0.2 to 1" in err
    assert not (tmp_path / "out.txt").exists()


def test_texts_that_are_all_near_copies_are_no_data() -> None:
    with pytest.raises(OptionError, match="1 different texts, near copies counted as one, cannot be split"):
        rank_samples(COPIES, learns_runs, near=0.4)
