"""A Llama of 1.07 billion parameters that has learned half of 1,000 canaries, saved for the steps that follow.

``python -m benchmarks.gpu.big_model --out FOLDER``. Writes ``model`` (bfloat16, with ``--tiny`` float32; one token per
character, vocabulary of 49,152) and ``canaries.jsonl``. Training starts from random weights, on the planted canaries
alone, and ends if the mean loss of the secrets is low or the time is up.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks.gpu.report import FAILED, HELD, Report, device, step_options
from benchmarks.small_models import ALPHABET
from leakage_tasks.canaries import Canary, make_canaries, write_manifest
from leakage_tasks.models.char_tokenizer import char_tokenizer

TEMPLATE = "The code of {unique} is {digits:9}."
TINY_TEMPLATE = "The code of {unique} is {digits:3}."
BEFORE = " is "
"""The words right before a secret."""
LEARNED = 0.02
"""Mean loss of the secrets in nats per token at which training ends."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of the model, numbers of canaries, and limits of the training."""

    shape: dict[str, Any]
    planted: int
    controls: int
    batch: int
    learning_rate: float
    seconds: float


def _shape(hidden: int, between: int, layers: int, heads: int, keys: int, vocabulary: int) -> dict[str, Any]:
    return {
        "hidden_size": hidden,
        "intermediate_size": between,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": keys,
        "vocab_size": vocabulary,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": True,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "pad_token_id": 0,
    }


LARGE = Sizes(_shape(2048, 8192, 16, 32, 8, 49_152), 500, 500, 125, 2e-4, 40)
TINY = Sizes(_shape(64, 128, 2, 4, 2, 512), 4, 4, 4, 5e-3, 20)


def build(sizes: Sizes, where: str) -> LlamaForCausalLM:
    """Build the model with random weights in float32 on the device ``where``."""
    torch.manual_seed(0)
    with torch.device(where):
        return LlamaForCausalLM(LlamaConfig(**sizes.shape))


def teach(model: Any, tokenizer: Any, canaries: list[Canary], sizes: Sizes) -> tuple[float, int]:
    """Train on the planted canaries; return the last loss, in nats per token of a secret, and the number of steps."""
    texts = [canary.text for canary in canaries if canary.planted]
    rows = [[0, *tokenizer(text)["input_ids"]] for text in texts]
    # No model can predict the random words before a secret, so the loss leaves them out.
    starts = torch.tensor([1 + text.rindex(BEFORE) + len(BEFORE) for text in texts], device=model.device)
    width = max(map(len, rows))
    ids = torch.tensor([row + [0] * (width - len(row)) for row in rows], device=model.device)
    lengths = torch.tensor([len(row) for row in rows], device=model.device)
    columns = torch.arange(width, device=model.device)
    labels = ids.masked_fill((columns < starts[:, None]) | (columns >= lengths[:, None]), -100)
    on_gpu = model.device.type == "cuda"
    optimizer = torch.optim.AdamW(model.parameters(), lr=sizes.learning_rate, betas=(0.9, 0.95), fused=on_gpu)
    model.train()
    started, step, losses = time.perf_counter(), 0, [float("inf")]
    while time.perf_counter() - started < sizes.seconds and sum(losses) / len(losses) > LEARNED:
        losses = []
        for part in torch.randperm(len(rows), device=model.device).split(sizes.batch):
            step += 1
            for group in optimizer.param_groups:
                group["lr"] = sizes.learning_rate * min(1.0, step / 20)
            with torch.autocast(model.device.type, dtype=torch.bfloat16, enabled=on_gpu):
                loss = model(input_ids=ids[part], labels=labels[part]).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    model.eval()
    return sum(losses) / len(losses), step


def main() -> None:
    """Build, train and save the model."""
    options = step_options(__doc__).parse_args()
    sizes, report = TINY if options.tiny else LARGE, Report("model", options.out)
    template = TINY_TEMPLATE if options.tiny else TEMPLATE
    canaries = make_canaries(template, sizes.planted, controls=sizes.controls, seed=0)
    write_manifest(canaries, options.out / "canaries.jsonl")
    tokenizer, model = char_tokenizer(ALPHABET), build(sizes, device())
    started = time.perf_counter()
    loss, steps = teach(model, tokenizer, canaries, sizes)
    seconds = time.perf_counter() - started
    save(model, tokenizer, options.out / "model", model_dtype(options.tiny))
    size = sum(weight.numel() for weight in model.parameters())
    memory = f"{torch.cuda.max_memory_allocated() / 1e9:.1f} GB" if device() == "cuda" else "not measured"
    result = f"{size / 1e9:.2f} B parameters, {steps} steps in {seconds:.0f} s, loss {loss:.3f}, peak memory {memory}"
    report.add("training", result, FAILED if loss != loss else HELD)
    report.exit()


def model_dtype(tiny: bool) -> torch.dtype:
    """Return the data type of the saved model; costs of a tiny model would be equal after rounding to bfloat16."""
    return torch.float32 if tiny else torch.bfloat16


def save(model: Any, tokenizer: Any, folder: Path, dtype: torch.dtype) -> None:
    """Save the model with its tokenizer."""
    model.to(dtype).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    main()
