"""Removal of memorized samples from data of several shards: models per shard, one ranking of all samples."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from leakage_tasks.canaries.sidecar import named, sha256_of
from leakage_tasks.core.atomic import check_place, replacing
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.partial_results import load_part, parts_folder, removed_if_empty, save_part
from leakage_tasks.core.stable_inputs import changed, unchanged
from leakage_tasks.core.workers import map_tasks
from leakage_tasks.data import Columns, file_kind, format_of, overlap
from leakage_tasks.data.shards import (
    Shards,
    check_no_other_files,
    check_splits,
    clear,
    earlier_run_note,
    new_folders,
    state_of,
)
from leakage_tasks.defences.near_texts import NearIndex
from leakage_tasks.defences.ranking import (
    CAVEAT,
    NEAR_CAVEAT,
    By,
    Fit,
    character_lm,
    check_options,
    distinct,
    rank_samples,
)
from leakage_tasks.defences.sanitize import all_texts


@dataclass(frozen=True)
class SanitizeOptions:
    """The options of a ranking."""

    drop: int
    wanted: Columns
    repeats: int
    by: By
    epochs: int
    batch_size: int
    seed: int
    fit: Fit | None = None
    near: float | None = None


@dataclass(frozen=True)
class SanitizedShards:
    """Numbers of dropped samples and rows, for all shards together."""

    output: Path
    dropped: int
    samples: int
    rows_dropped: int
    rows: int
    shards: int = 0
    again: tuple[int, int] = (0, 0)
    """Numbers of shards that an earlier run ranked and wrote."""
    near: float | None = None
    """Similarity from which texts count as one sample."""

    def summary(self) -> str:
        """Return two lines for people, without any text of the data."""
        return (
            f"{self.output}: without {self.dropped:,} of {self.samples:,} samples ({self.rows_dropped:,} of "
            f"{self.rows:,} rows), each ranked by models of its shard"
            f"{earlier_run_note(self.again[0], self.shards, 'ranked')}{earlier_run_note(self.again[1], self.shards)}"
            f"\n{CAVEAT if self.near is None else NEAR_CAVEAT}"
        )


def sanitize_shards(
    shards: Shards, output: Path, options: SanitizeOptions, jobs: int = 1, dask: str | None = None
) -> SanitizedShards:
    """Copy all shards to the folder ``output`` without the ``drop`` samples that rank first over all shards.

    Two models are trained on the halves of each shard, as :func:`~leakage_tasks.defences.sanitize.sanitize` does for
    one file. A dropped sample is removed from every shard, with its near copies if ``near`` is set. Rankings that an
    interrupted run finished are reused.

    Args:
        shards: The data.
        output: The folder to write.
        options: Options of the ranking.
        jobs: Number of processes.
        dask: Address of a Dask scheduler to use instead of local processes.

    Returns:
        Numbers of dropped samples and rows.

    Raises:
        LeakageError: A file cannot be read or written or changed while it was read, or an option is invalid.
    """
    sizes = {name: getattr(options, name) for name in ("drop", "repeats", "epochs", "batch_size")}
    check_options(options.by, options.near, **sizes)
    if shards.split is None:
        check_splits(shards.home, options.wanted.split)
    output = named(output)
    _check(shards, output)
    state = parts_folder(state_of(output))
    tasks = [(shards.path(name).absolute(), state / f"{name}.ranks.json") for name in shards.names]
    with removed_if_empty(state):
        ranked: list[dict[str, Any]] = map_tasks(partial(_rank, options), tasks, jobs, dask)
    best = sorted(
        (-score, shard, row, texts) for shard, ranking in enumerate(ranked) for score, row, texts in ranking["first"]
    )
    number, chosen = _choose([texts for *_, texts in best], options.drop)
    samples = sum(ranking["samples"] for ranking in ranked)
    if number < options.drop or options.drop >= samples:
        raise OptionError(f"drop is {options.drop} of {samples:,} samples: give fewer")
    copies = [
        _Copy(source, (output / name).absolute(), state / f"{name}.written.json", ranking["sha256"])
        for name, (source, _), ranking in zip(shards.names, tasks, ranked, strict=True)
    ]
    near = _near_index(options, chosen, [copy.source for copy in copies], jobs, dask)
    with new_folders(output, shards.names, shards.root):
        written: list[dict[str, Any]] = map_tasks(partial(_write, options.wanted, chosen, near), copies, jobs, dask)
    clear(state, output)
    return SanitizedShards(
        output,
        number,
        samples,
        sum(ranking["dropped"] for ranking in written),
        sum(ranking["rows"] for ranking in ranked),
        len(shards.names),
        (sum(map(_is_earlier, ranked)), sum(map(_is_earlier, written))),
        options.near,
    )


def _choose(samples: Sequence[Sequence[str]], most: int) -> tuple[int, frozenset[str]]:
    """Choose the first ``most`` samples. Return their number and the hashes of all their texts.

    A sample that shares a text with a chosen sample is included without being counted.
    """
    number, chosen = 0, set[str]()
    for texts in samples:
        if chosen.isdisjoint(texts):
            if number == most:
                break
            number += 1
        chosen.update(texts)
    return number, frozenset(chosen)


def _near_index(
    options: SanitizeOptions, chosen: frozenset[str], sources: Sequence[Path], jobs: int, dask: str | None
) -> NearIndex | None:
    """Return an index of the chosen texts; None without ``near``.

    The texts are read from the shards again, because rankings hold only their hashes.
    """
    if options.near is None:
        return None
    texts: list[set[str]] = map_tasks(partial(_with_hashes, options.wanted, chosen), sources, jobs, dask)
    return NearIndex(sorted(set[str]().union(*texts)), options.near)


def _with_hashes(wanted: Columns, chosen: frozenset[str], source: Path) -> set[str]:
    """Return the chosen texts of a shard."""
    kind = format_of(source)
    texts = kind.row_texts(source, kind.survey(source, wanted), wanted)
    return {text for text in texts if _hash(text) in chosen}


def _rank(options: SanitizeOptions, task: tuple[Path, Path]) -> dict[str, Any]:
    """Rank the samples of a shard. Return the first samples with score, first row and hashes of their texts.

    The result has hashes instead of texts, because it is saved to disk and texts may be secret.
    """
    source, state = task
    with unchanged(source):
        digest = sha256_of(source)
        key = ["rank", digest, repr(replace(options, fit=None)), getattr(options.fit, "__qualname__", None)]
        if (earlier := load_part(state, key)) is not None:
            return {**earlier, "again": True}
        kind = format_of(source)
        layout = kind.survey(source, options.wanted)
        texts = all_texts(source, kind.row_texts(source, layout, options.wanted))
        try:
            samples = distinct(texts, options.near)
            fit = options.fit or character_lm(texts, epochs=options.epochs, batch_size=options.batch_size)
            ranked = rank_samples(
                texts, fit, repeats=options.repeats, by=options.by, seed=options.seed, samples=samples
            )
        except OptionError as error:
            raise OptionError(f"{source}: {error}") from None
    drop = ranked[: options.drop]
    first = [(sample.score(options.by), sample.rows[0], [*map(_hash, sample.texts)]) for sample in drop]
    ranking = {"sha256": digest, "samples": len(samples), "rows": len(texts), "first": first}
    save_part(state, key, ranking)
    return ranking


@dataclass(frozen=True)
class _Copy:
    """A shard to copy: its file, the output, the file that records completion, and its hash when it was ranked."""

    source: Path
    output: Path
    state: Path
    sha256: str


def _write(wanted: Columns, chosen: frozenset[str], near: NearIndex | None, task: _Copy) -> dict[str, Any]:
    """Copy a shard without the rows whose texts are chosen or near a chosen text, unless an earlier run did.

    Returns the number of dropped rows and the hash of the output.
    """
    source, output = task.source, task.output
    key = ["write", task.sha256, asdict(wanted), sorted(chosen), near and near.similarity]
    earlier = load_part(task.state, key)
    if earlier is not None and output.is_file() and sha256_of(output) == earlier["output_sha256"]:
        return {**earlier, "again": True}
    with replacing(output, like=source) as beside, unchanged(source):
        if sha256_of(source) != task.sha256:
            raise changed(source)
        kind = format_of(source)
        layout = kind.survey(source, wanted)
        texts = kind.row_texts(source, layout, wanted)
        gone = {row for row, text in enumerate(texts) if _hash(text) in chosen or (near is not None and text in near)}
        kind.write_without(source, beside, layout, wanted, gone)
        result = {"dropped": len(gone), "output_sha256": sha256_of(beside)}
    save_part(task.state, key, result)
    return result


def _is_earlier(result: dict[str, Any]) -> bool:
    return "again" in result


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _check(shards: Shards, output: Path) -> None:
    """Raise OptionError if the output is not a folder, holds other files, or overlaps the data."""
    check_place(output)
    if output.is_file() or file_kind(output) is not None:
        raise OptionError(
            f"{output}: must be a folder, because the input has several shards: give the name of a folder"
        )
    if overlap(output, shards.home):
        raise OptionError(f"{output}: would overwrite the data or write into it: choose another path")
    check_no_other_files(output, shards.names, OptionError)
