"""Tables 2, 3 and 4 of Zhang, Wen and Huang, "Ethicist" (2023): methods, decoding, right and wrong guesses."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from leakage_tasks.research.ethicist.guesses import (
    MEASURES,
    Measure,
    MeasureContrast,
    Side,
    above,
    contrast,
    difference,
    early_stop,
    every,
    mean_of,
    measured,
    more,
    recall,
    recall_at,
)
from leakage_tasks.research.ethicist.trials import (
    DECODINGS,
    PLAIN,
    SMOOTH,
    UNTUNED,
    by_setting,
    decoded,
    each_seed,
    register_study,
    set_up,
    tuned,
    unsmoothed,
    untuned,
)
from leakage_tasks.research.framework.papers import PaperClaim
from leakage_tasks.research.framework.registry import StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Claim, Published, Report, TableRow

Guesses = tuple[list[StudyTrial], str]
"""The trials of one setting, and the confidence that selects their guesses."""
BASELINES = ("perplexity", "comparing_lm", "zlib", "lowercase")

TABLE_2: dict[str, tuple[str, str, float | str | None, float | str | None]] = {
    "Perplexity": (UNTUNED, "perplexity", None, None),
    "Comparing (LM)": (UNTUNED, "comparing_lm", None, None),
    "Comparing (zlib)": (UNTUNED, "zlib", None, None),
    "Comparing (lowercase)": (UNTUNED, "lowercase", None, None),
    "Ethicist": (SMOOTH, "calibrated", 0.628, None),
    "w/o smooth": (PLAIN, "calibrated", None, 0.524),
    "w/o calibrated": (SMOOTH, "perplexity", 0.623, "0.063 below Ethicist"),
    "w/o smooth & calibrated": (PLAIN, "perplexity", 0.608, None),
    "w/o smooth & calibrated, comparing (LM)": (PLAIN, "comparing_lm", None, 0.487),
    "w/o prompt tuning": (UNTUNED, "calibrated", 0.533, "0.124 below Ethicist"),
    "ours: trained confidence": (SMOOTH, "trained", None, None),
}
"""Setting, confidence, published recall and recall_early_stop by row."""
TABLE_2_NOTE = (
    "Table 2's cells are not in the source; published values are from section 4.4. The rows of 60.8 and 62.3, 48.7 "
    "and 52.4 are our interpretation; 53.3 is 62.8 minus the 9.5 that tuning adds according to the text."
)
RIGHT_REPEATED = 85.38
"""Table 4's average repeat time of right predictions, quoted in section 5 with the recalls below."""
RECALL_AT = {1: 0.63, 3: None, 100: 0.69}
NEARLY = 0.02
"""Maximum difference of recall@3 and recall@100 at which they count as equal."""
TUNING = PaperClaim("tuning a prompt lifts recall and early stop", "+0.095 and +0.124")
SMOOTHING = PaperClaim("the smoothing loss lifts recall", "0.608 to 0.623")
CALIBRATION = PaperClaim("calibration lifts early stop", "+0.063")
CALIBRATION_ALONE = PaperClaim("calibration is effective without a prompt too")
BEATS_COMPARING = PaperClaim(
    "with a prompt, calibrated confidence beats comparison with another model", "0.524 vs 0.487"
)
MATTERS_MORE = PaperClaim("smoothing matters more for recall, calibration for early stop")
BEATS_BASELINES = PaperClaim("Ethicist beats all baselines by far")
GREEDY = PaperClaim("greedy search does worst on both measures")
BEAM_RECALL = PaperClaim("beam search beats top-p on recall")
TOP_P_STOP = PaperClaim("top-p beats beam search on early stop")
TOP_P_OR_K = PaperClaim("top-p beats top-k on early stop")
REPEATED = PaperClaim("right suffixes are drawn far more often", "85.38 of 100")
CONFIDENT = PaperClaim("right suffixes have far higher confidence")
THREE_SUFFICE = PaperClaim("recall@3 is about recall@100")
BEST_IS_BELOW = PaperClaim("recall@1 is below recall@100", "0.63 vs 0.69")


table_2_trials = partial(each_seed, makers=(untuned, tuned, unsmoothed))
"""A function that lists trials without a prompt, with Ethicist's prompt, and with a prompt tuned without smoothing."""
table_3_trials = partial(each_seed, makers=[partial(decoded, decoding=decoding) for decoding in DECODINGS])
"""A function that lists trials of Ethicist's prompt with four decodings."""
table_4_trials = partial(each_seed, makers=[tuned])
"""A function that lists trials of Ethicist."""


def table_2(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report recall and recall_early_stop of baselines, Ethicist and its ablations."""
    settings = by_setting(trials)
    rows: list[TableRow] = [
        {
            "method": method,
            "recall, published": Published(whole),
            "recall": measured(settings[setting], recall(confidence)),
            "early stop, published": Published(early),
            "early stop": measured(settings[setting], early_stop(confidence)),
        }
        for method, (setting, confidence, whole, early) in TABLE_2.items()
    ]
    return Report(list(rows[0]), rows, table_2_claims(settings), [*set_up(trials, plan), TABLE_2_NOTE])


def table_2_claims(settings: dict[str, list[StudyTrial]]) -> list[Claim]:
    """Return the conclusions of section 4.4 from Table 2 as claims."""
    no_prompt, smooth, plain = (settings[name] for name in (UNTUNED, SMOOTH, PLAIN))

    def compared(words: str, measure: Callable[[str], Measure], one: Guesses, other: Guesses) -> Claim:
        return more(words, (one[0], measure(one[1])), (other[0], measure(other[1])))

    ours, bare, plainly = ((setting, "calibrated") for setting in (smooth, no_prompt, plain))
    uncalibrated, by_perplexity = (smooth, "perplexity"), early_stop("calibrated", ordered_by="perplexity")
    order_claim = "guesses ordered by calibrated confidence give a higher recall_early_stop than by perplexity"

    def beaten(measure: Callable[[str], Measure]) -> dict[str, MeasureContrast]:
        return {name: difference((smooth, measure("calibrated")), (no_prompt, measure(name))) for name in BASELINES}

    return [
        compared(TUNING.test("recall"), recall, ours, bare),
        compared(TUNING.test("recall_early_stop"), early_stop, ours, bare),
        compared(SMOOTHING.words, recall, uncalibrated, (plain, "perplexity")),
        more(order_claim, (smooth, early_stop("calibrated")), (smooth, by_perplexity)),
        more("so they do without a prompt", (no_prompt, early_stop("calibrated")), (no_prompt, by_perplexity)),
        compared(CALIBRATION.words, early_stop, ours, uncalibrated),
        compared(CALIBRATION_ALONE.words, early_stop, bare, (no_prompt, "perplexity")),
        compared(BEATS_COMPARING.words, early_stop, plainly, (plain, "comparing_lm")),
        compared(MATTERS_MORE.test("recall"), recall, uncalibrated, plainly),
        compared(MATTERS_MORE.test("recall_early_stop"), early_stop, plainly, uncalibrated),
        every(BEATS_BASELINES.test("recall"), beaten(recall)),
        every(BEATS_BASELINES.test("recall_early_stop"), beaten(early_stop)),
    ]


def table_3(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report recall and recall_early_stop by decoding; guesses of searches are ordered by perplexity."""
    by_decoding = {name: [trial for trial in trials if trial.config["decoding"] == name] for name in DECODINGS}
    confidence = {name: "perplexity" if name in ("greedy", "beam") else "calibrated" for name in DECODINGS}
    words = {"greedy": "greedy", "beam": "beam 10", "top-k": "top-k 10", "top-p": "top-p 0.7"}

    def side(name: str, measure: Callable[[str], Measure]) -> Side:
        return by_decoding[name], measure(confidence[name])

    rows: list[TableRow] = [
        {
            "decoding": words[name],
            "published": Published(None),
            **{what: measured(*side(name, measure)) for what, measure in MEASURES.items()},
        }
        for name in DECODINGS
    ]
    others = ("beam", "top-k", "top-p")
    claims = [
        every(
            GREEDY.test(what),
            {words[name]: difference(side(name, measure), side("greedy", measure)) for name in others},
        )
        for what, measure in (("recall", recall), ("recall_early_stop", early_stop))
    ]
    claims += [
        more(BEAM_RECALL.words, side("beam", recall), side("top-p", recall)),
        more(TOP_P_STOP.words, side("top-p", early_stop), side("beam", early_stop)),
        more(TOP_P_OR_K.words, side("top-p", early_stop), side("top-k", early_stop)),
    ]
    note = "Top-k uses 10 tokens at temperature 0.8, beam search 10 beams (the paper's Appendix A)."
    return Report(list(rows[0]), rows, claims, [*set_up(trials, plan), note])


def table_4(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report features of right and wrong predictions."""
    nats = math.log(2) / trials[0].result["suffix"]
    features = {
        "average confidence": ("confidence", 1.0, None),
        "average loss (nats a token)": ("bits", nats, None),
        "average repeat time": ("count", 1.0, RIGHT_REPEATED),
    }
    rows: list[TableRow] = [
        {
            "feature": name,
            "right, published": Published(published),
            "right": measured(trials, mean_of(field, right=True, scale=scale), math.inf),
            "wrong, published": Published(None),
            "wrong": measured(trials, mean_of(field, right=False, scale=scale), math.inf),
        }
        for name, (field, scale, published) in features.items()
    ]
    rows += [
        {"feature": f"recall@{k}", "all, published": Published(published), "all": measured(trials, recall_at(k))}
        for k, published in RECALL_AT.items()
    ]
    columns = ["feature", *(f"{who}{end}" for who in ("right", "wrong", "all") for end in (", published", ""))]
    note = "The published repeat time and recalls are from section 5; the rest of Table 4 is not in the source."
    right, wrong = (mean_of("count", right=which) for which in (True, False))
    twice = contrast((1.0, trials, right), (-2.0, trials, wrong))
    at = {k: recall_at(k) for k in RECALL_AT}
    gap = contrast((-1.0, trials, at[100]), (1.0, trials, at[3]))
    claims = [
        above(REPEATED.test("at least twice as often as wrong ones"), twice, "right − 2 × wrong"),
        more(
            CONFIDENT.words,
            (trials, mean_of("confidence", right=True)),
            (trials, mean_of("confidence", right=False)),
        ),
        above(THREE_SUFFICE.test(f"within {NEARLY}"), gap, "recall@3 − recall@100", -NEARLY),
        more(BEST_IS_BELOW.words, (trials, at[100]), (trials, at[1])),
    ]
    return Report(columns, rows, claims, [*set_up(trials, plan), note])


register_study("table-2", "Ethicist, its ablations and baselines", "Table 2", table_2_trials, table_2)
register_study("table-3", "ways of decoding with a prompt", "Table 3", table_3_trials, table_3)
register_study("table-4", "right and wrong predictions", "Table 4", table_4_trials, table_4)
