"""Coins that decide on planting: fair, repeatable, and recognised if they were changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leakage_tasks.canaries import manifest_hash, read_manifest
from leakage_tasks.canaries.coins import flipped, heads
from leakage_tasks.canaries.generate import make_canaries
from leakage_tasks.core.errors import ManifestError, OptionError


def test_coins_are_fair_and_independent_of_each_other() -> None:
    shown = [heads(7, f"canary-{n}") for n in range(4000)]
    assert abs(sum(shown) - 2000) < 4 * 1000**0.5
    alike = sum(first == second for first, second in zip(shown[:-1], shown[1:], strict=True))
    assert abs(alike - 2000) < 4 * 1000**0.5
    assert shown == [heads(7, f"canary-{n}") for n in range(4000)]
    assert shown != [heads(8, f"canary-{n}") for n in range(4000)]


def test_tails_make_a_control_and_controls_have_no_coin(tmp_path: Path, ran) -> None:
    path = tmp_path / "c.jsonl"
    words = ("--template", "Pin of {unique}: {digits:6}.", "--count", 40, "--controls", 10, "--repetitions", "1,4")
    out, _ = ran("canaries", *words, "--coin", "--seed", 3, "-o", path)
    canaries = read_manifest(path)
    decided = [canary for canary in canaries if canary.coin]
    assert len(decided) == 40
    assert [canary.planted for canary in decided] == [heads(3, canary.id) for canary in decided]
    assert {canary.repetitions for canary in decided if not canary.planted} == {0}
    assert {canary.repetitions for canary in decided if canary.planted} == {1, 4}
    excluded = sum(not canary.planted for canary in decided)
    assert f"{10 + excluded} controls ({excluded} of them by a coin)" in out


def test_a_manifest_without_coins_keeps_its_hash() -> None:
    (canary,) = make_canaries("pin {digits:4}", 1, seed=0)
    assert "coin" not in canary.to_json()
    assert manifest_hash([canary]) == "93a114cdd90a7f8d85edd31c3a6a76d33811412cb4b8e4d46c75d47e15638477"


def test_changed_coins_are_one_clear_line(tmp_path: Path, leakage) -> None:
    path = tmp_path / "c.jsonl"
    leakage("canaries", "--template", "Pin of {unique}: {digits:6}.", "--count", 10, "--coin", "--seed", 3, "-o", path)
    lines = path.read_text().splitlines()
    index = next(n for n, line in enumerate(lines) if json.loads(line)["planted"])
    lines[index] = json.dumps({**json.loads(lines[index]), "planted": False, "repetitions": 0})
    path.write_text("\n".join(lines))
    with pytest.raises(ManifestError, match=rf"c\.jsonl:{index + 1}: field 'planted': differs from the coin"):
        read_manifest(path)


def test_coins_without_a_seed_cannot_be_checked(tmp_path: Path) -> None:
    canary = {**make_canaries("pin {digits:4}", 1, seed=0)[0].to_json(), "coin": True}
    (tmp_path / "c.jsonl").write_text(json.dumps(canary))
    with pytest.raises(ManifestError, match="field 'seed': missing, although a coin"):
        read_manifest(tmp_path / "c.jsonl")


def test_supporting_canaries_and_coins_exclude_each_other() -> None:
    canaries = make_canaries("a b {digits:2}", 1, label="x", supporting=1, supporting_labels=["y"], seed=0)
    with pytest.raises(OptionError, match="leave out --supporting"):
        flipped(canaries, 0)
