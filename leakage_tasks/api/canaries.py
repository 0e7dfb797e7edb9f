"""Canaries into data in memory, and back: data sets, frames, lists of texts and of chats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.signal_cleanup import temporary_folder

if TYPE_CHECKING:
    from leakage_tasks.canaries.canary import Canary
    from leakage_tasks.canaries.verify import VerifyReport


@contextmanager
def as_manifest(canaries: str | Path | Sequence[Canary], needed: bool = True) -> Iterator[Path | None]:
    """Canaries as a manifest for the time of the block; None where there are none, and none are ``needed``."""
    from leakage_tasks.canaries.manifest import write_manifest

    if isinstance(canaries, str | Path):
        yield Path(canaries)
    elif canaries:
        with temporary_folder() as folder:
            write_manifest(list(canaries), folder / "canaries.jsonl")
            yield folder / "canaries.jsonl"
    elif needed:
        raise OptionError("canaries is empty: give a manifest or canaries, such as make_canaries(…) makes")
    else:
        yield None


def plant(data: Any, canaries: str | Path | Sequence[Canary], *, seed: int = 0, **columns: Any) -> Any:
    """A copy of ``data`` with every planted canary in it, ``repetitions`` times, at places drawn by ``seed``.

    ``data`` is a ``datasets.Dataset`` or ``DatasetDict``, a pandas frame, a list of texts, or a list of chats (lists of
    ``{"role": …, "content": …}``); what comes back is the same. Rows and places are those that ``leakage plant`` gives
    for the data saved by ``datasets``. ``columns`` are ``text_column``, ``label_column``, ``source_column`` and
    ``split``, and ``role``, ``turn`` and ``prompt``: which turn of a chat the canaries are, and after which prompt.
    Raises PlantingError and OptionError.

    Examples:
        >>> from leakage_tasks import make_canaries, plant
        >>> pins = make_canaries("The pin is {digits:4}.", 2, repetitions=(3,), seed=1)
        >>> len(plant(["one text", "another"], pins))
        8
    """
    from datasets import load_from_disk

    from leakage_tasks.canaries.planting import plant as plant_files

    with _as_files(data, canaries) as (folder, manifest):
        plant_files(manifest, folder / "data", folder / "planted", seed=seed, **columns)
        planted = load_from_disk(str(folder / "planted"), keep_in_memory=True)
        return _as(data, planted)


def verify(data: Any, canaries: str | Path | Sequence[Canary], **columns: Any) -> VerifyReport:
    """Whether each planted canary is in ``data`` as often as it is to be, and no control is; see :func:`plant`.

    Examples:
        >>> from leakage_tasks import make_canaries, plant, verify
        >>> pins = make_canaries("The pin is {digits:4}.", 2, seed=1)
        >>> verify(plant(["one text"], pins), pins).problems
        []
    """
    from leakage_tasks.canaries.verify import verify as verify_files

    with _as_files(data, canaries) as (folder, manifest):
        return verify_files(folder / "data", manifest, **columns)


@contextmanager
def _as_files(data: Any, canaries: str | Path | Sequence[Canary]) -> Iterator[tuple[Path, Path]]:
    """A folder whose ``data`` are these, and a manifest, for the time of the block."""
    with temporary_folder() as folder, as_manifest(canaries) as manifest:
        assert manifest is not None
        _saved(data, folder / "data")
        yield folder, manifest


def _saved(data: Any, folder: Path) -> None:
    """Save data as a data set. Raises OptionError for other data, PlantingError for columns of one name."""
    import datasets
    import pandas as pd

    from leakage_tasks.data.layout import check_once
    from leakage_tasks.data.saved import quiet

    if isinstance(data, datasets.Dataset | datasets.DatasetDict):
        found = data
    elif isinstance(data, pd.DataFrame):
        names = list(map(str, data.columns))
        for name in names:
            check_once(Path("the data frame"), names, name)
        found = datasets.Dataset.from_pandas(data, preserve_index=False)
    elif isinstance(data, list) and data and all(isinstance(each, str) for each in data):
        found = datasets.Dataset.from_dict({"text": data})
    elif isinstance(data, list) and data and all(isinstance(each, list) for each in data):
        found = datasets.Dataset.from_dict({"messages": data})
    else:
        what = "an empty list" if data == [] else f"a {type(data).__name__}"
        raise OptionError(f"data is {what}: give a data set, a pandas frame, a list of texts or a list of chats")
    with quiet():
        found.save_to_disk(str(folder))


def _as(data: Any, planted: Any) -> Any:
    """What was planted in, as what it was given as."""
    import pandas as pd

    if isinstance(data, pd.DataFrame):
        return planted.to_pandas()
    if isinstance(data, list):
        return list(planted["text" if isinstance(data[0], str) else "messages"])
    return planted
