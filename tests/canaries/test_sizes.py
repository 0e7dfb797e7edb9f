"""Remarks on groups of canaries that give no interval, and on data that is largely copies."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

from leakage_tasks.canaries import make_canaries, plant, read_manifest, write_manifest
from leakage_tasks.canaries.cli_options import requested
from leakage_tasks.canaries.generation_modes import CanaryOptions
from leakage_tasks.canaries.sizes import high_share, least_count, small_groups
from leakage_tasks.metrics.aggregates import FEWEST

TEMPLATE = "The pin of {unique} is {digits:4}."


@pytest.mark.parametrize(
    ("count", "repetitions", "said"),
    [
        (
            8,
            (1, 16),
            "too few canaries for intervals (4 planted once, 4 planted 16 times; an interval takes 10",
        ),
        (19, (1, 16), "too few canaries for intervals (10 planted once, 9 planted 16 times"),
        (20, (1, 16), None),
        (9, (4,), "too few canaries for intervals (9 planted 4 times"),
        (10, (4,), None),
        (32, (1, 4, 16), None),
    ],
)
def test_groups_below_the_least_of_an_interval_are_named(
    count: int, repetitions: tuple[int, ...], said: str | None
) -> None:
    remark = small_groups(make_canaries(TEMPLATE, count, repetitions=repetitions, controls=3))
    assert (remark is None) is (said is None)
    assert (remark or "").startswith(said or "")


def test_supporting_canaries_are_in_no_group() -> None:
    made = make_canaries(TEMPLATE, 10, label="a", supporting=1, supporting_labels=["a", "b"])
    assert any(canary.kind == "supporting" for canary in made)
    assert small_groups(made) is None


@pytest.mark.parametrize("families", [1, 2, 3])
@pytest.mark.parametrize("repetitions", [(1,), (1, 16), (1, 4, 16), (1, 1, 16), (4, 4)])
def test_the_least_count_is_the_first_that_gives_every_group_an_interval(
    repetitions: tuple[int, ...], families: int
) -> None:
    def groups(count: int) -> list[int]:
        dealt = [repetitions[place % len(repetitions)] for place in range(count)] * families
        return [dealt.count(times) for times in set(repetitions)]

    found = least_count(repetitions, families)
    assert min(groups(found)) >= FEWEST > min(groups(found - 1))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"count": 8, "repetitions": "1,16"},
            ["use --count 20 or more, or --profile routine", "use --controls 100, or --profile routine"],
        ),
        ({"count": 20, "repetitions": "1,16", "controls": 1}, []),
        ({"profile": "smoke"}, []),
        ({}, []),
    ],
)
def test_canaries_that_are_made_too_few_are_warned_of(options: dict[str, object], said: list[str]) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        requested(CanaryOptions(template=TEMPLATE, **options))  # type: ignore[arg-type]
    assert [str(each.message).rpartition(": ")[2] for each in caught] == said


def planted(folder: Path, rows: int, name: str, **options: str) -> str | None:
    """What is said of 68 copies planted into data of that many rows."""
    manifest, source = folder / "c.jsonl", folder / f"in{name}"
    write_manifest(make_canaries(TEMPLATE, 8, repetitions=(1, 16), seed=1), manifest)
    if name == ".txt":
        source.write_text(f"{'a line of text ' * 20}\n" * rows)
    elif options:
        turns = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
        source.write_text((json.dumps({"messages": turns}) + "\n") * rows)
    else:
        source.write_text('{"text": "a row"}\n' * rows)
    report = plant(manifest, source, folder / f"out{name}", **options)
    return high_share(report.record, read_manifest(manifest))


@pytest.mark.parametrize(
    ("rows", "name", "options", "said"),
    [
        (220, ".jsonl", {}, "24 % of out.jsonl are copies of canaries (68 added to 220 rows)"),
        (1292, ".jsonl", {}, "5 % of out.jsonl"),
        (1293, ".jsonl", {}, None),
        # 68 of 288 lines, yet of 68,000 characters 2,600.
        (220, ".txt", {}, None),
        (20, ".txt", {}, "23 % of the characters of out.txt"),
        (680, ".jsonl", {"turn": "last"}, "10 % of out.jsonl"),
    ],
)
def test_data_that_is_largely_copies_is_warned_of(
    tmp_path: Path, rows: int, name: str, options: dict[str, str], said: str | None
) -> None:
    remark = planted(tmp_path, rows, name, **options)
    assert (remark is None) is (said is None)
    assert (remark or "").startswith(said or "")
