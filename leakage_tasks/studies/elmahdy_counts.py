"""Counting trials of Elmahdy, Inan and Sim (2022), and the claims that rest on the counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from leakage_tasks.studies.elmahdy_trials import CANARIES, PAPER, SCALES, SMALL, run
from leakage_tasks.studies.ground import Ground, at_scale, differences
from leakage_tasks.studies.registry import Config, Plan, Study, Trial, register
from leakage_tasks.studies.report import Claim, Measured


def success(trials: Iterable[Trial], k: int, penalty: float) -> Measured | None:
    """The share of canaries found within ``k`` guesses; None without trials."""
    return _share([place for trial in trials for place in trial.result["places"][str(penalty)]], k)


def control_success(trials: Iterable[Trial], k: int) -> Measured | None:
    """The same of canaries that were never planted."""
    return _share([place for trial in trials for place in trial.result["controls"]], k)


def _share(places: list[int | None], k: int) -> Measured | None:
    return Measured.rate(sum(place is not None and place <= k for place in places), len(places)) if places else None


def chosen(trials: Iterable[Trial], **wanted: Any) -> list[Trial]:
    """The trials whose config has these values."""
    return [trial for trial in trials if all(trial.config[name] == value for name, value in wanted.items())]


def with_copies(trials: Sequence[Trial], **wanted: Any) -> list[Trial]:
    """As :func:`chosen`, with numbers as the paper gives them."""
    ground = Ground(**trials[0].config["ground"])
    return chosen(
        trials, **{key: ground.copies(each) if isinstance(each, int) else each for key, each in wanted.items()}
    )


def set_up(plan: Plan) -> list[str]:
    """How the studies differ from the paper's."""
    ground = at_scale(plan.scale, SMALL, PAPER)
    found = differences(ground, PAPER)
    if CANARIES[plan.scale] > 1:
        found.append(
            f"{CANARIES[plan.scale]} canaries are planted in each victim, one in each of the rarest classes, where the "
            "paper plants one; they are counted as independent."
        )
    return found


def above(one: Measured | None, other: Measured | None, words: str, *, at_least: bool = False) -> Claim:
    """The claim that one rate is above another (or no lower)."""
    if one is None or other is None:
        return Claim(words, None, "not measured")
    holds = one.value >= other.value if at_least else one.value > other.value
    return Claim(words, holds, f"{one.value:.2f} of {one.count} against {other.value:.2f} of {other.count}")


def far_above_guess(rate: Measured | None, guess: float, words: str) -> Claim:
    """The claim that a rate's whole interval is above random guess."""
    if rate is None or rate.low is None:
        return Claim(words, None, "not measured")
    return Claim(words, rate.low > guess, f"{rate.value:.2f} [{rate.low:.2f}, {rate.high:.2f}] against {guess:.4f}")


def at_chance(rate: Measured | None, guess: float) -> tuple[bool | None, str]:
    """Whether a rate's interval holds random guess, and the figures."""
    if rate is None or rate.low is None or rate.high is None:
        return None, "not measured"
    return rate.low <= guess <= rate.high, f"{rate.value:.2f} [{rate.low:.2f}, {rate.high:.2f}] around {guess:.4f}"


def accuracy(trials: Sequence[Trial]) -> list[str]:
    """What the victims get right, as a sentence."""
    right = Measured.mean([trial.result["accuracy"] for trial in trials]).value
    seen = Measured.mean([trial.result["training_accuracy"] for trial in trials]).value
    return [
        f"The victims get {100 * seen:.1f} % of training and {100 * right:.1f} % of validation rows right "
        "(published 47.69 and 42.94)."
    ]


def register_table(name: str, title: str, source: str, trials: Callable[[Plan], list[Config]], report: Any) -> Study:
    """Register a study of this paper."""
    return register(Study(f"elmahdy/{name}", title, source, SCALES, trials, run, report))  # type: ignore[arg-type]
