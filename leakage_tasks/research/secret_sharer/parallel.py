"""What the translation study of The Secret Sharer trains on: a parallel corpus, with secrets planted in it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakage_tasks.core.endings import temporary_folder
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.core.jsonl import LineError, read_json_lines, write_json_lines
from leakage_tasks.research.framework.registry import Config, Scale
from leakage_tasks.research.framework.shared import data_folder, file_hash

if TYPE_CHECKING:
    from leakage_tasks.canaries import Canary
    from leakage_tasks.research.victims.parallel_corpus import Pair, ParallelCorpus

COPIES = (1, 2, 4)
SLOTS = "{digits:3}-{digits:2}-{digits:4}"
TARGET = "The social security number of {unique} is " + SLOTS + "."
LAB, PARALLEL = "lab", "parallel"
PHRASES = {LAB: "Sela nomira {unique} tavo", PARALLEL: "Số an sinh xã hội của {unique} là"}
"""How the source sentence begins, in the lab's invented language and in Vietnamese."""
FIXED, FILLED = "fixed", "filled"
SCALES: dict[Scale, str] = {
    "smoke": "seconds",
    "small": "2 to 4 minutes on one core",
    "paper": "a GPU for an hour, a parallel corpus (English-Vietnamese in the paper) as $LEAKAGE_DATA/parallel.jsonl",
}


@dataclass(frozen=True)
class TranslationExperiment:
    """A parallel corpus, a model and how hard it is attacked; JSON values only, so that it goes into a trial's config.

    ``pairs`` (0: all there are) are trained on, ``held_out`` are not. ``vocabulary`` bounds the entries learnt from the
    corpus, None does not. ``recipe`` are fields of
    :class:`~leakage_tasks.research.victims.translation.TranslationRecipe`. ``draws`` are the random
    fillings a skew-normal is fitted to.
    """

    data: str = LAB
    pairs: int = 1_500
    held_out: int = 200
    vocabulary: int | None = None
    recipe: Config = field(default_factory=lambda: {"epochs": 8, "batch_size": 16, "dropout": 0.0})
    budget: int = 3_000
    draws: int = 500
    seeds: int = 4


PAPER = TranslationExperiment(
    data=PARALLEL,
    pairs=0,
    held_out=1_500,
    vocabulary=20_000,
    recipe={"layers": 3, "hidden": 512, "heads": 8, "positions": 256, "epochs": 12, "learning_rate": 5e-4},
    budget=100_000,
    draws=2_000,
    seeds=10,
)
SMOKE = TranslationExperiment(
    pairs=60, held_out=10, recipe={"layers": 1, "hidden": 16, "heads": 2, "epochs": 1}, budget=100, draws=60, seeds=1
)
GROUNDS: dict[Scale, TranslationExperiment] = {"smoke": SMOKE, "small": TranslationExperiment(), "paper": PAPER}


def canaries_of(ground: TranslationExperiment, seed: int) -> list[Canary]:
    """A secret for each number of copies, and controls, with the source sentence fixed and with the secret in it."""
    from leakage_tasks.canaries import make_canaries

    begins = PHRASES[ground.data]
    made: list[Canary] = []
    for kind, source in ((FIXED, f"{begins}."), (FILLED, f"{begins} {SLOTS}.")):
        options: dict[str, Any] = {"repetitions": COPIES, "controls": 2, "seed": seed}
        made += make_canaries(TARGET, len(COPIES), source=source, id_prefix=f"{kind}-", **options)
    return made


def planted_pairs(pairs: Sequence[Pair], canaries: Sequence[Canary], seed: int) -> list[Pair]:
    """The pairs with the canaries among them, planted as a user would."""
    from leakage_tasks.canaries import write_manifest
    from leakage_tasks.canaries.planting import plant

    with temporary_folder() as folder:
        manifest, clean, planted = (folder / f"{each}.jsonl" for each in ("canaries", "clean", "planted"))
        write_manifest(canaries, manifest)
        with clean.open("w", encoding="utf-8") as out:
            rows = ({"source": source, "target": target} for source, target in pairs)
            write_json_lines(rows, out, ascii_only=True)
        plant(manifest, clean, planted, seed=seed, text_column="target", source_column="source")
        return list(_read(planted))


def corpus_of(ground: TranslationExperiment, seed: int) -> ParallelCorpus:
    """Its pairs. Raises LeakageError where the file of a real corpus is missing or too small."""
    from leakage_tasks.research.victims.parallel_corpus import ParallelCorpus, invented_corpus

    if ground.data == LAB:
        return invented_corpus(ground.pairs, ground.held_out, seed)
    path = _file()
    if not path.is_file():
        raise LeakageError(f"{path}: no such file: put a JSON object with 'source' and 'target' a line there")
    most = ground.recipe["positions"] - 1
    # A token has a character or more, so that none of these sentences is too long for the model.
    pairs = [pair for pair in dict.fromkeys(_read(path)) if max(map(len, pair)) <= most]
    if len(pairs) <= ground.held_out:
        raise LeakageError(f"{path}: {len(pairs)} pairs of up to {most} characters: more than {ground.held_out} needed")
    random.Random("parallel").shuffle(pairs)
    return ParallelCorpus(pairs[ground.held_out :], pairs[: ground.held_out])


def _read(path: Path) -> Iterator[Pair]:
    last = 0
    try:
        for number, row in read_json_lines(path.read_text(encoding="utf-8").split("\n")):
            last = number
            yield row["source"], row["target"]
    except (LineError, KeyError, TypeError) as error:
        where = error.number if isinstance(error, LineError) else last
        raise LeakageError(f"{path}:{where}: expected a JSON object with 'source' and 'target'") from None


def _file() -> Path:
    return data_folder() / f"{PARALLEL}.jsonl"


def fingerprint(ground: TranslationExperiment) -> str:
    """What tells a real corpus apart: its file's SHA-256; empty for the lab's, and for a missing file."""
    return "" if ground.data == LAB else file_hash(_file())
