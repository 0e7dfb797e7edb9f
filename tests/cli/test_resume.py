"""``leakage resume``: what is kept, and what is taken out."""

import json

import pytest

from leakage_tasks.attacks.arithmetic import ARITHMETIC
from leakage_tasks.core.journal import FILES, open_journal


def record(key, **fields):
    made = {"key": key, "group": "g" * 64, "task": "canary_exposure", "model": "./mine", "attack": "exposure"}
    when = "2026-01-02T03:04:05+00:00"
    return {**made, "arithmetic": ARITHMETIC, "when": when, "finding": "{}", **fields}


@pytest.fixture
def kept(tmp_path):
    journal = open_journal(tmp_path / "kept")
    journal.append(record("a"))
    journal.append(record("b", when="2026-01-03T00:00:00+00:00"))
    journal.append(record("a"))
    journal.append(record("c", arithmetic=ARITHMETIC + 1, group="h" * 64))
    journal.append(record("d", when="2999-01-01T00:00:00+00:00"))
    del journal
    with next((tmp_path / "kept").glob(FILES)).open("ab") as out:
        out.write(b'{"key": "e"')
    return tmp_path / "kept"


def keys(folder):
    return [json.loads(line)["key"] for file in folder.glob(FILES) for line in file.read_text().splitlines()]


def test_findings_are_listed_by_group(kept, leakage):
    code, out, _ = leakage("resume", kept)
    rows = [line.split() for line in out.splitlines()]
    assert code == 0
    first = ["canary_exposure", "./mine", "exposure", str(ARITHMETIC), "4"]
    assert [*first, "2026-01-02T03:04:05+00:00", "2999-01-01T00:00:00+00:00", "g" * 12] in rows
    assert ["canary_exposure", "./mine", "exposure", str(ARITHMETIC + 1), "1"] in [row[:5] for row in rows]
    assert "1 torn or damaged line: remove with --prune" in out


def test_pruning_takes_out_torn_lines_doubles_and_other_versions(kept, leakage):
    code, out, _ = leakage("resume", kept, "--prune")
    assert (code, out.splitlines()[0]) == (0, "removed 2 findings and 1 torn line")
    assert keys(kept) == ["a", "b", "d"]
    assert leakage("resume", kept, "--prune")[1].startswith("removed 0 findings and 0 torn lines")


def test_pruning_by_age(kept, leakage):
    leakage("resume", kept, "--prune", "--older-than", 1)
    assert keys(kept) == ["d"]


def test_what_is_no_such_folder_is_one_line(tmp_path, leakage, refused):
    assert "not a folder that" in refused("resume", tmp_path / "none")
    open_journal(tmp_path / "kept")
    assert leakage("resume", tmp_path / "kept", "--older-than", 3)[0] == 2
    assert "no findings" in leakage("resume", tmp_path / "kept")[1]
