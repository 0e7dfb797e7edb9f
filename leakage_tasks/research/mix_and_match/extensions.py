"""Studies of suggestions of Elmahdy and Salem (2023): bridges to the generation head (6.3), and DP-SGD (6.4).

"Candidates needed" is the rank of the secret token in the generator's list. The "pruned rank" is its rank by class loss
among these candidates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from leakage_tasks.research.framework.group_tests import SIGNIFICANCE, ranked
from leakage_tasks.research.framework.papers import PaperClaim
from leakage_tasks.research.framework.plots import plotter
from leakage_tasks.research.framework.registry import Config, Scale, StudyPlan, StudyTrial, grouped, registrar
from leakage_tasks.research.framework.report import Claim, Measured, Published, Report, TableRow
from leakage_tasks.research.mix_and_match.extension_trials import BRIDGES, REPETITIONS, extended, run
from leakage_tasks.research.mix_and_match.figures import RANKS, rank_row
from leakage_tasks.research.mix_and_match.tables import categories, control_line, from_zero, set_up, sign_p, values

SCALES: Mapping[Scale, str] = {
    "smoke": "seconds",
    "small": "minutes per victim on 2 cores; dp-sgd has three times as many victims as bridges, and requires Opacus",
    "paper": "a GPU for hours, bert-base-cased, Reddit posts as $LEAKAGE_DATA/reddit.jsonl, Opacus for DP-SGD",
}
EPSILONS = (None, 100.0, 8.0)
COPIES = f"{REPETITIONS} repetitions, scaled to the data; the paper does not say."
NONE = "frankenstein"
"""The generator without a bridge."""
JOINED = {NONE: "no bridge", "adapter": "adapter", "prompt": "prompt"}
BEST = (1, 10, 100)
"""Ranks by class loss that count as reconstructed."""
SUGGESTED = "suggested, not tried"
MORE_THAN_FOURTEEN = "more than fourteen canaries, rather than more runs"


def suggestion(words: str) -> PaperClaim:
    """Return the claim of a suggestion, which needs other canaries for a verdict."""
    return PaperClaim(words, SUGGESTED, MORE_THAN_FOURTEEN)


BRIDGED = {
    bridge: (suggestion(f"{words} generates better candidates"), suggestion(f"{words} helps after pruning"))
    for bridge, words in (("adapter", "an adapter"), ("prompt", "a tuned prompt"))
}
"""Claims about most tokens' ranks, among the candidates and after pruning, by bridge."""
DEFENDS = PaperClaim("differential privacy defends against the attack (mean rank with vs without)")
COSTS = PaperClaim("the defence may reduce accuracy (with vs without)")

# -- section 6.3: bridges ------------------------------------------------------------------------------------


def bridge_trials(plan: StudyPlan) -> list[Config]:
    """List trials of victims without DP-SGD, with every bridge."""
    return extended(plan)


def bridge_report(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report candidates needed and pruned rank by bridge, and the share of canaries reconstructed."""
    others = {"pretrained": "none: the pre-trained model", "exhaustive": "none: exhaustive search"}
    rows = [_bridge_row(trials, name, words) for name, words in (JOINED | others).items()]
    claims = [claim for bridge in BRIDGES for claim in _bridge_claims(trials, bridge)]
    training_options = trials[0].config["bridge_training"]
    training = (
        f"Bridges read up to {training_options['texts']:,} public texts {training_options['epochs']} times "
        "(docstrings that are in neither part of the data); encoder and head are frozen. The paper only names them."
    )
    return Report(
        list(rows[0]), rows, claims, [*set_up(plan), training, COPIES, categories(plan), control_line(trials)]
    )


def _bridge_row(trials: Sequence[StudyTrial], name: str, words: str) -> TableRow:
    size = trials[0].result["alphabet"]
    top, ranks = (values(trials, name, which) for which in (0, 1))
    last = [trial.result["losses"][name][-1] for trial in trials if name in trial.result["losses"]]
    return {
        "bridge": words,
        "published": Published(None),
        "K": Measured.mean(top),
        "beam": from_zero(ranks, size),
        **{f"found@{best}": Measured.rate(sum(rank <= best for rank in ranks), len(ranks)) for best in BEST},
        "nats/mask": Measured.mean(last) if last else None,
    }


def _bridge_claims(trials: Sequence[StudyTrial], bridge: str) -> list[Claim]:
    """Return claims that a bridge improves the rank of most canaries' tokens, among candidates and after pruning."""
    return [_moves_up(trials, bridge, which, claim.words) for which, claim in enumerate(BRIDGED[bridge])]


def _moves_up(trials: Sequence[StudyTrial], bridge: str, which: int, words: str) -> Claim:
    means = [
        (fmean(values(trials, bridge, which, name)), fmean(values(trials, NONE, which, name)))
        for name in trials[0].result["ranks"]
    ]
    return ahead(means, words)


def ahead(means: Sequence[tuple[float, float]], words: str, labels: tuple[str, str] = ("up", "down")) -> Claim:
    """Return the claim that most canaries have lower ranks in the first than in the second group, by the sign test.

    Args:
        means: two means over trials for each canary.
        words: the claim.
        labels: words for a lower and a higher rank.
    """
    lower, higher = (sum(sign * (first - second) < 0 for first, second in means) for sign in (1, -1))
    p = sign_p(lower, lower + higher) if lower + higher else 1.0
    one, two = map(fmean, zip(*means, strict=True))
    counts = f"{lower} of {len(means)} canaries {labels[0]}, {higher} {labels[1]}"
    evidence = f"{counts}; mean rank {one:.0f} against {two:.0f}; p = {p:.2g}"
    return Claim(words, None if p > SIGNIFICANCE else lower > higher, evidence, p)


BOTH_RANKS = {"candidates (K)": "K", "rank by class loss, from 0": "beam"}
"""Columns of plots of candidates needed and pruned ranks."""

# -- section 6.4: differential privacy -----------------------------------------------------------------------


def defence_trials(plan: StudyPlan) -> list[Config]:
    """List trials without DP-SGD and with DP-SGD at several ε."""
    epsilons = (None, 8.0) if plan.scale == "smoke" else EPSILONS
    return [config for epsilon in epsilons for config in extended(plan, epsilon)]


def defence_report(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report pruned rank and accuracy by ε."""
    by_epsilon = grouped(trials, lambda config: config["epsilon"])
    rows = []
    for epsilon, group in by_epsilon.items():
        head: TableRow = {"ε": "none" if epsilon is None else f"{epsilon:g}", "ε spent": group[0].result["epsilon"]}
        accuracy = Measured.mean([trial.result["accuracy"] for trial in group])
        rows.append({**rank_row(head, group), "accuracy": accuracy})
    plain = by_epsilon[None]
    claims = [
        claim
        for epsilon, group in by_epsilon.items()
        if epsilon is not None
        for claim in _defence_claims(plain, group, epsilon)
    ]
    promise = (
        "ε is for one row; all copies of a canary together have an ε larger by their number (group privacy). The "
        "snapshot is selected by validation rows, which are outside the guarantee."
    )
    return Report(list(rows[0]), rows, claims, [*set_up(plan), promise, COPIES, categories(plan), control_line(plain)])


def _defence_claims(plain: Sequence[StudyTrial], private: Sequence[StudyTrial], epsilon: float) -> list[Claim]:
    """Return claims about one ε. Only the smallest ε tests the paper's claims."""
    at = f"ε = {epsilon:g}"
    defends, costs = (
        claim.test(at) if epsilon == EPSILONS[-1] else f"{at}: {claim.words}" for claim in (DEFENDS, COSTS)
    )
    size = private[0].result["alphabet"]
    one, other = (values(group, "exhaustive", 1) for group in (private, plain))
    mean = Measured.mean(one, size)
    chance = (size + 1) / 2
    at_chance = None if mean.low is None or mean.high is None else mean.low <= chance <= mean.high
    low, high = ("?" if end is None else f"{end:.0f}" for end in (mean.low, mean.high))
    return [
        ranked(defends, one, other, above=True, digits=0),
        Claim(
            f"{at}: with DP-SGD the class loss ranks tokens as by chance",
            at_chance,
            f"mean rank {mean.value:.0f} [{low}, {high}] n={mean.count}, by chance {chance:.0f} of {size}",
        ),
        _costs_utility(plain, private, costs),
    ]


def _costs_utility(plain: Sequence[StudyTrial], private: Sequence[StudyTrial], words: str) -> Claim:
    """Return the claim that accuracy falls, by Welch's test over seeds."""
    from scipy import stats

    one, other = ([trial.result["accuracy"] for trial in group] for group in (private, plain))
    means = f"{fmean(one):.3f} against {fmean(other):.3f}"
    if min(len(one), len(other)) < 2:
        return Claim(words, None, f"{means}, from one seed")
    p = float(stats.ttest_ind(one, other, equal_var=False).pvalue)
    # There is no test for two groups without variance.
    significant = p <= SIGNIFICANCE
    return Claim(
        words, fmean(one) < fmean(other) if significant else None, f"{means}; p = {p:.2g}", p if p == p else None
    )


register_study = registrar("mix-and-match", "Elmahdy and Salem 2023", SCALES, run)

register_study(
    "bridges",
    "an adapter or a tuned prompt between encoder and generation head, against no bridge",
    "section 6.3",
    bridge_trials,
    bridge_report,
    plotter(lambda row: str(row["bridge"]).removeprefix("none: "), BOTH_RANKS, "mean rank"),
)
register_study(
    "dp-sgd",
    "reconstruction and accuracy under DP-SGD",
    "section 6.4",
    defence_trials,
    defence_report,
    plotter("ε = {ε}".format_map, *RANKS),
)
