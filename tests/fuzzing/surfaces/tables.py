"""Data sets of columns, parquet and folders that ``datasets`` saved."""

from __future__ import annotations

import io
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from tests.fuzzing import hostile, mutate
from tests.fuzzing.case import Call
from tests.fuzzing.drawn import draw
from tests.fuzzing.surfaces.datasets import SHAPES, planted, turns_options

_TYPES = (pa.string(), pa.large_string(), pa.binary(), pa.int8(), pa.uint64(), pa.float16(), pa.float64(), pa.bool_())
_NESTED = (pa.list_(pa.string()), pa.struct([("a", pa.int8())]))
_ODD = (pa.date64(), pa.timestamp("ns"), pa.decimal128(5, 2), pa.null(), *_NESTED)
_CATEGORIES = pa.dictionary(pa.int8(), pa.string())
_TEXTS = (pa.string(), pa.large_string(), pa.list_(pa.string()), _CATEGORIES)
_ANY = (*_TYPES, *_ODD, _CATEGORIES)
_CHATS = (
    pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())])),
    pa.large_list(pa.struct([("from", pa.large_string()), ("value", pa.string())])),
    pa.list_(pa.struct([("role", pa.string()), ("content", pa.list_(pa.struct([("text", pa.string())])))])),
    pa.list_(pa.struct([("role", pa.int8()), ("content", pa.null())])),
)
_PARTS = ("messages", "conversations", "instruction", "input", "output", "prompt", "completion", "chosen", "rejected")
_COLUMNS = st.lists(
    st.tuples(st.sampled_from(["text", "label", "", "a.b", "x"]), st.sampled_from(_ANY), st.booleans()),
    min_size=1,
    max_size=4,
)


@cache
def _folder() -> dict[str, bytes]:
    """The files of a saved folder, by their names."""
    import datasets

    rows = {"text": ["one", "two", "three"], "label": [0, 1, 0]}
    features = datasets.Features(text=datasets.Value("string"), label=datasets.ClassLabel(names=["joy", "sad"]))
    place = Path(tempfile.mkdtemp())
    try:
        datasets.Dataset.from_dict(rows, features).save_to_disk(place / "data")
        return {path.relative_to(place).as_posix(): path.read_bytes() for path in sorted((place / "data").iterdir())}
    finally:
        shutil.rmtree(place)


def make(stream: Random, folder: Path) -> Call:
    """A table of odd columns, or a sound one with changed bytes."""
    if stream.random() < 0.3:
        return planted(stream, folder, _saved(stream, folder))
    source = folder / "data.parquet"
    if stream.random() < 0.5:
        source.write_bytes(_parquet(_odd(stream)))
    elif stream.random() < 0.5:
        rows = SHAPES[stream.choice(list(SHAPES))]
        source.write_bytes(mutate.data(stream, _parquet(pa.Table.from_pylist(rows))))
        return planted(stream, folder, source, more=turns_options(stream))
    else:
        columns = {
            "text": ["one", "two", hostile.text(stream).encode("utf-8", "replace").decode()],
            "label": ["joy", "sad", "joy"],
        }
        source.write_bytes(mutate.data(stream, _parquet(pa.table(columns))))
    return planted(stream, folder, source)


def _saved(stream: Random, folder: Path) -> Path:
    files = dict(_folder())
    name = stream.choice(list(files))
    if name.endswith(".json") and stream.random() < 0.7:
        files[name] = mutate.json_file(stream, json.loads(files[name]))
    else:
        files[name] = mutate.data(stream, files[name])
    (folder / "data").mkdir()
    for each, told in files.items():
        (folder / each).write_bytes(told)
    return folder / "data"


def _odd(stream: Random) -> pa.Table:
    """Columns of any type, nothing but null in them."""
    columns = draw(stream, _COLUMNS) or [("text", pa.string(), True)]
    if stream.random() < 0.6:
        columns[0] = ("text", stream.choice(_TEXTS), columns[0][2])
    if stream.random() < 0.3:
        names = stream.sample(_PARTS, stream.randint(1, 5))
        columns = [(name, stream.choice((*_TYPES[:2], *_CHATS, pa.null())), stream.random() < 0.5) for name in names]
    rows = stream.choice((0, 1, 3))
    metadata = {"huggingface": mutate.written(stream, hostile.value(stream))} if stream.random() < 0.3 else None
    schema = pa.schema(
        [pa.field(name, kind, rows > 0 or null or pa.types.is_null(kind)) for name, kind, null in columns],
        metadata=metadata,
    )
    return pa.table([pa.nulls(rows, kind) for _, kind, _ in columns], schema=schema)


def _parquet(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()
