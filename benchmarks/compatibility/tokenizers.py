"""Small tokenizers of every kind that language models come with, trained in a moment on a text made up here."""

from __future__ import annotations

import copy
import json
import math
import random
from collections import Counter
from collections.abc import Callable
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
    """Sentences with numbers in them, so that tokenizers which may merge digits do."""
    draw = random.Random(0)
    numbers = ("".join(draw.choices("0123456789", [9, 8, 7, 3, 3, 2, 2, 1, 1, 1], k=4)) for _ in range(800))
    return tuple(f"the {draw.choice(WORDS)} {draw.choice(WORDS)} is {number}. {number[:2]}-x" for number in numbers)


def _byte_level(split: Any = None, **options: Any) -> Tokenizer:
    """Byte-level BPE; ``split`` comes before the bytes, GPT-2's own rule if there is none."""
    made = Tokenizer(models.BPE(**options))
    own = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split is None)
    made.pre_tokenizer = own if split is None else pre_tokenizers.Sequence([split, own])
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
    """Special tokens around every text, as ``template`` puts them."""
    named = [(token, made.token_to_id(token)) for token in template.split() if token != "$A"]
    made.post_processor = processors.TemplateProcessing(template, None, named)
    return made


def _wrapped(made: Tokenizer, **tokens: str) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=made, **{f"{name}_token": each for name, each in tokens.items()})


_ENDS = {"bos": BOS, "eos": EOS, "unk": UNK, "pad": PAD}


def digits_merged() -> PreTrainedTokenizerFast:
    """GPT-2's: byte-level BPE that merges digits with each other and with the space before them."""
    return _wrapped(_byte_level(), bos=EOS, eos=EOS, unk=EOS)


def single_digits() -> PreTrainedTokenizerFast:
    """Qwen's: byte-level BPE, each digit a token."""
    return _wrapped(_byte_level(pre_tokenizers.Digits(individual_digits=True)), eos=EOS, pad=PAD)


def llama_3() -> PreTrainedTokenizerFast:
    """Llama 3's: up to three digits together, whole words taken before merges, BOS before every text."""
    split = pre_tokenizers.Split(Regex(LLAMA_3), "isolated")
    return _wrapped(_around(_byte_level(split, ignore_merges=True), f"{BOS} $A"), bos=BOS, eos=EOS)


def byte_fallback() -> PreTrainedTokenizerFast:
    """Llama 2's: BPE over a whole text with ▁ for spaces, bytes for unknown characters, digits apart, BOS first."""
    made = _with_bytes(_whole_text_merges())
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return _wrapped(_around(made, f"{BOS} $A"), **_ENDS)


def gemma() -> PreTrainedTokenizerFast:
    """Gemma's: as Llama 2's, but without a space put before a text."""
    made = _with_bytes(_whole_text_merges())
    made.normalizer = normalizers.Replace(" ", "▁")
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return _wrapped(_around(made, f"{BOS} $A"), **_ENDS)


def _whole_text_merges() -> Tokenizer:
    """BPE whose merges know ▁ and keep digits apart."""
    made = Tokenizer(models.BPE(unk_token=UNK))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(), pre_tokenizers.Digits(individual_digits=True)]
    )
    made.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=180, show_progress=False))
    return made


def _with_bytes(trained: Tokenizer) -> Tokenizer:
    """The same merges over special tokens, 256 byte tokens and what was trained, with byte fallback."""
    learnt = json.loads(trained.to_str())["model"]
    pieces = sorted(learnt["vocab"], key=learnt["vocab"].__getitem__)
    tokens = [*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    merges = [tuple(merge) for merge in learnt["merges"]]
    vocabulary = {token: place for place, token in enumerate(tokens)}
    made = Tokenizer(models.BPE(vocabulary, merges, unk_token=UNK, byte_fallback=True, fuse_unk=True))
    made.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    return made


def unigram() -> PreTrainedTokenizerFast:
    """T5's: a unigram model, ▁ for spaces, EOS after every text."""
    return _wrapped(_around(_unigram(), f"$A {EOS}"), eos=EOS, unk=UNK, pad=PAD)


def nfkc_lowercase() -> PreTrainedTokenizerFast:
    """A unigram model that makes characters compatible and lower case before it reads them."""
    made = _unigram(normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()]))
    return _wrapped(made, **_ENDS)


def _unigram(normalizer: Any = None) -> Tokenizer:
    """Pieces of up to six characters as likely as they are frequent; its trainer would not give the same ones twice."""
    words = [f"▁{word}" for word in " ".join(corpus()).split()]
    if normalizer is not None:
        words = [normalizer.normalize_str(word) for word in words]
    spans = ((start, start + length) for start in range(2) for length in range(1, 7))
    counts = Counter(word[start:end] for start, end in spans for word in words if end <= len(word))
    counts.update(character for word in words for character in word)
    kept = sorted(counts, key=lambda piece: (len(piece) > 1, -counts[piece], piece))[:150]
    pieces = [(token, 0.0) for token in SPECIAL] + [(piece, math.log(counts[piece] / len(words))) for piece in kept]
    made = Tokenizer(models.Unigram(pieces, unk_id=SPECIAL.index(UNK)))
    if normalizer is not None:
        made.normalizer = normalizer
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    made.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    return made


_BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def wordpiece() -> PreTrainedTokenizerFast:
    """BERT's: whole words and ## pieces, [CLS] and [SEP] around every text, which are BOS and EOS as well."""
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=False)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    learnt = sorted({*WORDS, *"".join(corpus()).replace(" ", ""), "-", "."})
    pieces = [*learnt, *(f"##{each}" for each in learnt if len(each) == 1)]
    made.model = models.WordPiece({token: place for place, token in enumerate([*_BERT, *pieces])}, unk_token="[UNK]")
    around = _around(made, "[CLS] $A [SEP]")
    special = {"cls": "[CLS]", "sep": "[SEP]", "bos": "[CLS]", "eos": "[SEP]"}
    return _wrapped(around, unk="[UNK]", pad="[PAD]", mask="[MASK]", **special)


def characters() -> PreTrainedTokenizerFast:
    """Each character a token."""
    alphabet = [*SPECIAL, *sorted(set("".join(corpus())))]
    made = Tokenizer(models.WordLevel({token: place for place, token in enumerate(alphabet)}, unk_token=UNK))
    made.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    made.decoder = decoders.Fuse()
    return _wrapped(made, **_ENDS)


def ends_of_words() -> PreTrainedTokenizerFast:
    """The first GPT's: BPE that marks where a word ends."""
    # Last letters stand apart while it is trained: with a suffix the trainer would not give the same merges twice.
    marked = [f"{word[:-1]}{chr(_LAST + ord(word[-1]))}" for word in " ".join(corpus()).replace(".", " .").split()]
    learner = Tokenizer(models.BPE(unk_token=UNK))
    learner.train_from_iterator(marked, trainers.BpeTrainer(vocab_size=220, show_progress=False))
    learnt = json.loads(learner.to_str())["model"]
    pieces = [_with_suffix(piece) for piece in sorted(learnt["vocab"], key=learnt["vocab"].__getitem__)]
    merges = [(_with_suffix(left), _with_suffix(right)) for left, right in learnt["merges"]]
    vocabulary = {token: place for place, token in enumerate([*SPECIAL, *pieces])}
    made = Tokenizer(models.BPE(vocabulary, merges, unk_token=UNK, end_of_word_suffix="</w>"))
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.BPEDecoder(suffix="</w>")
    made.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    return _wrapped(made, **_ENDS)


_LAST = 0xE000


def _with_suffix(piece: str) -> str:
    return "".join(f"{chr(ord(each) - _LAST)}</w>" if ord(each) >= _LAST else each for each in piece)


def adds_bos() -> PreTrainedTokenizerFast:
    """Byte-level BPE with BOS before every text."""
    return _wrapped(_around(_byte_level(), f"{BOS} $A"), bos=BOS, eos=EOS, pad=PAD)


def adds_eos() -> PreTrainedTokenizerFast:
    """Byte-level BPE with EOS after every text."""
    return _wrapped(_around(_byte_level(), f"$A {EOS}"), bos=BOS, eos=EOS, pad=PAD)


def no_ends() -> PreTrainedTokenizerFast:
    """Byte-level BPE with neither BOS nor EOS."""
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
    """One of :data:`TOKENIZERS`, the caller's own: the harness and classifiers give a tokenizer a padding token."""
    return copy.deepcopy(_made(name))


def description(name: str) -> str:
    """What kind of tokenizer it is, in one line."""
    return (TOKENIZERS[name].__doc__ or "").strip()
