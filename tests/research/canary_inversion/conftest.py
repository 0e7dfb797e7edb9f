"""Tiny data sets in the folder LEAKAGE_DATA."""

from __future__ import annotations

from pathlib import Path

import pytest

from leakage_tasks.data.utterances import Utterance
from leakage_tasks.research.canary_inversion.experiment import ATIS, SNIPS, utterances
from leakage_tasks.research.canary_inversion.future_trials import VECTORS, tagger_ground

FILES = {
    "seq.in": "play some jazz now \nadd this song please\n",
    "seq.out": "O O B-genre O \nO O B-item O\n",
    "label": "PlayMusic\nAddToPlaylist\n",
}


def write_set(folder: Path, vectors: str = "") -> None:
    """A set of two utterances a part, and a file of word vectors where one is given."""
    for part in ("train", "valid", "test"):
        (folder / part).mkdir(parents=True)
        for name, text in FILES.items():
            (folder / part / name).write_text(text)
    if vectors:
        (folder / VECTORS).write_text(vectors)


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with a tiny Snips and ATIS in it."""
    for name in (SNIPS, ATIS):
        write_set(tmp_path / name)
    monkeypatch.setenv("LEAKAGE_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def training(data: Path) -> list[Utterance]:
    return utterances(tagger_ground("small", SNIPS)).training
