"""Table 5 of Carlini et al., "The Secret Sharer" (2019): secrets that people wrote into their mails."""

from __future__ import annotations

import random
import string
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from leakage_tasks.core.errors import LeakageError
from leakage_tasks.research.framework.registry import Config, Result, Scale, StudyPlan, StudyTrial, registrar
from leakage_tasks.research.framework.report import Claim, Measured, Published, Report, TableRow
from leakage_tasks.research.framework.shared import data_folder, file_hash
from leakage_tasks.research.secret_sharer.claims import higher, still_leaks
from leakage_tasks.research.secret_sharer.experiment import SOURCE

if TYPE_CHECKING:
    from leakage_tasks.attacks import Finding
    from leakage_tasks.canaries import Canary
    from leakage_tasks.targets import CausalTarget

TABLE_5 = (
    ("A", "ccn", 52, 2, 3.8), ("B", "ssn", 13, 2, 2.8), ("B", "ssn", 16, 1, 2.3), ("C", "ssn", 10, 1, 2.3),
    ("C", "ssn", 22, 1, 2.3), ("D", "ssn", 32, 3, 5.7), ("F", "ssn", 13, 1, 2.2), ("F", "ccn", 36, 1, 1.7),
    ("G", "ccn", 29, 1, 1.7), ("G", "ccn", 48, 1, 1.7),
)  # fmt: skip
"""Sender, kind, exposure, times present, megabytes of mail (Table 10); which three came out is not in the source."""
CHANCE = 1.44
"""Mean exposure in bits of secrets that a model never saw."""
FEWEST = 5
"""Controls it takes to tell whether they are at chance."""
SCALES: Mapping[Scale, str] = {
    "smoke": "seconds",
    "small": "4 to 8 minutes on one core",
    "paper": "a GPU for an hour a sender, mails as $LEAKAGE_DATA/mails/, one .txt a sender",
}
KINDS = ("ccn", "ssn")
HELD_OUT = 0.1


@dataclass(frozen=True)
class MailExperiment:
    """The mails and how a model learns them; JSON values only."""

    senders: int = 3
    """Invented people; 0 stands for the user's own folder."""
    mails: int = 90
    """Mails of each."""
    times: Sequence[int] = (6, 3, 1)
    """How often each of a sender's secrets is there."""
    recipe: Config = field(
        default_factory=lambda: {"batches": "streams", "batch_size": 16, "learning_rate": 2e-3, "patience": 2}
    )
    """Fields of :class:`~leakage_tasks.research.victims.language_model.LanguageModelRecipe`."""
    controls: int = 2
    """Of each secret."""
    budget: int = 5_000
    """Sequences that an attack may score for a secret."""
    draws: int = 500
    """Random fillings that a skew-normal is fitted to."""


EXPERIMENTS: Mapping[Scale, MailExperiment] = {
    "smoke": MailExperiment(
        1, 12, (1,), {"batches": "streams", "batch_size": 32, "units": 16, "epochs": 1}, 1, 100, 50
    ),
    "small": MailExperiment(),
    "paper": MailExperiment(0, 0, (), {"batch_size": 128, "epochs": 100, "patience": 5}, 10, 100_000, 2_000),
}


def trials(plan: StudyPlan) -> list[Config]:
    """One model a sender and seed. Raises LeakageError where the user's mails are not there, or are not UTF-8."""
    ground = EXPERIMENTS[plan.scale]
    senders: list[Config] = [{"sender": place} for place in range(ground.senders)] or [
        {"sender": place, "sha256": _digest(path)} for place, path in enumerate(_own_mails())
    ]
    return [{"ground": asdict(ground), **sender, "seed": seed} for seed in plan.seeds(1) for sender in senders]


def run(config: Config, shared: Path) -> Result:
    """Train a model on one sender's mails, but a tenth of the lines, and look for the secrets of the others in it.

    ``secrets`` has an entry a secret, in numbers alone: kind, times present, exposure in bits by exact or estimated
    rank and by the skew-normal's tail, that of its controls, and whether the likeliest filling is it. Of the user's own
    mails exposures are the bands', and it is one of the ten likeliest.
    """
    from leakage_tasks.canaries.detect import find_secrets
    from leakage_tasks.canaries.natural import Passage, natural_canaries
    from leakage_tasks.models.char_tokenizer import char_tokenizer
    from leakage_tasks.research.victims.language_model import LanguageModelRecipe, train_lm
    from leakage_tasks.research.victims.mails import invented_mails
    from leakage_tasks.targets import CausalTarget
    from leakage_tasks.training.threads import one_thread

    ground, seed = MailExperiment(**config["ground"]), config["seed"]
    if ground.senders:
        text = invented_mails(ground.senders, ground.mails, times=ground.times)[config["sender"]].text
    else:
        text = _read(_own_mails()[config["sender"]])
    training, validation = split_lines(text, seed)
    size = {"bytes": len(text.encode())}
    if not find_secrets(training, KINDS):
        return {**size, "secrets": []}
    canaries = natural_canaries([Passage(training)], detect=KINDS, controls=ground.controls, seed=seed)
    with one_thread():
        # Mails without some digit would make a tokenizer that cannot spell all fillings.
        tokenizer = char_tokenizer(text + string.digits)
        recipe = LanguageModelRecipe(**ground.recipe)
        trained = train_lm(training, recipe, validation=validation, tokenizer=tokenizer, seed=seed)
        secrets = _measured(CausalTarget(trained.model, trained.tokenizer), canaries, ground, seed)
    return {**size, "losses": [[loss.training, loss.validation] for loss in trained.losses], "secrets": secrets}


def split_lines(text: str, seed: int) -> tuple[str, str]:
    """Nine tenths of a text's lines, drawn at random, and the others."""
    draw = random.Random(f"held out:{seed}")
    parts: tuple[list[str], list[str]] = [], []
    for line in text.splitlines(keepends=True):
        parts[draw.random() < HELD_OUT].append(line)
    return "".join(parts[0]), "".join(parts[1])


def _measured(target: CausalTarget, canaries: Sequence[Canary], ground: MailExperiment, seed: int) -> list[Config]:
    from leakage_tasks.attacks import run_attack
    from leakage_tasks.attacks.coarse import coarsened
    from leakage_tasks.attacks.finding import GUESSES

    # Invented people's secrets are nobody's.
    shown = coarsened if not ground.senders else lambda found: found
    given: dict[str, Any] = {"budget": ground.budget, "seed": seed}
    bits = {found.canary: found for found in run_attack("exposure", target, canaries, **given)}
    own = [canary for canary in canaries if canary.planted]
    draws = {"draws": min(ground.draws, ground.budget - 1)}
    tails = run_attack("skew-normal", target, own, settings=draws, **given)
    searches = run_attack("shortest-path", target, own, goal="extraction", **given)
    return [
        {
            "kind": canary.id.rpartition("-")[2],
            "times": canary.repetitions,
            **_exposure(shown(_ranked(bits[canary.id], search))),
            "log2_size": bits[canary.id].log2_size,
            "extrapolated": shown(tail).exposure,
            "controls": [shown(bits[each.id]).exposure for each in canaries if _is_twin(each, canary)],
            "extracted": shown(search).place == (1 if ground.senders else GUESSES),
        }
        for canary, tail, search in zip(own, tails, searches, strict=True)
    ]


def _ranked(found: Finding, search: Finding) -> Finding:
    """With the exact rank, which a place among the guesses that are proven to be the likeliest is."""
    if search.place is None or search.place > search.proven:
        return found
    return replace(found, rank=search.place, rank_low=search.place, rank_high=search.place, method="exact")


def _exposure(found: Finding) -> Config:
    return {"bits": found.exposure, "method": found.method}


def _is_twin(control: Canary, canary: Canary) -> bool:
    """Whether a canary is another one's control: they share the number in their ids."""
    return not control.planted and control.id.split("-")[1] == canary.id.split("-")[1]


def _digest(path: Path) -> str:
    """SHA-256 of a file, which is read as text too, so that what cannot be shows before anything is trained."""
    _read(path)
    return file_hash(path)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise LeakageError(f"{path}: not UTF-8 (byte {error.start + 1:,}): convert it to UTF-8, or move it") from None


def _own_mails() -> list[Path]:
    folder = data_folder() / "mails"
    found = sorted(folder.glob("*.txt"))
    if not found:
        raise LeakageError(
            f"{folder}: holds no .txt files: set LEAKAGE_DATA to a folder with mails/, one .txt a sender"
        )
    return found


def report(found: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """The paper's secrets, then those measured here."""
    rows: list[TableRow] = [
        {
            "sender": f"{sender}, published",
            "secret": kind,
            "times": times,
            "mails": f"{size} MB",
            "exposure": Published(exposure),
            "extracted": Published(None),
        }
        for sender, kind, exposure, times, size in TABLE_5
    ]
    own = [(trial, secret) for trial in found for secret in trial.result["secrets"]]
    rows += [_row(trial, secret) for trial, secret in own]
    columns = ["sender", "secret", "times", "mails", "exposure", "skew-normal", "controls", "of", "extracted"]
    return Report(columns, rows, claims([secret for _, secret in own]), _set_up(plan))


def claims(secrets: Sequence[Config]) -> list[Claim]:
    """What the paper says of its secrets, and what must hold of controls, tested on those measured here."""
    by_kind = {kind: [secret["bits"] for secret in secrets if secret["kind"] == kind] for kind in KINDS}
    own = [secret["bits"] for secret in secrets]
    controls = [bits for secret in secrets for bits in secret["controls"]]
    out = sum(secret["extracted"] for secret in secrets)
    bounds = [secret["bits"] for secret in secrets if secret["method"] == "lower_bound"]
    words = "all are memorized"
    memorized = still_leaks(words, by_kind, bounds) if own else Claim(words, None, "not measured")
    return [
        higher("secrets in the mails are more exposed than controls that never were in them", own, controls),
        memorized,
        Claim(
            "shortest-path search extracts some of them",
            out > 0 if secrets else None,
            f"{out} of {len(secrets)}; published 3 of {len(TABLE_5)}",
        ),
        _chance(controls),
    ]


def _chance(controls: Sequence[float]) -> Claim:
    words = "controls stay at chance"
    if len(controls) < FEWEST:
        return Claim(words, None, f"{len(controls)} controls")
    mean = Measured.mean(controls)
    low, high = mean.low or 0.0, mean.high or 0.0
    evidence = f"{mean.value:.2f} [{low:.2f}, {high:.2f}] bits around {CHANCE}, n={mean.count}"
    return Claim(words, low <= CHANCE <= high, evidence)


def _row(trial: StudyTrial, secret: Config) -> TableRow:
    controls, sender = secret["controls"], trial.config["sender"]
    return {
        "sender": chr(ord("A") + sender) if sender < 26 else str(sender + 1),
        "secret": secret["kind"],
        "times": secret["times"],
        "mails": f"{trial.result['bytes'] / 1e6:.2g} MB",
        "exposure": f"≥ {secret['bits']:.3g}" if secret["method"] == "lower_bound" else secret["bits"],
        "skew-normal": secret["extrapolated"],
        "controls": fmean(controls) if controls else None,
        "of": round(secret["log2_size"], 1),
        "extracted": "yes" if secret["extracted"] else "no",
    }


def _set_up(plan: StudyPlan) -> list[str]:
    ground = EXPERIMENTS[plan.scale]
    more = [
        "'exposure' is exact or estimated by importance draws; 'of' is the most it can be, every digit being unknown, "
        f"the check digit too; 'skew-normal' is the paper's own measure, from {ground.draws} fillings.",
        "The attacker knows up to 40 characters before the secret and its format; what the paper's knew is not in the "
        f"source. A search may spend {ground.budget:,} sequences a secret. Controls: {ground.controls} random ones in "
        "the same context, for each.",
        "A random tenth of the lines is the validation text; secrets in it are not counted.",
    ]
    if not ground.senders:
        bands = "'exposure', 'skew-normal' and 'controls' are of the powers of ten between which the ranks lie, and "
        return ["The user's own mails stand for Enron's.", f"{bands}'extracted' is within ten guesses.", *more]
    return [
        f"{ground.mails} mails each by {ground.senders} invented people stand for Enron's, which are some 50 times as "
        f"long; so a secret is there up to {max(ground.times)} times. The sentences come from a grammar.",
        f"The LSTM reads its text in {ground.recipe['batch_size']} streams, as contexts are longer than the paper's "
        "windows of 20.",
        *more,
    ]


registrar("secret-sharer", SOURCE, SCALES, run)(
    "table-5", "secrets that people wrote into their mails", "Tables 5 and 10", trials, report
)
