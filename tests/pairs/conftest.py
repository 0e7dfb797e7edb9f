"""A tokenizer in a folder, and files of pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.oracles import merging


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A byte-level BPE that merges, as GPT-2's does."""
    folder = tmp_path_factory.mktemp("tokenizer")
    merging().save_pretrained(folder)
    return str(folder)


def save_pairs(folder: Path, name: str, rows: int, width: int = 4, first: int = 0) -> Path:
    """``rows`` pairs whose tokens tell them apart: prefix ``first + row, 1, 2, …``, suffix the same plus 500."""
    folder.mkdir(exist_ok=True)
    columns: Any = np.tile(np.arange(width), (rows, 1))
    columns[:, 0] = np.arange(first, first + rows)
    np.save(folder / f"{name}prefix.npy", columns.astype(np.uint16))
    np.save(folder / f"{name}suffix.npy", (columns + 500).astype(np.uint16))
    return folder
