"""Small tokenizers of the kinds that language models use, trained within a second on a generated text."""

from __future__ import annotations

import copy
import json
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import PreTrainedTokenizerFast

PAD, UNK, BOS, EOS = "<pad>", "<unk>", "<s>", "</s>"
SPECIAL = (PAD, UNK, BOS, EOS)
LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_WORDS = "the pin of a house is number code and red Blue river Stone for my Door today die geheime Zahl ist"
WORDS = _WORDS.split()


@lru_cache
def corpus() -> tuple[str, ...]:
    """Return sentences with frequent numbers, so that BPE trainers merge digits if the tokenizer allows it."""
    draw = random.Random(0)
    numbers = ("".join(draw.choices("0123456789", [9, 8, 7, 3, 3, 2, 2, 1, 1, 1], k=4)) for _ in range(800))
    return tuple(f"the {draw.choice(WORDS)} {draw.choice(WORDS)} is {number}. {number[:2]}-x" for number in numbers)


def _byte_level(split: Any = None, **options: Any) -> Tokenizer:
    """Train byte-level BPE; ``split`` replaces GPT-2's rule for splitting a text into words."""
    made = Tokenizer(models.BPE(**options))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split is None)
    made.pre_tokenizer = byte_level if split is None else pre_tokenizers.Sequence([split, byte_level])
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(corpus(), trainer)
    return made


def _around(made: Tokenizer, template: str) -> Tokenizer:
    """Add special tokens around every text, as in ``template``."""
    named = [(token, made.token_to_id(token)) for token in template.split() if token != "$A"]
    made.post_processor = processors.TemplateProcessing(template, None, named)
    return made


def _wrapped(made: Tokenizer, **tokens: str) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=made, **{f"{name}_token": token for name, token in tokens.items()})


_ENDS = {"bos": BOS, "eos": EOS, "unk": UNK, "pad": PAD}


def digits_merged() -> PreTrainedTokenizerFast:
    """Build a tokenizer like GPT-2's: byte-level BPE that merges digits, also with the space before them."""
    return _wrapped(_byte_level(), bos=EOS, eos=EOS, unk=EOS)


def single_digits() -> PreTrainedTokenizerFast:
    """Build a tokenizer like Qwen's: byte-level BPE with one token per digit."""
    return _wrapped(_byte_level(pre_tokenizers.Digits(individual_digits=True)), eos=EOS, pad=PAD)


def llama_3() -> PreTrainedTokenizerFast:
    """Build a tokenizer like Llama 3's: up to three digits per token, whole words before merges, BOS first."""
    split = pre_tokenizers.Split(Regex(LLAMA_3), "isolated")
    return _wrapped(_around(_byte_level(split, ignore_merges=True), f"{BOS} $A"), bos=BOS, eos=EOS)


def byte_fallback() -> PreTrainedTokenizerFast:
    """Build a tokenizer like Llama 2's: BPE over the whole text, ▁ for spaces, byte fallback, one digit per token."""
    made = _with_bytes(_whole_text_merges())
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return _wrapped(_around(made, f"{BOS} $A"), **_ENDS)


def gemma() -> PreTrainedTokenizerFast:
    """Build a tokenizer like Gemma's: like Llama 2's, but without a space before the text."""
    made = _with_bytes(_whole_text_merges())
    made.normalizer = normalizers.Replace(" ", "▁")
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return _wrapped(_around(made, f"{BOS} $A"), **_ENDS)


def _whole_text_merges() -> Tokenizer:
    """Train BPE over whole texts with ▁ for spaces and single digits."""
    made = Tokenizer(models.BPE(unk_token=UNK))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(), pre_tokenizers.Digits(individual_digits=True)]
    )
    made.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=180, show_progress=False))
    return made


def _with_bytes(trained: Tokenizer) -> Tokenizer:
    """Return the trained BPE with special tokens, 256 byte tokens and byte fallback."""
    learnt = json.loads(trained.to_str())["model"]
    pieces = sorted(learnt["vocab"], key=learnt["vocab"].__getitem__)
    tokens = [*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    merges = [tuple(merge) for merge in learnt["merges"]]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    made = Tokenizer(models.BPE(vocabulary, merges, unk_token=UNK, byte_fallback=True, fuse_unk=True))
    made.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    return made


def unigram() -> PreTrainedTokenizerFast:
    """Build a tokenizer like T5's: a unigram model, ▁ for spaces, EOS after every text."""
    return _wrapped(_around(_unigram(), f"$A {EOS}"), eos=EOS, unk=UNK, pad=PAD)


def nfkc_lowercase() -> PreTrainedTokenizerFast:
    """Build a tokenizer with a unigram model after NFKC normalization and lowercasing."""
    made = _unigram(normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()]))
    return _wrapped(made, **_ENDS)


def _unigram(normalizer: Any = None) -> Tokenizer:
    words = [f"▁{word}" for word in " ".join(corpus()).split()]
    if normalizer is not None:
        words = [normalizer.normalize_str(word) for word in words]
    made = Tokenizer(unigram_model(words, SPECIAL))
    if normalizer is not None:
        made.normalizer = normalizer
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    made.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    return made


def unigram_model(words: Sequence[str], special: Sequence[str]) -> models.Unigram:
    """Build a unigram model from the frequencies of pieces of up to six characters; ``special`` contains ``UNK``.

    The trainer of `tokenizers` is not used, because its result differs between runs.
    """
    spans = ((start, start + length) for start in range(2) for length in range(1, 7))
    counts = Counter(word[start:end] for start, end in spans for word in words if end <= len(word))
    counts.update(character for word in words for character in word)
    frequent = sorted(counts, key=lambda piece: (len(piece) > 1, -counts[piece], piece))[:150]
    pieces = [(token, 0.0) for token in special] + [(piece, math.log(counts[piece] / len(words))) for piece in frequent]
    return models.Unigram(pieces, unk_id=special.index(UNK))


_BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def wordpiece() -> PreTrainedTokenizerFast:
    """Build a tokenizer like BERT's: words and ## pieces, with [CLS] and [SEP] around every text as BOS and EOS."""
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=False)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    learnt = sorted({*WORDS, *"".join(corpus()).replace(" ", ""), "-", "."})
    pieces = [*learnt, *(f"##{piece}" for piece in learnt if len(piece) == 1)]
    made.model = models.WordPiece({token: index for index, token in enumerate([*_BERT, *pieces])}, unk_token="[UNK]")
    around = _around(made, "[CLS] $A [SEP]")
    special = {"cls": "[CLS]", "sep": "[SEP]", "bos": "[CLS]", "eos": "[SEP]"}
    return _wrapped(around, unk="[UNK]", pad="[PAD]", mask="[MASK]", **special)


def characters() -> PreTrainedTokenizerFast:
    """Build a tokenizer with one token per character."""
    alphabet = [*SPECIAL, *sorted(set("".join(corpus())))]
    made = Tokenizer(models.WordLevel({token: index for index, token in enumerate(alphabet)}, unk_token=UNK))
    made.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    made.decoder = decoders.Fuse()
    return _wrapped(made, **_ENDS)


def ends_of_words() -> PreTrainedTokenizerFast:
    """Build a tokenizer like the first GPT's: BPE that marks the end of a word."""
    # Last letters are encoded as other characters during training: with a suffix the trainer is not deterministic.
    marked = [f"{word[:-1]}{chr(_LAST + ord(word[-1]))}" for word in " ".join(corpus()).replace(".", " .").split()]
    learner = Tokenizer(models.BPE(unk_token=UNK))
    learner.train_from_iterator(marked, trainers.BpeTrainer(vocab_size=220, show_progress=False))
    learnt = json.loads(learner.to_str())["model"]
    pieces = [_with_suffix(piece) for piece in sorted(learnt["vocab"], key=learnt["vocab"].__getitem__)]
    merges = [(_with_suffix(left), _with_suffix(right)) for left, right in learnt["merges"]]
    vocabulary = {token: index for index, token in enumerate([*SPECIAL, *pieces])}
    made = Tokenizer(models.BPE(vocabulary, merges, unk_token=UNK, end_of_word_suffix="</w>"))
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.BPEDecoder(suffix="</w>")
    made.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    return _wrapped(made, **_ENDS)


_LAST = 0xE000


def _with_suffix(piece: str) -> str:
    return "".join(f"{chr(ord(letter) - _LAST)}</w>" if ord(letter) >= _LAST else letter for letter in piece)


def adds_bos() -> PreTrainedTokenizerFast:
    """Build a tokenizer with byte-level BPE and BOS before every text."""
    return _wrapped(_around(_byte_level(), f"{BOS} $A"), bos=BOS, eos=EOS, pad=PAD)


def adds_eos() -> PreTrainedTokenizerFast:
    """Build a tokenizer with byte-level BPE and EOS after every text."""
    return _wrapped(_around(_byte_level(), f"$A {EOS}"), bos=BOS, eos=EOS, pad=PAD)


def no_ends() -> PreTrainedTokenizerFast:
    """Build a tokenizer with byte-level BPE and neither BOS nor EOS."""
    return _wrapped(_byte_level(), pad=PAD, unk=UNK)


TOKENIZERS: dict[str, Callable[[], PreTrainedTokenizerFast]] = {
    "digits merged": digits_merged,
    "single digits": single_digits,
    "Llama 3": llama_3,
    "byte fallback": byte_fallback,
    "Gemma": gemma,
    "Unigram": unigram,
    "NFKC, lowercase": nfkc_lowercase,
    "WordPiece": wordpiece,
    "characters": characters,
    "ends of words": ends_of_words,
    "adds BOS": adds_bos,
    "adds EOS": adds_eos,
    "no BOS, no EOS": no_ends,
}


@lru_cache
def _made(name: str) -> PreTrainedTokenizerFast:
    return TOKENIZERS[name]()


def tokenizer(name: str) -> PreTrainedTokenizerFast:
    """Return a copy of a tokenizer by its name in :data:`TOKENIZERS`; callers may change it."""
    return copy.deepcopy(_made(name))


def description(name: str) -> str:
    """Return a tokenizer's kind in one line, from the docstring of its builder."""
    return (TOKENIZERS[name].__doc__ or "").strip().removeprefix("Build a tokenizer ")
