"""The tokens that a translation model's decoder begins with, and its source and target languages."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from leakage_tasks.core.errors import TargetError

SHOWN = 8
"""Maximum number of language codes listed in an error."""


@dataclass(frozen=True)
class Languages:
    """Language codes of a run, as the tokenizer spells them (``de``, ``de_DE``, ``deu_Latn``), or None.

    ``source`` is the language of source sentences, ``target`` that of target sentences.
    """

    source: str | None = None
    target: str | None = None


@dataclass(frozen=True)
class Speech:
    """A tokenizer set to a run's languages, and the tokens that the decoder reads before a target sentence.

    ``opening`` are token ids: the start token, then a forced first token, if any; their costs are not counted. It is
    empty for a model without a start token. ``marked`` is True if it contains a forced token or a language code.
    """

    tokenizer: Any
    opening: tuple[int, ...]
    marked: bool
    lacks_language: bool
    """True if the tokenizer has language codes, but the target language is unknown."""

    @property
    def words(self) -> str:
        """The opening's tokens, as the tokenizer spells them."""
        return " ".join(self.tokenizer.convert_ids_to_tokens(list(self.opening)))


def speech(model: Any, tokenizer: Any, languages: Languages) -> Speech:
    """Return the tokens that an encoder-decoder model begins with in these languages, as ``generate`` does.

    The code of a given target language is inserted at the model's usual position: after the start token (M2M100, NLLB,
    mBART-50), or in its place if the start token is itself a code or is missing (mBART). By default the code is
    ``forced_bos_token_id`` of the generation config, else of the config (BART also has this token, but it is not a
    language), else the start token, else the tokenizer's ``tgt_lang``. ``tokenizer`` is not changed; a copy is set to
    the languages.

    Raises TargetError for a code that the tokenizer does not have.
    """
    codes = language_codes(tokenizer)
    for side in ("source", "target"):
        _check(getattr(languages, side), f"{side}_language", codes)
    configs = [model.config, getattr(model, "generation_config", None)]
    start = _token_in_configs("decoder_start_token_id", configs)
    if start is None:
        # T5Gemma begins with its decoder's BOS.
        start = _token_in_configs("bos_token_id", [getattr(model.config, "decoder", None)])
    forced = _token_in_configs("forced_bos_token_id", configs[::-1])
    usual = getattr(tokenizer, "tgt_lang", None) if forced is None and start not in codes.values() else None
    language = codes.get(languages.target or usual or "")
    if language is not None:
        opening = [language] if start is None or start in codes.values() else [start, language]
    else:
        opening = [token for token in (start, forced) if token is not None] if start is not None else []
    marked = len(opening) > 1 or any(token in codes.values() for token in opening)
    spoken = _set_to(tokenizer, languages, opening[-1] if opening else None, codes)
    return Speech(spoken, tuple(opening), marked, bool(codes) and not marked)


def language_codes(tokenizer: Any) -> dict[str, int]:
    """Return a tokenizer's language codes with their token ids; empty for a tokenizer without languages."""
    if not hasattr(tokenizer, "src_lang"):
        return {}
    unknown = tokenizer.unk_token_id
    listed = getattr(tokenizer, "lang_code_to_id", None)
    if listed is None:
        others = {
            getattr(tokenizer, f"{name}_token", None) for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
        }
        names = [name for name in tokenizer.all_special_tokens if name not in others]
        listed = dict(zip(names, tokenizer.convert_tokens_to_ids(names), strict=True))
    return {str(code): int(token) for code, token in listed.items() if token is not None and token != unknown}


def _token_in_configs(name: str, configs: Sequence[Any]) -> int | None:
    """Return the token from the first config that has it."""
    tokens = (getattr(config, name, None) for config in configs)
    return next((int(token) for token in tokens if token is not None), None)


def _check(code: str | None, option: str, codes: dict[str, int]) -> None:
    if code is None or code in codes:
        return
    if not codes:
        raise TargetError(f"{option}={code!r}: the model's tokenizer has no language codes: leave {option} out")
    shown = difflib.get_close_matches(code, codes, SHOWN, 0.5) or sorted(codes)[:SHOWN]
    rest = f" … ({len(codes)} in all)" if len(codes) > len(shown) else ""
    raise TargetError(f"{option}={code!r}: the model's tokenizer has no such language: use {', '.join(shown)}{rest}")


def _set_to(tokenizer: Any, languages: Languages, first: int | None, codes: dict[str, int]) -> Any:
    """Return a copy of a tokenizer set to these languages, or the tokenizer itself if it has no language codes."""
    if not codes:
        return tokenizer
    spoken = copy.deepcopy(tokenizer)
    if languages.source is not None:
        spoken.src_lang = languages.source
    by_token = {token: code for code, token in codes.items()}
    # The tokenizer needs a language to make labels; the text's own tokens do not depend on it.
    spoken.tgt_lang = by_token.get(-1 if first is None else first, spoken.tgt_lang or spoken.src_lang)
    return spoken
