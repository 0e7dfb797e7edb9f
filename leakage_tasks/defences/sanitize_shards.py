"""Dropping samples from data of many files: each is ranked by models of its own, the worst of all go."""

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
from leakage_tasks.core.partial_results import keep, keeping_folder, kept
from leakage_tasks.core.stable_inputs import changed, unchanged
from leakage_tasks.core.workers import each
from leakage_tasks.data import Columns, format_of, overlap
from leakage_tasks.data.shards import Shards, check_strangers, clear, make_folders, of_earlier_run, state_of
from leakage_tasks.defences.near_texts import NearTo
from leakage_tasks.defences.ranking import (
    CAVEAT,
    NEAR_CAVEAT,
    By,
    Fit,
    character_lm,
    check_settings,
    distinct,
    rank_samples,
)
from leakage_tasks.defences.sanitize import all_texts


@dataclass(frozen=True)
class Settings:
    """What a ranking follows from, the data apart."""

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
    """How much was dropped of all shards together."""

    output: Path
    dropped: int
    samples: int
    rows_dropped: int
    rows: int
    shards: int = 0
    again: tuple[int, int] = (0, 0)
    """How many shards an earlier run had ranked and written."""
    near: float | None = None
    """The similarity from which texts are one sample."""

    def summary(self) -> str:
        """Two lines for people; no text is in them."""
        return (
            f"{self.output}: without {self.dropped:,} of {self.samples:,} samples ({self.rows_dropped:,} of "
            f"{self.rows:,} rows), each ranked by models of its own shard"
            f"{of_earlier_run(self.again[0], self.shards, 'ranked')}{of_earlier_run(self.again[1], self.shards)}"
            f"\n{CAVEAT if self.near is None else NEAR_CAVEAT}"
        )


def sanitize_shards(
    shards: Shards, output: Path, settings: Settings, jobs: int = 1, dask: str | None = None
) -> SanitizedShards:
    """Copy all shards to the folder ``output`` without the ``drop`` samples that come first in all rankings together.

    Two models are trained on the halves of each shard, as :func:`~leakage_tasks.defences.sanitize.sanitize` does on
    all data; a sample that is dropped goes from every shard that has it, and with it all that is as near to it as
    asked for, in whatever shard. Rankings that were finished before a run was ended are not made again. Raises
    LeakageError.
    """
    check_settings(settings.repeats, settings.by, settings.near)
    output = named(output)
    _check(shards, output)
    if settings.drop < 1:
        raise OptionError(f"drop is {settings.drop}: give 1 or more")
    state = keeping_folder(state_of(output))
    tasks = [(shards.path(name).absolute(), state / f"{name}.ranks.json") for name in shards.names]
    make_folders(output, shards.names, shards.root)
    ranked: list[dict[str, Any]] = each(partial(_rank, settings), tasks, jobs, dask)
    best = sorted((-score, place, row, texts) for place, one in enumerate(ranked) for score, row, texts in one["first"])
    number, chosen = _first([texts for *_, texts in best], settings.drop)
    samples = sum(one["samples"] for one in ranked)
    if number < settings.drop or settings.drop >= samples:
        raise OptionError(f"drop is {settings.drop} of {samples:,} samples: give fewer")
    copies = [
        _Copy(source, (output / name).absolute(), state / f"{name}.written.json", one["sha256"])
        for name, (source, _), one in zip(shards.names, tasks, ranked, strict=True)
    ]
    near = _near_to(settings, chosen, [copy.source for copy in copies], jobs, dask)
    written: list[dict[str, Any]] = each(partial(_write, settings.wanted, chosen, near), copies, jobs, dask)
    clear(state, output)
    return SanitizedShards(
        output,
        number,
        samples,
        sum(one["dropped"] for one in written),
        sum(one["rows"] for one in ranked),
        len(shards.names),
        (sum(map(_again, ranked)), sum(map(_again, written))),
        settings.near,
    )


def _first(samples: Sequence[Sequence[str]], most: int) -> tuple[int, frozenset[str]]:
    """How many samples are taken, ``most`` at most, one that shares a text not counted again, and all their texts."""
    number, chosen = 0, set[str]()
    for texts in samples:
        if chosen.isdisjoint(texts):
            if number == most:
                break
            number += 1
        chosen.update(texts)
    return number, frozenset(chosen)


def _near_to(
    settings: Settings, chosen: frozenset[str], sources: Sequence[Path], jobs: int, dask: str | None
) -> NearTo | None:
    """What is near to the chosen texts, read from the shards again, as nothing else holds them; None unless asked."""
    if settings.near is None:
        return None
    found: list[set[str]] = each(partial(_with_hashes, settings.wanted, chosen), sources, jobs, dask)
    return NearTo(sorted(set[str]().union(*found)), settings.near)


def _with_hashes(wanted: Columns, chosen: frozenset[str], source: Path) -> set[str]:
    """Those texts of a shard that are chosen."""
    kind = format_of(source)
    texts = kind.row_texts(source, kind.survey(source, wanted), wanted)
    return {text for text in texts if _hash(text) in chosen}


def _rank(settings: Settings, task: tuple[Path, Path]) -> dict[str, Any]:
    """The first samples of a shard, each with its score, first row and hashes of its texts: texts may be secret."""
    source, state = task
    with unchanged(source):
        digest = sha256_of(source)
        key = ["rank", digest, repr(replace(settings, fit=None)), getattr(settings.fit, "__qualname__", None)]
        if (earlier := kept(state, key)) is not None:
            return {**earlier, "again": True}
        kind = format_of(source)
        layout = kind.survey(source, settings.wanted)
        texts = all_texts(source, kind.row_texts(source, layout, settings.wanted))
        try:
            samples = distinct(texts, settings.near)
            fit = settings.fit or character_lm(texts, epochs=settings.epochs, batch_size=settings.batch_size)
            how: dict[str, Any] = {"repeats": settings.repeats, "by": settings.by, "seed": settings.seed}
            ranked = rank_samples(texts, fit, samples=samples, **how)
        except OptionError as error:
            raise OptionError(f"{source}: {error}") from None
    drop = ranked[: settings.drop]
    first = [(sample.score(settings.by), sample.rows[0], [*map(_hash, sample.texts)]) for sample in drop]
    found = {"sha256": digest, "samples": len(samples), "rows": len(texts), "first": first}
    keep(state, key, found)
    return found


@dataclass(frozen=True)
class _Copy:
    """A shard to copy, whose hash was ``sha256`` when it was ranked; where, and where that is kept once it is done."""

    source: Path
    output: Path
    state: Path
    sha256: str


def _write(wanted: Columns, chosen: frozenset[str], near: NearTo | None, task: _Copy) -> dict[str, Any]:
    """Copy a shard without the rows whose texts are chosen or near to such, unless an earlier run did; how many."""
    source, output = task.source, task.output
    key = ["write", task.sha256, asdict(wanted), sorted(chosen), near and near.similarity]
    earlier = kept(task.state, key)
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
        found = {"dropped": len(gone), "output_sha256": sha256_of(beside)}
    keep(task.state, key, found)
    return found


def _again(found: dict[str, Any]) -> bool:
    return "again" in found


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _check(shards: Shards, output: Path) -> None:
    """Refuse an output that is no folder, holds something else, or is where the data are."""
    check_place(output)
    if output.is_file() or output.suffix:
        raise OptionError(f"{output}: must be a folder, as there are several shards: name one")
    if overlap(output, shards.home):
        raise OptionError(f"{output}: would overwrite the data or write into it: choose another place")
    check_strangers(output, shards.names, OptionError)
