"""What Elmahdy and Salem (2023) leave open, as studies: bridges to the generation head (6.3), and DP (6.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean

from leakage_tasks.research.framework.group_tests import SIGNIFICANCE, ranked
from leakage_tasks.research.framework.plots import plot_groups
from leakage_tasks.research.framework.registry import Config, Scale, StudyPlan, StudyTrial, grouped, registrar
from leakage_tasks.research.framework.report import Claim, Measured, Published, Report, TableRow, point_of
from leakage_tasks.research.mix_and_match.extension_trials import BRIDGES, REPETITIONS, extended, run
from leakage_tasks.research.mix_and_match.figures import plot_ranks, rank_row
from leakage_tasks.research.mix_and_match.tables import categories, control_line, from_zero, set_up, sign_p, values

SCALES: Mapping[Scale, str] = {
    "smoke": "seconds",
    "small": "minutes a victim on 2 cores; dp-sgd has three times as many as bridges, and takes Opacus",
    "paper": "a GPU for hours, bert-base-cased, Reddit posts as $LEAKAGE_DATA/reddit.jsonl, Opacus for DP-SGD",
}
EPSILONS = (None, 100.0, 8.0)
COPIES = f"{REPETITIONS} repetitions, or as many as stand for them; the paper does not say."
NONE = "frankenstein"
"""The generator without a bridge."""
JOINED = {NONE: "no bridge", "adapter": "adapter", "prompt": "prompt"}
BEST = (1, 10, 100)
"""Places by class loss that count as reconstructed."""

# -- section 6.3: bridges ------------------------------------------------------------------------------------


def bridge_trials(plan: StudyPlan) -> list[Config]:
    """Plain victims, with every bridge."""
    return extended(plan)


def bridge_report(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Both numbers by what joins the encoder to the head, and the share of canaries reconstructed."""
    others = {"pretrained": "none: the pre-trained model", "exhaustive": "none: exhaustive search"}
    rows = [_bridge_row(trials, name, words) for name, words in (JOINED | others).items()]
    claims = [claim for bridge in BRIDGES for claim in _bridge_claims(trials, bridge)]
    how = trials[0].config["bridge_training"]
    training = (
        f"Bridges read up to {how['texts']:,} public texts {how['epochs']} times (docstrings that are in neither part "
        "of the data); encoder and head are frozen. The paper only names them."
    )
    return Report(
        list(rows[0]), rows, claims, [*set_up(plan), training, COPIES, categories(plan), control_line(trials)]
    )


def _bridge_row(trials: Sequence[StudyTrial], name: str, words: str) -> TableRow:
    size = trials[0].result["alphabet"]
    top, places = (values(trials, name, which) for which in (0, 1))
    last = [trial.result["losses"][name][-1] for trial in trials if name in trial.result["losses"]]
    return {
        "bridge": words,
        "published": Published(None),
        "K": Measured.mean(top),
        "beam": from_zero(places, size),
        **{f"found@{best}": Measured.rate(sum(place <= best for place in places), len(places)) for best in BEST},
        "nats/mask": Measured.mean(last) if last else None,
    }


def _bridge_claims(trials: Sequence[StudyTrial], bridge: str) -> list[Claim]:
    """That a bridge moves most canaries' tokens up, canary by canary: among candidates, and after pruning."""
    words = {"adapter": "an adapter", "prompt": "a tuned prompt"}[bridge]
    where = {0: "among the candidates", 1: "among the candidates once they are pruned"}
    return [_moves_up(trials, bridge, which, f"{words} moves most tokens up {place}") for which, place in where.items()]


def _moves_up(trials: Sequence[StudyTrial], bridge: str, which: int, words: str) -> Claim:
    means = [
        (fmean(values(trials, bridge, which, name)), fmean(values(trials, NONE, which, name)))
        for name in trials[0].result["ranks"]
    ]
    return ahead(means, words)


def ahead(means: Sequence[tuple[float, float]], words: str, said: tuple[str, str] = ("up", "down")) -> Claim:
    """That most canaries' places are the lower ones: the sign test, for each canary two means over trials."""
    lower, higher = (sum(sign * (own - other) < 0 for own, other in means) for sign in (1, -1))
    p = sign_p(lower, lower + higher) if lower + higher else 1.0
    one, two = map(fmean, zip(*means, strict=True))
    counts = f"{lower} of {len(means)} canaries {said[0]}, {higher} {said[1]}"
    evidence = f"{counts}; mean place {one:.0f} against {two:.0f}; p = {p:.2g}"
    return Claim(words, None if p > SIGNIFICANCE else lower > higher, evidence, p)


def _plot_bridges(report: Report, path: Path) -> None:
    """Candidates needed and place by class loss, a group a generator."""
    groups = {
        str(row["bridge"]).removeprefix("none: "): {
            "candidates (K)": point_of(row["K"]),
            "place by class loss, from 0": point_of(row["beam"]),
        }
        for row in report.rows
    }
    plot_groups(groups, "mean place", path)


# -- section 6.4: differential privacy -----------------------------------------------------------------------


def defence_trials(plan: StudyPlan) -> list[Config]:
    """Plain training and DP-SGD at several ε."""
    epsilons = (None, 8.0) if plan.scale == "smoke" else EPSILONS
    return [config for epsilon in epsilons for config in extended(plan, epsilon)]


def defence_report(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Pruned rank and accuracy by ε."""
    by_epsilon = grouped(trials, lambda config: config["epsilon"])
    rows = []
    for epsilon, own in by_epsilon.items():
        head: TableRow = {"ε": "none" if epsilon is None else f"{epsilon:g}", "ε spent": own[0].result["epsilon"]}
        right = Measured.mean([trial.result["accuracy"] for trial in own])
        rows.append({**rank_row(head, own), "accuracy": right})
    plain = by_epsilon[None]
    claims = [
        claim
        for epsilon, own in by_epsilon.items()
        if epsilon is not None
        for claim in _defence_claims(plain, own, f"ε = {epsilon:g}")
    ]
    promise = (
        "ε is for one row; all copies of a canary together are promised that many times less (group privacy). The "
        "snapshot is chosen by the validation rows, which are outside the promise."
    )
    return Report(list(rows[0]), rows, claims, [*set_up(plan), promise, COPIES, categories(plan), control_line(plain)])


def _defence_claims(plain: Sequence[StudyTrial], private: Sequence[StudyTrial], at: str) -> list[Claim]:
    size = private[0].result["alphabet"]
    one, other = (values(own, "exhaustive", 1) for own in (private, plain))
    found = Measured.mean(one, size)
    chance = (size + 1) / 2
    at_chance = None if found.low is None or found.high is None else found.low <= chance <= found.high
    low, high = ("?" if end is None else f"{end:.0f}" for end in (found.low, found.high))
    return [
        ranked(f"{at}: DP-SGD moves tokens down in the order of the class loss", one, other, above=True, digits=0),
        Claim(
            f"{at}: with DP-SGD the class loss places tokens as by chance",
            at_chance,
            f"mean place {found.value:.0f} [{low}, {high}] n={found.count}, by chance {chance:.0f} of {size}",
        ),
        _costs_utility(plain, private, f"{at}: DP-SGD costs accuracy"),
    ]


def _costs_utility(plain: Sequence[StudyTrial], private: Sequence[StudyTrial], words: str) -> Claim:
    """That accuracy falls: Welch's test over seeds."""
    from scipy import stats

    one, other = ([trial.result["accuracy"] for trial in own] for own in (private, plain))
    means = f"{fmean(one):.3f} against {fmean(other):.3f}"
    if min(len(one), len(other)) < 2:
        return Claim(words, None, f"{means}, from one seed")
    p = float(stats.ttest_ind(one, other, equal_var=False).pvalue)
    # Two groups without spread have no test.
    told = p <= SIGNIFICANCE
    return Claim(words, fmean(one) < fmean(other) if told else None, f"{means}; p = {p:.2g}", p if p == p else None)


register_study = registrar("mix-and-match", "Elmahdy and Salem 2023", SCALES, run)

register_study(
    "bridges",
    "an adapter or a tuned prompt between encoder and generation head, against none",
    "section 6.3",
    bridge_trials,
    bridge_report,
    _plot_bridges,
)
register_study(
    "dp-sgd",
    "reconstruction and accuracy under DP-SGD",
    "section 6.4",
    defence_trials,
    defence_report,
    partial(plot_ranks, label="ε = {ε}"),
)
