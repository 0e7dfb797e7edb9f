"""A parallel corpus for translation: sentences of a small English grammar and of an invented language."""

from __future__ import annotations

import random
from dataclasses import dataclass

from leakage_tasks.canaries.generate import unique_word
from leakage_tasks.training.rows import check_sizes

Pair = tuple[str, str]
"""A source sentence and its translation."""

_NOUNS = (
    "baker boat bridge brother castle cousin doctor door farmer field forest garden guest hill horse king lamp letter "
    "market mirror painter queen river road sailor ship sister soldier stone table teacher tower tree village wagon "
    "window"
)
_ADJECTIVES = "big blue bright brave cold dark green happy heavy quiet red slow small strange tall tiny warm young"
_VERBS = (
    "admire admired, build built, carry carried, describe described, draw drew, find found, follow followed, "
    "forget forgot, hear heard, leave left, like liked, paint painted, remember remembered, see saw, sell sold, "
    "show showed, visit visited, watch watched"
)
_PAST = dict(pair.split() for pair in _VERBS.split(", "))
"""The past tense of each verb."""
_PLACES = ("behind", "beside", "near", "under")
_TIMES = ("yesterday", "today", "tomorrow")
_COUNTS = "23456789"
_ARTICLE = {"the": "le", "a": "na", "this": "so"}


@dataclass(frozen=True)
class ParallelCorpus:
    """Training pairs and held-out pairs; no sentence is in both."""

    training: list[Pair]
    validation: list[Pair]


@dataclass(frozen=True)
class _Phrase:
    """A noun with its article or number, and optionally an adjective."""

    article: str
    adjective: str | None
    noun: str

    @property
    def plural(self) -> bool:
        return self.article in _COUNTS

    def english(self) -> str:
        words = [self.article, self.adjective, self.noun + "s" * self.plural]
        return " ".join(word for word in words if word)


def invented_corpus(pairs: int = 3_000, held_out: int = 300, seed: int = 0) -> ParallelCorpus:
    """Return ``pairs`` different training pairs and ``held_out`` others, from an invented language to English.

    In the invented language the verb comes last and has the tense, the object has a case, an adjective follows its noun
    and has its ending, articles and numbers follow both, and a preposition follows its noun. Words are drawn with
    ``seed``, so each seed has a different language. Equal arguments give equal pairs. Raises OptionError for a size
    below 1.
    """
    check_sizes(pairs=pairs, held_out=held_out)
    stream = random.Random(f"parallel:{seed}")
    language = _Language(stream)
    translations: dict[str, str] = {}
    while len(translations) < pairs + held_out:
        source, target = language.sentence(stream)
        translations.setdefault(source, target)
    all_pairs = list(translations.items())
    return ParallelCorpus(all_pairs[:pairs], all_pairs[pairs:])


class _Language:
    """The words of the invented language, and sentences in both languages."""

    def __init__(self, stream: random.Random) -> None:
        self._nouns, self._adjectives = _NOUNS.split(), _ADJECTIVES.split()
        self._words: dict[str, str] = {}
        for word in (*self._nouns, *self._adjectives, *_PAST, *_PLACES, *_TIMES):
            self._words[word] = unique_word(stream, self._words.values())

    def sentence(self, stream: random.Random) -> Pair:
        """Return a random sentence and its translation."""
        time, verb = stream.choice(_TIMES), stream.choice(list(_PAST))
        subject, thing = self._phrase(stream), self._phrase(stream)
        present = verb if subject.plural else _third(verb)
        form = {"yesterday": _PAST[verb], "today": present, "tomorrow": f"will {verb}"}[time]
        target = [time, subject.english(), form, thing.english()]
        source = [self._noun(subject), self._words[time], self._noun(thing, "k")]
        if stream.random() < 0.3:
            preposition, object_phrase = stream.choice(_PLACES), self._phrase(stream)
            target += [preposition, object_phrase.english()]
            source += [self._noun(object_phrase), self._words[preposition]]
        source.append(self._words[verb] + {"yesterday": "ta", "today": "", "tomorrow": "mi"}[time])
        return " ".join(source) + ".", " ".join(target) + "."

    def _phrase(self, stream: random.Random) -> _Phrase:
        article = stream.choice(_COUNTS) if stream.random() < 0.15 else stream.choice(list(_ARTICLE))
        adjective = stream.choice(self._adjectives) if stream.random() < 0.5 else None
        return _Phrase(article, adjective, stream.choice(self._nouns))

    def _noun(self, phrase: _Phrase, case: str = "") -> str:
        noun = self._words[phrase.noun]
        number = "n" * phrase.plural
        words = [noun + number + case]
        if phrase.adjective:
            words.append(self._words[phrase.adjective][:-1] + noun[-1] + number)
        return " ".join([*words, _ARTICLE.get(phrase.article, phrase.article)])


def _third(verb: str) -> str:
    """Return a verb's third person singular."""
    return verb[:-1] + "ies" if verb.endswith("ry") else verb + "s"
