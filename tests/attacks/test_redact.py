"""Errors about natural canaries hold nothing of them."""

from __future__ import annotations

import logging
import re

import pytest

from leakage_tasks.attacks.redact import HidingLogs, HidingSecrets, without_its_words, without_secret
from leakage_tasks.canaries import Canary
from leakage_tasks.canaries.alphabets import word_list
from leakage_tasks.core.errors import LeakageError, OptionError, SpaceError
from leakage_tasks.core.log import log

TEMPLATE = "the walrus pays {digits:2}-{digits:2} today"
PART = TEMPLATE.removeprefix("the walrus ")
NATURAL = Canary("n", TEMPLATE, tuple("1234"), kind="natural", source="le morse", known=PART)
OTHER = Canary("r", "the walrus pays {digits:2}-{digits:2} today", tuple("1234"))


@pytest.mark.parametrize(
    "message",
    [
        "cannot read 'the walrus pays 12-34 today'",
        "value '1' becomes two tokens",
        "after the walrus pays ",
        "1234",
        "le morse",
        "cannot read pays 12-34 today",
        "cannot read 12-34",
    ],
)
def test_text_and_values_are_masked(message: str) -> None:
    hidden = without_secret(f"{message}: shorten it", NATURAL)
    assert "•" in hidden
    assert hidden.endswith(": shorten it")
    assert not any(word in hidden for word in ("walrus", "'1'", "1234", "12-34", "morse"))
    assert without_secret(message, OTHER) == message


@pytest.mark.parametrize(("template", "shown"), [("{digits:3}", "123"), ("{digits}-{digits}", "1-3")])
def test_a_short_secret_is_masked_where_it_is_quoted(template: str, shown: str) -> None:
    secret = tuple(shown.replace("-", ""))
    hidden = without_secret(f"{shown!r} in 1234 tokens", Canary("s", f"pin {template}", secret, kind="natural"))
    assert hidden == "'•' in 1234 tokens"


@pytest.mark.parametrize("value", ["o'neil", "d'\"arc", "smith", "a\\b"])
def test_a_value_is_masked_however_it_is_quoted(value: str) -> None:
    names = word_list("name", ["o'neil", "d'\"arc", "smith", "a\\b", "jones"])
    natural = Canary("s", "call {name} {name}", (value, "jones"), alphabets={"name": names}, kind="natural")
    for shown in (repr(value), f"'{value}'", f'"{value}"'):
        assert without_secret(f"the model's {shown} of 'O'", natural) == "the model's '•' of 'O'"


def test_a_word_of_a_name_is_masked_without_quotes_too() -> None:
    alphabets = {"name": word_list("name", ["Smithers", "Jonas"])}
    natural = Canary("s", "call {name} now", ("Jonas",), alphabets=alphabets, kind="natural")
    assert without_secret("neither Jonas nor Smithers is a token", natural) == "neither • nor • is a token"


def test_advice_stays_as_it_is() -> None:
    message = "is 80 tokens long, the model reads 64: give the attacker less of it with 'known'"
    assert without_secret(message, NATURAL) == message


def test_an_error_of_ours_keeps_its_kind_and_any_other_its_name() -> None:
    ours = without_its_words(OptionError("budget=1 is too few for 'the walrus pays 12-34 today'"), NATURAL)
    assert type(ours) is OptionError
    assert str(ours) == "budget=1 is too few for '•'"
    other = without_its_words(KeyError("walrus"), NATURAL)
    assert type(other) is LeakageError
    assert "canary 'n': KeyError" in str(other)
    assert "walrus" not in str(other)
    assert isinstance(without_its_words(SpaceError("x"), NATURAL), SpaceError)


def test_an_error_of_a_batch_names_no_natural_canary_as_its_cause() -> None:
    with pytest.raises(LeakageError) as caught, HidingSecrets([OTHER, NATURAL]):
        raise ValueError("cannot read the walrus pays 12-34")
    message = "an attack on 2 canaries, some of them natural: ValueError; its message is hidden"
    assert str(caught.value).startswith(message)
    assert not any(word in str(caught.value) for word in ("walrus", "'n'"))


def test_an_error_of_ours_about_a_batch_is_masked_for_each_natural_canary() -> None:
    second = Canary("m", "a mole owes {digits:2}", tuple("56"), kind="natural")
    with pytest.raises(OptionError) as caught, HidingSecrets([NATURAL, second]):
        raise OptionError("neither 'the walrus pays 12-34 today' nor 'a mole owes 56' fits")
    assert str(caught.value) == "neither '•' nor '•' fits"


@pytest.mark.parametrize("error", [ValueError, OptionError])
def test_errors_of_a_batch_without_natural_canaries_stay_as_they_are(error: type[Exception]) -> None:
    with pytest.raises(error, match="^cannot read the walrus pays 12-34$"), HidingSecrets([OTHER]):
        raise error("cannot read the walrus pays 12-34")


@pytest.mark.parametrize("shift", range(24))
def test_a_cut_message_shows_no_part_of_a_text(shift: int) -> None:
    with pytest.raises(OptionError) as caught, HidingSecrets([NATURAL]):
        raise OptionError("of a … list" + "." * shift + ", the walrus pays 12-34 today" * 200)
    assert not re.search("wal|rus|pays|12-|34|today", str(caught.value))


@pytest.mark.parametrize(("canaries", "hidden"), [([OTHER, NATURAL], True), ([OTHER], False)])
def test_the_log_of_a_harness_model_is_hidden_during_attacks_on_natural_canaries(
    canaries: list[Canary], hidden: bool, caplog: pytest.LogCaptureFixture
) -> None:
    model = logging.getLogger("lm_eval.models.api_models")
    with HidingLogs(canaries):
        try:
            raise ValueError("the walrus pays 12-34 today")
        except ValueError:
            model.error("API request failed with error message: %s", '{"input": "the walrus"}', exc_info=True)
    assert ("walrus" not in caplog.text) is hidden
    assert model.name in caplog.text


def test_a_record_made_of_another_one_can_be_shown() -> None:
    with HidingLogs([NATURAL]):
        made = logging.makeLogRecord({"msg": "three canaries"})
    assert made.getMessage() == "three canaries"


def test_the_log_is_hidden_no_longer_than_the_attacks(caplog: pytest.LogCaptureFixture) -> None:
    with HidingLogs([NATURAL]):
        log.warning("ours is shown")
    logging.getLogger("asyncio").warning("later")
    assert caplog.messages == ["ours is shown", "later"]


def test_former_names_of_the_two_guards_are_accepted():
    from leakage_tasks.attacks import redact

    assert (redact.about, redact.hiding) == (redact.NamingCanary, redact.HidingSecrets)
