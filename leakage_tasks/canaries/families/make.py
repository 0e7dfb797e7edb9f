"""The families of canaries: each has its own method to choose the contexts and the values of the slots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from leakage_tasks.canaries.alphabets import Alphabet, load_tokenizer, tokenizer_words
from leakage_tasks.canaries.canary import Canary, Family
from leakage_tasks.canaries.families.corpus import Corpus, Sentence, bare, read_corpus, seeded_rank
from leakage_tasks.canaries.families.samples import sampled_sentences
from leakage_tasks.canaries.generate import stream_of
from leakage_tasks.canaries.spaces import literal
from leakage_tasks.core.errors import OptionError
from leakage_tasks.data import Columns

UNKNOWN = 2
MOST_UNKNOWN = 8
WIDTH = 256
"""Maximum number of values of a slot: with two slots, 65,536 secrets (16 bits)."""
NARROWEST = 16
"""Minimum number of values of a slot."""
TEMPERATURE = 1.0
"""Sampling temperature. It is high: Mitchell et al. (2026, arXiv:2606.10481) sample canaries at 0.8 or more."""


@dataclass(frozen=True)
class FamilyRequest:
    """The options for making canaries of one or several families; see ``leakage canaries --help``."""

    data: Path
    columns: Columns
    count: int
    repetitions: Sequence[int] = (1,)
    controls: int = 0
    unknown: int = UNKNOWN
    tokenizer: str | None = None
    model: str | None = None
    temperature: float = TEMPERATURE
    label: str | None = None
    seed: int = 0
    id_prefix: str = ""


@dataclass(frozen=True)
class _Shape:
    """A canary without its secret: the context, the possible values of each slot, and the text after the slots."""

    context: str
    slots: tuple[tuple[str, ...], ...]
    end: str


def family_canaries(families: Sequence[Family], request: FamilyRequest) -> list[Canary]:
    """Make ``count`` planted canaries and ``controls`` for each of ``families``, from one pass over the data.

    A canary is a context and ``unknown`` secret words, each uniform over a power of two of values (at most 256).
    Controls are made in the same way with other contexts. docs/families.md describes the families. Raises LeakageError.
    """
    _check(families, request)
    number = request.count + request.controls
    sentences = number * len(families)
    corpus = read_corpus(request.data, request.columns, sentences=sentences, unknown=request.unknown, seed=request.seed)
    canaries = []
    for index, family in enumerate(families):
        # Every canary gets its own context: canaries with a shared context would compete.
        part = replace(corpus, sentences=corpus.sentences[index * number : (index + 1) * number])
        canaries += _canaries(family, request, _MAKERS[family](request, part))
    return canaries


def _check(families: Sequence[Family], request: FamilyRequest) -> None:
    if not 1 <= request.unknown <= MOST_UNKNOWN:
        raise OptionError(f"--unknown is {request.unknown}: give 1 to {MOST_UNKNOWN} words")
    for family, option in (("new-token", "tokenizer"), ("high-temperature", "model")):
        if family in families and getattr(request, option) is None:
            raise OptionError(
                f"--family {family} needs --{option}, a folder or hub name: its canaries are made with it"
            )
    if not 0 < request.temperature < 100:
        raise OptionError(f"--temperature is {request.temperature}: give a number above 0, such as {TEMPERATURE}")


def _canaries(family: Family, request: FamilyRequest, shapes: Sequence[_Shape]) -> list[Canary]:
    prefix, made = f"{request.id_prefix}{family}-", []
    for index, shape in enumerate(shapes):
        planted = index < request.count
        name = f"{prefix}canary-{index}" if planted else f"{prefix}control-{index - request.count}"
        stream = stream_of(request.seed, name)
        names = [f"secret_{number}" for number in range(1, len(shape.slots) + 1)]
        slots = " ".join(f"{{{slot}}}" for slot in names)
        canary = Canary(
            id=name,
            template=f"{literal(shape.context)} {slots}{literal(shape.end)}",
            secret=tuple(stream.choice(values) for values in shape.slots),
            repetitions=request.repetitions[index % len(request.repetitions)] if planted else 0,
            planted=planted,
            alphabets={slot: Alphabet(slot, values) for slot, values in zip(names, shape.slots, strict=True)},
            label=request.label,
            family=family,
        )
        made.append(canary)
    return made


def _typical(request: FamilyRequest, corpus: Corpus) -> list[_Shape]:
    """Return sentences of the data whose last words are replaced by other words of the data."""
    values = _width(_others(corpus.words, corpus.sentences), "typical", corpus)
    return [_Shape(sentence.context, (values,) * request.unknown, sentence.end) for sentence in corpus.sentences]


def _high_perplexity(request: FamilyRequest, corpus: Corpus) -> list[_Shape]:
    """Return sequences of uniformly drawn words, as long as sentences of the data."""
    words = corpus.words if request.tokenizer is None else _whole_words(request)
    values, shapes = _width(words, "high-perplexity", corpus), []
    for index, sentence in enumerate(corpus.sentences):
        stream = stream_of(request.seed, f"high-perplexity-context-{index}")
        context = " ".join(stream.choice(words) for _ in sentence.context.split(" "))
        shapes.append(_Shape(context, (values,) * request.unknown, sentence.end))
    return shapes


def _new_token(request: FamilyRequest, corpus: Corpus) -> list[_Shape]:
    """Return sentences of the data that end in tokens that the data do not contain."""
    values = _width(_unused_tokens(request, corpus), "new-token", corpus)
    return [_Shape(sentence.context, (values,) * request.unknown, sentence.end) for sentence in corpus.sentences]


def _bigram(request: FamilyRequest, corpus: Corpus) -> list[_Shape]:
    """Return sentences of the data that end in words which never follow the preceding word in the data."""
    lasts = [bare(sentence.context.rpartition(" ")[2]) for sentence in corpus.sentences]
    words = set(corpus.words)
    followers: dict[str, set[str]] = {}
    for first, second in corpus.neighbours(words | set(lasts), words):
        followers.setdefault(first, set()).add(second)
    width = WIDTH
    while width >= NARROWEST:
        slots = [_unjoined(corpus.words, followers, last, width, request) for last in lasts]
        if all(slots):
            return [
                _Shape(sentence.context, slot, sentence.end)
                for sentence, slot in zip(corpus.sentences, slots, strict=True)
            ]
        width //= 2
    raise _too_few("bigram", corpus)


def _unjoined(
    words: Sequence[str], followers: dict[str, set[str]], last: str, width: int, request: FamilyRequest
) -> tuple[tuple[str, ...], ...]:
    """Return ``width`` words for each slot that never follow a word of the preceding slot (the first slot: ``last``).

    Return an empty tuple if there are too few words.
    """
    before: tuple[str, ...] = (last,)
    slots = []
    for index in range(request.unknown):
        never = set(words).difference(*(followers.get(word, ()) for word in before))
        # Words with few followers leave the most words for the next slot.
        ranked = sorted(
            never, key=lambda word: (len(followers.get(word, ())), seeded_rank(request.seed, f"{last} {index} {word}"))
        )
        if len(ranked) < width:
            return ()
        before = tuple(ranked[:width])
        slots.append(before)
    return tuple(slots)


def _high_temperature(request: FamilyRequest, corpus: Corpus) -> list[_Shape]:
    """Return sentences sampled from a model after beginnings in the data; secret words come from its other samples."""
    sentences = sampled_sentences(
        request.model or "",
        [sentence.context for sentence in corpus.sentences],
        request.temperature,
        request.unknown,
        request.seed,
    )
    words = dict.fromkeys(word for sentence in sentences for word in (*sentence.context.split(" "), *sentence.words))
    others = _others([word for word in words if word.isalpha() and len(word) > 1], sentences)
    values = _width(sorted(others, key=lambda word: seeded_rank(request.seed, word)), "high-temperature", corpus)
    return [_Shape(sentence.context, (values,) * request.unknown, sentence.end) for sentence in sentences]


_MAKERS: dict[Family, Callable[[FamilyRequest, Corpus], list[_Shape]]] = {
    "typical": _typical,
    "high-perplexity": _high_perplexity,
    "new-token": _new_token,
    "bigram": _bigram,
    "high-temperature": _high_temperature,
}


def _others(words: Sequence[str], sentences: Sequence[Sentence]) -> list[str]:
    """Return ``words`` without the words of ``sentences`` that a secret replaces, because the data contain these."""
    replaced = {bare(word) for sentence in sentences for word in sentence.words}
    return [word for word in words if bare(word) not in replaced]


def _width(values: Sequence[str], family: Family, corpus: Corpus) -> tuple[str, ...]:
    """Return the first values: as many as the largest power of two allows, at most 256.

    Raises OptionError for too few values.
    """
    width = min(WIDTH, 1 << len(values).bit_length() - 1) if values else 0
    if width < NARROWEST:
        raise _too_few(family, corpus)
    return tuple(values[:width])


def _too_few(family: Family, corpus: Corpus) -> OptionError:
    what, remedy = {
        "new-token": (
            "leave few or no tokens of the tokenizer unused",
            "add some with tokenizer.add_tokens, train with them and name that tokenizer, or use --family bigram",
        ),
        "bigram": ("have nearly all of their words after one another", "give more text, or a lower --unknown"),
        "high-temperature": ("begin too few samples for a secret's words", "raise --count or --controls"),
    }.get(family, ("hold too few words that occur twice", "give more text"))
    return OptionError(f"--family {family}: {corpus.path} {what}, fewer than {NARROWEST} for a secret: {remedy}")


def _whole_words(request: FamilyRequest) -> list[str]:
    words = tokenizer_words("words", request.tokenizer or "", "whole-words").values
    return sorted(words, key=lambda word: seeded_rank(request.seed, word))


def _unused_tokens(request: FamilyRequest, corpus: Corpus) -> list[str]:
    """Return the texts of tokens that the data do not contain and that encode to themselves after a space."""
    name = request.tokenizer or ""
    tokenizer = load_tokenizer(name)
    used = set(tokenizer.all_special_ids)
    for text in corpus.texts():
        used.update(tokenizer(text, add_special_tokens=False)["input_ids"])
    texts = []
    for token in sorted(set(range(len(tokenizer))) - used):
        text = tokenizer.decode([token]).strip()
        if text and text.isprintable() and " " not in text and "\ufffd" not in text:
            read = tokenizer(f"a {text} {text}", add_special_tokens=False)["input_ids"]
            # A part of a word is encoded to another token if it is a separate word.
            if read[-1] == token and read.count(token) == 2:
                texts.append(text)
    return sorted(dict.fromkeys(texts), key=lambda text: seeded_rank(request.seed, text))
