"""What an attack found out about one canary: a plain record everything downstream is computed from."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict, get_args

from leakage_tasks.core.former_names import current_attack
from leakage_tasks.core.inputs import parse_json
from leakage_tasks.core.old_names import accept_old_names

GUESSES = 10
"""The most guesses a finding keeps."""
Extra = dict[str, Any]
"""What one attack tells and no other: numbers, words and lists of them, by name."""
Method = Literal["exact", "estimated", "sampled", "extrapolated", "lower_bound", "banded"]
BANDED: Literal["banded"] = "banded"
"""The method of ranks of which only the band is told that they are in."""
TrainingExposure = Literal["", "context", "absent"]
"""How a planted canary was read in training where a look at its data says so: not in the loss but before what is in it,
or not at all; empty where it is in the loss or nobody looked."""
CONTEXT = 0
"""The tier of canaries that were read in the context only; that of others is their number of copies."""
EXTRAPOLATED: Literal["extrapolated"] = "extrapolated"
"""The method of exposures that are read off a fitted distribution, and their name in ``Finding.extra``."""
JSON_NAMES = {"settings_hash": "settings"}
"""Fields of findings that have another name in JSON."""
FIT = (EXTRAPOLATED, "ks", "p_value", "draws", "rejected")
"""What ``Finding.extra`` then says: bits, statistic, p and number of fillings of the fit; whether it is rejected."""


@dataclass(frozen=True)
class Guess:
    """A filling the attack offers, with its score in bits (the lower, the likelier)."""

    filling: tuple[str, ...]
    text: str
    score: float


class AttackResult(TypedDict, total=False):
    """What an attack found out about one canary: those fields of its :class:`Finding` that it tells."""

    guesses: tuple[Guess, ...]
    proven: int
    correct: tuple[bool, ...]
    place: int | None
    rank: float
    rank_low: float
    rank_high: float
    method: Method
    log_perplexity: float
    model_calls: int
    extra: Extra


@accept_old_names(settings="settings_hash")
@dataclass(frozen=True)
class Finding:
    """One attack on one canary.

    ``rank`` counts from 1 and comes by ``method``, with a 95 % interval ``rank_low``..``rank_high`` unless
    exact; for ``lower_bound`` the rank is the interval's upper end, so that exposure is a lower bound. An
    ``extrapolated`` exposure is ``extra["extrapolated"]``, which may exceed log2|R|; the rank is |R|·2^−exposure, or 1.
    A ``banded`` rank is the geometric mean of its band's, whose ends are the interval. ``log2_size`` is log2|R|.
    ``correct`` marks the right slots of the best guess. ``proven`` is how many of the leading guesses are certain to be
    the best of R. ``log_perplexity`` is what the canary's text costs in bits, of a masked language model its
    pseudo-log-perplexity. ``model_calls`` counts sequences scored. ``access`` says
    what of the model the attack takes, ``supporting`` how many copies of supporting canaries were planted with it,
    ``family`` what the canary was made to resemble, ``near`` how many near copies it has beside the exact ones.
    ``noise_bits`` is the rounding noise of ``log_perplexity`` as a standard deviation, None in float32. Where it is not
    None, intervals of ranks include it, and an exact rank that rounding may move has an interval too.
    ``coarse`` ones are as :func:`attacks.coarse.coarsened` leaves them; what they do not tell is None.

    A search has ``extra["nodes"]``: nodes of the tree of partial fillings whose children it priced, one priced twice
    counted twice. Where whole texts are scored each is a path of its own, and the nodes are the texts.
    """

    canary: str
    attack: str
    planted: bool
    repetitions: int
    kind: str
    log2_size: float
    guesses: tuple[Guess, ...] = ()
    proven: int = 0
    correct: tuple[bool, ...] | None = None
    place: int | None = None
    rank: float | None = None
    rank_low: float | None = None
    rank_high: float | None = None
    method: Method | None = None
    log_perplexity: float | None = None
    model_calls: int | None = 0
    seconds: float | None = 0.0
    manifest: str = ""
    settings_hash: str = ""
    access: str = ""
    supporting: int = 0
    coarse: bool = False
    reading: TrainingExposure = ""
    family: str = ""
    near: int = 0
    noise_bits: float | None = None
    extra: Extra = field(default_factory=dict)

    @property
    def tier(self) -> int | None:
        """Which planted ones it is compared with: all copies, near ones too, or :data:`CONTEXT`; None if never read."""
        return {"": self.repetitions + self.near, "context": CONTEXT}.get(self.reading)

    @property
    def exposure(self) -> float | None:
        """log2|R| − log2 rank, in bits (The Secret Sharer, Definition 3); None without a rank.

        Where extrapolated, what the fitted distribution gives, without an upper bound (section 4.3).
        """
        if self.method == EXTRAPOLATED:
            return float(self.extra[EXTRAPOLATED])
        return None if self.rank is None else self.log2_size - math.log2(self.rank)

    @property
    def exposure_ends(self) -> tuple[float, float] | None:
        """The least and the most that the exposure may be, in bits, where only the rank's band is told."""
        if not self.coarse or self.rank_low is None or self.rank_high is None:
            return None
        return self.log2_size - math.log2(self.rank_high), self.log2_size - math.log2(self.rank_low)

    def to_json(self) -> str:
        """The finding as strict JSON, one line, with its exposure for those who read it."""
        data = {**json_fields(self), "exposure": self.exposure}
        for name in ("reading", "family", "near", "noise_bits"):
            if not data[name]:
                del data[name]
        return json.dumps(data, allow_nan=False, ensure_ascii=False)


def json_fields(record: Any) -> dict[str, Any]:
    """Return the fields of a finding by their names in JSON, which stay the same when a field is renamed."""
    return {JSON_NAMES.get(name, name): value for name, value in dataclasses.asdict(record).items()}


def finding_from_json(text: str) -> Finding:
    """Inverse of :meth:`Finding.to_json`. Raises ValueError, KeyError or TypeError for what is no finding."""
    data = parse_json(text)
    data.pop("exposure")
    _check(data)
    data["attack"] = current_attack(data["attack"])
    data["guesses"] = tuple(Guess(tuple(guess["filling"]), guess["text"], guess["score"]) for guess in data["guesses"])
    if data["correct"] is not None:
        data["correct"] = tuple(data["correct"])
    return Finding(**data)


_METHODS = (None, *get_args(Method))
_TRAINING_EXPOSURES = get_args(TrainingExposure)
_NEVER_NONE = frozenset(("log2_size", "repetitions", "score", "proven", "supporting", "near", *FIT))
_LEAST = {"log2_size": 0, "repetitions": 0, "model_calls": 0, "rank": 1, "rank_low": 1, "rank_high": 1, "place": 1}
_LEAST_OF_FIT = dict.fromkeys(FIT[:-1], 0)
_NUMBERS = {**_LEAST, "log_perplexity": -math.inf, "seconds": -math.inf}
LARGEST = 1e150
"""More than any number of a finding is; sums of squares of such numbers are still numbers."""


def _check(data: dict[str, Any]) -> None:
    """Raise ValueError for a field of another type, or a number that cannot be."""
    for name in ("canary", "attack", "kind", "manifest", "settings", "family"):
        if not isinstance(data.get(name, "") if name == "family" else data[name], str):
            raise ValueError(f"{name} is no text")
    _check_truth("coarse is", data.get("coarse", False))
    if data.get("reading", "") not in _TRAINING_EXPOSURES:
        raise ValueError("reading is none that is known")
    if data["method"] not in _METHODS:
        raise ValueError("method is none that is known")
    _check_truth("planted is", data["planted"])
    for mark in data["correct"] or ():
        _check_truth("correct holds what is", mark)
    if not isinstance(data.get("extra", {}), dict):
        raise ValueError("extra is no object")
    for name, least in _NUMBERS.items():
        value = data[name]
        # Of the many findings of a large run nearly every number is such a one.
        if type(value) is not float or not least <= value <= LARGEST or value < -LARGEST:
            _check_number(name, value, least)
    # Findings of earlier versions lack some.
    for name in ("proven", "supporting", "near"):
        _check_number(name, data.get(name, 0), -math.inf)
    _check_number("noise_bits", data.get("noise_bits"), 0)
    for guess in data["guesses"]:
        _check_number("score", guess["score"], -math.inf)
    if data["method"] == EXTRAPOLATED:
        _check_truth(f"{FIT[-1]} is", data["extra"][FIT[-1]])
        for name, least in _LEAST_OF_FIT.items():
            _check_number(name, data["extra"][name], least)


def _check_truth(what: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"{what} neither true nor false")


def _check_number(name: str, value: Any, least: float) -> None:
    if value is None and name not in _NEVER_NONE:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
        raise ValueError(f"{name} is no number")
    if value < least:
        raise ValueError(f"{name} is below {least}")


def grade_guesses(guesses: Sequence[Guess], secret: tuple[str, ...]) -> AttackResult:
    """The fields of a finding that compare its guesses with the secret."""
    if not guesses:
        return {"guesses": (), "correct": (False,) * len(secret)}
    best = guesses[0].filling
    place = next((n for n, guess in enumerate(guesses, 1) if guess.filling == secret), None)
    right = tuple(left == true for left, true in zip(best, secret, strict=True))
    return {"guesses": tuple(guesses), "correct": right, "place": place}


def best_guesses(guesses: Iterable[Guess]) -> list[Guess]:
    """The ten of the lowest scores; equal ones by their fillings."""
    return sorted(guesses, key=lambda guess: (guess.score, guess.filling))[:GUESSES]
