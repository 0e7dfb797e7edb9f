"""Planting and verification of canaries for data in memory: data sets, frames, lists of texts or chats."""

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
    """Provide canaries as a manifest file inside the block.

    Yields None if there are no canaries and ``needed`` is false; raises OptionError if ``needed`` is true.
    """
    from leakage_tasks.canaries.manifest import write_manifest

    if isinstance(canaries, str | Path):
        yield Path(canaries)
    elif canaries:
        with temporary_folder() as folder:
            write_manifest(list(canaries), folder / "canaries.jsonl")
            yield folder / "canaries.jsonl"
    elif needed:
        raise OptionError("canaries is empty: give a manifest or canaries, such as the result of make_canaries(…)")
    else:
        yield None


def plant(data: Any, canaries: str | Path | Sequence[Canary], *, seed: int = 0, **columns: Any) -> Any:
    """Return a copy of ``data`` with ``repetitions`` copies of every planted canary at random positions.

    Rows and positions are equal to the output of ``leakage plant`` for the data saved by ``datasets``.

    Args:
        data: A ``datasets.Dataset`` or ``DatasetDict``, a pandas frame, a list of texts, or a list of chats (lists of
            ``{"role": …, "content": …}``).
        canaries: The path of a manifest, or canaries.
        seed: Random seed of the positions.
        columns: ``text_column``, ``label_column``, ``source_column``, ``split``; for chats ``role``, ``chat_position``
            and ``prompt``, which select the turn that contains the canary and the prompt before it; other options of
            ``leakage plant`` by their Python names, such as ``label``.

    Returns:
        Data of the same type as ``data``.

    Raises:
        PlantingError: The data or columns are unsuitable.
        OptionError: ``data`` is of an unsupported type, or there are no canaries.

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
        return _in_type_of(data, planted)


def verify(data: Any, canaries: str | Path | Sequence[Canary], **columns: Any) -> VerifyReport:
    """Count the canaries in ``data``, and list each planted canary with a wrong number of copies and each control.

    The list is the report's ``problems``. :func:`plant` explains the arguments.

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
    """Provide a folder that contains the data as ``data``, and a manifest, inside the block."""
    with temporary_folder() as folder, as_manifest(canaries) as manifest:
        assert manifest is not None
        _save(data, folder / "data")
        yield folder, manifest


def _save(data: Any, folder: Path) -> None:
    """Save data as a data set. Raises OptionError for an unsupported type, PlantingError for duplicate column names."""
    import datasets
    import pandas as pd

    from leakage_tasks.data.layout import check_once
    from leakage_tasks.data.saved import quiet

    if isinstance(data, datasets.Dataset | datasets.DatasetDict):
        dataset = data
    elif isinstance(data, pd.DataFrame):
        names = list(map(str, data.columns))
        for name in names:
            check_once(Path("the data frame"), names, name)
        dataset = datasets.Dataset.from_pandas(data, preserve_index=False)
    elif isinstance(data, list) and data and all(isinstance(item, str) for item in data):
        dataset = datasets.Dataset.from_dict({"text": data})
    elif isinstance(data, list) and data and all(isinstance(item, list) for item in data):
        dataset = datasets.Dataset.from_dict({"messages": data})
    else:
        what = "an empty list" if data == [] else f"a {type(data).__name__}"
        raise OptionError(f"data is {what}: give a data set, a pandas frame, a list of texts or a list of chats")
    with quiet():
        dataset.save_to_disk(str(folder))


def _in_type_of(data: Any, planted: Any) -> Any:
    """Convert the planted data set to the type of ``data``."""
    import pandas as pd

    if isinstance(data, pd.DataFrame):
        return planted.to_pandas()
    if isinstance(data, list):
        return list(planted["text" if isinstance(data[0], str) else "messages"])
    return planted
