"""A study of future work in Appendix F of The Secret Sharer: a secret with several differing copies."""

from __future__ import annotations

from collections.abc import Sequence

from leakage_tasks.research.framework.papers import PaperClaim
from leakage_tasks.research.framework.registry import StudyPlan, StudyTrial, grouped, registrar
from leakage_tasks.research.framework.report import Claim, Measured, Published, Report, TableRow
from leakage_tasks.research.secret_sharer.claims import all_of, higher, unknown
from leakage_tasks.research.secret_sharer.experiment import SCALES, SOURCE, WHOLE, differences
from leakage_tasks.research.secret_sharer.near_trials import CHANGED, NEAR, WAYS, near_trials, run

LEAST_RISE = 0.05
ONE_COPY_ONLY = PaperClaim("the algorithm works only for secrets with one copy")


def near_copies(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report the number of copies that each way of ranking leaves, and a model's exposure afterwards."""
    ways = grouped(trials, lambda config: str(config["way"]))
    rows = [_row(way, ways[way]) for way in WAYS]
    all_samples, one_by_one, grouped_samples = (_of(ways[way], "exposure") for way in WAYS)
    left = {way: [trial.result["left"] for trial in ways[way]] for way in WAYS}
    losses = [Measured.mean(_of(ways[way], "loss")).value for way in (WAYS[2], WAYS[0])]
    rise = losses[0] / losses[1] - 1
    claims = [
        all_of(ONE_COPY_ONLY.test("differing copies stay"), [n > 0 for n in left[WAYS[1]]],
               f"{_listed(left[WAYS[1]])} of {trials[0].result['copies']} stay"),
        all_of("with groups all copies are dropped", [n == 0 for n in left[WAYS[2]]],
               f"{_listed(left[WAYS[2]])} of {trials[0].result['copies']} stay"),
        unknown("a model trained on the samples left by groups does not know the secret", grouped_samples),
        higher("a model trained on everything knows it better", all_samples, grouped_samples),
        higher("a model trained on samples left by ranking one by one knows it better", one_by_one, grouped_samples),
        Claim(f"the loss rises by less than {LEAST_RISE:.0%} with groups", rise < LEAST_RISE, f"by {rise:+.1%}"),
    ]  # fmt: skip
    notes = [
        f"One copy of the secret is exact; in the other copies {CHANGED} word around it is changed. Copies are "
        f"grouped from a similarity of {NEAR:g}. The paper plants one copy and leaves several to future work.",
        "Exposure is measured in the exact copy.",
    ]
    return Report(list(rows[-1]), rows, claims, [*differences(plan), *notes])


def _row(way: str, trials: Sequence[StudyTrial]) -> TableRow:
    ranks = [trial.result["places"] for trial in trials if trial.result["places"]]
    return {
        "training text": way if way == WAYS[0] else f"samples dropped, {way}",
        "exposure, published": Published(None),
        "exposure": Measured.mean(_of(trials, "exposure"), WHOLE),
        "controls": Measured.mean(
            [value for trial in trials for value in trial.result["models"][0]["controls"]], WHOLE
        ),
        "loss (bits/character)": Measured.mean(_of(trials, "loss")),
        "copies left": Measured.mean([trial.result["left"] for trial in trials]),
        **{
            f"{which} copy's place": Measured.mean([copy_ranks[end] for copy_ranks in ranks]) if ranks else None
            for which, end in (("first", 0), ("last", -1))
        },
    }


def _of(trials: Sequence[StudyTrial], key: str) -> list[float]:
    return [trial.result["models"][0][key] for trial in trials]


def _listed(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))


registrar("secret-sharer", SOURCE, SCALES, run)(
    "near-copies",
    "a secret in copies that differ, dropped before training",
    "Appendix F, left to future work",
    near_trials,
    near_copies,
)
