"""Small inputs for all commands, none of which others may read."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

from tests.report.saved import canary_run, pairs_file

LINES = 400
SHARDS = 3
CLAIM = "100 repetitions leak more than 10"


def make_inputs(folder: Path) -> Path:
    """Make ``folder`` with data, manifest, models and results in it, each file for its owner alone."""
    beside = folder.with_name(f"{folder.name}.making")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    _data(beside)
    _models(beside)
    _results(beside)
    _studies(beside)
    for each in beside.rglob("*"):
        each.chmod(0o700 if each.is_dir() else 0o600)
    beside.rename(folder)
    return folder


def _data(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from leakage_tasks.canaries import make_canaries, write_manifest
    from leakage_tasks.canaries.planting import plant
    from leakage_tasks.data.utterances import Utterance, write_folder
    from leakage_tasks.research.victims.nlu_grammar import write_nlu_data

    stream = random.Random(0)
    lines = [" ".join(f"word{stream.randrange(50)}" for _ in range(6)) for _ in range(LINES)]
    (folder / "train.txt").write_text("".join(f"{line}\n" for line in lines[:60]))
    (folder / "train.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    pq.write_table(pa.table({"text": lines}), folder / "train.parquet")
    (folder / "shards").mkdir()
    for part in range(SHARDS):
        (folder / "shards" / f"part-{part}.txt").write_text("".join(f"{line}\n" for line in lines[part:60:SHARDS]))
    mails = (f"call me at 212-555-{stream.randrange(100, 9999):04d} or me{n}@example.org\n" for n in range(20))
    (folder / "mail.txt").write_text("".join(mails))
    canaries = make_canaries("pin {unique} is {digits:2}", 4, repetitions=(1, 3), controls=3, seed=1)
    write_manifest(canaries, folder / "canaries.jsonl")
    plant(folder / "canaries.jsonl", folder / "train.txt", folder / "planted.txt")
    plant(folder / "canaries.jsonl", folder / "shards", folder / "planted-shards")
    pairs_file(folder, 30)
    write_nlu_data(folder / "nlu", 60, 10, 10)
    rows = [Utterance(("my", "pin", "is", number), ("O", "O", "O", "B-canary"), "PinIntent") for number in "1234"]
    write_folder(rows, folder / "pins")


def _models(folder: Path) -> None:
    from tests.oracles import letters, merging, tiny_gpt2
    from tests.taggers import tiny_tagger, words_tokenizer

    tiny_gpt2(letters()).save_pretrained(folder / "model")
    letters().save_pretrained(folder / "model")
    tiny_gpt2(merging()).save_pretrained(folder / "pair-model")
    merging().save_pretrained(folder / "pair-model")
    tiny_tagger().save_pretrained(folder / "tagger")
    words_tokenizer().save_pretrained(folder / "tagger")
    rows = [{"step": step, "epoch": step / 2, "loss": 1 / step, "eval_loss": 1.1 / step} for step in range(1, 6)]
    rows += [
        {"step": step, "epoch": step / 2, "leakage/exposure_x1": 1.0, "leakage/exposure_bound": 9.0}
        for step in range(1, 6)
    ]
    (folder / "trainer_state.json").write_text(json.dumps({"log_history": rows, "global_step": 5, "epoch": 2.5}))


def _results(folder: Path) -> None:
    for name, seed in (("results", 0), ("other", 1)):
        (folder / name).mkdir()
        canary_run(folder / name, seed=seed)
        (folder / name / "canaries.jsonl").unlink()


def _studies(folder: Path) -> None:
    """A finished run of a study as ``leakage study run`` leaves it, and another of the same."""
    from leakage_tasks.core.version import __version__
    from leakage_tasks.research.framework.report import Claim, Measured, Report

    words = "leakage study run elmahdy/table-3 --scale small --seed 0 --trials 3 -o runs/studies"
    for name, seconds, hits in (("studies", 60.0, 9), ("older-studies", 90.0, 3)):
        place = folder / name / "elmahdy" / "small" / "table-3"
        place.mkdir(parents=True)
        row = {"repetitions": 100, "beam": 100, "measured": Measured.rate(hits, 12)}
        report = Report(list(row), [row], [Claim(CLAIM, True, f"{hits} of 12", 0.01)])
        made = {"code": [None], "devices": ["CPU"], "seeds": 3, "versions": {"lm-eval-leakage": __version__}}
        how = {"command": words, "trials": {"seconds": seconds}, **made}
        named = {"study": "elmahdy/table-3", "scale": "small"}
        (place / "report.json").write_text(json.dumps({**named, **report.to_json()}))
        (place / "how.json").write_text(json.dumps(how))
