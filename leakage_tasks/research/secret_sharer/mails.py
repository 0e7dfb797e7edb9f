"""Table 5 of Carlini et al., "The Secret Sharer" (2019): secrets that people wrote in their mails."""

from __future__ import annotations

import random
import string
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from leakage_tasks.core.errors import LeakageError
from leakage_tasks.research.framework.papers import PaperClaim
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
"""Sender, kind, exposure, copies, megabytes of mail (Table 10). The source does not say which three were extracted."""
CHANCE = 1.44
"""Mean exposure in bits of unseen secrets."""
FEWEST = 5
"""Controls required for a verdict on chance."""
SCALES: Mapping[Scale, str] = {
    "smoke": "seconds",
    "small": "4 to 8 minutes on one core",
    "paper": "a GPU for an hour per sender, mails as $LEAKAGE_DATA/mails/, one .txt file per sender",
}
MEMORIZED = PaperClaim("all are heavily memorized", "exposure 10 to 52")
EXTRACTED = PaperClaim("some can be extracted", "3 of 10")
KINDS = ("ccn", "ssn")
HELD_OUT = 0.1


@dataclass(frozen=True)
class MailExperiment:
    """The mails and the training of a model on them, as JSON values."""

    senders: int = 3
    """Invented senders; 0 for the user's own folder."""
    mails: int = 90
    """Mails per sender."""
    times: Sequence[int] = (6, 3, 1)
    """Copies of each of a sender's secrets."""
    recipe: Config = field(
        default_factory=lambda: {"batches": "streams", "batch_size": 16, "learning_rate": 2e-3, "patience": 2}
    )
    """Fields of :class:`~leakage_tasks.research.victims.language_model.LanguageModelRecipe`."""
    controls: int = 2
    """Controls per secret."""
    budget: int = 5_000
    """Sequences that an attack may score for a secret."""
    draws: int = 500
    """Random fillings for the fit of a skew-normal."""


EXPERIMENTS: Mapping[Scale, MailExperiment] = {
    "smoke": MailExperiment(
        1, 12, (1,), {"batches": "streams", "batch_size": 32, "units": 16, "epochs": 1}, 1, 100, 50
    ),
    "small": MailExperiment(),
    "paper": MailExperiment(0, 0, (), {"batch_size": 128, "epochs": 100, "patience": 5}, 10, 100_000, 2_000),
}


def trials(plan: StudyPlan) -> list[Config]:
    """List one trial per sender and seed. Raises LeakageError if the user's mails are missing or not UTF-8."""
    ground = EXPERIMENTS[plan.scale]
    senders: list[Config] = [{"sender": index} for index in range(ground.senders)] or [
        {"sender": index, "sha256": _digest(path)} for index, path in enumerate(_own_mails())
    ]
    return [{"ground": asdict(ground), **sender, "seed": seed} for seed in plan.seeds(1) for sender in senders]


def run(config: Config, shared: Path) -> Result:
    """Train a model on nine tenths of the lines of one sender's mails, and search for the secrets in these lines.

    ``secrets`` has an entry per secret with numbers only: kind, copies, exposure in bits by exact or estimated rank and
    by the skew-normal's tail, exposure of its controls, and whether the likeliest filling is the secret. For the user's
    own mails, exposures are coarsened to wide ranges, and the last value is True for a secret among the ten most likely
    fillings.
    """
    from leakage_tasks.research.victims.mails import invented_mails

    ground = MailExperiment(**config["ground"])
    if ground.senders:
        text = invented_mails(ground.senders, ground.mails, times=ground.times)[config["sender"]].text
    else:
        text = _read(_own_mails()[config["sender"]])
    return searched(text, ground, config["seed"])


def searched(text: str, ground: MailExperiment, seed: int) -> Result:
    """Train a model on nine tenths of the lines of ``text`` and return :func:`run`'s result on the secrets there."""
    from leakage_tasks.canaries.detect import find_secrets
    from leakage_tasks.canaries.natural import natural_canaries
    from leakage_tasks.canaries.natural_secrets import Passage
    from leakage_tasks.models.char_tokenizer import char_tokenizer
    from leakage_tasks.research.victims.language_model import LanguageModelRecipe, train_lm
    from leakage_tasks.targets import CausalTarget
    from leakage_tasks.training.threads import one_thread

    training, validation = split_lines(text, seed)
    size = {"bytes": len(text.encode())}
    if not find_secrets(training, KINDS):
        return {**size, "secrets": []}
    canaries = natural_canaries([Passage(training)], detect=KINDS, controls=ground.controls, seed=seed)
    with one_thread():
        # Without all digits the tokenizer could not encode every filling.
        tokenizer = char_tokenizer(text + string.digits)
        recipe = LanguageModelRecipe(**ground.recipe)
        trained = train_lm(training, recipe, validation=validation, tokenizer=tokenizer, seed=seed)
        secrets = _measured(CausalTarget(trained.model, trained.tokenizer), canaries, ground, seed)
    return {**size, "losses": [[loss.training, loss.validation] for loss in trained.losses], "secrets": secrets}


def split_lines(text: str, seed: int) -> tuple[str, str]:
    """Return nine tenths of a text's lines, drawn at random, and the other lines."""
    draw = random.Random(f"held out:{seed}")
    parts: tuple[list[str], list[str]] = [], []
    for line in text.splitlines(keepends=True):
        parts[draw.random() < HELD_OUT].append(line)
    return "".join(parts[0]), "".join(parts[1])


def _measured(target: CausalTarget, canaries: Sequence[Canary], ground: MailExperiment, seed: int) -> list[Config]:
    from leakage_tasks.attacks import run_attack
    from leakage_tasks.attacks.coarse import coarsened
    from leakage_tasks.attacks.finding import GUESSES

    # Secrets of invented senders need no coarsening.
    shown = coarsened if not ground.senders else lambda finding: finding
    options: dict[str, Any] = {"budget": ground.budget, "seed": seed}
    bits = {finding.canary: finding for finding in run_attack("exposure", target, canaries, **options)}
    planted = [canary for canary in canaries if canary.planted]
    draws = {"draws": min(ground.draws, ground.budget - 1)}
    tails = run_attack("skew-normal", target, planted, values=draws, **options)
    proof = {"stopping": "proven"}
    searches = run_attack("shortest-path", target, planted, goal="extraction", values=proof, **options)
    return [
        {
            "kind": canary.id.rpartition("-")[2],
            "times": canary.repetitions,
            **_exposure(shown(_ranked(bits[canary.id], search))),
            "log2_size": bits[canary.id].log2_size,
            "extrapolated": shown(tail).exposure,
            "controls": [shown(bits[control.id]).exposure for control in canaries if _is_twin(control, canary)],
            "extracted": shown(search).place == (1 if ground.senders else GUESSES),
        }
        for canary, tail, search in zip(planted, tails, searches, strict=True)
    ]


def _ranked(finding: Finding, search: Finding) -> Finding:
    """Return the finding with its exact rank if the search proved the rank of the secret."""
    if search.place is None or search.place > search.proven:
        return finding
    return replace(finding, rank=search.place, rank_low=search.place, rank_high=search.place, method="exact")


def _exposure(finding: Finding) -> Config:
    return {"bits": finding.exposure, "method": finding.method}


def _is_twin(control: Canary, canary: Canary) -> bool:
    """Return True if a canary is the control of another: their ids have equal numbers."""
    return not control.planted and control.id.split("-")[1] == canary.id.split("-")[1]


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file. Reading it as text reports an invalid file before training."""
    _read(path)
    return file_hash(path)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise LeakageError(f"{path}: not UTF-8 (byte {error.start + 1:,}): convert it to UTF-8, or move it") from None


def _own_mails() -> list[Path]:
    folder = data_folder() / "mails"
    paths = sorted(folder.glob("*.txt"))
    if not paths:
        raise LeakageError(
            f"{folder}: no .txt files: set LEAKAGE_DATA to a folder with mails/, one .txt file per sender"
        )
    return paths


def report(study_trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report the paper's secrets, then the measured ones."""
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
    pairs = [(trial, secret) for trial in study_trials for secret in trial.result["secrets"]]
    rows += [_row(trial, secret) for trial, secret in pairs]
    columns = ["sender", "secret", "times", "mails", "exposure", "skew-normal", "controls", "of", "extracted"]
    return Report(columns, rows, claims([secret for _, secret in pairs]), _set_up(plan))


def claims(secrets: Sequence[Config]) -> list[Claim]:
    """Return the paper's claims about its secrets and a claim about controls, tested on the measured secrets."""
    by_kind = {kind: [secret["bits"] for secret in secrets if secret["kind"] == kind] for kind in KINDS}
    exposures = [secret["bits"] for secret in secrets]
    controls = [bits for secret in secrets for bits in secret["controls"]]
    extracted = sum(secret["extracted"] for secret in secrets)
    bounds = [secret["bits"] for secret in secrets if secret["method"] == "lower_bound"]
    words = MEMORIZED.words
    memorized = still_leaks(words, by_kind, bounds) if exposures else Claim(words, None, "not measured")
    return [
        higher("secrets in the mails are more exposed than controls", exposures, controls),
        memorized,
        Claim(
            EXTRACTED.words,
            extracted > 0 if secrets else None,
            f"{extracted} of {len(secrets)}; published 3 of {len(TABLE_5)}",
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
        "'exposure' is exact or estimated by importance draws; 'of' is its maximum with all digits unknown, "
        f"including the check digit; 'skew-normal' is the paper's measure, from {ground.draws} fillings.",
        "The attacker knows up to 40 characters before the secret and its format; the knowledge of the paper's "
        f"attacker is not in the source. A search may score {ground.budget:,} sequences per secret. Each secret has "
        f"{ground.controls} random controls in its context.",
        "A random tenth of the lines is the validation text; its secrets do not count.",
    ]
    if not ground.senders:
        bands = "'exposure', 'skew-normal' and 'controls' are coarsened to powers of ten of the rank, and "
        return ["The user's own mails replace Enron's.", f"{bands}'extracted' means within ten guesses.", *more]
    return [
        f"{ground.mails} mails each by {ground.senders} invented people replace Enron's, which are some 50 times as "
        f"long; so a secret has up to {max(ground.times)} copies. The sentences come from a grammar.",
        f"The LSTM reads its text in {ground.recipe['batch_size']} streams, because contexts are longer than the "
        "paper's windows of 20 characters.",
        *more,
    ]


registrar("secret-sharer", SOURCE, SCALES, run)(
    "table-5", "secrets that people wrote in their mails", "Tables 5 and 10", trials, report
)
