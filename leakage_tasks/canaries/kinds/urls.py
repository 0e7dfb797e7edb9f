"""Short links and video ids, whose alphabets and lengths are public.

A YouTube id is a number of 64 bits in 11 characters of base64url, so its last character has 4 bits; ids are uniform
(Zhou et al., "Counting YouTube videos via random prefix sampling", IMC 2011).
"""

from __future__ import annotations

from collections.abc import Mapping

from leakage_tasks.canaries.alphabets import Alphabet
from leakage_tasks.canaries.kinds.detector import BASE62, BASE64URL, Detector, after

_LAST = (Alphabet("last", tuple("AEIMQUYcgkosw048")),)
_VIDEO = r"(?P<base>[0-9A-Za-z_\-]{10})(?P<last>[AEIMQUYcgkosw048])"
_END = r"(?![A-Za-z0-9_\-/])"


def _is_random(text: str) -> bool:
    """Return False for a link that may be a word, which its owner chose: it has only lower-case letters or digits."""
    name = text.rpartition("/")[2]
    return any(character.isupper() for character in name) and any(character.islower() for character in name)


URLS: Mapping[str, Detector] = {
    "youtube": Detector(
        (
            after("youtu.be/", _VIDEO, end=_END),
            after("youtube.com/watch?v=", _VIDEO, end=_END),
            after("www.youtube.com/watch?v=", _VIDEO, end=_END),
        ),
        lambda text: text[-11:],
        "identifiers",
        "low",
        alphabets={"base": BASE64URL, "last": _LAST},
        uniform=True,
        needs=("youtu",),
    ),
    "short_url": Detector(
        (
            after("bit.ly/", r"[1-4](?P<base>[0-9A-Za-z]{6})", end=_END),
            after("goo.gl/", r"(?P<base>[0-9A-Za-z]{6})", end=_END),
            after("t.co/", r"(?P<base>[0-9A-Za-z]{10})", end=_END),
        ),
        str,
        "identifiers",
        "low",
        _is_random,
        {"base": BASE62},
        needs=("bit.ly/", "goo.gl/", "t.co/"),
    ),
}
"""Short links of bit.ly, goo.gl and t.co, and videos of YouTube."""
