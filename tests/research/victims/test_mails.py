"""Invented mails: seeded, with exactly the secrets they say, none of them anybody's."""

from __future__ import annotations

import re

import pytest
from stdnum import luhn
from stdnum.us import ssn

from leakage_tasks.research.victims.mails import Sender, invented_mails

TIMES = (4, 2, 1, 1, 1, 1)


@pytest.fixture(scope="module")
def senders() -> list[Sender]:
    return invented_mails(3, 100, times=TIMES, seed=1)


def test_the_same_seed_gives_the_same_mails(senders: list[Sender]) -> None:
    assert invented_mails(3, 100, times=TIMES, seed=1) == senders
    assert invented_mails(1, 100, times=TIMES, seed=1) == senders[:1]
    assert invented_mails(3, 100, times=TIMES, seed=2)[0].text != senders[0].text


def test_each_secret_is_there_as_often_as_told(senders: list[Sender]) -> None:
    for sender in senders:
        digits = re.sub(r"[ .()-]", "", sender.text)
        for told in sender.secrets:
            where = sender.text if told.kind == "email" else digits
            assert where.count(told.normal.removeprefix("+1")) == told.times
        assert [told.times for told in sender.secrets] == [*TIMES] * 4
        assert len({told.normal for told in sender.secrets}) == 4 * len(TIMES)


def test_secrets_are_valid_and_of_what_is_kept_for_fiction(senders: list[Sender]) -> None:
    for told in (told for sender in senders for told in sender.secrets):
        if told.kind == "ccn":
            assert luhn.is_valid(told.normal)
        elif told.kind == "ssn":
            assert ssn.is_valid(told.normal)
        elif told.kind == "phone":
            assert re.fullmatch(r"\+1\d{3}55501\d\d", told.normal)
        else:
            assert re.search(r"@(\w+\.)?example\.(com|org)$", told.normal)


def test_the_text_varies(senders: list[Sender]) -> None:
    sentences = re.findall(r"[A-Z][^.?]*[.?]", " ".join(sender.text for sender in senders))
    assert len(set(sentences)) > 0.8 * len(sentences) > 800
    assert len({sender.name for sender in senders}) == 3


def test_a_sender_does_not_show_secrets_in_a_message(senders: list[Sender]) -> None:
    assert all(told.normal not in repr(senders[0]) for told in senders[0].secrets)
