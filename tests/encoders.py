"""Small encoders of every architecture, with tokenizers that have a mask, and classifiers made from them."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AlbertConfig,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    BertConfig,
    DebertaV2Config,
    DistilBertConfig,
    ElectraConfig,
    ModernBertConfig,
    MPNetConfig,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    XLMRobertaConfig,
)

from leakage_tasks.harness.api import Instance
from leakage_tasks.harness.generation import request

WORDS = (
    *("river", "stone", "cloud", "apple", "house", "green", "light", "seven"),
    *("table", "voice", "money", "paper", "train", "horse", "winter"),
)
_WORDS = (*WORDS, "the", "pin", "is", "of", ".", ",", ":")
VOCABULARY = 96
SHAPE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 40,
    "initializer_range": 0.5,
}
_DISTIL = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24, "max_position_embeddings": 40}
_ENDS = {"bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3, "pad_token_id": 0}
CONFIGS: dict[str, PreTrainedConfig] = {
    "bert": BertConfig(**SHAPE),
    "roberta": RobertaConfig(**SHAPE, pad_token_id=0),
    "distilbert": DistilBertConfig(vocab_size=VOCABULARY, initializer_range=0.5, **_DISTIL),
    "electra": ElectraConfig(**SHAPE, embedding_size=8),
    "modernbert": ModernBertConfig(**SHAPE, **_ENDS, initializer_cutoff_factor=2.0),
    "albert": AlbertConfig(**SHAPE, embedding_size=8),
    "deberta-v2": DebertaV2Config(**SHAPE, relative_attention=True, pos_att_type=["c2p", "p2c"]),
    "xlm-roberta": XLMRobertaConfig(**SHAPE, pad_token_id=0),
    "mpnet": MPNetConfig(**SHAPE, pad_token_id=0),
}


@lru_cache
def wordpiece() -> PreTrainedTokenizerFast:
    """A WordPiece tokenizer as BERT's: :data:`WORDS` are one token each, other words are spelled."""
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    return wordpiece_of([*_WORDS, *letters, *(f"##{one}" for one in letters)], normalizers.BertNormalizer())


@lru_cache
def digits_wordpiece(merged: tuple[str, ...] = ()) -> PreTrainedTokenizerFast:
    """A WordPiece tokenizer that spells numbers, as "4 ##7", but for those that are ``merged`` into one token."""
    digits = [str(digit) for digit in range(10)]
    return wordpiece_of([*_WORDS, *digits, *(f"##{digit}" for digit in digits), *merged])


def wordpiece_of(pieces: Sequence[str], normalizer: Any = None, **options: Any) -> PreTrainedTokenizerFast:
    """A WordPiece tokenizer of these pieces, with BERT's special tokens before them."""
    special = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    vocabulary = {token: place for place, token in enumerate([*special.values(), *pieces])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", None, [("[CLS]", 2), ("[SEP]", 3)])
    named = {f"{name}_token": token for name, token in special.items()}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **named, **options)


@lru_cache
def byte_level() -> PreTrainedTokenizerFast:
    """A byte-level BPE as RoBERTa's: a word is one token with the space before it, the mask swallows that space."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([f"the pin is {word} of {word}." for word in WORDS] * 4, trainer)
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A </s>", None, [("<s>", 0), ("</s>", 2)])
    made = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="<pad>"
    )
    made.add_special_tokens({"mask_token": AddedToken("<mask>", lstrip=True)})
    return made


def save_base(folder: Path, config: PreTrainedConfig | None = None, tokenizer: Any = None, seed: int = 0) -> Path:
    """A random masked language model in ``folder`` with a tokenizer; no parameter is at the value it starts from."""
    torch.manual_seed(seed)
    model = AutoModelForMaskedLM.from_config(copy.deepcopy(config or CONFIGS["bert"]), trust_remote_code=False)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    (tokenizer or wordpiece()).save_pretrained(folder)
    return folder


def classifier_of(base: Path, labels: int = 3, tuned: bool = True, seed: int = 1) -> PreTrainedModel:
    """A classifier that starts from ``base``; ``tuned`` moves all of its parameters, as fine-tuning would."""
    torch.manual_seed(seed)
    model = AutoModelForSequenceClassification.from_pretrained(base, num_labels=labels, trust_remote_code=False).eval()
    if tuned:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def save_classifier(folder: Path, base: Path, **options: Any) -> Path:
    """The classifier of :func:`classifier_of` in ``folder``, with the base model's tokenizer."""
    classifier_of(base, **options).save_pretrained(folder)
    PreTrainedTokenizerFast.from_pretrained(base, trust_remote_code=False).save_pretrained(folder)
    return folder


def pseudo_nats(model: Any, tokenizer: Any, ids: Sequence[int], places: Iterable[int]) -> tuple[float, bool]:
    """Pseudo-log-likelihood in nats of the tokens at ``places``, one forward pass each by `transformers` alone; and
    True if each of them is the likeliest."""
    total, greedy = 0.0, True
    for place in places:
        masked = torch.tensor([[*ids[:place], tokenizer.mask_token_id, *ids[place + 1 :]]])
        with torch.no_grad():
            row = model(masked).logits[0, place].double().log_softmax(-1)
        total += float(row[ids[place]])
        greedy = greedy and int(row.argmax()) == ids[place]
    return total, greedy


def continuation_nats(model: Any, tokenizer: Any, context: str, continuation: str) -> tuple[float, bool]:
    """The same of the tokens that a continuation adds to a context."""
    ids = tokenizer(context + continuation)["input_ids"]
    start = 1 + len(tokenizer(context, add_special_tokens=False)["input_ids"])
    return pseudo_nats(model, tokenizer, ids, range(start, len(ids) - 1))


def pseudo_bits(model: Any, tokenizer: Any, text: str) -> float:
    """Pseudo-log-perplexity of a text in bits."""
    return -continuation_nats(model, tokenizer, "", text)[0] / math.log(2)


def requests(kind: Any, *arguments: tuple) -> list[Instance]:
    """Requests of the harness with these arguments."""
    return [request(kind, {}, one, place) for place, one in enumerate(arguments)]


def pseudo_bits_of(model: Any, tokenizer: Any, texts: Sequence[str]) -> list[float]:
    """The same of many texts, with one forward pass for each place in those of one length."""
    rows = [tokenizer(text)["input_ids"] for text in texts]
    totals = torch.zeros(len(rows), dtype=torch.double)
    for length in set(map(len, rows)):
        here = [number for number, row in enumerate(rows) if len(row) == length]
        ids = torch.tensor([rows[number] for number in here])
        for place in range(1, length - 1):
            masked = ids.clone()
            masked[:, place] = tokenizer.mask_token_id
            with torch.no_grad():
                found = model(masked).logits[:, place].double().log_softmax(-1)
            totals[here] -= found.gather(-1, ids[:, place, None])[:, 0]
    return (totals / math.log(2)).tolist()


def masked_costs(model: Any, tokenizer: Any, text: str) -> torch.Tensor:
    """−log2 probabilities over the vocabulary at the first mask of ``text``, by `transformers` alone, float64."""
    batch = tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        logits = model(**{name: batch[name] for name in ("input_ids", "attention_mask")}).logits[0].double()
    place = batch["input_ids"][0].tolist().index(tokenizer.mask_token_id)
    return -logits[place].log_softmax(-1) / torch.log(torch.tensor(2.0, dtype=torch.float64))
