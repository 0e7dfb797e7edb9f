"""What Appendix F of The Secret Sharer leaves open: a secret that stands there several times, in differing copies."""

from __future__ import annotations

from collections.abc import Sequence

from leakage_tasks.research.framework.registry import StudyPlan, StudyTrial, grouped, registrar
from leakage_tasks.research.framework.report import Claim, Measured, Published, Report, TableRow
from leakage_tasks.research.secret_sharer.claims import all_of, higher, unknown
from leakage_tasks.research.secret_sharer.experiment import SCALES, SOURCE, WHOLE, differences
from leakage_tasks.research.secret_sharer.near_trials import CHANGED, NEAR, WAYS, near_trials, run

LEAST_RISE = 0.05


def near_copies(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """How many copies each way of ranking leaves, and what a model then knows."""
    ways = grouped(trials, lambda config: str(config["way"]))
    rows = [_row(way, ways[way]) for way in WAYS]
    every, apart, together = (_of(ways[way], "exposure") for way in WAYS)
    left = {way: [trial.result["left"] for trial in ways[way]] for way in WAYS}
    losses = [Measured.mean(_of(ways[way], "loss")).value for way in (WAYS[2], WAYS[0])]
    rise = losses[0] / losses[1] - 1
    claims = [
        all_of("ranked one by one, copies that differ stay in the text", [n > 0 for n in left[WAYS[1]]],
               f"{_listed(left[WAYS[1]])} of {trials[0].result['copies']} stay"),
        all_of("in groups all copies are dropped", [n == 0 for n in left[WAYS[2]]],
               f"{_listed(left[WAYS[2]])} of {trials[0].result['copies']} stay"),
        unknown("a model trained on what groups leave does not know the secret", together),
        higher("one trained on everything knows it better", every, together),
        higher("one trained on what is left one by one knows it better, too", apart, together),
        Claim(f"the loss rises by less than {LEAST_RISE:.0%} with groups", rise < LEAST_RISE, f"by {rise:+.1%}"),
    ]  # fmt: skip
    notes = [
        f"The secret stands there once as it is, else with {CHANGED} word around it changed; copies are grouped from a "
        f"similarity of {NEAR:g}. The paper plants it once and leaves several copies to future work.",
        "Exposure is that of the secret in the copy without a change.",
    ]
    return Report(list(rows[-1]), rows, claims, [*differences(plan), *notes])


def _row(way: str, own: Sequence[StudyTrial]) -> TableRow:
    places = [trial.result["places"] for trial in own if trial.result["places"]]
    return {
        "training text": way if way == WAYS[0] else f"samples dropped, {way}",
        "exposure, published": Published(None),
        "exposure": Measured.mean(_of(own, "exposure"), WHOLE),
        "controls": Measured.mean([value for trial in own for value in trial.result["models"][0]["controls"]], WHOLE),
        "loss (bits/character)": Measured.mean(_of(own, "loss")),
        "copies left": Measured.mean([trial.result["left"] for trial in own]),
        **{
            f"{which} copy's place": Measured.mean([each[end] for each in places]) if places else None
            for which, end in (("first", 0), ("last", -1))
        },
    }


def _of(own: Sequence[StudyTrial], what: str) -> list[float]:
    return [trial.result["models"][0][what] for trial in own]


def _listed(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))


registrar("secret-sharer", SOURCE, SCALES, run)(
    "near-copies",
    "a secret in copies that differ, dropped before training",
    "Appendix F, left to future work",
    near_trials,
    near_copies,
)
