"""Data sets of the Hugging Face hub, and folders with the layout of such data sets, as streamed shards."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from leakage_tasks.core.atomic import check_place, write_text
from leakage_tasks.core.errors import OptionError, PlantingError
from leakage_tasks.core.partial_results import parts_folder
from leakage_tasks.data import Columns, overlap
from leakage_tasks.data.pointer import POINTER, SCHEME, Pointer
from leakage_tasks.data.shards import Shards, shards_of, state_of


@dataclass(frozen=True, kw_only=True)
class HubShards(Shards):
    """Pointers to the shards of a hub data set; each is named like its future parquet file, plus a suffix."""

    pointer: Pointer

    @property
    def display_name(self) -> str:
        """The name of the data set, with its commit."""
        return self.pointer.display_name

    @property
    def split(self) -> str:
        """The name of the split."""
        return self.pointer.split

    @property
    def home(self) -> Path:
        """The folder of the data set, if it is a folder."""
        return Path(self.pointer.name) if Path(self.pointer.name).is_absolute() else self.root

    def path(self, name: str) -> Path:
        """Return the path of a pointer."""
        return self.root / f"{name}{POINTER}"


def is_hub(source: Path) -> bool:
    """Return True if ``source`` names a data set of the hub."""
    return str(source).startswith(SCHEME)


def shards_for(source: Path, wanted: Columns, output: Path) -> Shards:
    """Return the shards of any data; pointers to shards of the hub are stored next to ``output``.

    Raises PlantingError for an output that cannot be written or is inside a data set of the hub, and as
    :func:`hub_shards` and :func:`~leakage_tasks.data.shards.shards_of`.
    """
    if not is_hub(source):
        return shards_of(source)
    check_place(output, PlantingError)
    home = Path(_parts(source)[0])
    if home.is_dir() and overlap(output, home):
        raise PlantingError(f"{output}: would overwrite the input {home}: choose another output")
    return hub_shards(source, wanted, state_of(output))


def hub_shards(source: Path, wanted: Columns, folder: Path) -> HubShards:
    """Write a pointer to every shard of a split into a new folder in ``folder``, and return the shards.

    Raises PlantingError for a data set that cannot be loaded, and for a missing split or column.
    """
    # These modules load pyarrow, which most commands do not need.
    from leakage_tasks.data.streamed import builder_of, commit_of, features_of, streaming
    from leakage_tasks.data.typed import layout_of

    name, subset, revision = _parts(source)
    with streaming(str(source)):
        commit = commit_of(name, revision)
        splits = builder_of(name, subset, commit).as_streaming_dataset()
        if wanted.split not in splits:
            problem = f"no split {wanted.split!r} (it has {', '.join(splits)})"
            raise PlantingError(subject=str(source), problem=problem, remedy="name one with {}", option="split")
        stream = splits[wanted.split]
        features = features_of(stream)
        layout_of(source, features.arrow_schema, 0, wanted)
    total = stream.num_shards
    pointers = [Pointer(name, subset, wanted.split, commit, features.to_dict(), index, total) for index in range(total)]
    names = [f"{wanted.split}-{index:05}-of-{total:05}.parquet" for index in range(total)]
    shards = HubShards(parts_folder(parts_folder(folder) / "hub"), tuple(names), pointer=pointers[0])
    for file, pointer in zip(names, pointers, strict=True):
        write_text(shards.path(file), json.dumps(asdict(pointer)) + "\n", private=True)
    return shards


def _parts(source: Path) -> tuple[str, str | None, str | None]:
    """Split ``hub:NAME:SUBSET@REVISION`` into data set, subset and revision; the name of a folder becomes absolute."""
    text = str(source).removeprefix(SCHEME)
    if not text:
        raise OptionError(f"{source}: names no data set: write {SCHEME}owner/name or {SCHEME}FOLDER")
    name, _, revision = (text, "", "") if Path(text).is_dir() else text.partition("@")
    name, _, subset = (name, "", "") if Path(name).is_dir() else name.partition(":")
    if not Path(name).is_dir():
        return name, subset or None, revision or None
    if revision:
        raise OptionError(f"{source}: {name} is a folder, which has no revisions: leave @{revision} out")
    return str(Path(name).absolute()), subset or None, None
