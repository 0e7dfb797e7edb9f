"""The harness' class of `transformers` models; importing it loads them."""

from lm_eval.models.huggingface import HFLM

__all__ = ["HFLM"]
