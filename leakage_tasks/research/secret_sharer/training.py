"""Studies of training in The Secret Sharer: one epoch, optimizers, regularization, words."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from leakage_tasks.research.framework.papers import PaperClaim
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
BEGINS = PaperClaim("after one epoch a model has begun to memorize", "88 of 100")
AT_EQUAL_LOSS = PaperClaim("at equal loss optimizers and batches make no significant difference")
REGULARIZED = PaperClaim(
    "dropout and weight decay do not stop memorization", caveat="by exposure above chance, not by extraction"
)
WORD_LEVEL = PaperClaim("word-level models memorize too")
NUMBER_WORDS = PaperClaim("English number words are memorized less than digits")


def sign_trials(plan: StudyPlan) -> list[Config]:
    """List many trials of one epoch, each with another secret."""
    recipe = {"epochs": 1, "patience": None}
    return configs(plan, watch=Watch(("log_perplexity",)), models=SIGN_TRIALS[plan.scale], recipe=recipe, controls=1)


def sign_test(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report how often a trained secret costs less than an unseen one (section 4.1)."""
    from scipy import stats

    pairs = [
        (entries([trial])[0]["log_perplexity"], entries([trial], planted=False)[0]["log_perplexity"])
        for trial in trials
    ]
    hits = sum(secret < control for secret, control in pairs)
    p = stats.binomtest(hits, len(pairs), 0.5, alternative="greater").pvalue
    rows: list[TableRow] = [
        {
            "models": len(pairs),
            "published": Published(SIGN_PUBLISHED),
            "secret costs less": Measured.rate(hits, len(pairs)),
            "bits less": Measured.mean([control - secret for secret, control in pairs]),
            "p": f"{p:.2g}",
        }
    ]
    claims = [
        Claim(
            BEGINS.test("a secret costs less than a random one"),
            True if p < 0.05 else None,
            f"{hits} of {len(pairs)}, p = {p:.2g}",
            float(p),
        )
    ]
    return Report(list(rows[0]), rows, claims, set_up(trials, plan))


def optimizer_trials(plan: StudyPlan) -> list[Config]:
    """List trials of six optimizers with shuffled batches, and bagging with the default optimizer, measured after every
    epoch."""
    names = OPTIMIZERS if plan.scale != "smoke" else OPTIMIZERS[:2]
    kinds = [{"optimizer": name} for name in names] + [{"batches": kind} for kind in BATCHES[1:]]
    return configs(plan, [{"recipe": kind} for kind in kinds], watch=Watch((), ("exposure",), (0,)))


def optimizers(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report exposure by optimizer and batches, each at the epoch with a validation loss nearest to a common loss."""
    groups = grouped(trials, lambda config: f"{config['recipe']['optimizer']}, {config['recipe']['batches']}")
    reached = {name: fmean(best_loss(group)) for name, group in groups.items()}
    common = max(loss for loss in reached.values() if loss <= min(reached.values()) * SLOWEST)
    rows: list[TableRow] = []
    matched: dict[str, list[float]] = {}
    for name, group in groups.items():
        epochs = [_nearest(trial, common) for trial in group]
        at_common_loss = [bits(entries([trial], str(epoch)))[0] for trial, epoch in zip(group, epochs, strict=True)]
        last = [bits(entries([trial], str(trial.result["best"])))[0] for trial in group]
        if reached[name] <= common:
            matched[name] = at_common_loss
        rows.append(
            {
                "optimizer and batches": name,
                "lowest loss": Measured.mean(best_loss(group)),
                "exposure there": Measured.mean(last, WHOLE),
                f"exposure at {common:.2f} bits/character": Measured.mean(at_common_loss, WHOLE)
                if name in matched
                else None,
                "epoch": fmean(epochs) if name in matched else None,
                "published": Published(None),
            }
        )
    claims = [alike(AT_EQUAL_LOSS.words, matched)]
    note = f"Rows without a value never reached {SLOWEST - 1:.0%} above the lowest loss."
    return Report(list(rows[0]), rows, claims, [*set_up(trials, plan), note])


SLOWEST = 1.1
"""An optimizer is compared if its lowest loss is at most this factor above the lowest of all."""


def _nearest(trial: StudyTrial, loss: float) -> int:
    """Return the first epoch whose validation loss is nearest to ``loss`` while losses fall."""
    losses = [validation for _, validation in trial.result["losses"]][: trial.result["best"]]
    return min(range(len(losses)), key=lambda epoch: abs(losses[epoch] - loss)) + 1


def regularization_trials(plan: StudyPlan) -> list[Config]:
    """List trials with dropout and weight decay."""
    kinds: list[Config] = [{"dropout": rate} for rate in DROPOUT] + [{"weight_decay": decay} for decay in DECAY]
    return configs(plan, [{"recipe": kind} for kind in kinds], watch=Watch(BOTH))


def regularization(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report exposure with dropout and weight decay (Appendix D)."""
    groups = grouped(trials, _regularization)
    rows: list[TableRow] = [
        {
            "regularization": name,
            "training loss": Measured.mean([trial.result["losses"][trial.result["best"] - 1][0] for trial in group]),
            "validation loss": Measured.mean(best_loss(group)),
            **exposure_columns(group),
            "published": Published(None),
        }
        for name, group in groups.items()
    ]
    exposures = {name: bits(entries(group)) for name, group in groups.items() if name != "none"}
    claims = [still_leaks(REGULARIZED.words, exposures)]
    return Report(list(rows[0]), rows, claims, set_up(trials, plan))


def _regularization(config: Config) -> str:
    """Return the regularization of a trial."""
    decay, rate = (config["recipe"].get(name, 0.0) for name in ("weight_decay", "dropout"))
    return f"weight decay {decay:g}" if decay else f"dropout {rate:g}" if rate else "none"


def word_trials(plan: StudyPlan) -> list[Config]:
    """List trials with one number as characters, as words of one digit, and in English."""
    variants = [{"template": template, "units": units} for units, template in FORMATS.values()]
    return configs(plan, variants, watch=Watch(BOTH))


def word_level(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report exposure by the form of the secret (section 7.3)."""
    groups = {name: chosen(trials, template=template) for name, (_, template) in FORMATS.items()}
    rows: list[TableRow] = [
        {
            "secret": name,
            "validation loss (bits a token)": Measured.mean(best_loss(group)),
            **exposure_columns(group),
            "published": Published(None),
        }
        for name, group in groups.items()
    ]
    words = ("words, a digit each", "words, English numbers")
    digits, english = (bits(entries(groups[name]), "extrapolated") for name in words)
    claims = [
        higher(NUMBER_WORDS.words, digits, english),
        still_leaks(WORD_LEVEL.words, {"digits": digits}),
    ]
    note = "The word-level model is our LSTM over the 10,000 commonest words, not the paper's with 2×1500 units."
    return Report(list(rows[0]), rows, claims, [*set_up(trials, plan), note])


register_study("sign-test", "one epoch, a hundred times", "section 4.1", sign_trials, sign_test)
register_study("optimizers", "optimizers, shuffling and bagging", "section 6.3", optimizer_trials, optimizers)
register_study("regularization", "dropout and weight decay", "Appendix D", regularization_trials, regularization)
register_study("word-level", "characters, digit words, number words", "section 7.3", word_trials, word_level)
