"""A study of a suggestion in section 6.3 of Elmahdy and Salem (2023): pruning text that a causal model writes.

"Candidates needed" is the rank of the secret token in the generator's list. The "pruned rank" is its rank by class loss
among these candidates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from leakage_tasks.research.framework.group_tests import SIGNIFICANCE
from leakage_tasks.research.framework.plots import plotter
from leakage_tasks.research.framework.registry import Scale, StudyPlan, StudyTrial, registrar
from leakage_tasks.research.framework.report import Claim, Measured, Published, Report, TableRow
from leakage_tasks.research.mix_and_match.extensions import BEST, BOTH_RANKS, COPIES, ahead, suggestion
from leakage_tasks.research.mix_and_match.free_text_trials import CAUSAL, PRUNED, free_text, run, writing
from leakage_tasks.research.mix_and_match.tables import categories, control_line, from_zero, set_up, sign_p

SCALES: Mapping[Scale, str] = {
    "smoke": "seconds",
    "small": "minutes per victim on 2 cores",
    "paper": "a GPU for hours, bert-base-cased and gpt2 from the hub, Reddit posts as $LEAKAGE_DATA/reddit.jsonl",
}
MASKED = {"pretrained": "the pre-trained masked model", "frankenstein": "the Frankenstein model"}
TEXT = {
    pruned: tuple(
        suggestion(f"{text}, pruned to the {pruned}, {does}")
        for text, does in (
            ("much text", "needs far fewer candidates than exhaustive search"),
            ("much text", "beats a masked model"),
            ("more text", "does better"),
        )
    )
    for pruned in PRUNED
}
"""Claims about candidates, the masked model and little text, by kind of pruning."""
WHOLE_TEXTS = suggestion("whole texts do better than single tokens from this model")
OTHERS = {"exhaustive": "exhaustive search", **MASKED, CAUSAL: "the causal model, word by word"}
"""Generators that write no text, and their names in rows."""


def free_text_report(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report candidates needed and pruned rank by generator and number of texts, and how often texts lack the token."""
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
    top, ranks = (_places(trials, name, which) for which in (0, 1))
    counts = [
        by_generator[name] for trial in trials for by_generator in trial.result["kept"].values() if name in by_generator
    ]
    has_token = [with_token > 0 for _, with_token in counts] or [True] * len(ranks)
    ranks_found = [rank for rank, present in zip(ranks, has_token, strict=True) if present]
    return {
        **head,
        "published": Published(None),
        "K": Measured.mean(top) if name in MASKED else Measured.mean(top, size),
        "beam": from_zero(ranks, size),
        **{f"found@{best}": Measured.rate(sum(rank <= best for rank in ranks_found), len(ranks)) for best in BEST},
        "no text kept": Measured.rate(sum(not count for count, _ in counts), len(counts)) if counts else None,
        "token in none": Measured.rate(has_token.count(False), len(counts)) if counts else None,
        "kept": Measured.mean([count for count, _ in counts]) if counts else None,
    }


def _places(trials: Sequence[StudyTrial], generator: str, which: int, canary: str | None = None) -> list[int]:
    """Return candidates needed (0) or pruned rank (1) over trials, for one or all canaries; the last rank without
    texts.
    """
    return [
        trial.result["alphabet"] if by_generator[generator][which] is None else by_generator[generator][which]
        for trial in trials
        for name, by_generator in trial.result["ranks"].items()
        if canary in (None, name)
    ]


def _claims(trials: Sequence[StudyTrial], pruned: str, few: int, many: int) -> list[Claim]:
    """Return claims that much text does better than exhaustive search, than the masked model and than little text."""
    generator, (candidates, masked, more) = writing(pruned, many), TEXT[pruned]
    names, size = list(trials[0].result["ranks"]), trials[0].result["alphabet"]
    means = [fmean(_places(trials, generator, 0, name)) for name in names]
    fewer = sum(3 * mean <= size for mean in means)
    p = sign_p(fewer, len(names))
    return [
        Claim(
            candidates.test(f"{many:,} texts need a third for most"),
            None if p > SIGNIFICANCE else 2 * fewer > len(names),
            f"for {fewer} of {len(names)} canaries; on average {size / fmean(means):.1f} times fewer; p = {p:.2g}",
            p,
        ),
        _ahead(
            trials,
            generator,
            "frankenstein",
            1,
            masked.test(f"{many:,} texts rank most tokens higher than {MASKED['frankenstein']}"),
        ),
        _ahead(
            trials,
            generator,
            writing(pruned, few),
            0,
            more.test(f"{many:,} texts need fewer candidates for most than {few:,}"),
        ),
    ]


def _claims_of_template(trials: Sequence[StudyTrial], many: int) -> list[Claim]:
    """Return claims that pruning by the words after the token does better than this model without pruning by them."""
    generator, plain = (writing(pruned, many) for pruned in ("template", "candidates"))
    start = f"{many:,} texts pruned to the template"
    return [
        _ahead(trials, generator, CAUSAL, 1, WHOLE_TEXTS.test(f"{many:,} texts rank most tokens higher")),
        _ahead(trials, generator, plain, 0, f"{start} need fewer candidates for most than pruned to the candidates"),
        _ahead(trials, generator, plain, 1, f"{start} rank most tokens higher than pruned to the candidates"),
    ]


def _ahead(trials: Sequence[StudyTrial], one: str, other: str, which: int, words: str) -> Claim:
    """Return the claim that one generator gives most canaries the lower ranks, as means over trials."""
    means = [
        (fmean(_places(trials, one, which, name)), fmean(_places(trials, other, which, name)))
        for name in trials[0].result["ranks"]
    ]
    return ahead(means, words, ("lower", "higher"))


def _notes(trials: Sequence[StudyTrial]) -> list[str]:
    """Describe the model that writes, and the counting of texts without the token."""
    writer, size = trials[0].config["writer"], trials[0].result["alphabet"]
    if "hub" in writer:
        model = f"The causal model is {writer['hub']} as it is on the hub."
    else:
        model = (
            f"The causal model is a GPT-2 of {writer['layers']} layers and {writer['hidden']} units, trained here for "
            f"{writer['epochs']} epochs on the public texts and with the word pieces of the encoder."
        )
    return [
        f"{model} The paper names no model; texts are sampled from the model's distribution for each victim.",
        f"K counts the vocabulary for masked models and the {size:,} values of the alphabet for the others; for "
        "texts, it counts the values that occur in as many remaining texts as the token, or in more.",
        "If no text remains, the attack has no candidate and both ranks are the last. A token that is in no remaining "
        "text ranks after all others and does not count as found.",
    ]


registrar("mix-and-match", "Elmahdy and Salem 2023", SCALES, run)(
    "free-text",
    "a causal model's free text, pruned, against masked models and exhaustive search",
    "section 6.3",
    free_text,
    free_text_report,
    plotter(
        lambda row: f"{row['texts']:,} {row['generator']}" if row["texts"] else str(row["generator"]),
        BOTH_RANKS,
        "mean rank",
    ),
)
