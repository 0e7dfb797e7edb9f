"""What else The Secret Sharer says of training: one epoch, optimizers, regularization, words."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from leakage_tasks.research.framework.registry import Config, Scale, StudyPlan, StudyTrial, grouped
from leakage_tasks.research.framework.report import Claim, Measured, Published, Report, TableRow
from leakage_tasks.research.secret_sharer.claims import alike, higher, still_leaks
from leakage_tasks.research.secret_sharer.experiment import BOTH, CHARACTERS, WHOLE, WORDS, Watch, configs
from leakage_tasks.research.secret_sharer.trials import (
    best_loss,
    bits,
    chosen,
    entries,
    exposure_columns,
    register_study,
    set_up,
)

SIGN_TRIALS: dict[Scale, int] = {"smoke": 3, "small": 100, "paper": 100}
SIGN_PUBLISHED = 0.88
OPTIMIZERS = ("rmsprop", "sgd", "momentum", "adagrad", "adadelta", "adam")
BATCHES = ("shuffled", "bagged")
DROPOUT = (0.0, 0.2, 0.4)
DECAY = (1e-5, 1e-4)
FORMATS = {
    "characters": (CHARACTERS, "The random number is {digits:9}"),
    "words, a digit each": (WORDS, "the random number is {digit_words:9}"),
    "words, English numbers": (WORDS, "the random number is {number_words:9}"),
}


def sign_trials(plan: StudyPlan) -> list[Config]:
    """One epoch, many times, each with another secret."""
    recipe = {"epochs": 1, "patience": None}
    return configs(plan, watch=Watch(("log_perplexity",)), models=SIGN_TRIALS[plan.scale], recipe=recipe, controls=1)


def sign_test(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """How often a secret that was read costs less than one that was not (section 4.1)."""
    from scipy import stats

    pairs = [
        (entries([trial])[0]["log_perplexity"], entries([trial], planted=False)[0]["log_perplexity"])
        for trial in trials
    ]
    hits = sum(own < other for own, other in pairs)
    p = stats.binomtest(hits, len(pairs), 0.5, alternative="greater").pvalue
    rows: list[TableRow] = [
        {
            "models": len(pairs),
            "published": Published(SIGN_PUBLISHED),
            "secret costs less": Measured.rate(hits, len(pairs)),
            "bits less": Measured.mean([other - own for own, other in pairs]),
            "p": f"{p:.2g}",
        }
    ]
    claims = [
        Claim(
            "after one epoch a secret costs less than a random one",
            True if p < 0.05 else None,
            f"{hits} of {len(pairs)}, p = {p:.2g}",
            float(p),
        )
    ]
    return Report(list(rows[0]), rows, claims, set_up(trials, plan))


def optimizer_trials(plan: StudyPlan) -> list[Config]:
    """Six optimizers on shuffled batches, and bagging with the usual one, looked at after every epoch."""
    names = OPTIMIZERS if plan.scale != "smoke" else OPTIMIZERS[:2]
    kinds = [{"optimizer": name} for name in names] + [{"batches": kind} for kind in BATCHES[1:]]
    return configs(plan, [{"recipe": kind} for kind in kinds], watch=Watch((), ("exposure",), (0,)))


def optimizers(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Exposure by optimizer and batches, each model at the epoch whose validation loss is nearest to a common one."""
    groups = grouped(trials, lambda config: f"{config['recipe']['optimizer']}, {config['recipe']['batches']}")
    reached = {name: fmean(best_loss(own)) for name, own in groups.items()}
    common = max(loss for loss in reached.values() if loss <= min(reached.values()) * SLOWEST)
    rows: list[TableRow] = []
    matched: dict[str, list[float]] = {}
    for name, own in groups.items():
        epochs = [_nearest(trial, common) for trial in own]
        found = [bits(entries([trial], str(epoch)))[0] for trial, epoch in zip(own, epochs, strict=True)]
        last = [bits(entries([trial], str(trial.result["best"])))[0] for trial in own]
        if reached[name] <= common:
            matched[name] = found
        rows.append(
            {
                "optimizer and batches": name,
                "lowest loss": Measured.mean(best_loss(own)),
                "exposure there": Measured.mean(last, WHOLE),
                f"exposure at {common:.2f} bits/character": Measured.mean(found, WHOLE) if name in matched else None,
                "epoch": fmean(epochs) if name in matched else None,
                "published": Published(None),
            }
        )
    claims = [alike("at equal loss there is no significant difference between optimizers and batches", matched)]
    note = f"Rows without a figure never came within {SLOWEST - 1:.0%} of the lowest loss in these epochs."
    return Report(list(rows[0]), rows, claims, [*set_up(trials, plan), note])


SLOWEST = 1.1
"""How far above the lowest of all losses an optimizer's own may be for its exposure to be compared."""


def _nearest(trial: StudyTrial, loss: float) -> int:
    """The first epoch whose validation loss is nearest to ``loss`` on the way down."""
    losses = [found for _, found in trial.result["losses"]][: trial.result["best"]]
    return min(range(len(losses)), key=lambda epoch: abs(losses[epoch] - loss)) + 1


def regularization_trials(plan: StudyPlan) -> list[Config]:
    """Dropout and weight decay."""
    kinds: list[Config] = [{"dropout": rate} for rate in DROPOUT] + [{"weight_decay": decay} for decay in DECAY]
    return configs(plan, [{"recipe": kind} for kind in kinds], watch=Watch(BOTH))


def regularization(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Exposure with dropout and weight decay (Appendix D)."""
    groups = grouped(trials, _regularization)
    rows: list[TableRow] = [
        {
            "regularization": name,
            "training loss": Measured.mean([trial.result["losses"][trial.result["best"] - 1][0] for trial in own]),
            "validation loss": Measured.mean(best_loss(own)),
            **exposure_columns(own),
            "published": Published(None),
        }
        for name, own in groups.items()
    ]
    exposures = {name: bits(entries(own)) for name, own in groups.items() if name != "none"}
    claims = [still_leaks("neither dropout nor weight decay stops memorization", exposures)]
    return Report(list(rows[0]), rows, claims, set_up(trials, plan))


def _regularization(config: Config) -> str:
    """What a trial is regularized by."""
    decay, rate = (config["recipe"].get(name, 0.0) for name in ("weight_decay", "dropout"))
    return f"weight decay {decay:g}" if decay else f"dropout {rate:g}" if rate else "none"


def word_trials(plan: StudyPlan) -> list[Config]:
    """The same number as characters, as words of one digit, and in English, in three models."""
    variants = [{"template": template, "units": units} for units, template in FORMATS.values()]
    return configs(plan, variants, watch=Watch(BOTH))


def word_level_backend(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Exposure by how a secret is written (section 7.3)."""
    groups = {name: chosen(trials, template=template) for name, (_, template) in FORMATS.items()}
    rows: list[TableRow] = [
        {
            "secret": name,
            "validation loss (bits a token)": Measured.mean(best_loss(own)),
            **exposure_columns(own),
            "published": Published(None),
        }
        for name, own in groups.items()
    ]
    words = ("words, a digit each", "words, English numbers")
    digits, english = (bits(entries(groups[name]), "extrapolated") for name in words)
    claims = [
        higher("digits as words are exposed more than English number words", digits, english),
        still_leaks("word-level models memorize too", {"digits": digits}),
    ]
    note = "The word-level model is the lab's LSTM over the 10,000 commonest words, not the paper's of 2×1500 units."
    return Report(list(rows[0]), rows, claims, [*set_up(trials, plan), note])


register_study("sign-test", "one epoch, a hundred times", "section 4.1", sign_trials, sign_test)
register_study("optimizers", "optimizers, shuffling and bagging", "section 6.3", optimizer_trials, optimizers)
register_study("regularization", "dropout and weight decay", "Appendix D", regularization_trials, regularization)
register_study("word-level", "characters, digit words, number words", "section 7.3", word_trials, word_level_backend)
