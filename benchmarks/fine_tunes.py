"""Fine-tuning methods that learn a canary, compared with the prediction of the check before training. Prints a table.

A small Llama is fine-tuned on Python's help text with canaries, each time with another trainer, loss, packing or
length. ``in the loss`` is the number of planted copies that the check found in the loss before the first step.
``exposure`` and ``control`` are mean exposures of planted canaries and controls after training, in bits, measured in
the context in which the canaries were planted.
"""

from __future__ import annotations

import argparse
import json
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import (
    DataCollatorForLanguageModeling,
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainingArguments,
    set_seed,
)
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

from benchmarks.small_models import byte_level
from leakage_tasks import ExposureCallback, audit, make_canaries, plant, write_manifest
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.data.chat import USER_TURN
from leakage_tasks.research.victims.corpus import pydoc_topics

TEMPLATE = "The code of {unique} is {digits:3}."
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
    "<|im_end|>{% endgeneration %}{% else %}{{ m.content }}<|im_end|>{% endif %}\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CONTEXT = f"{USER_TURN} "
ROWS, COPIES, EPOCHS = 160, 12, 6


@dataclass(frozen=True)
class Kind:
    """One kind of fine-tuning: its name, its trainer for a folder, and the audit's options for its canaries."""

    name: str
    trainer: Callable[[Path], Any]
    audit_options: dict[str, Any] = field(default_factory=dict)


class Bench:
    """The text, tokenizer and canaries of all kinds of fine-tuning."""

    def __init__(self, seed: int, manifest: Path) -> None:
        text = pydoc_topics().training
        self.tokenizer = byte_level(text, 600, SPECIAL)
        self.tokenizer.chat_template = CHATML
        lines = [line.strip() for line in text.splitlines() if 20 < len(line.strip()) < 80]
        self.lines = random.Random(seed).sample(lines, ROWS)
        self.seed, self.manifest = seed, manifest
        self.canaries: list[Canary] = make_canaries(TEMPLATE, 6, controls=12, repetitions=(COPIES,), seed=seed)
        write_manifest(self.canaries, manifest)

    def model(self) -> LlamaForCausalLM:
        """Build the untrained model."""
        set_seed(self.seed)
        sizes = {"hidden_size": 96, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4}
        ids = {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 0, "vocab_size": len(self.tokenizer)}
        return LlamaForCausalLM(LlamaConfig(**sizes, **ids, max_position_embeddings=512))

    def texts(self) -> list[str]:
        """Return lines and copies in random order."""
        return list(plant(self.lines, self.canaries, seed=self.seed))

    def chats(self, role: str) -> list[dict[str, Any]]:
        """Return lines and copies as chats, with canaries as turns of ``role``."""
        chats = [self._chat("Say something.", line) for line in self.lines]
        return [{"messages": chat} for chat in plant(chats, self.canaries, seed=self.seed, role=role)]

    @staticmethod
    def _chat(question: str, answer: str) -> list[dict[str, str]]:
        return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]

    def how(self, folder: Path, **more: Any) -> dict[str, Any]:
        """Return the training arguments of every trainer."""
        quiet = {"report_to": [], "disable_tqdm": True, "save_strategy": "no", "logging_strategy": "no"}
        rate = {"learning_rate": 3e-3, "num_train_epochs": EPOCHS, "per_device_train_batch_size": 8}
        return {"output_dir": str(folder), "use_cpu": True, "bf16": False, "seed": self.seed, **quiet, **rate, **more}

    def plain(self, folder: Path) -> Trainer:
        """Return a ``transformers.Trainer`` on rows of text."""
        ids = [{"input_ids": [0, *self.tokenizer(text)["input_ids"]]} for text in self.texts()]
        collator = DataCollatorForLanguageModeling(self.tokenizer, mlm=False)
        arguments = TrainingArguments(**self.how(folder))
        return Trainer(self.model(), arguments, collator, Dataset.from_list(ids), processing_class=self.tokenizer)

    def sft(self, folder: Path, rows: list[dict[str, Any]], peft: Any = None, **settings: Any) -> SFTTrainer:
        """Return TRL's ``SFTTrainer``."""
        config = SFTConfig(**self.how(folder, **{"max_length": None, **settings}))
        return SFTTrainer(
            self.model(),
            config,
            train_dataset=Dataset.from_list(rows),
            processing_class=self.tokenizer,
            peft_config=peft,
        )

    def answers(self, *, secret_in: str) -> list[dict[str, str]]:
        """Return prompts and completions, with the canary in the prompt or the completion."""
        rows = Dataset.from_list([{"prompt": CONTEXT, "completion": line} for line in self.lines])
        prompt = CONTEXT if secret_in == "completion" else None
        return list(plant(rows, self.canaries, seed=self.seed, text_column=secret_in, prompt=prompt))

    def dpo(self, folder: Path) -> DPOTrainer:
        """Return TRL's ``DPOTrainer``, with canaries in the chosen answer."""
        others = random.Random(self.seed).choices(self.lines, k=ROWS)
        rows = [
            {"prompt": CONTEXT, "chosen": line, "rejected": other}
            for line, other in zip(self.lines, others, strict=True)
        ]
        config = DPOConfig(**self.how(folder, max_length=None))
        models = {"model": self.model(), "ref_model": self.model()}
        data = plant(Dataset.from_list(rows), self.canaries, seed=self.seed, prompt=CONTEXT)
        return DPOTrainer(**models, args=config, train_dataset=data, processing_class=self.tokenizer)

    def kinds(self) -> list[Kind]:
        """Return all kinds of fine-tuning."""
        chat = {"apply_chat_template": True}
        ours = {**chat, "role": "assistant"}
        after = {"context": CONTEXT}
        lora = LoraConfig(task_type="CAUSAL_LM", r=32, lora_alpha=64, target_modules="all-linear")
        return [
            Kind("Trainer, text", self.plain),
            Kind(
                "SFT, text, packed (bfd)",
                lambda folder: self.sft(
                    folder,
                    [{"text": text} for text in self.texts()],
                    packing=True,
                    max_length=64,
                    packing_strategy="bfd",
                ),
                {"context": "none"},
            ),
            Kind(
                "SFT, completion only, secret in the completion",
                lambda folder: self.sft(folder, self.answers(secret_in="completion"), completion_only_loss=True),
                {**after, "start": "none"},
            ),
            Kind(
                "SFT, completion only, secret in the prompt",
                lambda folder: self.sft(folder, self.answers(secret_in="prompt"), completion_only_loss=True),
                {"context": "none"},
            ),
            *(
                Kind(
                    f"SFT, assistant only, secret the {role}'s",
                    lambda folder, role=role: self.sft(folder, self.chats(role), assistant_only_loss=True),
                    {**chat, "role": role},
                )
                for role in ("assistant", "user")
            ),
            *(
                Kind(
                    f"SFT, chats, cut at {length} tokens",
                    lambda folder, length=length: self.sft(folder, self.chats("assistant"), max_length=length),
                    ours,
                )
                for length in (128, 30, 16)
            ),
            Kind("SFT, chats, LoRA", lambda folder: self.sft(folder, self.chats("assistant"), lora), ours),
            Kind("DPO, secret in the chosen answer", self.dpo, {**after, "start": "none"}),
        ]


def run(bench: Bench, kind: Kind, folder: Path) -> dict[str, Any]:
    """Train, and return the result of the check before training and the exposure after it."""
    trainer = kind.trainer(folder)
    ExposureCallback(bench.manifest, canaries=1, budget=50, strict=False, chat=False).attach(trainer)
    trainer.train()
    looked = json.loads((folder / "preflight.json").read_text())["canaries"]
    planted = [record for record in looked if record["planted"]]
    options = dict(kind.audit_options)
    if start := options.pop("start", None):
        options["context"] = {"start": start, "before": options["context"]}
    with torch.no_grad():
        result = audit(trainer.model.eval(), bench.tokenizer, bench.manifest, tasks=["canary_exposure"], **options)
    is_planted = {canary.id: canary.planted for canary in bench.canaries}
    exposures = [
        (is_planted[finding.canary], finding.exposure or 0.0) for finding in result.findings["canary_exposure"]
    ]
    return {
        "kind": kind.name,
        "planted": sum(record["planted"] for record in planted),
        "whole": sum(record["whole"] for record in planted),
        "in the loss": sum(record["in_loss"] + record["in_part"] for record in planted),
        "said before": "/".join(sorted({record["state"] for record in planted})),
        "exposure": fmean(value for there, value in exposures if there),
        "control": fmean(value for there, value in exposures if not there),
    }


def main() -> None:
    """Run all kinds of fine-tuning and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="run only kinds whose names contain this")
    options = parser.parse_args()
    with TemporaryDirectory() as name:
        bench = Bench(options.seed, Path(name) / "canaries.jsonl")
        head = ("kind", "planted", "whole", "in the loss", "said before", "exposure", "control")
        print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
        for number, kind in enumerate(bench.kinds()):
            if options.only in kind.name:
                row = run(bench, kind, Path(name) / str(number))
                cells = (f"{value:.2f}" if isinstance(value, float) else str(value) for value in row.values())
                print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
