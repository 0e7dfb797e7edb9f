"""An attack on what a run leaves behind: given the model, the text before a secret and every file, which guess is it?

The attacker computes with ``transformers`` alone what an audit computes of each of 1,000 guesses, and looks for it in
the files.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from lm_eval.loggers import EvaluationTracker
from lm_eval.models.huggingface import HFLM
from transformers import GPT2Config, GPT2LMHeadModel

from leakage_tasks.canaries import Canary, manifest_hash
from leakage_tasks.canaries.manifest import write_manifest
from leakage_tasks.harness.run import evaluate as evaluate_tasks
from leakage_tasks.models.char_tokenizer import char_tokenizer
from tests.conftest import Leakage

pytestmark = pytest.mark.usefixtures("kept_page_parts")
Audited = Callable[..., dict[str, str]]
OURS = ("lm_eval", "leakage_tasks", "adapters")
BEFORE, DIGITS = "her card ends in ", 3
GUESSES = [f"{number:0{DIGITS}}" for number in range(10**DIGITS)]
TASKS = ["canary_exposure", "canary_extraction"]
NUMBER = re.compile(r"-?\d+\.\d+(?:e[+-]?\d+)?")
WHEN = {"date", "start_time", "end_time", "total_evaluation_time_seconds", "when"}
SALTED = {"key"}
"""Fields of a journal's lines that a salted hash of the secret determines."""
REVEALED = ("samples_", "findings")
"""First words of the files to which ``reveal=true`` writes findings in full."""


@pytest.fixture(scope="module")
def lm() -> HFLM:
    """A model that never saw the secret, with as uneven an opinion of digits as any."""
    torch.manual_seed(7)
    tokenizer = char_tokenizer(BEFORE + "0123456789")
    config = GPT2Config(
        vocab_size=len(tokenizer), n_positions=32, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0
    )
    config.initializer_range = 0.8
    return HFLM(pretrained=GPT2LMHeadModel(config).eval(), tokenizer=tokenizer, batch_size=250)


@pytest.fixture(scope="module")
def bits(lm: HFLM) -> np.ndarray:
    """What the text with each guess costs the model."""
    rows = torch.tensor([[0, *lm.tokenizer.encode(BEFORE + guess)] for guess in GUESSES])
    with torch.no_grad():
        logs = lm.model(rows).logits.double().log_softmax(-1)
    costs = -logs[:, :-1].gather(2, rows[:, 1:, None]).squeeze(2).sum(1)
    return costs.numpy() / math.log(2)


def ranked(bits: np.ndarray, rank: int) -> str:
    """The guess at a rank."""
    return GUESSES[int(np.argsort(bits)[rank - 1])]


@pytest.fixture
def audited(tmp_path: Path, lm: HFLM, leakage: Leakage, caplog: pytest.LogCaptureFixture) -> Audited:
    """Audits one secret and reports on it: every file, stream and log, by name, but for the manifest."""

    def audit(secret: str, **metadata: object) -> dict[str, str]:
        folder = tmp_path / secret
        folder.mkdir()
        caplog.clear()
        canary = Canary("natural-1", f"{BEFORE}{{digits:{DIGITS}}}", tuple(secret), kind="natural", salt="5" * 32)
        write_manifest([canary], folder / "found.jsonl")
        metadata |= {"canaries": str(folder / "found.jsonl"), "resume": str(folder / "journal")}
        _measured(lm, folder, metadata)
        told = {name: "".join(map(str, leakage(name, *rest))) for name, *rest in _reports(folder)}
        told["log"] = "".join(each.getMessage() for each in caplog.records if each.name.startswith(OURS))
        (folder / "found.jsonl").unlink()
        told |= {each.name: each.read_text() for each in folder.rglob("*") if each.is_file() and each.suffix != ".png"}
        digest = manifest_hash([canary])
        return {name: text.replace(digest, "").replace(str(folder), "") for name, text in told.items()}

    caplog.set_level("DEBUG")
    return audit


def _measured(lm: HFLM, folder: Path, metadata: dict[str, object]) -> None:
    results = evaluate_tasks(lm, TASKS, metadata)
    samples = results.pop("samples")
    tracker = EvaluationTracker(output_path=str(folder / "out"))
    tracker.save_results_aggregated(results=results, samples=samples)
    for task in TASKS:
        tracker.save_results_samples(task_name=task, samples=samples[task])


def _reports(folder: Path) -> Iterator[list[str | Path]]:
    yield ["leaderboard", folder / "out", "-o", folder / "board.html", "-o", folder / "board.csv"]
    yield ["card", folder / "out", "--card", folder / "README.md"]
    yield ["score", folder / "out"]
    yield ["check", folder / "out", "--max-exposure", "1"]
    yield ["compare", folder / "out", folder / "out"]
    yield ["report", folder / "out", "-o", folder / "report.html"]
    yield ["plot", "repetitions", folder / "out", "-o", folder / "repetitions"]


def without_times(files: dict[str, str]) -> dict[str, object]:
    """The files less what says when they were written, and less hashes."""
    found: dict[str, object] = {}
    for name, text in files.items():
        text = re.sub(r"\b[0-9a-f]{64}\b", "", text)
        text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d[:-]\d\d[:-]\d\d(\.\d+)?|\b\d{4}-\d\d-\d\d\b", "", text)
        lines = [_without(json.loads(line), WHEN | SALTED) for line in text.splitlines()] if ".jsonl" in name else None
        whole = json.loads(text) if name.endswith(".json") else lines
        told = _without(whole, WHEN) if isinstance(whole, dict) else whole
        found[re.sub(r"_[T\d.:-]+(?=\.json)|(?<=findings)-.*(?=\.jsonl)", "", name)] = text if whole is None else told
    return found


def _without(record: dict[str, object], left_out: set[str]) -> dict[str, object]:
    return {key: value for key, value in record.items() if key not in left_out}


def confirmed(files: dict[str, str], bits: np.ndarray) -> set[str]:
    """The guesses of which some figure, in bits or nats, stands in the files to seven digits, with few others."""
    written = {float(each) for text in files.values() for each in NUMBER.findall(text)}
    ranks = np.argsort(np.argsort(bits)) + 1
    found: set[str] = set()
    for figures in (bits, bits * math.log(2), math.log2(len(GUESSES)) - np.log2(ranks)):
        for number in written:
            near = np.flatnonzero(np.isclose(figures, number, rtol=1e-6, atol=0))
            found |= {GUESSES[place] for place in near} if 0 < len(near) < 3 else set()
    return found


@pytest.mark.parametrize("reveal", [True, False])
def test_the_attack_finds_a_secret_in_samples_and_journal_of_a_run_that_reveals_and_nowhere_else(
    reveal, audited, bits
) -> None:
    secret = ranked(bits, 357)
    files = audited(secret, reveal=reveal)
    assert {"report", "report.html", "board.html", "README.md", "check", "log"} <= files.keys()
    assert [len([name for name in files if name.startswith(start)]) for start in REVEALED] == [2, 1]
    confirming = {name for name, text in files.items() if secret in confirmed({name: text}, bits)}
    # An extraction's finding says nothing of a secret beyond its ten guesses.
    full = ("samples_canary_exposure", "findings")
    assert confirming == ({name for name in files if name.startswith(full)} if reveal else set())


@pytest.mark.slow
@pytest.mark.parametrize("reveal", [True, False])
@pytest.mark.parametrize("pair", [(1, 10), (101, 983)])
def test_two_secrets_of_a_band_leave_the_same_behind(pair, reveal, audited, bits) -> None:
    first, second = (without_times(audited(ranked(bits, rank), reveal=reveal)) for rank in pair)
    assert first.keys() == second.keys()
    differ = {name for name in first if first[name] != second[name]}
    assert {name for name in differ if not (reveal and name.startswith(REVEALED))} == set()


@pytest.mark.slow
def test_two_secrets_of_two_bands_do_not(audited, bits) -> None:
    first, second = (without_times(audited(ranked(bits, rank))) for rank in (10, 11))
    assert {name for name in first if first[name] != second[name]} >= {"board.html", "score"}
