"""Shards are one data set: the same places as in one file, whatever the jobs, and again after KILL."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import chisquare

from leakage_tasks.canaries import make_canaries, plant, read_manifest, shard_work, verify, write_manifest
from leakage_tasks.canaries.places import distribute_gaps, gaps_of
from leakage_tasks.canaries.unplant import remove
from leakage_tasks.core.errors import LeakageError, OptionError, PlantingError
from leakage_tasks.data.shards import new_folders
from tests.conftest import Leakage, Ran
from tests.core.test_permissions import mode_of

SIZES = (5, 1, 17, 40)


def pack(content: bytes, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(content))
    elif path.suffix == ".zst":
        path.write_bytes(pa.compress(content, "zstd", asbytes=True))
    else:
        path.write_bytes(content)


def unpack(path: Path) -> bytes:
    """By another way than the package's: Python's gzip, and a whole stream at once."""
    if path.suffix == ".gz":
        return gzip.decompress(path.read_bytes())
    if path.suffix == ".zst":
        with pa.CompressedInputStream(pa.BufferReader(path.read_bytes()), "zstd") as stream:
            return bytes(stream.read())
    return path.read_bytes()


def lines(kind: str, shard: int) -> bytes:
    rows = [f"row {number} of shard {shard}" for number in range(SIZES[shard])]
    texts = [json.dumps({"text": row, "other": 1}) for row in rows] if kind == "jsonl" else rows
    return "".join(f"{text}\n" for text in texts).encode()


def make(folder: Path, ending: str) -> Path:
    for shard in range(len(SIZES)):
        pack(lines(ending.split(".")[0], shard), folder / f"part-{shard}.{ending}")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("ending", ["txt", "txt.gz", "txt.zst", "jsonl", "jsonl.gz", "jsonl.zst"])
def test_shards_are_planted_as_one_file_of_them_would_be(tmp_path: Path, manifest: Path, ending: str) -> None:
    source, output = make(tmp_path / "in", ending), tmp_path / "out"
    plant(manifest, source, output, seed=3)
    kind = ending.split(".")[0]
    whole = tmp_path / f"whole.{kind}"
    whole.write_bytes(b"".join(lines(kind, shard) for shard in range(len(SIZES))))
    plant(manifest, whole, tmp_path / f"one.{kind}", seed=3)
    together = b"".join(unpack(output / f"part-{shard}.{ending}") for shard in range(len(SIZES)))
    assert together == (tmp_path / f"one.{kind}").read_bytes()
    assert sorted(path.name for path in output.iterdir()) == sorted(path.name for path in source.iterdir())
    report = verify(output, manifest)
    assert report.ok, report.problems
    assert report.rows == sum(SIZES) + 22
    one = json.loads((tmp_path / f"one.{kind}.leakage.json").read_text())
    many = json.loads((tmp_path / "out.leakage.json").read_text())
    for field in ("copies", "input_rows", "output_rows", "characters", "text_column", "before", "manifest_sha256"):
        assert many[field] == one[field]


@pytest.mark.slow
def test_the_jobs_change_nothing(tmp_path: Path, manifest: Path) -> None:
    source = make(tmp_path / "in", "jsonl.zst")
    plant(manifest, source, tmp_path / "one", jobs=1)
    plant(manifest, source, tmp_path / "two", jobs=2)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    records = [json.loads((tmp_path / f"{name}.leakage.json").read_text()) for name in ("one", "two")]
    assert {**records[0], "output": ""} == {**records[1], "output": ""}
    assert verify(tmp_path / "two", manifest, 30, jobs=2).cut == verify(tmp_path / "two", manifest, 30).cut
    assert verify(tmp_path / "two", manifest, jobs=2).counts == verify(tmp_path / "one", manifest).counts


@pytest.mark.slow
def test_a_cluster_changes_nothing(tmp_path: Path, manifest: Path) -> None:
    distributed = pytest.importorskip("distributed")
    source = make(tmp_path / "in", "txt")
    plant(manifest, source, tmp_path / "one")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", local_directory=str(tmp_path), silence_logs=50
    ) as cluster:
        plant(manifest, source, tmp_path / "two", dask=cluster.scheduler_address)
        assert verify(tmp_path / "two", manifest, dask=cluster.scheduler_address).ok
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_every_gap_of_all_shards_is_as_likely() -> None:
    sizes = [3, 0, 1, 5]
    found: Counter[tuple[int, int]] = Counter()
    for seed in range(4_000):
        for place, gaps in enumerate(distribute_gaps(gaps_of({"a": 1, "b": 1}, sum(sizes), seed), sizes)):
            found.update((place, gap) for gap, _ in gaps)
    # 9 rows have 10 gaps; those between shards are counted once.
    assert len(found) == 10
    assert sum(found.values()) == 8_000
    assert chisquare(list(found.values())).pvalue > 1e-3


@pytest.mark.slow
def test_a_pattern_chooses_shards(tmp_path: Path, manifest: Path, leakage: Leakage, ran: Ran) -> None:
    source = make(tmp_path / "in", "jsonl.gz")
    (source / "notes.txt").write_text("not data\n")
    code, _, err = leakage("plant", manifest, source, "-o", tmp_path / "out")
    assert (code, "holds .jsonl.gz and .txt" in err) == (2, True)
    out, _ = ran("plant", manifest, source / "*.jsonl.gz", "-o", tmp_path / "out", "--jobs", 2)
    assert "22 copies of 4 canaries among 63 rows" in out
    assert len(list((tmp_path / "out").iterdir())) == len(SIZES)
    assert leakage("verify", tmp_path / "out", manifest, "--jobs", 2)[0] == 0
    with pytest.raises(PlantingError, match="no file of a known kind fits this pattern"):
        plant(manifest, source / "*.csv", tmp_path / "none")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("in.jsonl", b'{"text": "a"}\n\n{"text": "b"}'),
        ("in.csv", b"text,x\r\na,1\r\nb,2"),
        ("in.csv", b"text,x"),
        ("in.csv", b'text\n"a\nb"\nc\n'),
    ],
)
def test_removing_from_other_lines(tmp_path: Path, manifest: Path, leakage: Leakage, name: str, content: bytes) -> None:
    source, planted, back = tmp_path / name, tmp_path / f"planted-{name}", tmp_path / f"back-{name}"
    source.write_bytes(content)
    plant(manifest, source, planted)
    code, out, err = leakage("plant", "--remove", planted, "-o", back)
    assert (code, err) == (0, "")
    assert "22 copies of 4 canaries removed" in out
    assert back.read_bytes() == content


def test_removing_canaries_of_several_lines(tmp_path: Path) -> None:
    manifest, source = tmp_path / "c.jsonl", tmp_path / "in.txt"
    write_manifest(make_canaries("Pin of {unique}\nis {digits:4}", 3, repetitions=(5,), controls=1), manifest)
    source.write_bytes(b"one\ntwo\nthree")
    plant(manifest, source, tmp_path / "planted.txt")
    remove(tmp_path / "planted.txt", tmp_path / "back.txt")
    assert (tmp_path / "back.txt").read_bytes() == b"one\ntwo\nthree"


def table(rows: int, first: int = 0) -> pa.Table:
    schema = pa.schema([("text", pa.string()), ("n", pa.int32()), ("tags", pa.list_(pa.string()))], {"by": "us"})
    cells = [{"text": f"row {first + row}", "n": row, "tags": ["a"] * (row % 3)} for row in range(rows)]
    return pa.Table.from_pylist(cells, schema)


def write_table(path: Path, rows: pa.Table, how: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if how == "parquet":
        pq.write_table(rows, path, compression="zstd")
        return
    with (pa.ipc.new_file if how == "file" else pa.ipc.new_stream)(str(path), rows.schema) as writer:
        writer.write_table(rows, max_chunksize=7)


def read_table(path: Path, how: str) -> pa.Table:
    if how == "parquet":
        return pq.read_table(path)
    with pa.OSFile(str(path)) as file:
        return (pa.ipc.open_file if how == "file" else pa.ipc.open_stream)(file).read_all()


@pytest.mark.parametrize("how", ["parquet", "file", "stream"])
def test_typed_columns_come_back_with_rows_and_schema(
    tmp_path: Path, manifest: Path, leakage: Leakage, how: str
) -> None:
    ending = "parquet" if how == "parquet" else "arrow"
    tables = {f"sub/{shard}.{ending}": table(size, 100 * shard) for shard, size in enumerate(SIZES)}
    for name, rows in tables.items():
        write_table(tmp_path / "in" / name, rows, how)
    source, planted, back = tmp_path / "in", tmp_path / "planted", tmp_path / "back"
    plant(manifest, source, planted)
    report = verify(planted, manifest)
    assert report.ok, report.problems
    assert leakage("plant", "--remove", planted, "-o", back)[0] == 0
    for name, rows in tables.items():
        found = read_table(back / name, how)
        # Parquet names the parts of a list anew, whoever writes it.
        rows = read_table(source / name, how) if how == "parquet" else rows
        assert found.schema.equals(rows.schema, check_metadata=True)
        assert found.equals(rows)


def test_shards_come_back(tmp_path: Path, manifest: Path, leakage: Leakage) -> None:
    source = make(tmp_path / "in", "jsonl.zst")
    plant(manifest, source, tmp_path / "planted")
    assert leakage("plant", "--remove", tmp_path / "planted", "-o", tmp_path / "back", "--jobs", 2)[0] == 0
    for path in source.iterdir():
        assert unpack(tmp_path / "back" / path.name) == unpack(path)


def test_what_was_changed_is_not_taken_apart(tmp_path: Path, manifest: Path, leakage: Leakage) -> None:
    source = make(tmp_path / "in", "txt")
    plant(manifest, source, tmp_path / "planted")
    with (tmp_path / "planted" / "part-2.txt").open("a") as file:
        file.write("more\n")
    code, _, err = leakage("plant", "--remove", tmp_path / "planted", "-o", tmp_path / "back")
    assert (code, "part-2.txt: changed after planting" in err, err.count("\n")) == (2, True, 1)
    (tmp_path / "planted" / "part-0.txt").unlink()
    (tmp_path / "planted" / "part-9.txt").write_text("new\n")
    report = verify(tmp_path / "planted", manifest)
    told = " ".join(report.problems)
    assert "part-0.txt: is missing, but" in told
    assert "part-2.txt: changed since it was planted" in told
    assert "part-9.txt: did not exist when" in told


@pytest.fixture
def usual_umask() -> Iterator[None]:
    """New files can be read by all."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("usual_umask")
@pytest.mark.parametrize(
    ("files", "folder", "told"), [(0o600, 0o755, 0o600), (0o644, 0o700, 0o600), (0o640, 0o755, 0o640)]
)
def test_the_record_is_for_those_who_can_read_every_shard(
    tmp_path: Path, manifest: Path, files: int, folder: int, told: int
) -> None:
    source = make(tmp_path / "in", "txt")
    (source / "part-1.txt").chmod(files)
    source.chmod(folder)
    plant(manifest, source, tmp_path / "out")
    assert mode_of(tmp_path / "out.leakage.json") == told
    assert mode_of(tmp_path / "out") == folder


@pytest.mark.usefixtures("usual_umask")
def test_folders_of_shards_are_no_more_open_than_their_sources(tmp_path: Path, manifest: Path) -> None:
    source = make(tmp_path / "in", "txt")
    (source / "closed").mkdir(0o700)
    (source / "part-1.txt").rename(source / "closed" / "part-1.txt")
    plant(manifest, source, tmp_path / "out")
    remove(tmp_path / "out", tmp_path / "back")
    for copy in ("out", "back"):
        assert [mode_of(tmp_path / copy / part) for part in (".", "closed")] == [0o755, 0o700]


def test_a_rerun_skips_what_is_done(tmp_path: Path, manifest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = make(tmp_path / "in", "jsonl")
    plant(manifest, source, tmp_path / "whole")
    written = shard_work.plant_shard
    begun: list[str] = []

    def stop_at_the_third(task: Any) -> Any:
        begun.append(task.paths.name)
        if len(begun) == 3:
            raise PlantingError("the disk went away: bring it back")
        return written(task)

    monkeypatch.setattr("leakage_tasks.canaries.plant_shards.plant_shard", stop_at_the_third)
    with pytest.raises(PlantingError, match="the disk went away"):
        plant(manifest, source, tmp_path / "out")
    assert sorted(contents(tmp_path / "out")) == ["part-0.jsonl", "part-1.jsonl"]
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    monkeypatch.setattr("leakage_tasks.canaries.plant_shards.plant_shard", written)
    plant(manifest, source, tmp_path / "out")
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert all(path.stat().st_mtime_ns == time for path, time in before.items())
    assert not (tmp_path / "out.leakage-shards").exists()


@pytest.mark.parametrize("run", [lambda data, manifest: plant(manifest, data, data.parent / "out"), verify])
def test_data_without_the_column_leave_no_stored_results(tmp_path: Path, manifest: Path, run: Any) -> None:
    data = tmp_path / "in"
    data.mkdir()
    for name in "ab":
        (data / f"{name}.jsonl").write_text('{"words": "one"}\n')
    with pytest.raises(LeakageError, match="no column 'text'"):
        run(data, manifest)
    assert not list(tmp_path.glob("*.leakage-*"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("undo", [False, True])
def test_data_that_cannot_be_copied_leave_no_empty_folders(tmp_path: Path, manifest: Path, undo: bool) -> None:
    pack(b"one\n", tmp_path / "in" / "deep" / "part.txt")
    if undo:
        plant(manifest, tmp_path / "in", tmp_path / "planted")
        pack(b"two\n", tmp_path / "planted" / "deep" / "part.txt")
    else:
        pack(b"\xff\n", tmp_path / "in" / "deep" / "part.txt")
    (tmp_path / "own").mkdir()
    task = partial(remove, tmp_path / "planted") if undo else partial(plant, manifest, tmp_path / "in")
    for name in ("out", "own"):
        with pytest.raises(LeakageError, match="part.txt"):
            task(tmp_path / name)
    assert not (tmp_path / "out").exists()
    assert not list((tmp_path / "own").iterdir())


def test_a_folder_that_cannot_be_made_leaves_none_of_the_others(tmp_path: Path) -> None:
    (tmp_path / "z").write_text("in the way\n")
    folders = new_folders(tmp_path, ["a/b/1.txt", "a/2.txt", "z/3.txt"], tmp_path)
    with pytest.raises(PlantingError, match="/z: cannot be made"), folders:
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["z"]


def test_what_a_killed_run_left_is_cleared_away(tmp_path: Path, manifest: Path) -> None:
    source = make(tmp_path / "in", "txt")
    left = tmp_path / "out" / ".leakage-0123456789abcdef.part"
    left.mkdir(parents=True)
    (left / "part-0.txt").write_text("half")
    plant(manifest, source, tmp_path / "out")
    assert sorted(contents(tmp_path / "out")) == sorted(contents(source))
    assert verify(tmp_path / "out", manifest).ok


def test_another_seed_reuses_nothing(tmp_path: Path, manifest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = make(tmp_path / "in", "jsonl")
    with monkeypatch.context() as patch:
        patch.setattr("leakage_tasks.canaries.plant_shards._record", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            plant(manifest, source, tmp_path / "out", seed=1)
    plant(manifest, source, tmp_path / "out", seed=2)
    plant(manifest, source, tmp_path / "whole", seed=2)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_bad_shards_are_one_line(tmp_path: Path, manifest: Path, leakage: Leakage) -> None:
    source = make(tmp_path / "in", "txt.zst")
    broken = source / "part-3.txt.zst"
    broken.write_bytes(broken.read_bytes()[:-4])
    code, _, err = leakage("plant", manifest, source, "-o", tmp_path / "out", "--jobs", 2)
    assert (code, err.count("\n")) == (2, 1)
    assert "part-3.txt.zst: damaged (Truncated compressed stream): compress the file again" in err
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("mine\n")
    shutil.copy(source / "part-0.txt.zst", broken)
    for output, told in (("other", "holds mine.txt, which is not a shard"), ("in", "would overwrite the input")):
        code, _, err = leakage("plant", manifest, source, "-o", tmp_path / output)
        assert (code, told in err, err.count("\n")) == (2, True, 1)
    with pytest.raises(OptionError, match="--jobs is 0"):
        plant(manifest, source, tmp_path / "out", jobs=0)


@pytest.mark.parametrize(
    ("option", "remedy"),
    [
        ({"label": "rarest"}, "--label is not for shards: give it to leakage canaries, or plant into one file"),
        ({"near_copies": 1}, "--near-copies is not for shards: plant into one file"),
    ],
)
def test_an_option_for_one_file_has_a_remedy_that_exists(
    tmp_path: Path, manifest: Path, option: dict[str, Any], remedy: str
) -> None:
    with pytest.raises(OptionError, match=f"^{remedy}$"):
        plant(manifest, make(tmp_path / "in", "txt"), tmp_path / "out", **option)


def test_the_name_of_a_folder_of_shards_may_have_a_dot(tmp_path: Path, manifest: Path) -> None:
    plant(manifest, make(tmp_path / "in", "txt"), tmp_path / "planted-1.0")
    assert len(contents(tmp_path / "planted-1.0")) == len(SIZES)
    with pytest.raises(PlantingError, match="planted.jsonl: must be a folder"):
        plant(manifest, tmp_path / "in", tmp_path / "planted.jsonl")


def test_planting_is_proven_by_shards(tmp_path: Path, manifest: Path) -> None:
    from leakage_tasks.canaries.proof import planting_of

    source = make(tmp_path / "in", "jsonl")
    plant(manifest, source, tmp_path / "out")
    found = planting_of(manifest, read_manifest(manifest))
    assert (found.state, found.data) == ("proven", "out")
    assert planting_of(manifest, read_manifest(manifest), tmp_path / "out").state == "proven"


def test_a_shard_may_be_planted_by_another_machine_than_counted_it(
    tmp_path: Path, manifest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, usual_stat, usual = make(tmp_path / "in", "txt"), Path.stat, shard_work.plant_shard

    def elsewhere(task: shard_work.ShardPlanting) -> shard_work.Written:
        # A disk that machines share has another number on each of them.
        def stat_there(path: Path, **options: Any) -> os.stat_result:
            status = usual_stat(path, **options)
            fields = (*status[:2], status.st_dev + 1, *status[3:])
            return os.stat_result(fields, {"st_mtime_ns": status.st_mtime_ns})

        with monkeypatch.context() as there:
            there.setattr(Path, "stat", stat_there)
            return usual(task)

    monkeypatch.setattr("leakage_tasks.canaries.plant_shards.plant_shard", elsewhere)
    plant(manifest, source, tmp_path / "out")
    assert len(contents(tmp_path / "out")) == len(SIZES)
