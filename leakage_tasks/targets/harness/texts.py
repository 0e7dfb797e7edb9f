"""What a harness model is asked in text: its tokens, how it goes on by which settings, what a continuation costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from itertools import islice
from typing import Any, TypeVar

from leakage_tasks.canaries.alphabets import load_tokenizer
from leakage_tasks.core.errors import OptionError, SpaceError, TargetError
from leakage_tasks.core.log import first_line, log
from leakage_tasks.harness.api import LM
from leakage_tasks.harness.generation import request
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.harness.faults import forward_faults, gives_no_likelihoods, kinds
from leakage_tasks.targets.scheduler import share_of_whole_texts, submit
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
"""What a class of models must be told besides, by name, since importing it may take a package that is not there.

``top_k`` is how it is told to keep every token: left out, a server takes the one of the model's generation_config.
The API models send the same ``seed`` with every request, and so would get the same answer every time; None undoes that
where requests go together. Where they go one by one, each has its own.
"""
SEEDED = frozenset({"VLLM"})
"""Models that take a seed for each request without answering each by itself for it."""
CUT_OFF = {
    "GGUFLM": "decodes greedily whatever it is asked and trims white space off what it returns",
    "TextSynthLM": "decodes greedily whatever it is asked",
}
"""Models that cannot be drawn from, and why."""
SPOKEN_ALONE = frozenset({"HFLM"})
"""Models that turn what they generate into text without what stands before it."""
CHOSEN = 64
"""Requests that a model which chooses its own batches is taken to answer at a time."""


def check_decoding(lm: Any, scheme: DecodingConfig) -> None:
    """Raise OptionError for a scheme that text does not allow, TargetError for a model that cannot be drawn from."""
    name = kinds(lm)[0]
    if scheme.decoding == "beam":
        raise OptionError(
            f"decoding=beam needs next-token probabilities and {name} takes and gives text: use decoding=sample or "
            "greedy, or --model hf"
        )
    for kind in kinds(lm):
        if scheme.decoding == "sample" and kind in CUT_OFF:
            raise TargetError(f"{name} {CUT_OFF[kind]}: serve the model for --model local-completions, or use hf")


def generation_settings(lm: Any, scheme: DecodingConfig, length: int, uniform: float) -> dict[str, Any]:
    """Settings of one ``generate_until`` request for ``length`` tokens; ``uniform`` in [0, 1) seeds those that can be.

    ``until`` is empty: the harness adds the end of text to it for most models, and there is no way around that.
    """
    extras = next((EXTRAS[kind] for kind in kinds(lm) if kind in EXTRAS), {})
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
    if SEEDED.intersection(kinds(lm)):
        settings["seed"] = int(uniform * (1 << 53))
    elif "seed" in extras and _one_by_one(lm):
        settings["seed"] = int(uniform * (1 << 31))
    return settings


def requests_at_once(lm: Any) -> int:
    """Requests that a model answers at a time: its batches, as many as it has under way; a guess where it chooses."""
    given, concurrent = str(getattr(lm, "batch_size", 1)), getattr(lm, "_concurrent", 1)
    batch = int(given) if given.isdecimal() else CHOSEN
    return max(1, batch) * (concurrent if isinstance(concurrent, int) and concurrent > 0 else 1)


def asked_together(lm: Any, kind: Hashable, call: Callable[[list[Any]], Sequence[Answer]], asked: Any) -> list[Answer]:
    """What ``call`` answers to the requests ``asked``, in one call with those of the ``kind`` that others ask."""

    def many(several: Sequence[list[Any]]) -> list[list[Answer]]:
        with forward_faults(lm):
            found = iter(call([each for own in several for each in own]))
        return [list(islice(found, len(own))) for own in several]

    return submit((kind, id(lm)), many, list(asked), share_of_whole_texts(len(asked), requests_at_once(lm)), len(asked))


def _one_by_one(lm: Any) -> bool:
    """Whether an API's requests go to it one after the other anyway: those of different settings never go together."""
    return (getattr(lm, "_concurrent", None), getattr(lm, "_batch_size", None)) == (1, 1)


class TextTokens:
    """A tokenizer of `transformers`, of `tiktoken`, or one behind a server (``encode`` and ``decode`` of one text).

    ``vocabulary`` is the number of its ids, None where it does not say; ``special`` are ids that are no text, such as
    the one that ends it. Raises TargetError for anything else.
    """

    def __init__(self, tokenizer: Any, end: int | None = None) -> None:
        self._tokenizer = tokenizer
        self._ordinary = hasattr(tokenizer, "encode_ordinary")
        self._many = callable(tokenizer) and hasattr(tokenizer, "decode")
        if not (self._ordinary or self._many or (hasattr(tokenizer, "encode") and hasattr(tokenizer, "decode"))):
            raise TargetError(f"the model's tokenizer is a {type(tokenizer).__name__}, which cannot be used: {REMEDY}")
        size = getattr(tokenizer, "n_vocab", None) if self._ordinary else None
        self.vocabulary: int | None = len(tokenizer) if self._many else size
        self.special = frozenset(getattr(tokenizer, "all_special_ids", ())) | ({end} if end is not None else set())

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokens of each text, none of them special."""
        if not texts:  # which some tokenizers of `transformers` cannot take
            return []
        if self._ordinary:
            return [list(self._tokenizer.encode_ordinary(text)) for text in texts]
        if self._many:
            return [list(ids) for ids in self._tokenizer(list(texts), add_special_tokens=False)["input_ids"]]
        return [list(self._tokenizer.encode(text)) for text in texts]

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """Text of each row, special tokens and all, spaces as they are."""
        kept = {"skip_special_tokens": False, "clean_up_tokenization_spaces": False} if self._many else {}
        return [self._tokenizer.decode([int(token) for token in row], **kept) for row in rows]


def text_tokens(lm: Any, tokenizer: Any = None) -> TextTokens:
    """The tokenizer given, by name or as it is, else the model's own.

    Raises OptionError for a name that cannot be loaded, TargetError for a model that has no usable tokenizer.
    """
    if isinstance(tokenizer, str):
        try:
            tokenizer = load_tokenizer(tokenizer)
        except SpaceError as error:
            raise OptionError(str(error)) from None
    found = tokenizer if tokenizer is not None else _quietly(lm, "tokenizer")
    if found is None:
        raise TargetError(f"{type(lm).__name__} does not say how it makes tokens of text: {REMEDY}")
    end = _quietly(lm, "eot_token_id")
    return TextTokens(found, end if isinstance(end, int) else getattr(found, "eot_token", None))


def _quietly(lm: Any, name: str) -> Any:
    """An attribute of a model; None where there is none, or where having it takes what is not there."""
    try:
        return getattr(lm, name, None)
    except Exception:  # some models load their tokenizer, or ask a server for it, when they are asked
        return None


class HarnessTexts:
    """A harness model's ``generate_until`` and ``loglikelihood``, each asked for everything in one call."""

    def __init__(self, lm: LM) -> None:
        self._lm = lm
        self._name = kinds(lm)[0]

    def continuations(self, asked: Sequence[tuple[str, dict[str, Any]]]) -> list[str]:
        """A continuation for each text and its settings; alike ones are separate draws."""
        return [answer or "" for answer in self._ask("generate_until", asked)]

    def scores(self, text: str) -> bool:
        """Return whether the model gives log-likelihoods. Raises ForwardPassError, and any other error as it is."""
        try:
            with forward_faults(self._lm):
                self._lm.loglikelihood([request("loglikelihood", {}, ("", text), 0)])
        except Exception as error:
            if not gives_no_likelihoods(self._lm, error):
                raise
            why = ": ".join(dict.fromkeys((type(error).__name__, first_line(error))))
            log.warning("leakage: %s gives no log-likelihoods (%s): all that it can do is write", self._name, why)
            return False
        return True

    def bits(self, asked: Sequence[tuple[str, str]]) -> list[float]:
        """Cost in bits of each continuation after its context. Raises TargetError for figures that are none.

        The harness moves white space at a context's end over to the continuation: what that costs is asked, too, and
        comes off again.
        """
        parts = [_parts(*each) for each in asked]
        wanted = dict.fromkeys(each for pair in parts for each in pair if each[1])
        found = dict(zip(wanted, self._ask("loglikelihood", list(wanted)), strict=True))
        bits = {each: -float(answer[0]) / LN2 for each, answer in found.items()}
        if not all(map(math.isfinite, bits.values())):
            raise TargetError(f"{self._name} gave a log-likelihood that is not finite: look at the model or its server")
        return [max(bits[whole] - bits.get(space, 0.0), 0.0) for whole, space in parts]

    def _ask(self, kind: Any, asked: Sequence[tuple]) -> list[Any]:
        # An API's answer to no request at all is an error.
        requests = [request(kind, {}, arguments, index) for index, arguments in enumerate(asked)]
        with forward_faults(self._lm):
            return list(getattr(self._lm, kind)(requests)) if requests else []


def _parts(context: str, continuation: str) -> tuple[tuple[str, str], tuple[str, str]]:
    """A context without the white space at its end, with that and the continuation; the same with that alone."""
    trimmed = context.rstrip()
    space = context[len(trimmed) :]
    return (trimmed, space + continuation), (trimmed, space)
