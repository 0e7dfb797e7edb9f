"""Harness models for tests of what goes through text, and direct computations to hold them against."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from lm_eval.api.model import LM
from lm_eval.models.huggingface import HFLM
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from tests.oracles import tiny_gpt2


def hf(tokenizer: Any, model: Any = None, **settings: Any) -> HFLM:
    """The harness' own model around ``model``, or a tiny GPT-2."""
    return HFLM(pretrained=model or tiny_gpt2(tokenizer), tokenizer=tokenizer, batch_size=256, **settings)


class Limited(LM):
    """A harness model that can do nothing; a subclass defines what it can."""

    def loglikelihood(self, requests):
        raise NotImplementedError

    loglikelihood_rolling = generate_until = loglikelihood


class TextOnly(Limited):
    """A harness model that knows nothing but text, as an API's does; ``answer`` makes up continuations, if given.

    ``asked`` keeps what it was asked, by request type.
    """

    def __init__(self, inner: Any, answer: Callable[[str, dict, int], str] | None = None) -> None:
        super().__init__()
        self.inner, self.answer = inner, answer
        self.tokenizer = inner.tokenizer
        self.asked: dict[str, list[tuple]] = {"loglikelihood": [], "generate_until": []}

    def loglikelihood(self, requests):
        self.asked["loglikelihood"] += [request.args for request in requests]
        return self.inner.loglikelihood(requests)

    def generate_until(self, requests):
        self.asked["generate_until"] += [request.args for request in requests]
        if self.answer is None:
            return self.inner.generate_until(requests)
        return [self.answer(*request.args, place) for place, request in enumerate(requests)]


class Doubled(HFLM):
    """Its log-likelihoods are not the model's."""

    def _loglikelihood_tokens(self, requests, **kwargs):
        return [(2 * value, greedy) for value, greedy in super()._loglikelihood_tokens(requests, **kwargs)]


def forgetful(lm: HFLM, monkeypatch: pytest.MonkeyPatch) -> HFLM:
    """``lm`` with a model that ignores its cache."""
    right = lm.model.forward
    monkeypatch.setattr(lm.model, "forward", lambda *told, past_key_values=None, **named: right(*told, **named))
    return lm


class OnlyWrites(TextOnly):
    """Writes, and gives no log-likelihoods."""

    loglikelihood = Limited.loglikelihood


def named(name: str, model: type[LM] = TextOnly) -> Any:
    """``model`` under another class name, by which backends are told apart."""
    return type(name, (model,), {})


def direct_bits(model: Any, prefix: Sequence[int], suffix: Sequence[int]) -> float:
    """−log2 P(suffix | prefix) by one plain forward pass over token ids."""
    ids = torch.tensor([[*prefix, *suffix]])
    with torch.no_grad():
        log_probabilities = model(ids).logits.double().log_softmax(-1)[0]
    places = range(len(prefix), len(prefix) + len(suffix))
    return -sum(float(log_probabilities[place - 1, ids[0, place]]) for place in places) / math.log(2)


def scheme_probabilities(
    model: Any, prefix: Sequence[int], length: int, temperature: float, top_k: int, top_p: float, end: int
) -> dict[tuple[int, ...], float]:
    """Every suffix a sampler can draw, with its probability, by following all it keeps; one ends early at ``end``."""
    found = {(): 1.0}
    for _ in range(length):
        longer: dict[tuple[int, ...], float] = {}
        for path, probability in found.items():
            if end in path:
                longer[path] = probability
                continue
            with torch.no_grad():
                logits = model(torch.tensor([[*prefix, *path]])).logits[0, -1].double() / temperature
            shares = sorted(((float(p), token) for token, p in enumerate(logits.softmax(0))), reverse=True)
            shares = shares[: top_k or None]
            total = sum(share for share, _ in shares)
            before = [0.0, *itertools.accumulate(share / total for share, _ in shares)]
            kept = [(share, token) for (share, token), sum_ in zip(shares, before, strict=False) if sum_ < top_p]
            total = sum(share for share, _ in kept)
            longer |= {(*path, token): probability * share / total for share, token in kept}
        found = longer
    return found


def merged_line_end() -> PreTrainedTokenizerFast:
    """A tokenizer of a, b and line ends that has one token for a and the line end after it."""
    vocabulary = {"<s>": 0, "a": 1, "b": 2, "\n": 3, "a\n": 4}
    backend = Tokenizer(models.BPE(vocabulary, [("a", "\n")]))
    backend.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="<s>", pad_token="<s>")


def marked_words() -> PreTrainedTokenizerFast:
    """A tokenizer of words that carry the space before them and lose it at the beginning of a text, as Llama's do."""
    vocabulary = {"<s>": 0, "<unk>": 1, "▁red": 2, "▁green": 3, "▁blue": 4}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", eos_token="<s>", pad_token="<s>", unk_token="<unk>"
    )
