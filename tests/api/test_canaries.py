"""Planting in memory, against planting in files."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from datasets import Dataset, DatasetDict, load_from_disk

from leakage_tasks import make_canaries, plant, verify, write_manifest
from leakage_tasks.canaries.planting import plant as plant_files
from leakage_tasks.core.errors import OptionError, PlantingError

PINS = make_canaries("The pin of {unique} is {digits:4}.", 2, repetitions=(3,), controls=2, seed=1)
TEXTS = [f"text {number}" for number in range(40)]


@pytest.fixture(scope="module")
def by_files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The rows that ``leakage plant`` gives."""
    folder = tmp_path_factory.mktemp("files")
    Dataset.from_dict({"text": TEXTS}).save_to_disk(str(folder / "data"))
    write_manifest(PINS, folder / "canaries.jsonl")
    plant_files(folder / "canaries.jsonl", folder / "data", folder / "planted", seed=5)
    return list(load_from_disk(str(folder / "planted"))["text"])


def test_lists_frames_and_data_sets_get_the_rows_that_files_get(by_files: list[str]) -> None:
    assert plant(TEXTS, PINS, seed=5) == by_files
    assert list(plant(pd.DataFrame({"text": TEXTS}), PINS, seed=5).text) == by_files
    assert list(plant(Dataset.from_dict({"text": TEXTS}), PINS, seed=5)["text"]) == by_files
    parts = DatasetDict({"train": Dataset.from_dict({"text": TEXTS}), "test": Dataset.from_dict({"text": ["a"]})})
    planted = plant(parts, PINS, seed=5)
    assert list(planted["train"]["text"]) == by_files
    assert list(planted["test"]["text"]) == ["a"]


def test_columns_of_one_name_are_one_line() -> None:
    frame = pd.DataFrame([["a", 1, 2]], columns=["text", "n", "n"])
    with pytest.raises(PlantingError, match=r"^the data frame: has two columns called 'n': give each a name"):
        plant(frame, PINS)


def test_chats_stay_chats() -> None:
    chats = [[{"role": "user", "content": "hello"}, {"role": "assistant", "content": text}] for text in TEXTS]
    planted = plant(chats, PINS)
    assert len(planted) == 46
    assert sum(chat[-1]["content"].startswith("The pin of") for chat in planted) == 6
    assert all(turn.keys() == {"role", "content"} for chat in planted for turn in chat)


def test_verifying_counts_copies(tmp_path: Path) -> None:
    planted = plant(TEXTS, PINS)
    assert verify(planted, PINS).ok
    write_manifest(PINS, tmp_path / "canaries.jsonl")
    missing = verify([text for text in planted if text != PINS[0].text], tmp_path / "canaries.jsonl")
    assert any(PINS[0].id in each for each in missing.problems)


@pytest.mark.parametrize(("data", "message"), [({}, "data is a dict"), ([], "data is an empty list"), ([1], "a list")])
def test_what_is_no_data_is_one_line(data: object, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        plant(data, PINS)
