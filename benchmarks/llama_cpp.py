"""Our attacks on one set of weights under two engines, `transformers` and llama.cpp: writes ``llama_cpp.json``.

A small Llama learns canaries for some seconds. `gguf`'s own writer writes it as a float32 GGUF file, llama-cpp-python's
server serves it on this machine, and the unmodified ``lm_eval`` command runs canary_extraction and canary_exposure on
it by ``--model hf``, which searches, and by ``--model local-completions`` and ``--model gguf``, where every filling is
scored by the server. Guesses, their order and ranks must be equal and costs differ by less than ``TOLERANCE`` bits;
exit code 1 if they do not. No network.

``make compat-llama-cpp`` runs it, after it has built an interpreter with `gguf` and the server (some ten minutes) and
installed what the harness' API models import (``lm-eval[api]``).

What of the server decides how it is asked:

- it takes text, no token ids (``tokenized_requests=False``), and tells prompts' log-probabilities with ``logits_all``;
- it never gives the first token's, and counts places rightly only where BOS comes first. After BOS alone costs
  therefore lack the first token's, which is the same for all fillings and is added here from `transformers`; the
  server must not put a second BOS there (``auto``). After a text costs are whole, and it must put BOS there (``text``);
- ``--model gguf`` cannot score a text after nothing, so it has the second only;
- keys and values are kept in 16 bits unless ``type_k`` and ``type_v`` are 0;
- where a text's likeliest next token is EOS, the list is one shorter, and the harness drops a token's cost that counts.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import requests  # noqa: E402
import torch  # noqa: E402
from transformers import LlamaForCausalLM  # noqa: E402

from benchmarks.compatibility.tokenizers import corpus  # noqa: E402
from benchmarks.llama_model import LENGTH, make_canaries, save, train  # noqa: E402
from leakage_tasks.attacks import Finding  # noqa: E402
from leakage_tasks.canaries import Canary  # noqa: E402
from leakage_tasks.research.victims.harness_run import HarnessCommand  # noqa: E402

TASKS = ("canary_extraction", "canary_exposure")
BEFORE = "Note:"
"""What stands before a canary where it is not BOS alone: the harness would count white space at its end as costs."""
TOLERANCE = 1e-3
"""Bits."""
START_SECONDS = 60.0


@contextmanager
def served(folder: Path, python: str, bos: bool) -> Iterator[str]:
    """The server's address while it runs; ``bos``: whether it puts BOS before every text."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address, log = f"http://127.0.0.1:{port}", folder / f"server-{bos}.log"
    settings = {"model": "model.gguf", "host": "127.0.0.1", "port": port, "logits_all": True, "n_ctx": LENGTH}
    settings |= {"type_k": 0, "type_v": 0, "n_threads": 1, "n_threads_batch": 1}
    settings["kv_overrides"] = f"tokenizer.ggml.add_bos_token=bool:{bos}".lower()
    arguments = [part for name, value in settings.items() for part in (f"--{name}", str(value))]
    with log.open("w", encoding="utf-8") as messages:
        command = [python, "-m", "llama_cpp.server", *arguments]
        server = subprocess.Popen(command, cwd=folder, stdout=messages, stderr=subprocess.STDOUT)
        try:
            wait(server, address, log)
            yield address
        finally:
            server.terminate()
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def wait(server: subprocess.Popen[bytes], address: str, log: Path) -> None:
    """Until the server answers. Exits with the end of its log where it does not."""
    end = time.monotonic() + START_SECONDS
    while server.poll() is None and time.monotonic() < end:
        try:
            if requests.get(f"{address}/v1/models", timeout=5).ok:
                return
        except requests.RequestException:
            time.sleep(0.5)
    sys.exit(f"the server did not start:\n{log.read_text(encoding='utf-8')[-2000:]}")


def other_tokens(address: str, tokenizer: Any, canaries: Sequence[Canary], bos: bool) -> int:
    """How many of the canaries' filled texts, and some others, the server makes other tokens of."""
    texts = [space.fill(each) for space in (canary.attack_space for canary in canaries) for each in space.enumerate()]
    texts = [*(BEFORE + text if bos else text for text in texts), *corpus()]
    wrong = 0
    with requests.Session() as session:
        for text in texts:
            own = tokenizer(text)["input_ids"]
            asked = text if bos else tokenizer.decode(own)
            got = session.post(f"{address}/extras/tokenize", json={"input": asked}, timeout=30).json()["tokens"]
            wrong += got != own
    return wrong


def attack(folder: Path, name: str, kind: str, settings: dict[str, str | int], context: str) -> list[list[Finding]]:
    """What the harness' command logs for each task."""
    metadata: dict[str, str | int] = {"canaries": str(folder / "canaries.jsonl"), "context": context}
    command = HarnessCommand(folder, TASKS, metadata, folder / name, kind=kind, settings=settings)
    command.run(folder / f"{name}.log")
    return [command.findings(task) for task in TASKS]


def first_token_bits(model: LlamaForCausalLM, tokenizer: Any, text: str) -> float:
    """What the first token of a text costs after BOS."""
    bos, first = tokenizer(text)["input_ids"][:2]
    with torch.no_grad():
        return -float(model(torch.tensor([[bos]])).logits[0, -1].log_softmax(-1)[first]) / math.log(2)


def compared(ours: list[list[Finding]], theirs: list[list[Finding]], missing: dict[str, float]) -> dict[str, Any]:
    """Both engines' findings side by side; ``missing`` are bits that a canary's costs lack in ``theirs``."""
    pairs = [pair for both in zip(ours, theirs, strict=True) for pair in zip(*both, strict=True)]
    extraction, exposure = pairs[: len(ours[0])], pairs[len(ours[0]) :]
    costs = [(a.log_perplexity, b.log_perplexity, a.canary) for a, b in exposure]
    costs += [(x.score, y.score, a.canary) for a, b in extraction for x, y in zip(a.guesses, b.guesses, strict=True)]
    apart = max(abs(a - b - missing.get(canary, 0.0)) for a, b, canary in costs if a is not None and b is not None)
    found = {
        "canaries": len(exposure),
        "attacks": sorted({f"{side}: {each.attack}" for a, b in pairs for side, each in (("hf", a), ("served", b))}),
        "guesses_compared": sum(len(a.guesses) for a, _ in extraction),
        "guesses_equal": all([x.filling for x in a.guesses] == [x.filling for x in b.guesses] for a, b in extraction),
        "extracted": [a.place == 1 for a, _ in extraction],
        "ranks": [a.rank for a, _ in exposure],
        "ranks_equal": all(a.rank == b.rank for a, b in exposure),
        "exposure_bits_apart": max(abs((a.exposure or 0.0) - (b.exposure or 0.0)) for a, b in exposure),
        "methods": sorted({str(each.method) for pair in exposure for each in pair}),
        "cost_bits_apart": apart,
    }
    equal = found["guesses_equal"] and found["ranks_equal"]
    return {**found, "equal": bool(equal and found["guesses_compared"] and apart < TOLERANCE)}


def run(folder: Path, python: str, steps: int) -> dict[str, Any]:
    """Make, serve, attack and compare."""
    canaries = make_canaries(folder / "canaries.jsonl")
    model, tokenizer = train(canaries, steps)
    save(model, tokenizer, folder, python)
    first = {canary.id: first_token_bits(model, tokenizer, canary.text) for canary in canaries}
    found: dict[str, Any] = {"tolerance_bits": TOLERANCE, "first_token_bits": first}
    api: dict[str, str | int] = {"tokenizer_backend": "huggingface", "tokenized_requests": False, "max_length": LENGTH}
    for name, context, bos in (("auto", "auto", False), ("text", BEFORE, True)):
        ours = attack(folder, f"{name}-hf", "hf", {"dtype": "float32"}, context)
        with served(folder, python, bos) as address:
            found[f"{name}_other_tokens"] = other_tokens(address, tokenizer, canaries, bos)
            asked: dict[str, dict[str, str | int]] = {
                "local-completions": {"base_url": f"{address}/v1/completions", **api}
            }
            if bos:
                asked["gguf"] = {"base_url": address}
            for kind, settings in asked.items():
                theirs = attack(folder, f"{name}-{kind}", kind, settings, context)
                found[f"{name}_{kind}"] = compared(ours, theirs, {} if bos else first)
    return found


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="interpreter with gguf and llama-cpp-python[server]")
    parser.add_argument("--steps", type=int, default=300, help="training steps")
    parser.add_argument("--summary", type=Path, default=Path(__file__).with_suffix(".json"))
    parser.add_argument("--output", type=Path, default=ROOT / "runs" / "llama", help="folder for models and logs")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    found = run(arguments.output, arguments.python, arguments.steps)
    agree = all(each["equal"] for each in found.values() if isinstance(each, dict) and "equal" in each)
    tokens = all(count == 0 for name, count in found.items() if name.endswith("other_tokens"))
    arguments.summary.write_text(json.dumps({**found, "agree": agree and tokens}, indent=1) + "\n", encoding="utf-8")
    print(arguments.summary.read_text(encoding="utf-8"))
    if not (agree and tokens):
        sys.exit(1)


if __name__ == "__main__":
    main()
