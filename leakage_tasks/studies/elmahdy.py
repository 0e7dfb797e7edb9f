"""Tables 2, 3 and 4 of Elmahdy, Inan and Sim, "Privacy leakage in text classification" (2022)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from leakage_tasks.studies.ground import REDDIT, Ground, at_scale, differences
from leakage_tasks.studies.registry import Config, Plan, Result, Study, Trial, register
from leakage_tasks.studies.report import Claim, Measured, Published, Report

SMALL = Ground()
PAPER = Ground(
    data=REDDIT,
    classes=100,
    samples=10_000,
    held_out=2_500,
    base="bert-base-cased",
    epochs=10,
    learning_rate=1e-6,
    max_length=128,
    keep="accuracy",
)
SCALES = {
    "smoke": "seconds",
    "small": "a quarter of an hour on 2 cores, for all of the paper's tables together",
    "paper": "a GPU for a day, bert-base-cased, Reddit posts as $LEAKAGE_DATA/reddit.jsonl",
}
CANARIES = {"smoke": 2, "small": 4, "paper": 1}
"""Canaries a victim, each in a rare class of its own; the paper plants one."""
SEEDS = {"smoke": 1, "small": 5, "paper": 10}
PENALTIES = (0.0, 0.01, 0.1, 1.0, 10.0)
BEAM, SHORTLIST = 100, 100

TABLE_2 = {
    0.0: (0.8, 0.2, 0.0),
    0.01: (0.9, 0.3, 0.0),
    0.1: (0.7, 0.1, 0.0),
    1.0: (0.3, 0.1, 0.0),
    10.0: (0.1, 0.0, 0.0),
}
TABLE_3 = {
    (50, 100): 0.7, (50, 50): 0.5, (50, 25): 0.1, (50, 10): 0.0,
    (100, 100): 0.9, (100, 50): 0.5, (100, 25): 0.3, (100, 10): 0.1,
    (200, 100): 1.0, (200, 50): 0.9, (200, 25): 0.4, (200, 10): 0.2,
}  # fmt: skip
TABLE_4 = {
    (99, 50): 0.5, (99, 100): 0.5, (99, 200): 0.5,
    (50, 50): 0.4, (50, 100): 0.4, (50, 200): 0.5,
    (25, 50): 0.4, (25, 100): 0.5, (25, 200): 0.5,
    (0, 50): 0.1, (0, 100): 0.1, (0, 200): 0.1,
}  # fmt: skip
ALPHABET = 17_000
"""Whole words of BERT's tokenizer, by the paper's count."""


def victim(plan: Plan, seed: int, **changed: Any) -> Config:
    """A trial's config: the paper's main setting, but for what is ``changed``."""
    setting = {
        "ground": at_scale(plan.scale, SMALL, PAPER).config(),
        "canaries": CANARIES[plan.scale],
        "seed": seed,
        "repetitions": 100,
        "supporting": "all",
        "supporting_repetitions": 1,
        "unknown": 1,
        "first_class": 0.0,
        "organic": False,
        "epsilon": None,
        "penalties": list(PENALTIES),
    }
    return {**setting, **changed}


def run(config: Config, shared: Path) -> Result:
    """Train a victim and search for its canaries with every penalty.

    ``places`` has for each penalty the secrets' places among all candidates (last token) or in the final beam of 100
    (None: not in it), ``controls`` those of as many canaries that were never planted.
    """
    from leakage_tasks.attacks import run_attack
    from leakage_tasks.studies.victims import alphabet_of, classes_by_rows, rows_of, trained_victim

    ground = Ground(**config["ground"])
    rows = rows_of(ground)
    words = alphabet_of(ground, shared, "whole-words", "words")
    ranked = classes_by_rows(rows)
    first = round(config["first_class"] * (len(ranked) - config["canaries"]))
    canaries = _canaries(config, words, ranked[first : first + config["canaries"]], rows)
    own = [canary for canary in canaries if canary.kind != "supporting"]
    with trained_victim(ground, rows, canaries, shared, config["seed"], config["epsilon"]) as trained:
        places = {}
        for penalty in config["penalties"]:
            settings: dict[str, Any] = {"beam": BEAM, "lambda": penalty}
            settings |= {"corpus": str(trained.planted)} if penalty else {}
            settings |= {"shortlist": SHORTLIST} if config["unknown"] > 1 else {}
            places[str(penalty)] = run_attack("label-search", trained.target, own, goal="extraction", settings=settings)
        return {
            "places": {key: [found.place for found in each if found.planted] for key, each in places.items()},
            "controls": {key: [found.place for found in each if not found.planted] for key, each in places.items()},
            "alphabet": len(words),
            "accuracy": trained.accuracy,
            "training_accuracy": trained.training_accuracy,
            "epsilon": trained.epsilon,
        }


def _canaries(config: Config, words: Any, classes: Sequence[str], rows: Any) -> list[Any]:
    """One canary a class with its supporting ones, and one control a class."""
    from leakage_tasks.canaries import elmahdy_canaries

    made = []
    for place, label in enumerate(classes):
        made += elmahdy_canaries(
            words,
            1,
            label=label,
            classes=rows.labels,
            unknown=config["unknown"],
            repetitions=(config["repetitions"],),
            supporting=config["supporting"],
            supporting_repetitions=config["supporting_repetitions"],
            controls=1,
            sentences=_sentences(rows, words, config["seed"], place) if config["organic"] else None,
            seed=config["seed"],
            id_prefix=f"{place}-",
        )
    return made


def _sentences(rows: Any, words: Any, seed: int, place: int) -> list[str]:
    """A ten-word beginning of a sentence the victim does not see, which ends in a whole word."""
    import random

    from leakage_tasks.canaries.presets.sentences import words_of

    found = []
    for text, _ in rows.validation:
        parts = words_of(text)[:10]
        if len(parts) == 10 and all(part in words for part in parts):
            found.append(" ".join(parts))
    found = found or [" ".join(words.values[:10])]
    random.Random(f"organic:{seed}").shuffle(found)
    return [found[place % len(found)]]


# -- counting -----------------------------------------------------------------------------------------------


def success(trials: Iterable[Trial], k: int, penalty: float, which: str = "places") -> Measured | None:
    """The share of canaries found within ``k`` guesses; None without trials."""
    places = [place for trial in trials for place in trial.result[which][str(penalty)]]
    return Measured.rate(sum(place is not None and place <= k for place in places), len(places)) if places else None


def chosen(trials: Iterable[Trial], **wanted: Any) -> list[Trial]:
    """The trials whose config has these values."""
    return [trial for trial in trials if all(trial.config[name] == value for name, value in wanted.items())]


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


def register_table(name: str, title: str, source: str, trials: Callable[[Plan], list[Config]], report: Any) -> Study:
    """Register a study of this paper."""
    return register(Study(f"elmahdy/{name}", title, source, SCALES, trials, run, report))  # type: ignore[arg-type]


# -- the tables ---------------------------------------------------------------------------------------------


def table_2_trials(plan: Plan) -> list[Config]:
    """The last one, two and three tokens unknown."""
    return [victim(plan, seed, unknown=unknown) for unknown in (1, 2, 3) for seed in plan.seeds(SEEDS[plan.scale])]


def table_2(trials: Sequence[Trial], plan: Plan) -> Report:
    """Success within a beam of 100 by penalty."""
    size = trials[0].result["alphabet"]
    rows: list[dict[str, Any]] = []
    for penalty in PENALTIES:
        row: dict[str, Any] = {"λ": penalty}
        for unknown in (1, 2, 3):
            row[f"last {unknown}, published"] = Published(TABLE_2[penalty][unknown - 1])
            row[f"last {unknown}"] = success(chosen(trials, unknown=unknown), BEAM, penalty)
        rows.append(row)
    rows += [_guess_row(f"guess, (k/|V|)^n, |V| = {size}", size, True), _guess_row("guess, k/|V|^n", size, False)]
    one, two, three = (success(chosen(trials, unknown=unknown), BEAM, 0.01) for unknown in (1, 2, 3))
    none, much = (success(chosen(trials, unknown=1), BEAM, penalty) for penalty in (0.0, 10.0))
    control = success(chosen(trials, unknown=1), BEAM, 0.01, "controls")
    claims = [
        far_above_guess(one, BEAM / size, "100 repetitions leak the last token far above random guess"),
        above(one, two, "two unknown tokens are harder than one"),
        above(two, three, "three are harder than two"),
        above(one, none, "λ = 0.01 does no worse than none", at_least=True),
        above(one, much, "λ = 10 does worse than 0.01"),
        Claim("controls stay at chance", *_at_chance(control, BEAM / size)),
    ]
    extra = ["Two and three tokens: after the first, each filling goes on with the 100 best values by gradient."]
    columns = ["λ", *(f"last {n}{end}" for n in (1, 2, 3) for end in (", published", ""))]
    return Report(columns, rows, claims, [*set_up(plan), *extra, *accuracy(trials)])


def _guess_row(words: str, size: int, printed: bool) -> dict[str, Any]:
    """Random guess as the paper prints it, or as it is for a beam of whole tuples; the paper's and ours."""
    row: dict[str, Any] = {"λ": words}
    for n in (1, 2, 3):
        theirs, ours = ((BEAM / each) ** n if printed else BEAM / each**n for each in (ALPHABET, size))
        row |= {f"last {n}, published": f"{theirs:.2g}", f"last {n}": f"{ours:.2g}"}
    return row


def far_above_guess(rate: Measured | None, guess: float, words: str) -> Claim:
    """The claim that a rate's whole interval is above random guess."""
    if rate is None or rate.low is None:
        return Claim(words, None, "not measured")
    return Claim(words, rate.low > guess, f"{rate.value:.2f} [{rate.low:.2f}, {rate.high:.2f}] against {guess:.4f}")


def _at_chance(rate: Measured | None, guess: float) -> tuple[bool | None, str]:
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


def table_3_trials(plan: Plan) -> list[Config]:
    """Repetitions of the canary."""
    return [victim(plan, seed, repetitions=r) for r in (100, 50, 25, 10) for seed in plan.seeds(SEEDS[plan.scale])]


def table_3(trials: Sequence[Trial], plan: Plan) -> Report:
    """Success on the last token by repetitions and beam size, λ = 0.01."""
    size = trials[0].result["alphabet"]
    rows: list[dict[str, Any]] = []
    rates = {}
    for k in (50, 100, 200):
        for repetitions in (100, 50, 25, 10):
            rates[k, repetitions] = success(chosen(trials, repetitions=repetitions), k, 0.01)
            rows.append(_row(repetitions, k, TABLE_3[k, repetitions], rates[k, repetitions], size))
    claims = [
        far_above_guess(rates[100, 100], 100 / size, "success at 100 is far above random guess at 100 repetitions"),
        above(rates[100, 100], rates[100, 10], "more repetitions leak more: 100 against 10"),
        above(rates[100, 50], rates[100, 25], "50 against 25", at_least=True),
        above(rates[200, 10], rates[50, 10], "more guesses find more at 10 repetitions", at_least=True),
    ]
    return Report(list(rows[0]), rows, claims, [*set_up(plan), *accuracy(trials)])


def _row(repetitions: int, k: int, published: float, rate: Measured | None, size: int) -> dict[str, Any]:
    return {
        "repetitions": repetitions,
        "beam": k,
        "published": Published(published),
        "measured": rate,
        "guess, published": f"{k / ALPHABET:.4f}",
        "guess": f"{k / size:.4f}",
    }


def table_4_trials(plan: Plan) -> list[Config]:
    """Supporting canaries in one other class, in all, or in none."""
    seeds = plan.seeds(SEEDS[plan.scale])
    one = [victim(plan, seed, supporting="one", supporting_repetitions=r) for r in (99, 50, 25) for seed in seeds]
    none = [victim(plan, seed, supporting="none") for seed in seeds]
    return [*one, *none, *(victim(plan, seed) for seed in seeds)]


def table_4(trials: Sequence[Trial], plan: Plan) -> Report:
    """Success on the last token by copies of the supporting canary in one other class, λ = 0."""
    size = trials[0].result["alphabet"]
    by_support = {
        **{r: chosen(trials, supporting="one", supporting_repetitions=r) for r in (99, 50, 25)},
        0: chosen(trials, supporting="none"),
    }
    rows: list[dict[str, Any]] = []
    for repetitions, own in by_support.items():
        for k in (50, 100, 200):
            rows.append(_row(repetitions, k, TABLE_4[repetitions, k], success(own, k, 0.0), size))
    every = chosen(trials, supporting="all")
    for k in (50, 100, 200):
        rows.append({**_row(1, k, 0.0, success(every, k, 0.0), size), "published": None, "repetitions": "1 in all"})
    one, none, all_others = (success(own, 100, 0.0) for own in (by_support[25], by_support[0], every))
    claims = [
        above(all_others, one, "a supporting canary in all other classes beats one class", at_least=True),
        above(one, none, "a supporting canary in one class beats none"),
        above(all_others, none, "a supporting canary in all other classes beats none"),
        far_above_guess(none, 100 / size, "even without one, extraction is possible"),
    ]
    return Report(list(rows[0]), rows, claims, [*set_up(plan), *accuracy(trials)])


register_table(
    "table-2",
    "extraction of the last one, two and three tokens by penalty λ",
    "Elmahdy, Inan and Sim 2022, Table 2",
    table_2_trials,
    table_2,
)
register_table(
    "table-3",
    "extraction of the last token by repetitions and beam size",
    "Elmahdy, Inan and Sim 2022, Table 3",
    table_3_trials,
    table_3,
)
register_table(
    "table-4",
    "extraction of the last token by copies of a supporting canary in one other class",
    "Elmahdy, Inan and Sim 2022, Table 4",
    table_4_trials,
    table_4,
)
