"""Models that can be watched during training, and those that are declined in one line."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import pytest
import torch
from transformers import GPT2Config, GPT2ForSequenceClassification, T5Config, T5ForConditionalGeneration

from leakage_tasks.core.errors import TargetError
from leakage_tasks.training.callback.target import live_target, preserved_training_state
from tests.oracles import direct_costs, letters, merging, tiny_bert, tiny_gpt2

TEXTS = ["my pin is 1234.", "a dog"]
SIZES = {"vocab_size": 60, "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 32}


def declined(model, processing) -> str:
    with pytest.raises(TargetError) as raised:
        live_target(model, processing)
    return str(raised.value)


@pytest.mark.parametrize(
    "wrapped",
    [lambda model: model, torch.nn.DataParallel, lambda model: _peft(model)],
    ids=["plain", "parallel", "adapter"],
)
def test_the_model_itself_is_scored_whatever_is_around_it(wrapped):
    plain = tiny_gpt2(letters())
    target = live_target(wrapped(copy.deepcopy(plain)), letters())
    assert target.log_perplexity(TEXTS) == pytest.approx(direct_costs(plain, letters(), TEXTS), abs=1e-3)


def _peft(model):
    from peft import LoraConfig, get_peft_model

    # A new adapter adds nothing yet.
    return get_peft_model(model, LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM"))


def test_a_processor_stands_for_its_tokenizer():
    assert live_target(tiny_gpt2(letters()), SimpleNamespace(tokenizer=letters())).tokenizer is letters()


def test_a_model_without_a_tokenizer_is_declined():
    assert "the trainer has no tokenizer: pass Trainer(processing_class=…)" in declined(tiny_gpt2(letters()), None)
    assert "tokenizer is './base': pass a tokenizer, not its name" in declined(tiny_gpt2(letters()), "./base")


def test_the_tokenizer_of_a_larger_model_is_declined():
    assert f"the tokenizer has {len(merging())} tokens, the model 45" in declined(tiny_gpt2(letters()), merging())


def test_classifiers_encoders_and_encoder_decoders_are_declined():
    classifier = GPT2ForSequenceClassification(GPT2Config(**SIZES))
    assert "GPT2ForSequenceClassification is not a causal language model" in declined(classifier, letters())
    assert "BertForSequenceClassification is not a causal language model" in declined(tiny_bert(), letters())
    small = {"vocab_size": 60, "d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    assert "T5ForConditionalGeneration is an encoder-decoder" in declined(
        T5ForConditionalGeneration(T5Config(**small)), letters()
    )
    assert "Linear is not a causal language model" in declined(torch.nn.Linear(2, 2), letters())


def test_a_model_that_deepspeed_took_apart_is_declined():
    model = copy.deepcopy(tiny_gpt2(letters()))
    model.transformer.wpe.weight.ds_id = 3
    assert "the weights are sharded over processes" in declined(model, letters())


def test_a_model_that_fsdp_took_apart_is_declined():
    from torch import distributed
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        model = copy.deepcopy(tiny_gpt2(letters()))
        fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
        assert "the weights are sharded over processes" in declined(model, letters())
    finally:
        distributed.destroy_process_group()


def test_modes_are_restored_module_by_module_even_after_an_error():
    model = copy.deepcopy(tiny_gpt2(letters())).train()
    model.transformer.h[1].eval()
    modes = [module.training for module in model.modules()]
    with preserved_training_state(model):
        assert not any(module.training for module in model.modules())
    assert [module.training for module in model.modules()] == modes
    with pytest.raises(IndexError), preserved_training_state(model):
        model(torch.tensor([[10**6]]))
    assert [module.training for module in model.modules()] == modes


def test_random_numbers_drawn_inside_are_not_missing_afterwards():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    with preserved_training_state(tiny_gpt2(letters())):
        torch.rand(100)
    assert torch.equal(torch.rand(3), expected)
