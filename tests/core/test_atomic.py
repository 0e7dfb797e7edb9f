"""Writing whole or not at all."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from leakage_tasks.core import atomic as files
from leakage_tasks.core import signal_cleanup
from leakage_tasks.core.atomic import leftovers, replacing
from leakage_tasks.core.errors import LeakageError
from tests.core.test_permissions import mode_of


def test_a_file_takes_the_place_of_an_older_one(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    with replacing(target) as beside:
        beside.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_takes_the_place_of_an_older_one(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    target.mkdir()
    (target / "old").write_text("old")
    with replacing(target) as beside:
        beside.mkdir()
        (beside / "new").write_text("new")
    assert [path.name for path in target.iterdir()] == ["new"]
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("folder", [False, True])
def test_an_error_leaves_what_was_there(tmp_path: Path, folder: bool) -> None:
    target = tmp_path / "target"
    target.write_text("old")

    def fail() -> None:
        with replacing(target) as beside:
            if folder:
                beside.mkdir()
                (beside / "part").write_text("half")
            else:
                beside.write_text("half")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_places_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "missing" / "x", tmp_path / "file" / "x"):
        with pytest.raises(LeakageError, match="cannot be written"), replacing(place) as beside:
            beside.write_text("x")


def test_a_file_does_not_replace_a_folder(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(LeakageError, match="cannot be written"), replacing(tmp_path / "folder") as beside:
        beside.write_text("x")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_device_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(LeakageError, match="neither a file nor a folder"), replacing("/dev/null"):
        pass
    assert Path("/dev/null").is_char_device()


# -- for whose eyes -----------------------------------------------------------------------------------------


def test_while_it_is_written_nobody_else_can_reach_it(tmp_path: Path) -> None:
    with replacing(tmp_path / "file") as beside:
        beside.write_text("private")
        beside.chmod(0o666)
        assert mode_of(beside.parent) == 0o700
        assert beside.parent.parent == tmp_path


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o400])
def test_a_copy_is_as_open_as_what_it_is_a_copy_of(tmp_path: Path, mode: int) -> None:
    (tmp_path / "source").write_text("x")
    (tmp_path / "source").chmod(mode)
    (tmp_path / "copy").write_text("older, and open to all")
    (tmp_path / "copy").chmod(0o666)
    with replacing(tmp_path / "copy", like=tmp_path / "source") as beside:
        beside.write_text("y")
    assert mode_of(tmp_path / "copy") == mode


def test_what_replaces_a_file_is_as_open_as_that(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    target.chmod(0o660)
    with replacing(target) as beside:
        beside.write_text("new")
    assert mode_of(target) == 0o660


def test_what_is_private_is_its_owners_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    (tmp_path / "file").chmod(0o666)
    with replacing(tmp_path / "file", private=True) as beside:
        beside.write_text("new")
    with replacing(tmp_path / "folder", private=True) as beside:
        (beside / "in").mkdir(parents=True)
        (beside / "in" / "file").write_text("new")
    assert mode_of(tmp_path / "file") == mode_of(tmp_path / "folder" / "in" / "file") == 0o600
    assert mode_of(tmp_path / "folder") == mode_of(tmp_path / "folder" / "in") == 0o700


def test_a_folder_stays_one_that_its_owner_can_write_to(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source").chmod(0o550)
    with replacing(tmp_path / "copy", like=tmp_path / "source") as beside:
        beside.mkdir()
    assert mode_of(tmp_path / "copy") == 0o750
    (tmp_path / "source").chmod(0o750)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_owner_and_group_are_those_of_the_source(tmp_path: Path) -> None:
    (tmp_path / "source").write_text("x")
    os.chown(tmp_path / "source", 1234, 2345)
    with replacing(tmp_path / "copy", like=tmp_path / "source") as beside:
        beside.write_text("y")
    found = (tmp_path / "copy").stat()
    assert (found.st_uid, found.st_gid) == (1234, 2345)


def test_rights_of_a_group_that_cannot_be_kept_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "source").write_text("x")
    (tmp_path / "source").chmod(0o640)

    def refused(path: Path, user: int, group: int) -> None:
        raise PermissionError(errno.EPERM, "refused")

    class Other:
        """Rights of a file of another group."""

        st_mode, st_uid, st_gid = stat.S_IFREG | 0o640, 1, -5

    monkeypatch.setattr(os, "chown", refused)
    usual = Path.stat
    monkeypatch.setattr(Path, "stat", lambda path, **rest: Other if path.name == "source" else usual(path, **rest))
    with replacing(tmp_path / "copy", like=tmp_path / "source") as beside:
        beside.write_text("y")
    assert mode_of(tmp_path / "copy") == 0o600


# -- links, and names made ready beforehand -----------------------------------------------------------------


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "real")
    with replacing(tmp_path / "link") as beside:
        beside.write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "elsewhere" / "real").read_text() == "new"


def test_a_link_to_itself_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(LeakageError, match="cannot be written"), replacing(tmp_path / "loop"):
        pass


@pytest.mark.parametrize("made", ["link", "folder"])
def test_a_name_that_is_there_already_is_neither_followed_nor_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: str
) -> None:
    monkeypatch.setattr(signal_cleanup.secrets, "token_hex", lambda size: "guessed")
    (tmp_path / "victim").mkdir()
    ready = tmp_path / ".leakage-guessed.part"
    ready.symlink_to(tmp_path / "victim") if made == "link" else ready.mkdir()
    with pytest.raises(LeakageError, match="cannot be written"), replacing(tmp_path / "file") as beside:
        beside.write_text("private")
    assert not list((tmp_path / "victim").iterdir())
    assert not (tmp_path / "file").exists()
    assert ready.exists()


def test_no_two_names_are_alike(tmp_path: Path) -> None:
    with replacing(tmp_path / "file") as one, replacing(tmp_path / "file") as other:
        assert one.parent != other.parent
        one.write_text("x")
        other.write_text("y")


# -- ends before the end ------------------------------------------------------------------------------------

WRITES = """
import signal, sys, time
# A child inherits ignored signals: Ctrl-C from a shell that starts the tests in the background, SIGHUP from nohup.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from pathlib import Path
from leakage_tasks.core.atomic import replacing
with replacing(Path(sys.argv[1]) / "outer") as outer, replacing(Path(sys.argv[1]) / "inner") as inner:
    outer.write_text("half")
    inner.mkdir()
    (inner / "part").write_text("half")
    print("writing", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_leaves_nothing_and_ends_the_process(tmp_path: Path, number: signal.Signals) -> None:
    done = subprocess.Popen(
        [sys.executable, "-c", WRITES, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert done.stdout is not None
    assert done.stdout.readline() == "writing\n"
    assert len(list(leftovers(tmp_path))) == 2
    done.send_signal(number)
    assert done.wait(timeout=20) == -number
    assert not list(tmp_path.iterdir())


def test_what_a_kill_leaves_is_found(tmp_path: Path) -> None:
    done = subprocess.Popen([sys.executable, "-c", WRITES, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert done.stdout is not None
    done.stdout.readline()
    done.kill()
    done.wait(timeout=20)
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(each.name for each in leftovers(tmp_path))
    assert all(mode_of(each) == 0o700 for each in leftovers(tmp_path))


def test_what_a_kill_leaves_of_a_study_is_found(tmp_path: Path) -> None:
    left = tmp_path / "runs" / "studies" / "paper" / "smoke" / "shared" / "0123" / ".leakage-0.part"
    left.mkdir(parents=True)
    assert list(leftovers(tmp_path)) == [left]


def test_signals_are_met_as_before_once_it_is_written(tmp_path: Path) -> None:
    with replacing(tmp_path / "file") as beside:
        beside.write_text("x")
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_thread_writes_as_well(tmp_path: Path) -> None:
    def write() -> None:
        with replacing(tmp_path / "file") as beside:
            beside.write_text("x")

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
    assert (tmp_path / "file").read_text() == "x"


def of_system(code: int) -> OSError:
    return OSError(code, os.strerror(code))


def followed_by(error: OSError) -> RuntimeError:
    """What torch raises after a write of its failed."""
    own = RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 704 vs 598")
    own.__context__ = error
    return own


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO])
@pytest.mark.parametrize(
    "raised",
    [
        of_system,
        lambda code: Exception(f"{os.strerror(code)} (os error {code})"),
        lambda code: followed_by(of_system(code)),
    ],
    ids=["of Python", "of another language", "of torch"],
)
def test_a_disk_that_takes_no_more_is_one_line_and_leaves_what_was_there(
    tmp_path: Path, code: int, raised: Callable[[int], Exception]
) -> None:
    (tmp_path / "file").write_text("old")
    with (
        pytest.raises(LeakageError, match=rf"file: cannot be written \({os.strerror(code)}\): ."),
        replacing(tmp_path / "file"),
    ):
        raise raised(code)
    assert (tmp_path / "file").read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_a_file_that_could_not_be_read_is_the_one_named(tmp_path: Path) -> None:
    with (
        pytest.raises(LeakageError, match=r"gone: No such file or directory: check the path"),
        replacing(tmp_path / "file"),
    ):
        (tmp_path.parent / "gone").read_bytes()


def test_an_error_of_the_program_stays_one(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), replacing(tmp_path / "file"):
        _ = 1 / 0


def test_it_is_on_the_disk_before_it_takes_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("old")
    seen = []
    usual = os.fsync

    def noting(descriptor: int) -> None:
        seen.append((Path(f"/proc/self/fd/{descriptor}").resolve().name, (tmp_path / "file").read_text()))
        usual(descriptor)

    monkeypatch.setattr(os, "fsync", noting)
    with replacing(tmp_path / "file") as beside:
        beside.write_text("new")
    assert seen == [("file", "old"), (tmp_path.name, "new")]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_folder_is_swap_at_once_where_that_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    if not at_once:
        monkeypatch.setattr(files, "_swap", lambda one, other: False)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "old").write_text("")
    with replacing(tmp_path / "folder") as beside:
        beside.mkdir()
        (beside / "new").write_text("")
    assert [each.name for each in (tmp_path / "folder").iterdir()] == ["new"]
    assert [each.name for each in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("place", ["", ".", "..", "/", "a\0b", "x" * 300, "\ud800"])
def test_what_is_no_place_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LeakageError, match="cannot be written"), replacing(place) as beside:
        beside.write_text("x")
    assert not list(tmp_path.iterdir())
