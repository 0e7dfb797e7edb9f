"""Whether a secret's loss reaches a weight that is trained, against the trainer's own loss run backward."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig, TrainableTokensConfig, get_peft_model
from transformers import DataCollatorForLanguageModeling, Trainer, TrainingArguments

from leakage_tasks.canaries import Canary
from leakage_tasks.training.preflight import preflight
from tests.training.preflight.trainers import arguments, canaries, model, sft, texts, tokenizer

MADE = canaries(2)
FIRST, SECOND = (each for each in MADE if each.planted)
OWN = sorted(set(FIRST.text) - set(SECOND.text))
"""Letters of the first canary that the second has not."""


def trained_in(*names: str, **changed: Any) -> Callable[[], Any]:
    """A model of which the weights with such names are trained alone."""

    def make() -> Any:
        made = model(**changed)
        for name, parameter in made.named_parameters():
            parameter.requires_grad = any(each in name for each in names)
        return made

    return make


def adapted(config: Any, **changed: Any) -> Callable[[], Any]:
    return lambda: get_peft_model(model(**changed), config)


def lora(*modules: str, **changed: Any) -> LoraConfig:
    return LoraConfig(r=2, target_modules=list(modules), task_type="CAUSAL_LM", **changed)


def of_tokens(text: list[str]) -> TrainableTokensConfig:
    ids = tokenizer().convert_tokens_to_ids(text)
    return TrainableTokensConfig(target_modules=["embed_tokens"], token_indices=ids, task_type="CAUSAL_LM")


TIED = {"tie_word_embeddings": True}
SETUPS: dict[str, tuple[Callable[[], Any], list[bool]]] = {
    "embeddings that are the output layer": (trained_in("embed_tokens", **TIED), [True, True]),
    "embeddings alone": (trained_in("embed_tokens"), [True, True]),
    "output layer alone": (trained_in("lm_head"), [True, True]),
    "a weight beside the model": (trained_in("nothing"), [False, False]),
    "LoRA on the output layer, tied": (adapted(lora("lm_head"), **TIED), [True, True]),
    "LoRA on tied embeddings": (adapted(lora("embed_tokens"), **TIED), [True, True]),
    "LoRA and a copy of the tied output layer": (
        adapted(lora("q_proj", modules_to_save=["lm_head"]), **TIED),
        [True] * 2,
    ),
    "tokens that no canary has, tied": (adapted(of_tokens(["M"]), **TIED), [True, True]),
    "tokens that no canary has": (adapted(of_tokens(["M"])), [False, False]),
    "tokens of the first canary": (adapted(of_tokens(OWN)), [True, False]),
    "tokens of the first canary, tied": (adapted(of_tokens(OWN), **TIED), [True, True]),
}


def trainer_of(folder: Path, made: Any) -> Trainer:
    if not any(each.requires_grad for each in made.parameters()):
        made.unused = torch.nn.Parameter(torch.ones(1))
    coded = tokenizer()
    data = Dataset.from_list([{"input_ids": coded(row)["input_ids"]} for row in texts(MADE)])
    collator = DataCollatorForLanguageModeling(coded, mlm=False)
    told = TrainingArguments(**arguments(folder))
    return Trainer(made, told, train_dataset=data, data_collator=collator, processing_class=coded)


def backward(trainer: Trainer, canary: Canary) -> bool:
    """Whether any trained weight has a gradient after the trainer's own loss of the secret's tokens alone."""
    ids = torch.tensor([tokenizer()(canary.text)["input_ids"]])
    first = canary.text.index("".join(canary.secret))
    labels = torch.full_like(ids, -100)
    labels[0, first : first + 6] = ids[0, first : first + 6]
    made: Any = trainer.model
    made.zero_grad()
    loss = trainer.compute_loss(made.eval(), {"input_ids": ids, "labels": labels})
    if loss.requires_grad:
        loss.backward()
    return any(each.grad is not None and bool(each.grad.any()) for each in made.parameters() if each.requires_grad)


@pytest.mark.parametrize("setup", SETUPS)
def test_each_canary_is_reached_where_a_backward_pass_says_so(tmp_path: Path, setup: str) -> None:
    make, expected = SETUPS[setup]
    trainer = trainer_of(tmp_path, make())
    found = preflight(trainer, MADE)
    reached = [each.reached for each in found.canaries if each.planted]
    assert reached == [backward(trainer, each) for each in (FIRST, SECOND)] == expected
    assert found.reached is any(expected)


def test_a_canary_that_nothing_learns_from_is_in_the_context_only(tmp_path: Path) -> None:
    found = preflight(trainer_of(tmp_path, adapted(of_tokens(OWN))()), MADE)
    assert [each.state for each in found.canaries if each.planted] == ["in the loss", "in the context only"]
    (problem,) = found.problems()
    assert problem.startswith(f"{SECOND.id}: the loss of the secret has no gradient at any trained weight")


def test_a_probe_leaves_gradients_and_company_alone(tmp_path: Path) -> None:
    rows = [{"text": row} for row in texts(MADE)]
    for how in ({}, {"padding_free": True, "max_length": None}):
        trainer = sft(tmp_path, rows, model=trained_in("embed_tokens")(), **how)
        found = preflight(trainer, MADE)
        assert [each.reached for each in found.canaries if each.planted] == [True, True]
        assert all(each.grad is None for each in trainer.model.parameters())


def test_a_probe_stops_at_the_last_weight_if_that_has_a_gradient(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole backward pass for each of 1,000 canaries takes longer than reading the data."""
    numbers = []
    plain = torch.autograd.grad

    def counted(loss: torch.Tensor, weights: list[Any], **how: Any) -> Any:
        numbers.append(len(weights))
        return plain(loss, weights, **how)

    monkeypatch.setattr(torch.autograd, "grad", counted)
    trainer = trainer_of(tmp_path, model())
    assert preflight(trainer, MADE).reached
    assert numbers == [1, 1]
    numbers.clear()
    made = model()
    made.behind = torch.nn.Linear(1, 1)
    made.gradient_checkpointing_enable()
    assert preflight(trainer_of(tmp_path, made), MADE).reached
    assert numbers == [1, len(list(made.parameters()))] * 2
