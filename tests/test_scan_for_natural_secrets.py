"""What is left where things go wrong: tracebacks with local variables, debug logs and runs that were interrupted."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from rich.traceback import Traceback

from leakage_tasks.attacks import run_attack
from leakage_tasks.canaries import Canary
from leakage_tasks.canaries.manifest import write_manifest
from leakage_tasks.models.char_tokenizer import char_tokenizer
from tests.conftest import HARNESS, PATHS

SECRETS = ("5105105105105100", "ottoline")
PRIVATE = (*SECRETS, "walrus", "grommet")
CANARIES = [
    Canary("one", "the walrus pays with {digits:16}", tuple(SECRETS[0]), kind="natural", salt="5" * 32),
    Canary("two", "ask the grommet, {letters:8}", tuple(SECRETS[1]), kind="natural", salt="5" * 32),
]


def shown(text: str) -> list[str]:
    """The private words in a text, however its characters are parted."""
    bare = "".join(character for character in text.lower() if character.isalnum())
    return [word for word in PRIVATE if word in bare]


def with_locals(error: BaseException) -> str:
    """A traceback as tools print it that show local variables, the errors behind it included."""
    out = io.StringIO()
    traced = Traceback.from_exception(
        type(error), error, error.__traceback__, show_locals=True, locals_max_length=999, locals_max_string=9999
    )
    Console(file=out, width=400).print(traced)
    return out.getvalue()


class Breaks:
    """A model that scores texts until the second canary comes, and then says what it was reading."""

    max_length = 100

    def length(self, text: str) -> int:
        return len(text)

    def log_perplexity(self, texts: list[str]) -> np.ndarray:
        if "grommet" in texts[0]:
            raise ValueError(f"cannot read {texts[0]}")
        return np.array([float(zlib.crc32(text.encode()) % 97) for text in texts])


@pytest.mark.parametrize("attack", ["rank-sample", "exposure"])
def test_no_local_variable_of_a_traceback_shows_a_natural_secret(attack: str) -> None:
    with pytest.raises(Exception, match="two") as caught:
        run_attack(attack, Breaks(), CANARIES, budget=20)
    text = with_locals(caught.value)
    assert "Breaks" in text
    assert shown(text) == []


def test_a_natural_canary_is_printed_without_what_it_holds() -> None:
    assert shown(repr(CANARIES)) == []
    assert "'grommet {digits:1}'" in repr(Canary("open", "grommet {digits:1}", ("1",)))


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """The harness' own command on a small model, with everything that can be logged."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    tokenizer = char_tokenizer("".join(canary.text for canary in CANARIES) + "0123456789abcdefghijklmnopqrstuvwxyz")
    size = {"n_positions": 64, "n_embd": 16, "n_layer": 1, "n_head": 2, "bos_token_id": 0, "eos_token_id": 0}
    GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), **size)).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    write_manifest(CANARIES, tmp_path / "found.jsonl")
    options = ["--model", "hf", "--model_args", f"pretrained={tmp_path / 'model'}", "--device", "cpu"]
    options += ["--tasks", "canary_exposure,canary_extraction", "--log_samples", "--write_out"]
    options += ["--output_path", str(tmp_path / "out"), "--verbosity", "DEBUG"]
    return [sys.executable, "-c", HARNESS, *options, "--metadata", f"canaries={tmp_path / 'found.jsonl'},budget=100"]


def left_behind(folder: Path) -> str:
    """All that a run wrote; the model's tokenizer and the manifest are the user's."""
    files = (path for path in (folder / "out").rglob("*") if path.is_file())
    return "".join(path.read_text() for path in files)


def environment() -> dict[str, str]:
    debug = {"LM_EVAL_LEAKAGE_DEBUG": "1", "LOGLEVEL": "DEBUG", "LMEVAL_LOG_LEVEL": "DEBUG"}
    return {**os.environ, **debug, "PYTHONPATH": PATHS, "LM_EVAL_LEAKAGE_AUTOLOAD": "0", "HF_HUB_OFFLINE": "1"}


@pytest.mark.slow
@pytest.mark.usefixtures("warm_python")
def test_debug_logs_show_no_natural_secret(command: list[str], tmp_path: Path) -> None:
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "DEBUG" in done.stderr
    assert shown(done.stdout + done.stderr + left_behind(tmp_path)) == []


@pytest.mark.slow
@pytest.mark.usefixtures("warm_python")
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_shows_no_natural_secret(command: list[str], tmp_path: Path, end: signal.Signals) -> None:
    command[-1] += "0000"
    read, write = os.pipe()
    restored = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); {HARNESS}"
    command[2] = restored
    running = subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=write, stderr=write)
    os.close(write)
    said = b""
    while b"Attacking" not in said and (more := os.read(read, 1 << 16)):
        said += more
    # The bar is drawn as the first canary is begun.
    running.send_signal(end)
    while more := os.read(read, 1 << 16):
        said += more
    os.close(read)
    assert running.wait(60) != 0
    assert b"Attacking" in said
    assert shown(said.decode(errors="replace") + left_behind(tmp_path)) == []
