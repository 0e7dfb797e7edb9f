"""Language models of many architectures, two layers each, random but far from uniform, the most used first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ROOM = 64
"""Tokens that every model reads."""
SHAPE: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": ROOM,
}
FEW: dict[str, Any] = {"num_key_value_heads": 2, "head_dim": 8}
"""Fewer heads for keys and values than for queries, as newer models have them."""
EXPERTS: dict[str, Any] = {"num_experts_per_tok": 2, "moe_intermediate_size": 24}
LATENT: dict[str, Any] = {
    "kv_lora_rank": 16,
    "q_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "n_routed_experts": 4,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
    **EXPERTS,
}
STATE: dict[str, Any] = {"state_size": 8, "conv_kernel": 4, "expand": 2}


@dataclass(frozen=True)
class Architecture:
    """A model type of `transformers`, the size of a small one, and the tokenizers that usually come with it."""

    model_type: str
    options: Mapping[str, Any] = field(default_factory=dict)
    usual: tuple[str, ...] = ()


def _of(model_type: str, *usual: str, **options: Any) -> Architecture:
    return Architecture(model_type, options, usual)


CAUSAL: tuple[Architecture, ...] = (
    _of("llama", "byte fallback", "Llama 3", **SHAPE, **FEW),
    _of("qwen2", "single digits", **SHAPE, num_key_value_heads=2),
    _of("qwen3", "single digits", **SHAPE, **FEW),
    _of("mistral", "byte fallback", **SHAPE, **FEW, sliding_window=8),
    _of("gemma", "Gemma", **SHAPE, **FEW),
    _of("gemma2", "Gemma", **SHAPE, **FEW, sliding_window=8, query_pre_attn_scalar=8),
    _of("gemma3_text", "Gemma", **SHAPE, **FEW, sliding_window=8, query_pre_attn_scalar=8),
    _of("gpt2", "digits merged", n_embd=32, n_layer=2, n_head=4, n_positions=ROOM),
    _of("phi", "digits merged", **SHAPE, num_key_value_heads=4),
    _of("phi3", "byte fallback", **SHAPE, num_key_value_heads=2, pad_token_id=0),
    _of("gpt_neox", "digits merged", **SHAPE),
    _of("opt", "adds BOS", **SHAPE, ffn_dim=48, word_embed_proj_dim=32),
    _of("bloom", "digits merged", hidden_size=32, n_layer=2, n_head=4),
    _of("falcon", "digits merged", **SHAPE, num_kv_heads=2, new_decoder_architecture=True),
    _of("mamba", "digits merged", hidden_size=32, num_hidden_layers=2, **STATE),
    _of("mixtral", "byte fallback", **SHAPE, **FEW, num_local_experts=4, num_experts_per_tok=2),
    _of("qwen2_moe", "single digits", **SHAPE, **EXPERTS, num_key_value_heads=2, num_experts=4,
        shared_expert_intermediate_size=24),
    _of("qwen3_moe", "single digits", **SHAPE, **FEW, **EXPERTS, num_experts=4),
    _of("qwen3_next", "single digits", **SHAPE, **FEW, **EXPERTS, num_experts=4, shared_expert_intermediate_size=24,
        layer_types=["linear_attention", "full_attention"], linear_key_head_dim=8, linear_value_head_dim=8,
        linear_num_key_heads=2, linear_num_value_heads=4),
    _of("deepseek_v2", "single digits", **SHAPE, **LATENT),
    _of("deepseek_v3", "single digits", **SHAPE, **LATENT),
    _of("gpt_oss", "Llama 3", **SHAPE, **FEW, num_local_experts=4, num_experts_per_tok=2, sliding_window=8),
    _of("llama4_text", "Llama 3", **SHAPE, **FEW, intermediate_size_mlp=48, num_local_experts=2),
    _of("smollm3", "Llama 3", **SHAPE, num_key_value_heads=2, pad_token_id=0),
    _of("gpt_neo", "digits merged", hidden_size=32, num_layers=2, num_heads=4, max_position_embeddings=ROOM,
        attention_types=[[["global", "local"], 1]], window_size=8),
    _of("gptj", "digits merged", n_embd=32, n_layer=2, n_head=4, n_positions=ROOM, rotary_dim=4),
    _of("codegen", "digits merged", n_embd=32, n_layer=2, n_head=4, n_positions=ROOM, rotary_dim=4),
    _of("gpt_bigcode", "digits merged", n_embd=32, n_layer=2, n_head=4, n_positions=ROOM),
    _of("starcoder2", "single digits", **SHAPE, num_key_value_heads=2, sliding_window=8),
    _of("mpt", "digits merged", d_model=32, n_layers=2, n_heads=4, max_seq_len=ROOM),
    _of("stablelm", "digits merged", **SHAPE, num_key_value_heads=2),
    _of("olmo", "digits merged", **SHAPE, num_key_value_heads=2),
    _of("olmo2", "digits merged", **SHAPE, num_key_value_heads=2),
    _of("olmoe", "digits merged", **SHAPE, num_key_value_heads=2, num_experts=4, num_experts_per_tok=2),
    _of("cohere", "adds BOS", **SHAPE, num_key_value_heads=2),
    _of("cohere2", "adds BOS", **SHAPE, num_key_value_heads=2, sliding_window=8),
    _of("granite", "digits merged", **SHAPE, num_key_value_heads=2),
    _of("glm", "single digits", **SHAPE, **FEW, pad_token_id=0),
    _of("glm4", "single digits", **SHAPE, **FEW, pad_token_id=0),
    _of("exaone4", "digits merged", **SHAPE, num_key_value_heads=2, sliding_window=8),
    _of("nemotron", "Gemma", **SHAPE, **FEW),
    _of("persimmon", "Unigram", **SHAPE),
    _of("helium", "byte fallback", **SHAPE, **FEW),
    _of("biogpt", "ends of words", **SHAPE),
    _of("openai-gpt", "ends of words", n_embd=32, n_layer=2, n_head=4, n_positions=ROOM),
    _of("ctrl", "ends of words", n_embd=32, n_layer=2, n_head=4, n_positions=ROOM, dff=48),
    _of("xglm", "Unigram", d_model=32, num_layers=2, attention_heads=4, ffn_dim=48, max_position_embeddings=ROOM),
    _of("xlnet", "Unigram", d_model=32, n_layer=2, n_head=4, d_inner=48),
    _of("rwkv", "digits merged", hidden_size=32, num_hidden_layers=2, attention_hidden_size=32, context_length=ROOM),
    _of("mamba2", "digits merged", hidden_size=32, num_hidden_layers=2, num_heads=8, head_dim=8, n_groups=1, **STATE,
        chunk_size=8),
    _of("falcon_mamba", "digits merged", hidden_size=32, num_hidden_layers=2, **STATE),
    _of("recurrent_gemma", "Gemma", hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
        lru_width=32, attention_window_size=8),
    _of("jamba", "byte fallback", **SHAPE, num_key_value_heads=2, num_experts=2, attn_layer_period=2,
        attn_layer_offset=1, mamba_d_state=8, use_mamba_kernels=False),
    _of("bamba", "Llama 3", **SHAPE, num_key_value_heads=2, attn_layer_indices=[1], mamba_n_heads=8, mamba_d_head=8,
        mamba_d_state=8, mamba_n_groups=1, mamba_chunk_size=8),
    _of("lfm2", "single digits", **SHAPE, num_key_value_heads=2, layer_types=["conv", "full_attention"]),
)  # fmt: skip

ENCODERS: tuple[Architecture, ...] = (
    _of("bert", "WordPiece", **SHAPE),
    _of("roberta", "digits merged", **SHAPE, pad_token_id=0),
    _of("distilbert", "WordPiece", dim=32, n_layers=2, n_heads=4, hidden_dim=48, max_position_embeddings=ROOM),
    _of("xlm-roberta", "Unigram", **SHAPE, pad_token_id=0),
    _of("deberta-v2", "Unigram", **SHAPE, relative_attention=True, pos_att_type=["c2p", "p2c"]),
    _of("modernbert", "digits merged", **SHAPE),
    _of("electra", "WordPiece", **SHAPE, embedding_size=16),
    _of("albert", "NFKC, lowercase", **SHAPE, embedding_size=16),
    _of("mpnet", "WordPiece", **SHAPE),
    _of("deberta", "digits merged", **SHAPE),
    _of("camembert", "Unigram", **SHAPE, pad_token_id=0),
    _of("ernie", "WordPiece", **SHAPE),
    _of("convbert", "WordPiece", **SHAPE, embedding_size=16, conv_kernel_size=3),
    _of("roformer", "WordPiece", **SHAPE, embedding_size=32),
    _of("squeezebert", "WordPiece", **SHAPE, embedding_size=32, q_groups=1, k_groups=1, v_groups=1,
        post_attention_groups=1, intermediate_groups=1, output_groups=1),
    _of("mobilebert", "WordPiece", **SHAPE, embedding_size=16, intra_bottleneck_size=16, true_hidden_size=16),
    _of("megatron-bert", "WordPiece", **SHAPE),
    _of("fnet", "Unigram", hidden_size=32, intermediate_size=48, num_hidden_layers=2, max_position_embeddings=ROOM),
    _of("funnel", "WordPiece", d_model=32, n_head=4, d_head=8, d_inner=48, block_sizes=[1, 1], num_decoder_layers=1),
    _of("xlm", "ends of words", emb_dim=32, n_layers=2, n_heads=4, max_position_embeddings=ROOM, pad_index=0),
    _of("longformer", "digits merged", **SHAPE, attention_window=8),
    _of("big_bird", "Unigram", **SHAPE, attention_type="original_full"),
    _of("gpt2", "digits merged", n_embd=32, n_layer=2, n_head=4, n_positions=ROOM),
    _of("llama", "byte fallback", **SHAPE, **FEW),
)  # fmt: skip

_BART: dict[str, Any] = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": ROOM,
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
ENCODER_DECODERS: tuple[Architecture, ...] = (
    _of("t5", "Unigram", **_T5),
    _of("bart", "digits merged", **_BART),
    _of("marian", "Unigram", **_BART),
    _of("mbart", "Unigram", **_BART),
    _of("m2m_100", "Unigram", **_BART),
    _of("mt5", "Unigram", **_T5),
    _of("umt5", "Unigram", **_T5),
    _of("pegasus", "Unigram", **_BART),
    _of("blenderbot", "digits merged", **_BART),
    _of("blenderbot-small", "ends of words", **_BART),
    _of("mvp", "digits merged", **_BART),
    _of("plbart", "Unigram", **_BART),
    _of("longt5", "Unigram", **_T5),
    _of("switch_transformers", "Unigram", **_T5, num_experts=2, num_sparse_encoder_layers=1,
        num_sparse_decoder_layers=1),
    _of("led", "digits merged", **{**_BART, "attention_window": 8, "max_encoder_position_embeddings": ROOM,
                                   "max_decoder_position_embeddings": ROOM}),
)  # fmt: skip
