"""Tables 2, 3 and 4 of Elmahdy and Salem, "Deconstructing classifiers" (2023): the Mix And Match attack."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from leakage_tasks.studies.ground import REDDIT, YELP, Ground, at_scale, differences
from leakage_tasks.studies.lab_canaries import SMALL_TABLE
from leakage_tasks.studies.mix_and_match_published import TABLES
from leakage_tasks.studies.mix_and_match_trials import GENERATORS, PAPER, PAPER_YELP, SMALL, run, victim
from leakage_tasks.studies.registry import Config, Plan, Study, Trial, register
from leakage_tasks.studies.report import Claim, Measured, Published, Report

SCALES = {
    "smoke": "seconds",
    "small": "ten minutes on 2 cores, for the paper's three tables together",
    "paper": "a GPU for days, bert-base-cased, Reddit posts as $LEAKAGE_DATA/reddit.jsonl, Yelp from the hub",
}
SEEDS = {"smoke": 1, "small": 3, "paper": 10}

# -- counting -----------------------------------------------------------------------------------------------


def values(trials: Iterable[Trial], generator: str, which: int, canary: str | None = None) -> list[int]:
    """One of the two numbers over trials, for a canary or for all."""
    found = []
    for trial in trials:
        for name, ranks in trial.result["ranks"].items():
            if canary in (None, name) and ranks[generator][which] is not None:
                found.append(ranks[generator][which])
    return found


def from_zero(ranks: Sequence[int]) -> Measured | None:
    """The paper's "Beam size", a place counted from 0, as a mean over trials."""
    return Measured.mean([rank - 1 for rank in ranks]) if ranks else None


def set_up(plan: Plan, ground: Ground | None = None) -> list[str]:
    """How the studies differ from the paper's."""
    chosen = ground or at_scale(plan.scale, SMALL, PAPER)
    found = differences(chosen, PAPER if chosen.data != YELP else PAPER_YELP)
    if not chosen.base:
        found.append(
            "Canaries are others of the same make, of words the encoder has read; their figures stand in order."
        )
    return [*found, "Each of the seven categories gets a rare class of its own; the paper does not say which classes."]


def median_claims(trials: Sequence[Trial], canaries: Sequence[str]) -> list[Claim]:
    """The paper's claims about generators, canary by canary."""
    size = trials[0].result["alphabet"]
    claims = []
    for generator in ("frankenstein", "pretrained"):
        candidates = [_mean(values(trials, generator, 0, name)) for name in canaries]
        fewer = sum(size >= 2 * each for each in candidates)
        claims.append(
            Claim(
                f"{generator} needs several times fewer candidates than exhaustive search for most canaries",
                2 * fewer > len(canaries),
                f"half or fewer for {fewer} of {len(canaries)}; on average {size / _mean(candidates):.1f} times fewer",
            )
        )
        pairs = [
            (_mean(values(trials, generator, 1, name)), _mean(values(trials, "exhaustive", 1, name)))
            for name in canaries
        ]
        better = sum(own <= other for own, other in pairs)
        claims.append(
            Claim(
                f"{generator} reaches a better or equal pruned rank for most canaries",
                2 * better > len(canaries),
                f"for {better} of {len(canaries)}; mean from 0 {_mean([own for own, _ in pairs]) - 1:.0f} against "
                f"{_mean([other for _, other in pairs]) - 1:.0f}",
            )
        )
    return claims


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else float("nan")


def control_line(trials: Sequence[Trial]) -> str:
    """What the numbers are without a leak."""
    size = trials[0].result["alphabet"]
    ranks = [ranks["exhaustive"][1] for trial in trials for ranks in trial.result["controls"].values()]
    return (
        f"Controls, never planted, rank {_mean([rank for rank in ranks if rank]):.0f} of {size} by class loss on "
        f"average (chance: {(size + 1) / 2:.0f})."
    )


# -- the tables ---------------------------------------------------------------------------------------------

COLUMNS = {"exhaustive": "all", "pretrained": "LM", "frankenstein": "Frank."}


def table_trials(repetitions: int) -> Any:
    """Trials with so many copies, on the paper's two data sets at its own scale."""

    def trials(plan: Plan) -> list[Config]:
        grounds = [PAPER_YELP, PAPER] if plan.scale == "paper" else [None]
        seeds = plan.seeds(SEEDS[plan.scale])
        return [victim(plan, seed, ground, repetitions) for ground in grounds for seed in seeds]

    return trials


def table_report(published: dict[str, dict[str, tuple[tuple[float, float], ...]]]) -> Any:
    """A report on Top K and Beam size beside the published ones: target → data set → figures by generator."""

    def report(trials: Sequence[Trial], plan: Plan) -> Report:
        rows: list[dict[str, Any]] = []
        for data, own in _by_data(trials).items():
            names = list(own[0].result["ranks"])
            for place, name in enumerate(names):
                target, figures = list(published.items())[_place(name, place, published)]
                printed = figures[data if data in figures else REDDIT]
                rows.append({"data": data, **_row(own, name, target, printed)})
        claims = [
            claim for own in _by_data(trials).values() for claim in median_claims(own, list(own[0].result["ranks"]))
        ]
        stars = "Columns with * are published figures" + ("." if plan.scale == "paper" else ", Reddit's, beside which ")
        stars += "" if plan.scale == "paper" else "canaries of the same category stand."
        return Report(list(rows[0]), rows, claims, [stars, *set_up(plan), control_line(trials)])

    return report


def _place(name: str, place: int, published: dict[str, Any]) -> int:
    """The row of the paper's table a canary stands beside: its own, or the one of its make."""
    targets = list(published)
    if name in targets:
        return targets.index(name)
    return [each.target for each in SMALL_TABLE].index(name)


def _row(trials: Sequence[Trial], name: str, target: str, printed: Sequence[Sequence[float]]) -> dict[str, Any]:
    row: dict[str, Any] = {"target": name if name == target else f"{name} ({target})"}
    for generator, figures in zip(GENERATORS, printed, strict=True):
        top, beam = values(trials, generator, 0, name), from_zero(values(trials, generator, 1, name))
        words = COLUMNS[generator]
        row[f"{words} K*"] = Published(figures[0])
        row[f"{words} K"] = round(_mean(top))
        row[f"{words} beam*"] = Published(figures[1])
        row[f"{words} beam"] = beam
    return row


def _by_data(trials: Sequence[Trial]) -> dict[str, list[Trial]]:
    found: dict[str, list[Trial]] = {}
    for trial in trials:
        found.setdefault(trial.config["ground"]["data"], []).append(trial)
    return found


def register_study(name: str, title: str, trials: Any, report: Any, plot: Any = None) -> Study:
    """Register a study of this paper."""
    source = f"Elmahdy and Salem 2023, {name.replace('-', ' ').capitalize()}"
    return register(Study(f"mix-and-match/{name}", title, source, SCALES, trials, run, report, plot))  # type: ignore[arg-type]


for _number, _repetitions in ((2, 5), (3, 25), (4, 100)):
    register_study(
        f"table-{_number}",
        f"fourteen canaries reconstructed with three generators, {_repetitions} repetitions",
        table_trials(_repetitions),
        table_report(TABLES[_repetitions]),
    )
