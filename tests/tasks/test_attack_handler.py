"""What a model's fast way is checked on before it attacks."""

from dataclasses import replace

from leakage_tasks.canaries import Canary
from leakage_tasks.tasks.attack_handler import _two_fillings

NATURAL = Canary("n", "the walrus pays with {digits:2}", tuple("12"), kind="natural")
SHORT, LONG = (Canary(text, text + " {digits:2}", tuple("34")) for text in ("pin", "the pin"))


def test_the_longest_canary_that_is_not_natural_is_taken():
    (text, other), private = _two_fillings([NATURAL, SHORT, LONG])
    assert (text, other.startswith("the pin "), private) == ("the pin 34", True, False)


def test_natural_ones_alone_are_private():
    (text, other), private = _two_fillings([NATURAL])
    assert (text.startswith("the walrus pays with "), other.startswith("the walrus pays with "), private) == (True,) * 3


def test_natural_secrets_are_not_in_the_texts_whose_tokens_are_counted():
    secrets = [f"{number:02}" for number in range(100)]
    texts = [_two_fillings([replace(NATURAL, secret=tuple(secret))])[0] for secret in secrets]
    assert texts == texts[:1] * 100
