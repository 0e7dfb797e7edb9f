"""What kinds of fine-tuning learn a canary, and whether the look before training said so: prints a table.

A small Llama is fine-tuned on Python's help text with canaries in it, each time with another trainer, loss, packing or
length. ``in the loss`` are the copies that the look found there before the first step, of all that were planted;
``exposure`` and ``control`` are the mean exposures of planted canaries and of controls afterwards, in bits, asked about
where the canaries were planted.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from datasets import Dataset
from peft import LoraConfig
from tokenizers import ByteLevelBPETokenizer
from transformers import (
    DataCollatorForLanguageModeling,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    set_seed,
)
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

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
    """One kind of fine-tuning: its name, its trainer of a folder, and how its canaries are asked about."""

    name: str
    trainer: Callable[[Path], Any]
    asked: dict[str, Any] = field(default_factory=dict)


class Bench:
    """Text, tokenizer and canaries, the same for all kinds."""

    def __init__(self, seed: int, manifest: Path) -> None:
        text = pydoc_topics().training
        made = ByteLevelBPETokenizer()
        made.train_from_iterator(text.splitlines(), 600, special_tokens=SPECIAL, show_progress=False)
        self.tokenizer = PreTrainedTokenizerFast(
            tokenizer_object=made._tokenizer, bos_token=SPECIAL[0], eos_token=SPECIAL[2], pad_token=SPECIAL[0]
        )
        self.tokenizer.chat_template = CHATML
        lines = [line.strip() for line in text.splitlines() if 20 < len(line.strip()) < 80]
        self.lines = random.Random(seed).sample(lines, ROWS)
        self.seed, self.manifest = seed, manifest
        self.canaries: list[Canary] = make_canaries(TEMPLATE, 6, controls=12, repetitions=(COPIES,), seed=seed)
        write_manifest(self.canaries, manifest)

    def model(self) -> LlamaForCausalLM:
        """The model before training."""
        set_seed(self.seed)
        sizes = {"hidden_size": 96, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4}
        ids = {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 0, "vocab_size": len(self.tokenizer)}
        return LlamaForCausalLM(LlamaConfig(**sizes, **ids, max_position_embeddings=512))

    def texts(self) -> list[str]:
        """Lines and copies, in random order."""
        return list(plant(self.lines, self.canaries, seed=self.seed))

    def chats(self, role: str) -> list[dict[str, Any]]:
        """The same as chats, canaries as the turn of ``role``."""
        chats = [self._chat("Say something.", line) for line in self.lines]
        return [{"messages": chat} for chat in plant(chats, self.canaries, seed=self.seed, role=role)]

    @staticmethod
    def _chat(asked: str, said: str) -> list[dict[str, str]]:
        return [{"role": "user", "content": asked}, {"role": "assistant", "content": said}]

    def how(self, folder: Path, **more: Any) -> dict[str, Any]:
        """What every trainer is told."""
        quiet = {"report_to": [], "disable_tqdm": True, "save_strategy": "no", "logging_strategy": "no"}
        rate = {"learning_rate": 3e-3, "num_train_epochs": EPOCHS, "per_device_train_batch_size": 8}
        return {"output_dir": str(folder), "use_cpu": True, "bf16": False, "seed": self.seed, **quiet, **rate, **more}

    def plain(self, folder: Path) -> Trainer:
        """``transformers.Trainer`` on rows of text."""
        ids = [{"input_ids": [0, *self.tokenizer(text)["input_ids"]]} for text in self.texts()]
        collator = DataCollatorForLanguageModeling(self.tokenizer, mlm=False)
        arguments = TrainingArguments(**self.how(folder))
        return Trainer(self.model(), arguments, collator, Dataset.from_list(ids), processing_class=self.tokenizer)

    def sft(self, folder: Path, rows: list[dict[str, Any]], peft: Any = None, **settings: Any) -> SFTTrainer:
        """TRL's."""
        config = SFTConfig(**self.how(folder, **{"max_length": None, **settings}))
        return SFTTrainer(
            self.model(),
            config,
            train_dataset=Dataset.from_list(rows),
            processing_class=self.tokenizer,
            peft_config=peft,
        )

    def answers(self, *, secret_in: str) -> list[dict[str, str]]:
        """Return prompts and completions, with the canary in the one or the other."""
        rows = Dataset.from_list([{"prompt": CONTEXT, "completion": line} for line in self.lines])
        prompt = CONTEXT if secret_in == "completion" else None
        return list(plant(rows, self.canaries, seed=self.seed, text_column=secret_in, prompt=prompt))

    def dpo(self, folder: Path) -> DPOTrainer:
        """Preferences, the canary in the answer that is chosen."""
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
        """All of them."""
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
    """Train, and say what the look before found and what can be got out after."""
    trainer = kind.trainer(folder)
    ExposureCallback(bench.manifest, canaries=1, budget=50, strict=False, chat=False).attach(trainer)
    trainer.train()
    looked = json.loads((folder / "preflight.json").read_text())["canaries"]
    planted = [each for each in looked if each["planted"]]
    asked = dict(kind.asked)
    if start := asked.pop("start", None):
        asked["context"] = {"start": start, "before": asked["context"]}
    with torch.no_grad():
        found = audit(trainer.model.eval(), bench.tokenizer, bench.manifest, tasks=["canary_exposure"], **asked)
    bits = {canary.id: canary.planted for canary in bench.canaries}
    exposures = [(bits[each.canary], each.exposure or 0.0) for each in found.findings["canary_exposure"]]
    return {
        "kind": kind.name,
        "planted": sum(each["planted"] for each in planted),
        "whole": sum(each["whole"] for each in planted),
        "in the loss": sum(each["in_loss"] + each["in_part"] for each in planted),
        "said before": "/".join(sorted({each["state"] for each in planted})),
        "exposure": fmean(value for there, value in exposures if there),
        "control": fmean(value for there, value in exposures if not there),
    }


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="kinds whose names hold this")
    given = parser.parse_args()
    with TemporaryDirectory() as place:
        bench = Bench(given.seed, Path(place) / "canaries.jsonl")
        head = ("kind", "planted", "whole", "in the loss", "said before", "exposure", "control")
        print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
        for number, kind in enumerate(bench.kinds()):
            if given.only in kind.name:
                row = run(bench, kind, Path(place) / str(number))
                cells = (f"{each:.2f}" if isinstance(each, float) else str(each) for each in row.values())
                print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
