"""What Elmahdy and Salem (2023) suggest of GPT's kind (section 6.3), as a study: much text is written, then pruned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from leakage_tasks.research.framework.group_tests import SIGNIFICANCE
from leakage_tasks.research.framework.plots import plot_groups
from leakage_tasks.research.framework.registry import Scale, StudyPlan, StudyTrial, registrar
from leakage_tasks.research.framework.report import Claim, Measured, Published, Report, TableRow, point_of
from leakage_tasks.research.mix_and_match.extensions import BEST, COPIES, ahead
from leakage_tasks.research.mix_and_match.free_text_trials import CAUSAL, PRUNED, free_text, run, writing
from leakage_tasks.research.mix_and_match.tables import categories, control_line, from_zero, set_up, sign_p

SCALES: Mapping[Scale, str] = {
    "smoke": "seconds",
    "small": "minutes a victim on 2 cores",
    "paper": "a GPU for hours, bert-base-cased and gpt2 from the hub, Reddit posts as $LEAKAGE_DATA/reddit.jsonl",
}
MASKED = {"pretrained": "the pre-trained masked model", "frankenstein": "the Frankenstein model"}
OTHERS = {"exhaustive": "exhaustive search", **MASKED, CAUSAL: "the causal model, word by word"}
"""Generators that write no text, and what rows call them."""


def free_text_report(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Both numbers by generator and number of texts, and how often the texts kept lack the token."""
    texts = trials[0].config["texts"]
    rows = [_row(trials, name, {"generator": words, "texts": None}) for name, words in OTHERS.items()]
    for pruned in PRUNED:
        for number in texts:
            head: TableRow = {"generator": f"texts pruned to the {pruned}", "texts": number}
            rows.append(_row(trials, writing(pruned, number), head))
    claims = [claim for pruned in PRUNED for claim in _claims(trials, pruned, min(texts), max(texts))]
    claims += _claims_of_template(trials, max(texts))
    notes = [*set_up(plan), *_notes(trials), COPIES, categories(plan), control_line(trials)]
    return Report(list(rows[0]), rows, claims, notes)


def _row(trials: Sequence[StudyTrial], name: str, head: TableRow) -> TableRow:
    size = trials[0].result["alphabet"]
    top, places = (_places(trials, name, which) for which in (0, 1))
    kept = [own[name] for trial in trials for own in trial.result["kept"].values() if name in own]
    held = [with_token > 0 for _, with_token in kept] or [True] * len(places)
    found = [place for place, there in zip(places, held, strict=True) if there]
    return {
        **head,
        "published": Published(None),
        "K": Measured.mean(top) if name in MASKED else Measured.mean(top, size),
        "beam": from_zero(places, size),
        **{f"found@{best}": Measured.rate(sum(place <= best for place in found), len(places)) for best in BEST},
        "no text kept": Measured.rate(sum(not each for each, _ in kept), len(kept)) if kept else None,
        "token in none": Measured.rate(held.count(False), len(kept)) if kept else None,
        "kept": Measured.mean([each for each, _ in kept]) if kept else None,
    }


def _places(trials: Sequence[StudyTrial], generator: str, which: int, canary: str | None = None) -> list[int]:
    """One of the two numbers over trials, for a canary or for all: the last place where no text is kept."""
    return [
        trial.result["alphabet"] if own[generator][which] is None else own[generator][which]
        for trial in trials
        for name, own in trial.result["ranks"].items()
        if canary in (None, name)
    ]


def _claims(trials: Sequence[StudyTrial], pruned: str, few: int, many: int) -> list[Claim]:
    """That much text does better than exhaustive search, than the masked model and than little text."""
    own, words = writing(pruned, many), f"texts pruned to the {pruned}"
    names, size = list(trials[0].result["ranks"]), trials[0].result["alphabet"]
    means = [fmean(_places(trials, own, 0, name)) for name in names]
    fewer = sum(3 * each <= size for each in means)
    p = sign_p(fewer, len(names))
    return [
        Claim(
            f"{many:,} {words} need a third of exhaustive search's candidates, or fewer, for most",
            None if p > SIGNIFICANCE else 2 * fewer > len(names),
            f"for {fewer} of {len(names)} canaries; on average {size / fmean(means):.1f} times fewer; p = {p:.2g}",
            p,
        ),
        _ahead(
            trials, own, "frankenstein", 1, f"{many:,} {words} place most tokens higher than {MASKED['frankenstein']}"
        ),
        _ahead(trials, own, writing(pruned, few), 0, f"{many:,} {words} need fewer candidates for most than {few:,}"),
    ]


def _claims_of_template(trials: Sequence[StudyTrial], many: int) -> list[Claim]:
    """That pruning by what comes after the token does better than the same model without it."""
    own, plain = (writing(pruned, many) for pruned in ("template", "candidates"))
    start = f"{many:,} texts pruned to the template"
    return [
        _ahead(trials, own, CAUSAL, 1, f"{start} place most tokens higher than {OTHERS[CAUSAL]}"),
        _ahead(trials, own, plain, 0, f"{start} need fewer candidates for most than pruned to the candidates"),
        _ahead(trials, own, plain, 1, f"{start} place most tokens higher than pruned to the candidates"),
    ]


def _ahead(trials: Sequence[StudyTrial], one: str, other: str, which: int, words: str) -> Claim:
    """That one generator gives most canaries the lower places, means over trials."""
    means = [
        (fmean(_places(trials, one, which, name)), fmean(_places(trials, other, which, name)))
        for name in trials[0].result["ranks"]
    ]
    return ahead(means, words, ("lower", "higher"))


def _notes(trials: Sequence[StudyTrial]) -> list[str]:
    """What writes, and how texts without the token are counted."""
    writer, size = trials[0].config["writer"], trials[0].result["alphabet"]
    if "hub" in writer:
        made = f"The causal model is {writer['hub']} as it is on the hub."
    else:
        made = (
            f"The causal model is a GPT-2 of {writer['layers']} layers and {writer['hidden']} units, trained here for "
            f"{writer['epochs']} epochs on the public texts and with the word pieces of the encoder."
        )
    return [
        f"{made} The paper names none; texts are drawn from the model's own distribution, anew for each victim.",
        f"K counts the vocabulary for masked models, the {size:,} values of the alphabet for the others; of texts, the "
        "values that are in as many of those kept as the token, or in more.",
        "Where no text is kept, the attack has no candidate: both places are the last one. A token that is in none of "
        "the texts kept is tried after all that are, and is not counted as found.",
    ]


def _plot(report: Report, path: Path) -> None:
    """Candidates needed and place by class loss, a group a generator and number of texts."""
    groups = {
        " ".join([f"{row['texts']:,}", str(row["generator"])] if row["texts"] else [str(row["generator"])]): {
            "candidates (K)": point_of(row["K"]),
            "place by class loss, from 0": point_of(row["beam"]),
        }
        for row in report.rows
    }
    plot_groups(groups, "mean place", path)


registrar("mix-and-match", "Elmahdy and Salem 2023", SCALES, run)(
    "free-text",
    "a causal model's free text, pruned, against masked models and exhaustive search",
    "section 6.3",
    free_text,
    free_text_report,
    _plot,
)
