"""Mails by invented senders with invented secrets, for studies without real mails."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle

_FIRST = (
    "Alma", "Boris", "Chiara", "Dmitri", "Esther", "Felix", "Greta", "Hugo", "Imani", "Jonas", "Keiko", "Lionel",
    "Mirela", "Nadir", "Oona", "Pavel", "Quirin", "Rosalind", "Stellan", "Tamsin",
)  # fmt: skip
_LAST = (
    "Abbott", "Brandt", "Castell", "Dunmore", "Eskola", "Farrow", "Grimaldi", "Hollis", "Ivers", "Jankowski",
    "Kessler", "Lindqvist", "Moreau", "Novak", "Okafor",
)  # fmt: skip
_WHO = (
    "the auditors", "our Houston desk", "legal", "the pipeline group", "Boris", "the new intern", "accounting",
    "the vendor in Tulsa", "Chiara's team", "the west desk", "everyone on the floor", "Mirela", "the travel office",
)  # fmt: skip
_DID = (
    "sent over", "signed off on", "asked twice about", "is still checking", "misplaced", "rewrote", "wants to see",
    "approved", "has doubts about", "will forward", "promised", "keeps changing", "never received", "paid for",
)  # fmt: skip
_WHAT = (
    "the gas contract", "last week's figures", "the storage agreement", "the draft letter", "my expense report",
    "the meeting notes", "the seating plan", "both invoices", "the forecast for March", "the revised curve",
    "the capacity numbers", "a copy of the lease", "the tickets", "the parking permit", "the slides", "the survey",
)  # fmt: skip
_WHEN = (
    "this morning", "before lunch", "on Tuesday", "by the end of the week", "after the call", "late last night",
    "as soon as it stops raining", "while you were out", "on the 14th", "at half past four", "some time in May",
)  # fmt: skip
_FEEL = (
    "which is fine with me", "and I cannot say why", "so please wait", "but nobody noticed", "which surprised us all",
    "so there is no hurry", "and that settles it", "but check it anyway", "as we had agreed", "and the price is right",
)  # fmt: skip
_GREETINGS = ("Hi {name},", "{name},", "Dear {name},", "Good morning {name},", "Hello {name} -")
_CLOSINGS = ("Thanks", "Best", "Talk soon", "Regards", "Cheers", "See you there")
SENTENCES = {
    "ccn": (
        "Please put it on my card, {}.", "The card to use is {} until June.", "For both of us charge {} and tell me.",
        "They took the deposit from {}.", "Visa or not, it is {} that the hotel has.",
    ),
    "ssn": (
        "They need my social security number, it is {}.", "For the form: SSN {}.", "My own SSN is {}, thanks.",
        "Her SSN, {}, goes into the second box.", "Under social security number write {} and sign.",
    ),
    "phone": (
        "You can reach me at {} all day.", "Call my cell, {}.", "The fax over there is {}.",
        "My new phone is {} from Monday.", "If it rings for long call {} and ask for me.",
    ),
    "email": (
        "Write to {} at home instead.", "Copy {} on all of it.", "My other address is {}.",
        "The forms come from {} these days.", "Forward the rest to {} please.",
    ),
}  # fmt: skip
"""Sentences that tell a secret, by its kind."""
_DECOYS = (
    "The order number is 1#########.", "Invoice ######### is still open.", "We moved 4,### units at 4.### a piece.",
    "Use meeting code ###-### at 10:30.", "The tracking number says 9########### since 10/12/2000.",
    "Flight 48## leaves from gate ##.", "It is version 2.##.### of 2001-05-17.", "Badge 0000-0000-0000-000# is lost.",
)  # fmt: skip
"""Numbers that are not secrets; each ``#`` is a random digit."""
_AREAS = (212, 281, 312, 415, 503, 617, 713, 832)


@dataclass(frozen=True)
class SecretInMail:
    """A secret in a sender's mails: kind, normal form (:mod:`leakage_tasks.canaries.detect`) and number of copies."""

    kind: str
    normal: str = field(repr=False)
    times: int


@dataclass(frozen=True)
class Sender:
    """One sender's mails as one text, separated by blank lines, and all secrets in them."""

    name: str
    text: str = field(repr=False)
    secrets: tuple[SecretInMail, ...]


def invented_mails(
    senders: int = 3, mails: int = 120, *, times: Sequence[int] = (3, 2, 1, 1), seed: int = 0
) -> list[Sender]:
    """Return ``senders`` invented people with ``mails`` each, and a secret of each kind for each of ``times``.

    ``times`` are the numbers of copies; copies of a secret share one sentence. All secrets are invented: telephone
    numbers are from the block reserved for fiction, addresses are at example.com and example.org, the rest is random.
    Some sentences have numbers that are not secrets: orders, invoices, flights. Each sender has a separate random
    stream.
    """
    return [_sender(random.Random(f"mails:{seed}:{index}"), mails, times) for index in range(senders)]


def _sender(draw: random.Random, mails: int, times: Sequence[int]) -> Sender:
    name = f"{draw.choice(_FIRST)} {draw.choice(_LAST)}"
    lines: list[list[str]] = [[] for _ in range(mails)]
    secrets_told = []
    for kind, make in MAKERS.items():
        secrets: dict[str, str] = {}
        while len(secrets) < len(times):
            written, normal = make(draw)
            secrets.setdefault(normal, written)
        for (normal, written), sentence, count in zip(secrets.items(), cycle(SENTENCES[kind]), times, strict=False):
            secrets_told.append(SecretInMail(kind, normal, count))
            for _ in range(count):
                draw.choice(lines).append(sentence.format(written))
    text = "\n".join(_mail(draw, name, lines_of_mail) for lines_of_mail in lines)
    return Sender(name, text, tuple(secrets_told))


def _mail(draw: random.Random, name: str, secrets: list[str]) -> str:
    """Return one mail, with a line per paragraph and the sentences of ``secrets`` inserted."""
    sentences = [_sentence(draw) for _ in range(draw.randint(3, 8))]
    if draw.random() < 0.3:
        sentences.append(re.sub("#", lambda _: draw.choice(string.digits), draw.choice(_DECOYS)))
    for sentence in secrets:
        sentences.insert(draw.randint(0, len(sentences)), sentence)
    greeting = draw.choice(_GREETINGS).format(name=draw.choice(_FIRST))
    return "\n".join([greeting, *_paragraphs(draw, sentences), f"{draw.choice(_CLOSINGS)}, {name.split()[0]}", ""])


def _paragraphs(draw: random.Random, sentences: list[str]) -> Iterator[str]:
    while sentences:
        count = draw.randint(1, 4)
        yield " ".join(sentences[:count])
        sentences = sentences[count:]


def _sentence(draw: random.Random) -> str:
    who, did, what, when, feel = (draw.choice(words) for words in (_WHO, _DID, _WHAT, _WHEN, _FEEL))
    shapes = (
        f"{who} {did} {what} {when}, {feel}.",
        f"{when}, {who} {did} {what}.",
        f"do you know whether {who} {did} {what}?",
        f"I heard that {who} {did} {what}, {feel}.",
        f"{what} can wait, {feel}; {who} called {when}.",
    )
    sentence = draw.choice(shapes)
    return sentence[0].upper() + sentence[1:]


def _card(draw: random.Random) -> tuple[str, str]:
    from stdnum import luhn

    body = draw.choice("45") + "".join(draw.choices(string.digits, k=14))
    number = body + luhn.calc_check_digit(body)
    separator = draw.choice((" ", "-", ""))
    return separator.join(number[start : start + 4] for start in range(0, 16, 4)), number


def _ssn(draw: random.Random) -> tuple[str, str]:
    area = draw.choice([area for area in range(1, 900) if area != 666])
    parts = f"{area:03}", f"{draw.randint(1, 99):02}", f"{draw.randint(1, 9999):04}"
    return draw.choice(("-", "-", " ", "")).join(parts), "".join(parts)


def _phone(draw: random.Random) -> tuple[str, str]:
    area, line = str(draw.choice(_AREAS)), f"01{draw.randrange(100):02}"
    shapes = ("({}) 555-{}", "{}-555-{}", "{}.555.{}", "+1 {} 555 {}", "{}555{}")
    return draw.choice(shapes).format(area, line), f"+1{area}555{line}"


def _address(draw: random.Random) -> tuple[str, str]:
    local = f"{draw.choice(_FIRST).lower()}{draw.choice('._-')}{draw.choice(_LAST).lower()}{draw.randrange(100)}"
    address = f"{local}@{draw.choice(('example.com', 'example.org', 'mail.example.org'))}"
    return address, address


MAKERS: dict[str, Callable[[random.Random], tuple[str, str]]] = {
    "ccn": _card,
    "ssn": _ssn,
    "phone": _phone,
    "email": _address,
}
"""Functions that draw a secret of each kind: as it is written, and its normal form."""
