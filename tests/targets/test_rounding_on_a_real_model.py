"""Rounding noise of a real chat model in bfloat16, with and without an adapter, where one is at hand.

The environment variable LEAKAGE_MODEL names the folder of SmolLM2-135M-Instruct, LEAKAGE_DATA that of the adapter.
"""

import math
import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from leakage_tasks.canaries import read_manifest
from leakage_tasks.core.log import warn_once
from leakage_tasks.targets import CausalTarget
from leakage_tasks.targets.causal.requests import Step, extend_all
from leakage_tasks.targets.harness.scorer_proof import prove
from leakage_tasks.targets.rounding import text_rows

MODEL, DATA = os.environ.get("LEAKAGE_MODEL"), os.environ.get("LEAKAGE_DATA")
ADAPTER = Path(DATA or ".") / "smollm2_lora"
NEEDS_ADAPTER = pytest.mark.skipif(not ADAPTER.is_dir(), reason="LEAKAGE_DATA names no folder with smollm2_lora")
KINDS = ["base", pytest.param("adapter", marks=NEEDS_ADAPTER)]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not MODEL, reason="LEAKAGE_MODEL names no pretrained chat model"),
]


@cache
def model(kind, dtype):
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    found = AutoModelForCausalLM.from_pretrained(MODEL, dtype=dtype)
    return (PeftModel.from_pretrained(found, ADAPTER) if kind == "adapter" else found).eval()


@cache
def tokenizer():
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(MODEL)


def target(kind, dtype=torch.bfloat16):
    return CausalTarget(model(kind, dtype), tokenizer(), max_length=1024)


def costs(of, rows):
    with torch.inference_mode():
        return of(input_ids=rows, use_cache=False).logits.float().log_softmax(-1) / -math.log(2)


@pytest.mark.parametrize("kind", KINDS)
def test_the_noise_is_what_bfloat16_does_to_costs_in_float32(kind):
    rows = text_rows(target(kind).plain_rows, 49_152, 1024)
    apart = costs(model(kind, torch.bfloat16), rows) - costs(model(kind, torch.float32), rows)
    assert target(kind).noise.token_bits == pytest.approx(float(apart.square().mean().sqrt()), rel=0.6)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_several_prefixes_share_passes_in_bfloat16(kind):
    found = target(kind)
    columns = np.array(sorted({token for digit in "0123456789" for token in found.encode([digit])[0]}))
    states = [found.start(found.encode([text])[0], columns)[0] for text in ("The booking number is ", "My code: ")]
    zeros, tokens = np.zeros(8, dtype=np.int64), columns[:8]
    extend_all([Step.of_one(found, state[zeros], tokens, columns) for state in states])
    assert found.engine.mixes
    assert found.engine.cached


@NEEDS_ADAPTER
def test_the_chat_audit_of_an_adapter_in_bfloat16_is_not_refused():
    warn_once.cache_clear()
    prove(target("adapter"), read_manifest(ADAPTER / "canaries.jsonl"))
