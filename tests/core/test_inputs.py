"""Files of others that are nested without end, are no files or never end: one line, soon, whoever reads them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from leakage_tasks.attacks.classifier.label_search import shares_from_counts
from leakage_tasks.attacks.finding import finding_from_json
from leakage_tasks.canaries import read_manifest
from leakage_tasks.canaries.sidecar import read_sidecar
from leakage_tasks.core import inputs
from leakage_tasks.core.errors import LeakageError, ManifestError
from leakage_tasks.core.inputs import check_file, parse_json, read_bytes, read_text
from leakage_tasks.data.jsonl import objects
from leakage_tasks.pairs.submission import read_submission
from leakage_tasks.pairs.texts import saved_splits
from leakage_tasks.report.load.findings import _findings
from leakage_tasks.report.load.results_file import read_run
from leakage_tasks.report.load.samples import read_samples
from leakage_tasks.report.load.training_log import read_curves, read_history
from leakage_tasks.targets.label_names import _json as read_labels
from leakage_tasks.tasks.heldout_text import documents

DEEP = "[" * 100_000
HUGE = "9" * 50_000
SAMPLES = "samples_canary_exposure_2026-01-02T03-04-05.678901.jsonl"
Reader = Callable[[Path], Any]


def details(path: Path) -> list[Any]:
    """What a page reads of samples."""
    run: Any = SimpleNamespace(scored_as=lambda task: SimpleNamespace(logged=path))
    return list(_findings(run, "canary_exposure", finding_from_json, {}))


READERS: dict[str, Reader] = {
    "canaries.jsonl": read_manifest,
    "data.jsonl": lambda path: list(objects(path)),
    "data.leakage.json": read_sidecar,
    "results_2026-01-02T03-04-05.678901.json": read_run,
    SAMPLES: read_samples,
    "exposure_by_epoch.json": read_history,
    "trainer_state.json": read_curves,
    "labels.json": read_labels,
    "counts.json": lambda path: shares_from_counts(str(path)),
    "text.jsonl": lambda path: documents(str(path)),
    "dataset_dict.json": lambda path: saved_splits(path.parent),
}


@pytest.fixture(params=[DEEP, f'{{"a": {DEEP}', HUGE, f'{{"date": {HUGE}}}'], ids=["deep", "deeper", "huge", "field"])
def hostile(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("name", READERS)
def test_json_without_end_is_one_line(tmp_path: Path, name: str, hostile: str) -> None:
    path = tmp_path / name
    path.write_text(hostile + "\n")
    with pytest.raises(LeakageError, match=re.escape(path.name)) as raised:
        READERS[name](path)
    assert len(str(raised.value)) < 500


def test_samples_for_the_page(tmp_path: Path, hostile: str) -> None:
    (tmp_path / SAMPLES).write_text(f"{hostile}\n")
    with pytest.raises(LeakageError, match=r"678901.jsonl:1: (not JSON|holds no finding)"):
        details(tmp_path / SAMPLES)


def test_guesses_of_a_submission(tmp_path: Path) -> None:
    path = tmp_path / "guesses.csv"
    path.write_text(f'Example ID,Suffix Guess\n1,"{DEEP}"\n')
    with pytest.raises(LeakageError, match=r"guesses.csv"):
        read_submission(path)


@pytest.mark.parametrize("name", sorted(READERS.keys() - {"dataset_dict.json"}))
def test_a_pipe_that_nobody_writes_to_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(inputs, "WAIT", 0.05)
    path = tmp_path / name
    os.mkfifo(path)
    with pytest.raises(LeakageError, match=re.escape(name)) as raised:
        READERS[name](path)
    assert re.search("pipe|JSON", str(raised.value))


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs /dev/zero")
@pytest.mark.parametrize("name", sorted(READERS.keys() - {"dataset_dict.json"}))
def test_a_device_is_not_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.symlink_to("/dev/zero")
    with pytest.raises(LeakageError, match=re.escape(name)):
        READERS[name](path)


def test_a_pipe_that_somebody_writes_to_is_read(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(b"a\r\nb" * 100_000,))
    writer.start()
    assert read_text(path) == "a\nb" * 100_000
    writer.join()


def test_a_pipe_of_a_shell_gives_every_reader_the_same() -> None:
    end, start = os.pipe()
    os.write(start, b"canaries")
    os.close(start)
    try:
        assert [read_bytes(f"/dev/fd/{end}") for _ in range(3)] == [b"canaries"] * 3
    finally:
        os.close(end)


def test_two_pipes_of_a_shell_with_one_name_are_not_mixed_up() -> None:
    for content in (b"first", b"second"):
        end, start = os.pipe()
        os.write(start, content)
        os.close(start)
        os.dup2(end, 200)
        os.close(end)
        assert read_bytes("/dev/fd/200") == content
    os.close(200)


def test_a_writer_is_never_left_without_its_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A writer that runs as soon as it can, and a reader that is held up each time it closes anything.
    path = tmp_path / "pipe"
    os.mkfifo(path)
    close = os.close
    monkeypatch.setattr(os, "close", lambda descriptor: (close(descriptor), time.sleep(0.2)))
    writer = threading.Thread(target=path.write_bytes, args=(b"a" * 1_000_000,), daemon=True)
    writer.start()
    monkeypatch.setattr(inputs, "MOST", 1_000_000)
    assert len(read_bytes(path)) == 1_000_000
    writer.join()


def test_what_never_ends_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "MOST", 1000)
    path = tmp_path / "long"
    path.write_bytes(bytes(1001))
    with pytest.raises(OSError, match="more than 1 GiB, expected a smaller file"):
        read_bytes(path)


def test_a_path_with_a_nul_byte_is_one_line() -> None:
    with pytest.raises(ManifestError, match="cannot read the manifest .a NUL byte"):
        read_manifest("canaries\0.jsonl")


def test_only_files_are_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="a pipe, device or socket, expected a file"):
        check_file(tmp_path / "pipe")


def test_too_deep_is_no_value() -> None:
    assert parse_json("[1]") == [1]
    with pytest.raises(ValueError, match="^nested too deeply$"):
        parse_json(DEEP)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
def test_a_manifest_from_a_shell_goes_on_working(tmp_path: Path) -> None:
    from leakage_tasks.canaries import make_canaries, write_manifest

    write_manifest(make_canaries("pin {unique} {digits:4}", 2), tmp_path / "c.jsonl")
    code = "import sys; from leakage_tasks.canaries import read_manifest; print(len(read_manifest(sys.argv[1])))"
    script = f"{sys.executable} -c '{code}' <(sleep 0.2; cat {tmp_path}/c.jsonl)"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("2\n", "")


def test_a_folder_of_pipes_beside_results_is_no_wait(tmp_path: Path) -> None:
    from leakage_tasks.canaries.natural import corpus_passages

    os.mkfifo(tmp_path / "a.txt")
    (tmp_path / "b.txt").write_text("text\n")
    started = time.monotonic()
    assert [passage.text for passage in corpus_passages(tmp_path)] == ["text\n"]
    assert time.monotonic() - started < 10
