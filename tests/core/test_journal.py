"""Records that outlive the process that makes them."""

import errno
import json
import multiprocessing
import os
import resource
import stat

import pytest

from leakage_tasks.core import journal
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.core.output_folder import MARKER


def records(folder):
    return [record for file in journal.journal_files(folder) for record in file.records]


def torn(folder):
    return sum(file.torn for file in journal.journal_files(folder))


def test_what_is_appended_is_read_again_and_is_its_owners_alone(tmp_path):
    folder = tmp_path / "a" / "b"
    journal.open_journal(folder).append({"n": 1.25, "text": "é\n\ud800"})
    again = journal.open_journal(folder)
    again.append({"n": 2})
    again.append({"n": 3})
    assert [record["n"] for record in records(folder)] == [1.25, 2, 3]
    assert records(folder)[0]["text"] == "é\n\ud800"
    files = list(folder.glob(journal.FILES))
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert len(files) == 2


def test_nothing_is_made_before_the_first_record(tmp_path):
    journal.open_journal(tmp_path / "new")
    assert [each.name for each in (tmp_path / "new").iterdir()] == [MARKER]


def test_every_record_is_synced(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(journal.os, "fsync", lambda file: synced.append(os.fstat(file).st_size))
    kept = journal.open_journal(tmp_path)
    synced.clear()
    kept.append({"n": 1})
    kept.append({"n": 2})
    size = len(b'{"n": 1}\n')
    assert [each for each in synced if each in (size, 2 * size)] == [size, 2 * size]


@pytest.mark.parametrize("cut", range(1, 9))
def test_a_torn_last_line_is_dropped(tmp_path, cut):
    journal.open_journal(tmp_path).append({"n": 1})
    file = next(tmp_path.glob(journal.FILES))
    file.write_bytes(file.read_bytes() + b'{"n": 2}\n'[:cut])
    assert (records(tmp_path), torn(tmp_path)) == ([{"n": 1}], 1)
    journal.open_journal(tmp_path).append({"n": 3})
    assert [record["n"] for record in records(tmp_path)] == [1, 3]


def test_damage_in_the_middle_costs_its_line_alone(tmp_path):
    kept = journal.open_journal(tmp_path)
    for number in range(3):
        kept.append({"n": number})
    file = next(tmp_path.glob(journal.FILES))
    file.write_bytes(file.read_bytes().replace(b'{"n": 1}', b"\0\0\0\0\0\0\xff\0"))
    assert ([record["n"] for record in records(tmp_path)], torn(tmp_path)) == ([0, 2], 1)


def foreign(folder):
    (folder / "thesis.tex").write_text("x")


def of_another_command(folder):
    (folder / MARKER).write_text("leakage demo\n")


def of_another_version(folder):
    (folder / MARKER).write_text(f"{journal.COMMAND}\n2\n")


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (foreign, "holds 'thesis.tex'"),
        (of_another_command, "was written by 'leakage demo'"),
        (of_another_version, "is of format 2, this version reads 1"),
    ],
)
def test_folders_that_are_not_ours_are_refused_and_left_as_they_are(tmp_path, make, told):
    make(tmp_path)
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    with pytest.raises(LeakageError, match=told):
        journal.open_journal(tmp_path)
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == before


def test_a_folder_of_another_user_is_refused(tmp_path, monkeypatch):
    journal.open_journal(tmp_path).append({"n": 1})
    monkeypatch.setattr(journal.os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(LeakageError, match="belongs to another user"):
        journal.open_journal(tmp_path)


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LeakageError, match="cannot be used"):
        journal.open_journal(tmp_path / "file")


def test_what_a_kill_left_while_the_folder_was_made_does_no_harm(tmp_path):
    (tmp_path / ".leakage-0123.part").mkdir()
    journal.open_journal(tmp_path).append({"n": 1})
    assert records(tmp_path) == [{"n": 1}]


def test_a_disk_that_fills_up_costs_one_line_and_no_record(tmp_path, monkeypatch):
    kept = journal.open_journal(tmp_path)
    kept.append({"n": 1})
    write = os.write

    def half(file, content):
        if len(content) < 20:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, content[:20])

    monkeypatch.setattr(journal.os, "write", half)
    with pytest.raises(LeakageError, match="No space left on device.*free disk space, then run again"):
        kept.append({"n": 2, "long": "x" * 50})
    monkeypatch.undo()
    assert (records(tmp_path), torn(tmp_path)) == ([{"n": 1}], 0)
    kept.append({"n": 3})
    assert [record["n"] for record in records(tmp_path)] == [1, 3]


def test_a_file_that_may_not_grow_is_told_in_one_line(tmp_path):
    """By the system's own limit, in a process of its own."""
    outcome = multiprocessing.get_context("spawn").Queue()
    process = multiprocessing.get_context("spawn").Process(target=grow, args=(str(tmp_path), outcome))
    process.start()
    told = outcome.get(timeout=120)
    process.join()
    assert "ulimit -f" in told
    assert records(tmp_path)
    assert torn(tmp_path) == 0


def grow(folder, outcome):
    from pathlib import Path

    kept = journal.open_journal(Path(folder))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    try:
        for number in range(1000):
            kept.append({"n": number})
    except LeakageError as error:
        outcome.put(str(error))


def test_processes_that_append_at_once_lose_nothing(tmp_path):
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=append_many, args=(str(tmp_path), name)) for name in "ab"]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    found = [(record["by"], record["n"]) for record in records(tmp_path)]
    assert sorted(found) == [(name, number) for name in "ab" for number in range(50)]


def append_many(folder, name):
    from pathlib import Path

    kept = journal.open_journal(Path(folder))
    for number in range(50):
        kept.append({"by": name, "n": number})


def test_pruning_takes_away_what_is_not_wanted_and_torn_lines_but_no_file_in_use(tmp_path):
    done = journal.open_journal(tmp_path)
    for number in range(3):
        done.append({"n": number})
    file = next(tmp_path.glob(journal.FILES))
    del done
    with file.open("ab") as out:
        out.write(b'{"n"')
    running = journal.open_journal(tmp_path)
    running.append({"n": 1})
    assert journal.prune(tmp_path, lambda record: record["n"] != 1) == journal.Pruned(1, 1, 1)
    assert sorted(record["n"] for record in records(tmp_path)) == [0, 1, 2]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    running.append({"n": 4})
    assert sorted(record["n"] for record in records(tmp_path)) == [0, 1, 2, 4]
    assert json.loads(file.read_text().splitlines()[0]) == {"n": 0}


def test_pruning_all_leaves_no_file(tmp_path):
    journal.open_journal(tmp_path).append({"n": 1})
    assert journal.prune(tmp_path, lambda record: False) == journal.Pruned(1, 0, 0)
    assert list(tmp_path.glob(journal.FILES)) == []


def test_only_folders_of_ours_are_looked_into(tmp_path):
    for folder in (tmp_path / "none", tmp_path):
        with pytest.raises(LeakageError, match="not a folder that"):
            journal.check_folder(folder)
