"""Attacks on one set of weights in two engines, `transformers` and llama.cpp. Writes ``llama_cpp.json``.

A small Llama learns canaries for some seconds. `gguf`'s own writer converts it to a float32 GGUF file, and
llama-cpp-python's server serves it on this machine. The unmodified ``lm_eval`` command then runs canary_extraction and
canary_exposure with ``--model hf``, which searches, and with ``--model local-completions`` and ``--model gguf``, for
which the server scores every filling. Guesses, their order and ranks must be equal, and costs must differ by less than
``TOLERANCE`` bits; otherwise the exit code is 1. Needs no network.

``make compat-llama-cpp`` runs this script, after it has built an interpreter with `gguf` and the server (in ten
minutes) and installed the requirements of the harness' API models (``lm-eval[api]``).

Properties of the server that determine the requests:

- It takes text, not token ids (``tokenized_requests=False``), and returns log-probabilities of prompts only with
  ``logits_all``.
- It never returns the first token's log-probability, and its positions are correct only if the text begins with BOS. In
  the context ``auto`` (BOS only) costs therefore lack the first token, whose cost is equal for all fillings and is
  added here from `transformers`; the server must not add a second BOS. In the context ``text`` costs are complete, and
  the server must add BOS.
- ``--model gguf`` cannot score a text after an empty context, so it only runs with the context ``text``.
- The KV cache has 16 bits unless ``type_k`` and ``type_v`` are 0.
- If EOS is the most likely next token of a text, the server's list is one token shorter, and the harness drops the cost
  of a token that counts.
"""

from __future__ import annotations

import argparse
import json
import math
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests
import torch
from transformers import LlamaForCausalLM

from benchmarks import ROOT
from benchmarks.compatibility.tokenizers import corpus
from benchmarks.llama_model import LENGTH, make_canaries, save, train
from leakage_tasks.attacks import Finding
from leakage_tasks.canaries import Canary
from leakage_tasks.research.victims.harness_run import HarnessCommand

TASKS = ("canary_extraction", "canary_exposure")
BEFORE = "Note:"
"""The context of canaries in addition to BOS. White space at its end would count as part of the costs."""
TOLERANCE = 1e-3
"""The largest allowed difference of costs, in bits."""
START_SECONDS = 60.0


@contextmanager
def served(folder: Path, python: str, bos: bool) -> Iterator[str]:
    """Run the server in the block and yield its address; with ``bos`` it adds BOS before every text."""
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
    """Wait until the server responds; if it does not start, exit with the end of its log."""
    end = time.monotonic() + START_SECONDS
    while server.poll() is None and time.monotonic() < end:
        try:
            if requests.get(f"{address}/v1/models", timeout=5).ok:
                return
        except requests.RequestException:
            time.sleep(0.5)
    sys.exit(f"the server did not start:\n{log.read_text(encoding='utf-8')[-2000:]}")


def other_tokens(address: str, tokenizer: Any, canaries: Sequence[Canary], bos: bool) -> int:
    """Count the texts (all fillings of the canaries, and others) that the server tokenizes differently."""
    texts = [
        space.fill(filling) for space in (canary.attack_space for canary in canaries) for filling in space.enumerate()
    ]
    texts = [*(BEFORE + text if bos else text for text in texts), *corpus()]
    wrong = 0
    with requests.Session() as session:
        for text in texts:
            token_ids = tokenizer(text)["input_ids"]
            content = text if bos else tokenizer.decode(token_ids)
            server_ids = session.post(f"{address}/extras/tokenize", json={"input": content}, timeout=30).json()[
                "tokens"
            ]
            wrong += server_ids != token_ids
    return wrong


def attack(folder: Path, name: str, kind: str, settings: dict[str, str | int], context: str) -> list[list[Finding]]:
    """Run the harness' command and return the findings of each task."""
    metadata: dict[str, str | int] = {"canaries": str(folder / "canaries.jsonl"), "context": context}
    command = HarnessCommand(folder, TASKS, metadata, folder / name, kind=kind, settings=settings)
    command.run(folder / f"{name}.log")
    return [command.findings(task) for task in TASKS]


def first_token_bits(model: LlamaForCausalLM, tokenizer: Any, text: str) -> float:
    """Return the cost of a text's first token after BOS, in bits."""
    bos, first = tokenizer(text)["input_ids"][:2]
    with torch.no_grad():
        return -float(model(torch.tensor([[bos]])).logits[0, -1].log_softmax(-1)[first]) / math.log(2)


def compared(ours: list[list[Finding]], theirs: list[list[Finding]], missing: dict[str, float]) -> dict[str, Any]:
    """Compare both engines' findings; ``missing`` are bits that a canary's costs lack in ``theirs``."""
    pairs = [pair for both in zip(ours, theirs, strict=True) for pair in zip(*both, strict=True)]
    extraction, exposure = pairs[: len(ours[0])], pairs[len(ours[0]) :]
    costs = [(a.log_perplexity, b.log_perplexity, a.canary) for a, b in exposure]
    costs += [(x.score, y.score, a.canary) for a, b in extraction for x, y in zip(a.guesses, b.guesses, strict=True)]
    apart = max(abs(a - b - missing.get(canary, 0.0)) for a, b, canary in costs if a is not None and b is not None)
    comparison = {
        "canaries": len(exposure),
        "attacks": sorted(
            {f"{side}: {finding.attack}" for a, b in pairs for side, finding in (("hf", a), ("served", b))}
        ),
        "guesses_compared": sum(len(a.guesses) for a, _ in extraction),
        "guesses_equal": all([x.filling for x in a.guesses] == [x.filling for x in b.guesses] for a, b in extraction),
        "extracted": [a.place == 1 for a, _ in extraction],
        "ranks": [a.rank for a, _ in exposure],
        "ranks_equal": all(a.rank == b.rank for a, b in exposure),
        "exposure_bits_apart": max(abs((a.exposure or 0.0) - (b.exposure or 0.0)) for a, b in exposure),
        "methods": sorted({str(finding.method) for pair in exposure for finding in pair}),
        "cost_bits_apart": apart,
    }
    equal = comparison["guesses_equal"] and comparison["ranks_equal"]
    return {**comparison, "equal": bool(equal and comparison["guesses_compared"] and apart < TOLERANCE)}


def run(folder: Path, python: str, steps: int) -> dict[str, Any]:
    """Train a model, serve it, attack it with both engines and compare the findings."""
    canaries = make_canaries(folder / "canaries.jsonl")
    model, tokenizer = train(canaries, steps)
    save(model, tokenizer, folder, python)
    first = {canary.id: first_token_bits(model, tokenizer, canary.text) for canary in canaries}
    results: dict[str, Any] = {"tolerance_bits": TOLERANCE, "first_token_bits": first}
    api: dict[str, str | int] = {"tokenizer_backend": "huggingface", "tokenized_requests": False, "max_length": LENGTH}
    for name, context, bos in (("auto", "auto", False), ("text", BEFORE, True)):
        ours = attack(folder, f"{name}-hf", "hf", {"dtype": "float32"}, context)
        with served(folder, python, bos) as address:
            results[f"{name}_other_tokens"] = other_tokens(address, tokenizer, canaries, bos)
            interfaces: dict[str, dict[str, str | int]] = {
                "local-completions": {"base_url": f"{address}/v1/completions", **api}
            }
            if bos:
                interfaces["gguf"] = {"base_url": address}
            for kind, settings in interfaces.items():
                theirs = attack(folder, f"{name}-{kind}", kind, settings, context)
                results[f"{name}_{kind}"] = compared(ours, theirs, {} if bos else first)
    return results


def main() -> None:
    """Run the comparison, write and print the summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="interpreter with gguf and llama-cpp-python[server]")
    parser.add_argument("--steps", type=int, default=300, help="training steps")
    parser.add_argument("--summary", type=Path, default=Path(__file__).with_suffix(".json"))
    parser.add_argument("--output", type=Path, default=ROOT / "runs" / "llama", help="folder for models and logs")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    results = run(arguments.output, arguments.python, arguments.steps)
    agree = all(result["equal"] for result in results.values() if isinstance(result, dict) and "equal" in result)
    tokens = all(count == 0 for name, count in results.items() if name.endswith("other_tokens"))
    arguments.summary.write_text(json.dumps({**results, "agree": agree and tokens}, indent=1) + "\n", encoding="utf-8")
    print(arguments.summary.read_text(encoding="utf-8"))
    if not (agree and tokens):
        sys.exit(1)


if __name__ == "__main__":
    main()
