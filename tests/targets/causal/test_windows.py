"""Which layers of a model have a sliding window, as its configuration says."""

from __future__ import annotations

from typing import Any

import pytest
from transformers import (
    BloomConfig,
    Gemma2Config,
    Gemma3Config,
    Gemma3TextConfig,
    GPT2Config,
    GptOssConfig,
    Llama4TextConfig,
    LlamaConfig,
    MambaConfig,
    MistralConfig,
    Phi3Config,
    Qwen2Config,
)

from leakage_tasks.models.recurrent import CharLSTMConfig
from leakage_tasks.targets.causal.windows import turns_of, windows_of

SHORT = {"num_hidden_layers": 3}


@pytest.mark.parametrize(
    ("config", "windows"),
    [
        (MistralConfig(sliding_window=7, **SHORT), (7, 7, 7)),
        (Phi3Config(sliding_window=9, **SHORT), (9, 9, 9)),
        (Gemma2Config(sliding_window=5, **SHORT), (5, None, 5)),
        (GptOssConfig(sliding_window=6, **SHORT), (6, None, 6)),
        (Gemma3Config(text_config=Gemma3TextConfig(sliding_window=8, num_hidden_layers=6)), (8, 8, 8, 8, 8, None)),
        (Qwen2Config(use_sliding_window=True, sliding_window=4, max_window_layers=1, **SHORT), (None, 4, 4)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_layer_has_its_own(config: Any, windows: tuple[int | None, ...]) -> None:
    assert windows_of(config) == windows


@pytest.mark.parametrize(
    "config",
    [
        GPT2Config(),
        BloomConfig(),
        LlamaConfig(),
        MistralConfig(sliding_window=None),
        Qwen2Config(),
        MambaConfig(),
        CharLSTMConfig(),
        Llama4TextConfig(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_models_have_none(config: Any) -> None:
    """Those that look at all, remember more than keys and values, or look back in chunks."""
    assert windows_of(config) == ()


LONG = {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4, "rope_theta": 1e4}


@pytest.mark.parametrize(
    ("config", "windows", "turns"),
    [
        (GPT2Config(), (), ()),
        (MistralConfig(), (7, None, 7, 3), (3, 7)),
        (
            Phi3Config(
                hidden_size=32,
                num_attention_heads=4,
                rope_parameters=LONG,
                original_max_position_embeddings=50,
                max_position_embeddings=200,
            ),
            (9,),
            (9, 50),
        ),
        (LlamaConfig(rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}), (), (2048,)),
    ],
    ids=["plain", "windows", "longrope", "dynamic"],
)
def test_a_model_reads_otherwise_beyond_its_windows_and_where_rotations_change(
    config: Any, windows: tuple[int | None, ...], turns: tuple[int, ...]
) -> None:
    assert turns_of(config, windows) == turns
