"""Small configurations of many model architectures, the most used first; most have two layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

LENGTH = 64
"""Maximum number of tokens of every model."""
WORDS = 1024
"""Number of tokens of a second table of embeddings, at least as many as of any tokenizer."""
SHAPE: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": LENGTH,
}
GQA: dict[str, Any] = {"num_key_value_heads": 2, "head_dim": 8}
"""Grouped-query attention: fewer key and value heads than query heads."""
EXPERTS: dict[str, Any] = {"num_experts_per_tok": 2, "moe_intermediate_size": 24}
ROUTED: dict[str, Any] = {"n_routed_experts": 4, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, **EXPERTS}
LATENT: dict[str, Any] = {
    "kv_lora_rank": 16,
    "q_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    **ROUTED,
}
STATE: dict[str, Any] = {"state_size": 8, "conv_kernel": 4, "expand": 2}
MAMBA2: dict[str, Any] = {
    "mamba_n_heads": 8,
    "mamba_d_head": 8,
    "mamba_d_state": 8,
    "mamba_n_groups": 1,
    "mamba_chunk_size": 8,
}
LINEAR: dict[str, Any] = {
    "layer_types": ["linear_attention", "full_attention"],
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
}


@dataclass(frozen=True)
class Architecture:
    """A model type of `transformers`, options for a small model, and the tokenizers that such models usually have."""

    model_type: str
    options: Mapping[str, Any] = field(default_factory=dict)
    usual: tuple[str, ...] = ()


def _arch(model_type: str, *usual: str, **options: Any) -> Architecture:
    return Architecture(model_type, options, usual)


CAUSAL: tuple[Architecture, ...] = (
    _arch("llama", "byte fallback", "Llama 3", **SHAPE, **GQA),
    _arch("qwen2", "single digits", **SHAPE, num_key_value_heads=2),
    _arch("qwen3", "single digits", **SHAPE, **GQA),
    _arch("mistral", "byte fallback", **SHAPE, **GQA, sliding_window=8),
    _arch("gemma", "Gemma", **SHAPE, **GQA),
    _arch("gemma2", "Gemma", **SHAPE, **GQA, sliding_window=8, query_pre_attn_scalar=8),
    _arch("gemma3_text", "Gemma", **SHAPE, **GQA, sliding_window=8, query_pre_attn_scalar=8),
    _arch("gemma3n_text", "Gemma", **{**SHAPE, "num_hidden_layers": 4, "intermediate_size": [48] * 4}, **GQA,
        sliding_window=8, num_kv_shared_layers=2, layer_types=["sliding_attention", "full_attention"] * 2,
        laurel_rank=4, altup_num_inputs=2, activation_sparsity_pattern=[0.0] * 4, hidden_size_per_layer_input=8,
        vocab_size_per_layer_input=WORDS),
    _arch("gemma4_text", "Gemma", **SHAPE, **GQA, sliding_window=8, hidden_size_per_layer_input=8,
        vocab_size_per_layer_input=WORDS, global_head_dim=8),
    _arch("vaultgemma", "Gemma", **SHAPE, **GQA, sliding_window=8, query_pre_attn_scalar=8),
    _arch("gpt2", "digits merged", n_embd=32, n_layer=2, n_head=4, n_positions=LENGTH),
    _arch("phi", "digits merged", **SHAPE, num_key_value_heads=4),
    _arch("phi3", "byte fallback", **SHAPE, num_key_value_heads=2, pad_token_id=0),
    _arch("gpt_neox", "digits merged", **SHAPE),
    _arch("opt", "adds BOS", **SHAPE, ffn_dim=48, word_embed_proj_dim=32),
    _arch("bloom", "digits merged", hidden_size=32, n_layer=2, n_head=4),
    _arch("falcon", "digits merged", **SHAPE, num_kv_heads=2, new_decoder_architecture=True),
    _arch("mamba", "digits merged", hidden_size=32, num_hidden_layers=2, **STATE),
    _arch("mixtral", "byte fallback", **SHAPE, **GQA, num_local_experts=4, num_experts_per_tok=2),
    _arch("qwen2_moe", "single digits", **SHAPE, **EXPERTS, num_key_value_heads=2, num_experts=4,
        shared_expert_intermediate_size=24),
    _arch("qwen3_moe", "single digits", **SHAPE, **GQA, **EXPERTS, num_experts=4),
    _arch("qwen3_next", "single digits", **SHAPE, **GQA, **EXPERTS, **LINEAR, num_experts=4,
        shared_expert_intermediate_size=24),
    _arch("qwen3_5_text", "single digits", **SHAPE, **GQA, **LINEAR),
    _arch("qwen3_5_moe_text", "single digits", **SHAPE, **GQA, **EXPERTS, **LINEAR, num_experts=4,
        shared_expert_intermediate_size=24),
    _arch("deepseek_v2", "single digits", **SHAPE, **LATENT),
    _arch("deepseek_v3", "single digits", **SHAPE, **LATENT),
    _arch("deepseek_v4", "single digits", **SHAPE, **LATENT),
    _arch("gpt_oss", "Llama 3", **SHAPE, **GQA, num_local_experts=4, num_experts_per_tok=2, sliding_window=8),
    _arch("llama4_text", "Llama 3", **SHAPE, **GQA, intermediate_size_mlp=48, num_local_experts=2),
    _arch("smollm3", "Llama 3", **SHAPE, num_key_value_heads=2, pad_token_id=0),
    _arch("gpt_neo", "digits merged", hidden_size=32, num_layers=2, num_heads=4, max_position_embeddings=LENGTH,
        attention_types=[[["global", "local"], 1]], window_size=8),
    _arch("gptj", "digits merged", n_embd=32, n_layer=2, n_head=4, n_positions=LENGTH, rotary_dim=4),
    _arch("codegen", "digits merged", n_embd=32, n_layer=2, n_head=4, n_positions=LENGTH, rotary_dim=4),
    _arch("gpt_bigcode", "digits merged", n_embd=32, n_layer=2, n_head=4, n_positions=LENGTH),
    _arch("starcoder2", "single digits", **SHAPE, num_key_value_heads=2, sliding_window=8),
    _arch("mpt", "digits merged", d_model=32, n_layers=2, n_heads=4, max_seq_len=LENGTH),
    _arch("stablelm", "digits merged", **SHAPE, num_key_value_heads=2),
    _arch("olmo", "digits merged", **SHAPE, num_key_value_heads=2),
    _arch("olmo2", "digits merged", **SHAPE, num_key_value_heads=2),
    _arch("olmo3", "digits merged", **SHAPE, num_key_value_heads=2, sliding_window=8),
    _arch("olmoe", "digits merged", **SHAPE, num_key_value_heads=2, num_experts=4, num_experts_per_tok=2),
    _arch("cohere", "adds BOS", **SHAPE, num_key_value_heads=2),
    _arch("cohere2", "adds BOS", **SHAPE, num_key_value_heads=2, sliding_window=8),
    _arch("granite", "digits merged", **SHAPE, num_key_value_heads=2),
    _arch("glm", "single digits", **SHAPE, **GQA, pad_token_id=0),
    _arch("glm4", "single digits", **SHAPE, **GQA, pad_token_id=0),
    _arch("glm4_moe", "single digits", **SHAPE, **GQA, **ROUTED, pad_token_id=0),
    _arch("ministral3", "byte fallback", **SHAPE, **GQA),
    _arch("apertus", "Llama 3", **SHAPE, num_key_value_heads=2),
    _arch("seed_oss", "single digits", **SHAPE, **GQA),
    _arch("ernie4_5", "byte fallback", **SHAPE, **GQA),
    _arch("hunyuan_v1_dense", "single digits", **SHAPE, **GQA),
    _arch("minimax_m2", "digits merged", **SHAPE, **GQA, num_local_experts=4, num_experts_per_tok=2),
    _arch("exaone4", "digits merged", **SHAPE, num_key_value_heads=2, sliding_window=8),
    _arch("nemotron", "Gemma", **SHAPE, **GQA),
    _arch("persimmon", "Unigram", **SHAPE),
    _arch("helium", "byte fallback", **SHAPE, **GQA),
    _arch("biogpt", "ends of words", **SHAPE),
    _arch("openai-gpt", "ends of words", n_embd=32, n_layer=2, n_head=4, n_positions=LENGTH),
    _arch("ctrl", "ends of words", n_embd=32, n_layer=2, n_head=4, n_positions=LENGTH, dff=48),
    _arch("xglm", "Unigram", d_model=32, num_layers=2, attention_heads=4, ffn_dim=48, max_position_embeddings=LENGTH),
    _arch("xlnet", "Unigram", d_model=32, n_layer=2, n_head=4, d_inner=48),
    _arch("rwkv", "digits merged", hidden_size=32, num_hidden_layers=2, attention_hidden_size=32,
        context_length=LENGTH),
    _arch("mamba2", "digits merged", hidden_size=32, num_hidden_layers=2, num_heads=8, head_dim=8, n_groups=1, **STATE,
        chunk_size=8),
    _arch("falcon_mamba", "digits merged", hidden_size=32, num_hidden_layers=2, **STATE),
    _arch("recurrent_gemma", "Gemma", hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
        lru_width=32, attention_window_size=8),
    _arch("jamba", "byte fallback", **SHAPE, num_key_value_heads=2, num_experts=2, attn_layer_period=2,
        attn_layer_offset=1, mamba_d_state=8, use_mamba_kernels=False),
    _arch("bamba", "Llama 3", **SHAPE, num_key_value_heads=2, attn_layer_indices=[1], **MAMBA2),
    _arch("falcon_h1", "digits merged", **SHAPE, **GQA, **MAMBA2, mamba_d_ssm=64),
    _arch("granitemoehybrid", "digits merged", **SHAPE, **MAMBA2, num_key_value_heads=2, num_local_experts=4,
        num_experts_per_tok=2, shared_intermediate_size=24, layer_types=["mamba", "attention"]),
    _arch("lfm2", "single digits", **SHAPE, num_key_value_heads=2, layer_types=["conv", "full_attention"]),
    _arch("lfm2_moe", "single digits", **SHAPE, **EXPERTS, num_key_value_heads=2, num_experts=4, num_dense_layers=1,
        layer_types=["conv", "full_attention"]),
)  # fmt: skip

ENCODERS: tuple[Architecture, ...] = (
    _arch("bert", "WordPiece", **SHAPE),
    _arch("roberta", "digits merged", **SHAPE, pad_token_id=0),
    _arch("distilbert", "WordPiece", dim=32, n_layers=2, n_heads=4, hidden_dim=48, max_position_embeddings=LENGTH),
    _arch("xlm-roberta", "Unigram", **SHAPE, pad_token_id=0),
    _arch("deberta-v2", "Unigram", **SHAPE, relative_attention=True, pos_att_type=["c2p", "p2c"]),
    _arch("modernbert", "digits merged", **SHAPE),
    _arch("electra", "WordPiece", **SHAPE, embedding_size=16),
    _arch("albert", "NFKC, lowercase", **SHAPE, embedding_size=16),
    _arch("mpnet", "WordPiece", **SHAPE),
    _arch("deberta", "digits merged", **SHAPE),
    _arch("camembert", "Unigram", **SHAPE, pad_token_id=0),
    _arch("ernie", "WordPiece", **SHAPE),
    _arch("convbert", "WordPiece", **SHAPE, embedding_size=16, conv_kernel_size=3),
    _arch("roformer", "WordPiece", **SHAPE, embedding_size=32),
    _arch("squeezebert", "WordPiece", **SHAPE, embedding_size=32, q_groups=1, k_groups=1, v_groups=1,
        post_attention_groups=1, intermediate_groups=1, output_groups=1),
    _arch("mobilebert", "WordPiece", **SHAPE, embedding_size=16, intra_bottleneck_size=16, true_hidden_size=16),
    _arch("megatron-bert", "WordPiece", **SHAPE),
    _arch("fnet", "Unigram", hidden_size=32, intermediate_size=48, num_hidden_layers=2, max_position_embeddings=LENGTH),
    _arch("funnel", "WordPiece", d_model=32, n_head=4, d_head=8, d_inner=48, block_sizes=[1, 1], num_decoder_layers=1),
    _arch("xlm", "ends of words", emb_dim=32, n_layers=2, n_heads=4, max_position_embeddings=LENGTH, pad_index=0),
    _arch("longformer", "digits merged", **SHAPE, attention_window=8),
    _arch("big_bird", "Unigram", **SHAPE, attention_type="original_full"),
    _arch("canine", "characters", **SHAPE, pad_token_id=0),
    _arch("eurobert", "Llama 3", **SHAPE, **GQA),
    _arch("gpt2", "digits merged", n_embd=32, n_layer=2, n_head=4, n_positions=LENGTH),
    _arch("llama", "byte fallback", **SHAPE, **GQA),
    _arch("qwen3", "single digits", **SHAPE, **GQA),
)  # fmt: skip

_BART: dict[str, Any] = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": LENGTH,
    "decoder_start_token_id": 3,
    "forced_bos_token_id": None,
    "pad_token_id": 0,
}
_T5: dict[str, Any] = {
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 0,
}
_T5GEMMA: dict[str, Any] = {"model_type": "t5_gemma_module", "vocab_size": WORDS, "sliding_window": 8, **SHAPE, **GQA}
ENCODER_DECODERS: tuple[Architecture, ...] = (
    _arch("t5", "Unigram", **_T5),
    _arch("bart", "digits merged", **_BART),
    _arch("marian", "Unigram", **_BART),
    _arch("mbart", "Unigram", **_BART),
    _arch("m2m_100", "Unigram", **_BART),
    _arch("mt5", "Unigram", **_T5),
    _arch("umt5", "Unigram", **_T5),
    _arch("t5gemma", "Gemma", encoder=_T5GEMMA, decoder={**_T5GEMMA, "bos_token_id": 1,
        "cross_attention_hidden_size": 32}),
    _arch("pegasus", "Unigram", **_BART),
    _arch("nllb-moe", "Unigram", **_BART, num_experts=2, encoder_sparse_step=1, decoder_sparse_step=1),
    _arch("blenderbot", "digits merged", **_BART),
    _arch("blenderbot-small", "ends of words", **_BART),
    _arch("mvp", "digits merged", **_BART),
    _arch("plbart", "Unigram", **_BART),
    _arch("longt5", "Unigram", **_T5),
    _arch("switch_transformers", "Unigram", **_T5, num_experts=2, num_sparse_encoder_layers=1,
        num_sparse_decoder_layers=1),
    _arch("led", "digits merged", **{**_BART, "attention_window": 8, "max_encoder_position_embeddings": LENGTH,
                                   "max_decoder_position_embeddings": LENGTH}),
)  # fmt: skip
