"""Text interface of a harness model: its tokens, its generation settings, and the costs of continuations."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from itertools import islice
from typing import Any, TypeVar

from leakage_tasks.canaries.alphabets import load_tokenizer
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import OptionError, SpaceError, TargetError
from leakage_tasks.core.log import first_line, log
from leakage_tasks.harness.api import LM
from leakage_tasks.harness.generation import request
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.attack_coroutine import submit
from leakage_tasks.targets.batching import Capacity
from leakage_tasks.targets.harness.faults import class_names, forward_faults, gives_no_likelihoods
from leakage_tasks.targets.harness.float32_sums import float32_sums
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig

Answer = TypeVar("Answer")

REMEDY = "name the model's tokenizer with --metadata tokenizer=NAME (folder or hub name)"
EXTRAS: dict[str, dict[str, Any]] = {
    "HFLM": {"top_k": 0},
    "VLLM": {"top_k": -1},
    "SGLangLM": {"top_k": -1},
    "SGLANGGENERATEAPI": {"top_k": -1},
    "OpenAICompletionsAPI": {"seed": None},
    "OpenAIChatCompletion": {"seed": None},
    "LocalCompletionsAPI": {"seed": None, "top_k": -1},
    "TemplateAPI": {"seed": None},
}
"""Extra generation settings for a model class; by name, since importing the class may need a missing package.

``top_k`` is the class' value for keeping every token; without it, a server uses the model's generation_config. The API
models send an equal ``seed`` with every request, and so would get equal answers; None removes it for requests that are
sent together. Requests that are sent one by one each have their own seed.
"""
SEEDED = frozenset({"VLLM"})
"""Model classes that accept a seed for each request without splitting their batches."""
CANNOT_SAMPLE = {
    "GGUFLM": "always decodes greedily and removes white space around its output",
    "TextSynthLM": "always decodes greedily",
}
"""Model classes that cannot be sampled from, with the reason."""
DECODED_ALONE = frozenset({"HFLM"})
"""Model classes that decode the generated tokens without the tokens before them."""
ASSUMED_BATCH = 64
"""Assumed number of requests in a batch of a model that chooses its batch size."""


def check_decoding(lm: Any, scheme: DecodingConfig) -> None:
    """Raise OptionError for a scheme that text does not allow, TargetError for a model that cannot be sampled from."""
    name = class_names(lm)[0]
    if scheme.decoding == "beam":
        raise OptionError(
            f"decoding=beam needs next-token probabilities, but {name} reads and writes text: use decoding=sample or "
            "greedy, or a causal model of --model hf"
        )
    for kind in class_names(lm):
        if scheme.decoding == "sample" and kind in CANNOT_SAMPLE:
            raise TargetError(f"{name} {CANNOT_SAMPLE[kind]}: serve the model for --model local-completions, or use hf")


def generation_settings(lm: Any, scheme: DecodingConfig, length: int, uniform: float) -> dict[str, Any]:
    """Return the settings of a ``generate_until`` request for ``length`` tokens.

    ``uniform`` in [0, 1) determines the seed of models that accept one. ``until`` is empty: the harness adds the end of
    text for most models, and this cannot be avoided.
    """
    extras = next((EXTRAS[kind] for kind in class_names(lm) if kind in EXTRAS), {})
    if scheme.decoding == "greedy":
        seed = {"seed": None} if "seed" in extras else {}
        return {"until": [], "max_gen_toks": length, "do_sample": False, "temperature": 0.0, **seed}
    settings = {
        "until": [],
        "max_gen_toks": length,
        "do_sample": True,
        "temperature": scheme.temperature,
        "top_p": scheme.top_p,
        **extras,
    }
    if scheme.top_k:
        settings["top_k"] = scheme.top_k
    if SEEDED.intersection(class_names(lm)):
        settings["seed"] = int(uniform * (1 << 53))
    elif "seed" in extras and _one_by_one(lm):
        settings["seed"] = int(uniform * (1 << 31))
    return settings


def requests_at_once(lm: Any) -> int:
    """Return the number of requests that a model answers at a time, or an assumed number if the model chooses its batch
    size."""
    batch_size, concurrent = str(getattr(lm, "batch_size", 1)), getattr(lm, "_concurrent", 1)
    batch = int(batch_size) if batch_size.isdecimal() else ASSUMED_BATCH
    return max(1, batch) * (concurrent if isinstance(concurrent, int) and concurrent > 0 else 1)


def submit_batched(
    lm: Any, kind: Hashable, call: Callable[[list[Any]], Sequence[Answer]], requests: Any
) -> list[Answer]:
    """Return the answers of ``call`` to ``requests``, in one call with other attacks' requests of equal ``kind``."""

    def many(several: Sequence[list[Any]]) -> list[list[Answer]]:
        with forward_faults(lm), float32_sums(lm):
            answers = iter(call([item for part in several for item in part]))
        return [list(islice(answers, len(part))) for part in several]

    capacity = Capacity.of_whole_texts(requests_at_once(lm))
    return submit((kind, id(lm)), many, list(requests), len(requests), capacity)


def _one_by_one(lm: Any) -> bool:
    """Return True if an API model sends requests one by one; requests of different settings never share a call."""
    return (getattr(lm, "_concurrent", None), getattr(lm, "_batch_size", None)) == (1, 1)


class TextTokens:
    """A tokenizer of `transformers`, of `tiktoken`, or of a server (``encode`` and ``decode`` of one text).

    ``vocabulary`` is the number of its ids, or None if it is not stated; ``special`` are ids that represent no text,
    such as the end of text. Raises TargetError for any other object.
    """

    def __init__(self, tokenizer: Any, end: int | None = None) -> None:
        self.tokenizer = tokenizer
        self._ordinary = hasattr(tokenizer, "encode_ordinary")
        self._many = callable(tokenizer) and hasattr(tokenizer, "decode")
        if not (self._ordinary or self._many or (hasattr(tokenizer, "encode") and hasattr(tokenizer, "decode"))):
            raise TargetError(f"the model's tokenizer is a {type(tokenizer).__name__}, which cannot be used: {REMEDY}")
        size = getattr(tokenizer, "n_vocab", None) if self._ordinary else None
        self.vocabulary: int | None = len(tokenizer) if self._many else size
        self.special = frozenset(getattr(tokenizer, "all_special_ids", ())) | ({end} if end is not None else set())

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each text, without special tokens."""
        if not texts:  # some tokenizers of `transformers` fail on an empty list
            return []
        if self._ordinary:
            return [list(self.tokenizer.encode_ordinary(text)) for text in texts]
        if self._many:
            return [list(ids) for ids in self.tokenizer(list(texts), add_special_tokens=False)["input_ids"]]
        return [list(self.tokenizer.encode(text)) for text in texts]

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """Return the text of each row, with special tokens and all spaces."""
        options = {"skip_special_tokens": False, "clean_up_tokenization_spaces": False} if self._many else {}
        return [self.tokenizer.decode([int(token) for token in row], **options) for row in rows]


def text_tokens(lm: Any, tokenizer: Any = None) -> TextTokens:
    """Return the given tokenizer (a name or an object), or else the model's own.

    Raises OptionError for a name that cannot be loaded, TargetError for a model that has no usable tokenizer.
    """
    if isinstance(tokenizer, str):
        try:
            tokenizer = load_tokenizer(tokenizer)
        except SpaceError as error:
            raise OptionError(str(error)) from None
    chosen = tokenizer if tokenizer is not None else _attribute_or_none(lm, "tokenizer")
    if chosen is None:
        raise TargetError(f"{type(lm).__name__} does not report its tokenizer: {REMEDY}")
    end = _attribute_or_none(lm, "eot_token_id")
    return TextTokens(chosen, end if isinstance(end, int) else getattr(chosen, "eot_token", None))


def _attribute_or_none(lm: Any, name: str) -> Any:
    """Return an attribute of a model, or None if it is missing or raises an error."""
    try:
        return getattr(lm, name, None)
    except Exception:  # some models load their tokenizer, or request it from a server, on access
        return None


class HarnessTexts:
    """A harness model's ``generate_until`` and ``loglikelihood``, each with all requests in one call."""

    def __init__(self, lm: LM) -> None:
        self._lm = lm
        self._name = class_names(lm)[0]

    def continuations(self, requests: Sequence[tuple[str, dict[str, Any]]]) -> list[str]:
        """Return a continuation for each text and its settings; equal requests are separate samples."""
        return [answer or "" for answer in self._answers("generate_until", requests)]

    def sample(self, texts: Sequence[str], uniforms: FloatArray, scheme: DecodingConfig, length: int) -> list[str]:
        """Return a continuation of each text by ``scheme``, of up to ``length`` tokens.

        ``uniforms`` ``[texts]`` in [0, 1) determine the seeds of models that accept one. Raises OptionError for beam
        search, and TargetError for a model that cannot be sampled from.
        """
        check_decoding(self._lm, scheme)
        settings = [generation_settings(self._lm, scheme, length, float(uniform)) for uniform in uniforms]
        return self.continuations(list(zip(texts, settings, strict=True)))

    def scores(self, text: str) -> bool:
        """Return True if the model gives log-likelihoods. Raises ForwardPassError and other errors unchanged."""
        try:
            with forward_faults(self._lm):
                self._lm.loglikelihood([request("loglikelihood", {}, ("", text), 0)])
        except Exception as error:
            if not gives_no_likelihoods(self._lm, error):
                raise
            reason = ": ".join(dict.fromkeys((type(error).__name__, first_line(error))))
            log.warning("leakage: %s gives no log-likelihoods (%s): it can only generate text", self._name, reason)
            return False
        return True

    def bits(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the cost in bits of each continuation after its context. Raises TargetError if one is not finite.

        The harness moves white space at a context's end to the continuation. Its cost is requested too and subtracted.
        """
        parts = [_parts(*pair) for pair in pairs]
        wanted = dict.fromkeys(pair for both in parts for pair in both if pair[1])
        answers = dict(zip(wanted, self._answers("loglikelihood", list(wanted)), strict=True))
        bits = {pair: -float(answer[0]) / LN2 for pair, answer in answers.items()}
        if not all(map(math.isfinite, bits.values())):
            raise TargetError(f"{self._name} gave a log-likelihood that is not finite: check the model or its server")
        return [max(bits[whole] - bits.get(space, 0.0), 0.0) for whole, space in parts]

    def _answers(self, kind: Any, arguments: Sequence[tuple]) -> list[Any]:
        # An API model raises an error for an empty list of requests.
        requests = [request(kind, {}, args, index) for index, args in enumerate(arguments)]
        with forward_faults(self._lm), float32_sums(self._lm):
            return list(getattr(self._lm, kind)(requests)) if requests else []


def _parts(context: str, continuation: str) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return two pairs: the pair with the context's final white space moved to the continuation, and that white space
    alone."""
    trimmed = context.rstrip()
    space = context[len(trimmed) :]
    return (trimmed, space + continuation), (trimmed, space)
