"""A harness model as a writer of texts, with its form of every prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from leakage_tasks.attacks.access import NEXT_TOKEN, TEXT
from leakage_tasks.attacks.untargeted.attack import Prompt, WritesPrompted
from leakage_tasks.attacks.untargeted.request import EMPTY, PREFIX, TextId
from leakage_tasks.attacks.untargeted.words import ORDINARY
from leakage_tasks.canaries.alphabets import load_tokenizer
from leakage_tasks.canaries.chat import Chat
from leakage_tasks.core.errors import OptionError, SpaceError, TargetError
from leakage_tasks.data.chat import Conversation
from leakage_tasks.harness.api import LM
from leakage_tasks.harness.hf import HFLM
from leakage_tasks.pairs.index.corpus import hash_of_tokenizer
from leakage_tasks.pairs.index.store import CorpusIndex
from leakage_tasks.targets.causal.target import CausalTarget
from leakage_tasks.targets.embedded_tokens import embedded_tokens
from leakage_tasks.targets.harness.chat import template_of
from leakage_tasks.targets.harness.endpoint import takes_messages_alone
from leakage_tasks.targets.harness.writing import TextWriter
from leakage_tasks.targets.suffix.target import CausalSuffixes, causal_suffixes
from leakage_tasks.targets.suffix.writing import CausalWriter
from leakage_tasks.tasks.suffix.suffix_handler import causal_target
from leakage_tasks.tasks.untargeted.options import UntargetedOptions
from leakage_tasks.tasks.untargeted.prompts import corpus_prefix

Writer = tuple[WritesPrompted, list[Prompt], str]
"""A writer, the prompts in its form, and the access to the model that it needs."""


def writer_of(
    lm: LM,
    options: UntargetedOptions,
    texts: Sequence[TextId],
    corpora: tuple[CorpusIndex, CorpusIndex | None],
    chat: Chat | None,
) -> Writer:
    """Return the writer of a model with its prompts: on token ids for a causal ``HFLM``, on text for other models.

    Args:
        lm: The harness model.
        options: The settings of the run.
        texts: The texts to write.
        corpora: The indexes of the corpus and of the controls.
        chat: The chat, if a template is applied.

    Raises:
        OptionError: The index was made with another tokenizer than the model's.
        TargetError: The model cannot write after such prompts.
    """

    def prefix(text: TextId) -> tuple[int, ...]:
        index = corpora[1] if text.unseen else corpora[0]
        assert index is not None
        return corpus_prefix(index, text, options.request, str(options.controls if text.unseen else options.data))

    if isinstance(lm, HFLM) and lm.backend == "causal":
        _check_tokenizer(lm.tokenizer, corpora[0], options, "the model's")
        target = causal_target(lm, [ORDINARY[0], ORDINARY[-1]])
        if target is not None:
            return _on_tokens(lm, target, options, texts, prefix, chat)
    return _on_text(lm, options, texts, prefix, chat, corpora[0])


def _on_tokens(
    lm: Any,
    target: CausalTarget,
    options: UntargetedOptions,
    texts: Sequence[TextId],
    prefix: Callable[[TextId], tuple[int, ...]],
    chat: Chat | None,
) -> Writer:
    # Prompts contain all tokens from the first on, because a chat template writes its own start token.
    start = causal_suffixes(lm, target).sampler.before if chat is None else []
    suffixes = CausalSuffixes(target)

    def given(text: TextId) -> list[int]:
        if text.kind == PREFIX:
            return [*(start if chat is None else _encoded(suffixes, _before(lm, chat, None))), *prefix(text)]
        words = options.texts.of(text, chat is not None)
        if chat is not None:
            return _encoded(suffixes, _before(lm, chat, words))
        if words:
            return [*start, *_encoded(suffixes, words)]
        first = [] if lm.prefix_token_id is None else [lm.prefix_token_id]
        if not (start or first):
            raise TargetError("kinds=empty: the tokenizer has no token that begins a text: leave kinds=empty out")
        return start or first

    prompts = _prompts(options, texts, given, chat)
    embedded_tokens(lm).check([prompt.given for prompt in prompts], "a prompt")
    return CausalWriter(suffixes, _ends(lm)), prompts, NEXT_TOKEN


def _on_text(
    lm: LM,
    options: UntargetedOptions,
    texts: Sequence[TextId],
    prefix: Callable[[TextId], tuple[int, ...]],
    chat: Chat | None,
    corpus: CorpusIndex,
) -> Writer:
    if chat is None and takes_messages_alone(lm):
        raise TargetError(f"{type(lm).__name__} receives only messages: pass --apply_chat_template")
    tokenizer = _tokenizer_for_text(options, corpus)
    writer = TextWriter(lm, tokenizer)

    def given(text: TextId) -> Any:
        words = writer.decode(prefix(text)) if text.kind == PREFIX else options.texts.of(text, chat is not None)
        if chat is not None:
            turns: Conversation = [] if chat.system is None else [{"role": "system", "content": chat.system}]
            template: Any = lm.apply_chat_template
            return template([*turns, {"role": "user", "content": words}], add_generation_prompt=True)
        # Many servers refuse an empty text; the token that begins or ends texts means the same.
        return words if text.kind != EMPTY else tokenizer.bos_token or tokenizer.eos_token or "\n"

    return writer, _prompts(options, texts, given, chat), TEXT


def _prompts(
    options: UntargetedOptions, texts: Sequence[TextId], given: Callable[[TextId], Any], chat: Chat | None
) -> list[Prompt]:
    return [Prompt(text, given(text), options.texts.word(text), begun=chat is None) for text in texts]


def _before(lm: LM, chat: Chat, words: str | None) -> str:
    """Return the text up to the assistant's turn, after a user's turn of ``words`` or, if None, of the default."""
    plain = Chat(system=chat.system, template=chat.template)
    asked = plain if words is None else replace(plain, prompt=words)
    return asked.context(template_of(lm, chat.template)).before


def _encoded(suffixes: CausalSuffixes, text: str) -> list[int]:
    return list(suffixes.encode([text])[0])


def _ends(lm: Any) -> set[int]:
    """Return the tokens that end a text, by the tokenizer and by the model's generation settings."""
    configured = getattr(getattr(lm.model, "generation_config", None), "eos_token_id", None)
    ends = {lm.tokenizer.eos_token_id, *(configured if isinstance(configured, list) else [configured])}
    return {int(token) for token in ends if token is not None}


def _tokenizer_for_text(options: UntargetedOptions, corpus: CorpusIndex) -> Any:
    name = options.tokenizer or corpus.about.tokenizer_name
    try:
        tokenizer = load_tokenizer(name)
    except SpaceError as error:
        raise OptionError(str(error)) from None
    _check_tokenizer(tokenizer, corpus, options, f"tokenizer={name}")
    return tokenizer


def _check_tokenizer(tokenizer: Any, corpus: CorpusIndex, options: UntargetedOptions, whose: str) -> None:
    if hash_of_tokenizer(tokenizer) != corpus.about.tokenizer:
        made = corpus.about.tokenizer_name
        raise OptionError(
            f"{options.data}: its tokens are of the tokenizer {made!r}, which is another than {whose}: make the index "
            "again with 'leakage index' and the model's tokenizer"
        )
