"""Small models and the slow, direct way of computing what the package computes fast."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from weakref import WeakSet

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from leakage_tasks.canaries import Canary
from leakage_tasks.models.char_tokenizer import char_tokenizer

_UNCHANGED: WeakSet[GPT2LMHeadModel] = WeakSet()
"""Models that all tests share, so that none of them changes one."""
ALPHABET = "abcdefghijklmnopqrstuvwxyzMTxy 0123456789.-:\n"


@lru_cache
def letters() -> PreTrainedTokenizerFast:
    """A tokenizer of single characters."""
    return char_tokenizer(ALPHABET)


@lru_cache
def merging() -> PreTrainedTokenizerFast:
    """A byte-level BPE that merges digits, and digits with the space before them, as GPT-2's does."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    numbers = [f"the pin is {n * 7919 % 10000:04d}, code ab{n % 97}." for n in range(600)]
    tokenizer.train_from_iterator(numbers, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<|endoftext|>", eos_token="<|endoftext|>")


@lru_cache
def tiny_gpt2(tokenizer: Any, seed: int = 0, sharpness: float = 6.0) -> GPT2LMHeadModel:
    """A random two-layer GPT-2 whose next-token distributions are far from uniform."""
    torch.manual_seed(seed)
    config = GPT2Config(vocab_size=len(tokenizer), n_layer=2, n_embd=32, n_head=2, n_positions=64)
    config.bos_token_id = config.eos_token_id = tokenizer.bos_token_id
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        model.transformer.wte.weight.mul_(sharpness)
    _UNCHANGED.add(model)
    return model


def direct_costs(model: Any, tokenizer: Any, texts: Sequence[str]) -> list[float]:
    """Log-perplexity in bits of each text after the BOS token, by `transformers` alone."""
    encoded = tokenizer([*texts], add_special_tokens=False)["input_ids"] if texts else []
    return costs_of_rows(model, [[tokenizer.bos_token_id, *ids] for ids in encoded])


def of_equal_length(*rows: Sequence[Sequence[int]]) -> list[list[int]]:
    """Group the places of rows, or of pairs of rows, by their lengths."""
    places: dict[tuple[int, ...], list[int]] = {}
    for place, each in enumerate(zip(*rows, strict=True)):
        places.setdefault(tuple(map(len, each)), []).append(place)
    return [*places.values()]


def costs_of_rows(model: Any, rows: Sequence[Sequence[int]], given: int = 1) -> list[float]:
    """Bits of each row's tokens after the ``given`` first ones, by `transformers` alone; no row is padded."""
    costs = [math.nan] * len(rows)
    for same_length in of_equal_length(rows):
        for part in (same_length[start : start + 500] for start in range(0, len(same_length), 500)):
            ids = torch.tensor([rows[place] for place in part])
            with torch.no_grad():
                nats = model(ids).logits[:, :-1].double().log_softmax(-1)
            found = nats.gather(-1, ids[:, 1:, None])[:, given - 1 :, 0].sum(1) / -math.log(2)
            for place, cost in zip(part, found.tolist(), strict=True):
                costs[place] = cost
    return costs


def brute_rank(model: Any, tokenizer: Any, canary: Canary) -> tuple[int, list[float]]:
    """Rank of the secret (ties within 1e-4 bits count) and the costs of all fillings, in order of index."""
    space = canary.attack_space
    compute = _costs_of_unchanged if model in _UNCHANGED else direct_costs
    costs = compute(model, tokenizer, tuple(space.fill(filling) for filling in space.enumerate()))
    own = costs[space.index(canary.secret)]
    return sum(cost <= own + 1e-4 for cost in costs), [*costs]


_costs_of_unchanged = lru_cache(maxsize=64)(direct_costs)


_WORDS = "the a cat dog sat on mat red blue green house tree runs fast slow big small number is pin"
WORDS = _WORDS.split()


@lru_cache
def wordpiece() -> Any:
    """A cased WordPiece tokenizer of a few whole words, pieces and digits, with BERT's special tokens."""
    from transformers import BertTokenizerFast

    pieces = [*"0123456789", *(f"##{each}" for each in "0123456789"), "##ing", "##s", ".", ",", ":"]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *pieces]
    return BertTokenizerFast(vocab={token: place for place, token in enumerate(vocabulary)}, do_lower_case=False)


@lru_cache
def tiny_bert(seed: int = 0) -> Any:
    """A random two-layer BERT classifier whose probabilities are far from uniform."""
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(seed)
    labels = ("low", "mid", "high")
    config = BertConfig(
        vocab_size=len(wordpiece()),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=40,
        initializer_range=0.5,
        id2label=dict(enumerate(labels)),
        label2id={label: place for place, label in enumerate(labels)},
        pad_token_id=0,
    )
    return BertForSequenceClassification(config).eval()


def direct_class_losses(model: Any, tokenizer: Any, texts: Sequence[str], label: int) -> list[float]:
    """−log2 P(label | text) of each text, by `transformers` alone; no text is padded."""
    losses = [math.nan] * len(texts)
    for places in of_equal_length(tokenizer([*texts])["input_ids"]):
        with torch.no_grad():
            logits = model(**tokenizer([texts[place] for place in places], return_tensors="pt")).logits.double()
        for place, nats in zip(places, logits.log_softmax(-1)[:, label].tolist(), strict=True):
            losses[place] = -nats / math.log(2)
    return losses
