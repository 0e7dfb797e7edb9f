"""Teaching transformers our models breaks none of its own."""

from __future__ import annotations

from leakage_tasks.models import register


def test_auto_classes_still_list_and_find_everything():
    from transformers import AutoConfig, AutoModelForCausalLM, GPT2Config
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    from leakage_tasks.models.recurrent import CharLSTMConfig, CharLSTMForCausalLM

    register()
    before = len(MODEL_FOR_CAUSAL_LM_MAPPING)
    register()
    assert len(MODEL_FOR_CAUSAL_LM_MAPPING) == before
    assert MODEL_FOR_CAUSAL_LM_MAPPING_NAMES["char_lstm"] == "CharLSTMForCausalLM"
    assert MODEL_FOR_CAUSAL_LM_MAPPING[CharLSTMConfig] is CharLSTMForCausalLM
    assert list(MODEL_FOR_CAUSAL_LM_MAPPING._model_mapping).count("char_lstm") == 1
    assert MODEL_FOR_CAUSAL_LM_MAPPING[GPT2Config].__name__ == "GPT2LMHeadModel"
    assert type(AutoConfig.for_model("char_lstm", vocab_size=7)) is CharLSTMConfig
    small = GPT2Config(vocab_size=8, n_positions=8, n_embd=4, n_layer=1, n_head=1)
    assert type(AutoModelForCausalLM.from_config(small)).__name__ == "GPT2LMHeadModel"
    assert type(AutoModelForCausalLM.from_config(CharLSTMConfig(vocab_size=7))) is CharLSTMForCausalLM
