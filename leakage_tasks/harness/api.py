"""The harness' classes of models and requests that are equal in all supported versions."""

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM, CacheHook, CachingLM, TemplateLM

__all__ = ["LM", "CacheHook", "CachingLM", "Instance", "TemplateLM"]
