"""A LoRA run of 24 steps with ``ExposureCallback``: the share of the time that its measurements take.

TRL's trainer is used if it is installed, else the ``Trainer`` of `transformers` with PEFT.
"""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

from benchmarks.gpu.report import LEFT_OUT, Report, device, step_options
from leakage_tasks import ExposureCallback
from leakage_tasks.canaries import make_canaries, write_manifest

TEMPLATE = "The key of {unique} is {digits:9}."
COPIES = 4
"""Copies of each planted canary in the training data."""


def loaded(folder: Path) -> tuple[Any, Any]:
    """Return the model of :mod:`benchmarks.gpu.big_model` and its tokenizer."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto", trust_remote_code=False)
    return model.to(device()), AutoTokenizer.from_pretrained(folder, trust_remote_code=False)


def with_trl(model: Any, tokenizer: Any, texts: list[str], lora: LoraConfig, arguments: dict[str, Any]) -> Any:
    """Return TRL's trainer."""
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    config = SFTConfig(**arguments, max_length=64)
    rows = Dataset.from_dict({"text": texts})
    return SFTTrainer(model, args=config, train_dataset=rows, processing_class=tokenizer, peft_config=lora)


def with_peft(model: Any, tokenizer: Any, texts: list[str], lora: LoraConfig, arguments: dict[str, Any]) -> Any:
    """Return the trainer of `transformers` on a PEFT model."""
    encoded = [[tokenizer.bos_token_id, *tokenizer(text)["input_ids"]] for text in texts]
    width = max(map(len, encoded))
    rows = [
        {
            "input_ids": torch.tensor(row + [0] * (width - len(row))),
            "labels": torch.tensor(row + [-100] * (width - len(row))),
        }
        for row in encoded
    ]
    model = get_peft_model(model, lora)
    return Trainer(model, TrainingArguments(**arguments), train_dataset=rows, processing_class=tokenizer)


def main() -> None:
    """Train with the callback and report."""
    options = step_options(__doc__).parse_args()
    report, on_cpu = Report("training", options.out), device() == "cpu"
    number = 2 if options.tiny else 8
    template = "The key of {unique} is {digits:3}." if options.tiny else TEMPLATE
    canaries = make_canaries(template, number, controls=number, repetitions=(COPIES,))
    manifest = options.out / "training_canaries.jsonl"
    write_manifest(canaries, manifest)
    texts = [canary.text for canary in canaries if canary.planted for _ in range(COPIES)]
    steps = 4 if options.tiny else 24
    arguments: dict[str, Any] = {"output_dir": str(options.out / "lora"), "max_steps": steps, "report_to": "none"}
    arguments |= {"per_device_train_batch_size": 8, "save_strategy": "no", "disable_tqdm": True, "use_cpu": on_cpu}
    arguments |= {"bf16": not on_cpu, "learning_rate": 1e-3, "logging_steps": steps}
    trl = importlib.util.find_spec("trl") is not None
    if not trl:
        report.add("TRL", "not installed: Trainer and PEFT instead", LEFT_OUT)
    make = with_trl if trl else with_peft
    trainer = make(*loaded(options.out / "model"), texts, LoraConfig(task_type="CAUSAL_LM"), arguments)
    ExposureCallback(manifest, **({"budget": 50} if options.tiny else {})).attach(trainer)
    started = time.perf_counter()
    trainer.train()
    total = time.perf_counter() - started
    looks = [entry["leakage/seconds"] for entry in trainer.state.log_history if "leakage/seconds" in entry]
    seconds = ", ".join(f"{look:.1f}" for look in looks)
    result = f"{steps} steps in {total:.1f} s, {len(looks)} measurements of {len(canaries)} canaries took {seconds} s"
    report.add("TRL + LoRA" if trl else "LoRA", f"{result}: {sum(looks) / total:.0%} of the time", total=total)
    report.exit()


if __name__ == "__main__":
    main()
