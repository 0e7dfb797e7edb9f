"""Table 5 of Carlini et al., "The Secret Sharer" (2019): secrets that people wrote into their mails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from leakage_tasks.research.framework.registry import Config, Scale, StudyPlan, StudyTrial, registrar
from leakage_tasks.research.framework.report import Claim, Measured, Published, Report, TableRow
from leakage_tasks.research.secret_sharer.claims import higher, still_leaks
from leakage_tasks.research.secret_sharer.experiment import SOURCE
from leakage_tasks.research.secret_sharer.mail_trials import EXPERIMENTS, KINDS, run, trials

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
    memorized = still_leaks("all are memorized", by_kind) if own else Claim("all are memorized", None, "not measured")
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
