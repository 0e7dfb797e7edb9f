"""Result of an attack on one canary: a plain record, from which all metrics are computed."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypedDict

from leakage_tasks.core.former_names import accept_former_names, current_attack
from leakage_tasks.core.inputs import parse_json
from leakage_tasks.core.records import Between, read_record

GUESSES = 10
"""Maximum number of guesses that a finding keeps."""
Extra = dict[str, Any]
"""Results that only one attack has: numbers, strings and lists of them, by name."""
Method = Literal["exact", "estimated", "sampled", "extrapolated", "lower_bound", "banded"]
BANDED: Literal["banded"] = "banded"
"""Method of ranks for which only the band is published."""
TrainingExposure = Literal["", "context", "absent"]
"""How the model read a planted canary in training, if a check of the training data found it out: ``context`` if the
canary was not in the loss but preceded text that was, ``absent`` if it was never read. Empty if the canary was in the
loss or the data was not checked."""
CONTEXT = 0
"""The tier of canaries that were read as context only; other canaries' tier is their number of copies."""
EXTRAPOLATED: Literal["extrapolated"] = "extrapolated"
"""Method of exposures that are computed from a fitted distribution, and the key of the exposure in
``Finding.extra``."""
JSON_NAMES = {"settings_hash": "settings"}
"""Fields of findings that have another name in JSON."""
Count = Annotated[int, Between(0)]
Rank = Annotated[float, Between(1)] | None


@dataclass(frozen=True)
class Fit:
    """Entries of ``Finding.extra`` for an extrapolated exposure."""

    extrapolated: Annotated[float, Between(0)]
    """Exposure in bits."""
    ks: Annotated[float, Between(0)]
    """Kolmogorov-Smirnov statistic."""
    p_value: Annotated[float, Between(0)]
    draws: Count
    """Number of fitted fillings."""
    rejected: bool
    """True if the fit is rejected."""


FIT = tuple(entry.name for entry in dataclasses.fields(Fit))


@dataclass(frozen=True)
class Guess:
    """A filling that the attack proposes, with its score in bits (lower is likelier)."""

    filling: tuple[str, ...]
    text: str
    score: float


class AttackResult(TypedDict, total=False):
    """Result of an attack on one canary: the fields of its :class:`Finding` that the attack sets."""

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


@accept_former_names(settings="settings_hash")
@dataclass(frozen=True)
class Finding:
    """One attack on one canary.

    ``rank`` counts from 1. ``method`` is how it was computed. Unless it is exact, it has a 95 % interval
    ``rank_low``..``rank_high``. For ``lower_bound`` the rank is the interval's upper end, so that the exposure is a
    lower bound. An ``extrapolated`` exposure is ``extra["extrapolated"]``, which may exceed log2|R|; its rank is
    |R|·2^−exposure, or 1. A ``banded`` rank is the geometric mean of the ranks of its band; the interval is the band.

    ``log2_size`` is log2|R|. ``correct`` marks the right slots of the best guess. ``proven`` is the number of leading
    guesses that are certain to be the best of R. ``log_perplexity`` is the cost of the canary's text in bits (the
    pseudo-log-perplexity of a masked language model). ``model_calls`` counts the sequences scored. ``access`` describes
    the access to the model. ``supporting`` is the number of copies of supporting canaries that were planted with this
    one, ``near`` the number of its near copies, and ``family`` the kind of data that it was made to resemble. ``coin``
    is True if a fair coin decided whether the canary was planted.
    ``noise_bits`` is the standard deviation of the rounding noise of ``log_perplexity``, None in float32. If it is not
    None, the ranks' intervals include it, and an exact rank that rounding may change has an interval too.
    ``uniform`` is the canary's: True for a natural secret whose format makes it uniform over R, False for one whose
    controls are drawn from valid secrets only, None otherwise.
    A ``coarse`` finding is the result of :func:`attacks.coarse.coarsened`; its removed fields are None.

    A search sets ``extra["nodes"]``: the number of nodes of the tree of partial fillings whose children it scored; a
    node scored twice counts twice. For attacks that score whole texts it is the number of texts.
    """

    canary: str
    attack: str
    planted: bool
    repetitions: Count
    kind: str
    log2_size: Annotated[float, Between(0)]
    guesses: tuple[Guess, ...] = ()
    proven: int = 0
    correct: tuple[bool, ...] | None = None
    place: Annotated[int, Between(1)] | None = None
    rank: Rank = None
    rank_low: Rank = None
    rank_high: Rank = None
    method: Method | None = None
    log_perplexity: float | None = None
    model_calls: Count | None = 0
    seconds: float | None = 0.0
    manifest: str = ""
    settings_hash: str = ""
    access: str = ""
    supporting: int = 0
    coarse: bool = False
    reading: TrainingExposure = ""
    family: str = ""
    near: int = 0
    noise_bits: Annotated[float, Between(0)] | None = None
    coin: bool = False
    uniform: bool | None = None
    extra: Extra = field(default_factory=dict)

    @property
    def copies(self) -> int:
        """The number of planted texts with the canary's secret: its copies and its near copies."""
        return self.repetitions + self.near

    @property
    def tier(self) -> int | None:
        """The canary's tier: :attr:`copies`, or :data:`CONTEXT`; None if the model never read it."""
        return tier_of(self.copies, self.reading)

    @property
    def exposure(self) -> float | None:
        """Exposure log2|R| − log2 rank in bits (The Secret Sharer, Definition 3); None without a rank.

        An extrapolated exposure is read from the fitted distribution and has no upper bound (section 4.3).
        """
        if self.method == EXTRAPOLATED:
            return float(self.extra[EXTRAPOLATED])
        return None if self.rank is None else self.log2_size - math.log2(self.rank)

    @property
    def exposure_ends(self) -> tuple[float, float] | None:
        """Smallest and largest possible exposure in bits, if only the rank's band is known; else None."""
        if not self.coarse or self.rank_low is None or self.rank_high is None:
            return None
        return self.log2_size - math.log2(self.rank_high), self.log2_size - math.log2(self.rank_low)

    def to_json(self) -> str:
        """Return the finding as one line of strict JSON, with its exposure for human readers."""
        data = {**json_fields(self), "exposure": self.exposure}
        for name in ("reading", "family", "near", "noise_bits", "coin"):
            if not data[name]:
                del data[name]
        if data["uniform"] is None:
            del data["uniform"]
        return json.dumps(data, allow_nan=False, ensure_ascii=False)


def tier_of(copies: int, reading: TrainingExposure) -> int | None:
    """Return the tier of a canary: its number of copies, or :data:`CONTEXT`; None if the model never read it."""
    return {"": copies, "context": CONTEXT}.get(reading)


def json_fields(record: Any) -> dict[str, Any]:
    """Return the fields of a finding by their names in JSON, which do not change when a field is renamed."""
    return {JSON_NAMES.get(name, name): value for name, value in dataclasses.asdict(record).items()}


def renamed(data: Any) -> Any:
    """Return a finding's JSON object with the names of its fields; the inverse of :data:`JSON_NAMES`."""
    if not isinstance(data, dict):
        return data
    names = {former: name for name, former in JSON_NAMES.items()}
    return {names.get(name, name): value for name, value in data.items()}


def finding_from_json(text: str) -> Finding:
    """Read a finding from the text of :meth:`Finding.to_json`. Raises ValueError if the text is not a finding."""
    data = renamed(parse_json(text))
    finding = read_record(Finding, {name: data[name] for name in data if name != "exposure"})
    if finding.method == EXTRAPOLATED:
        read_record(Fit, finding.extra, "extra", ignore_unknown=True)
    return dataclasses.replace(finding, attack=current_attack(finding.attack))


def grade_guesses(guesses: Sequence[Guess], secret: tuple[str, ...], text: str | None = None) -> AttackResult:
    """Return the fields of a finding that compare its guesses with the secret.

    Several fillings may have one text, if values of several lengths follow each other without text between them. A
    guess with the secret's text is right. ``text`` is that text, by default the text of the guess that is the secret.
    """
    if not guesses:
        return {"guesses": (), "correct": (False,) * len(secret)}
    texts = {guess.text for guess in guesses if guess.filling == secret} if text is None else {text}
    place = next((n for n, guess in enumerate(guesses, 1) if guess.text in texts), None)
    best = secret if place == 1 else guesses[0].filling
    right = tuple(left == true for left, true in zip(best, secret, strict=True))
    return {"guesses": tuple(guesses), "correct": right, "place": place}


def best_guesses(guesses: Iterable[Guess]) -> list[Guess]:
    """Return the ten guesses with the lowest scores; ties are ordered by filling."""
    return sorted(guesses, key=lambda guess: (guess.score, guess.filling))[:GUESSES]
