"""Model architectures of the experiments. :func:`register` adds them to transformers' Auto classes."""

from __future__ import annotations

__all__ = ["register"]


def register() -> None:
    """Register the models of this package with transformers' Auto classes. Repeated calls have no effect.

    The harness recognizes causal models by a table of names in transformers, so the model type is added to it too. The
    Auto classes never look up the name in this table, because they find the registered class first.
    """
    from transformers import AutoConfig, AutoModel, AutoModelForCausalLM
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    from leakage_tasks.models.convolutional import CharCNNForCausalLM, CharWaveNetForCausalLM
    from leakage_tasks.models.nlu_tagger import NLUTagger, NLUTaggerConfig
    from leakage_tasks.models.recurrent import CharGRUForCausalLM, CharLSTMForCausalLM

    for model in (CharLSTMForCausalLM, CharGRUForCausalLM, CharCNNForCausalLM, CharWaveNetForCausalLM):
        config = model.config_class
        AutoConfig.register(config.model_type, config, exist_ok=True)
        AutoModelForCausalLM.register(config, model, exist_ok=True)
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[config.model_type] = model.__name__
    AutoConfig.register(NLUTaggerConfig.model_type, NLUTaggerConfig, exist_ok=True)
    AutoModel.register(NLUTaggerConfig, NLUTagger, exist_ok=True)
