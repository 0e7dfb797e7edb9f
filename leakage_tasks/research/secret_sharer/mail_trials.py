"""A trial of The Secret Sharer's Table 5: a model of one sender's mails, and what it gives away of their secrets."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakage_tasks.core.errors import LeakageError
from leakage_tasks.research.framework.registry import Config, Result, Scale, StudyPlan
from leakage_tasks.research.framework.shared import data_folder, file_hash

if TYPE_CHECKING:
    from leakage_tasks.attacks import Finding
    from leakage_tasks.canaries import Canary
    from leakage_tasks.targets import CausalTarget

KINDS = ("ccn", "ssn")
HELD_OUT = 0.1


@dataclass(frozen=True)
class MailExperiment:
    """The mails and how a model learns them; JSON values only. ``senders`` 0 stands for the user's own folder."""

    senders: int = 3
    mails: int = 90
    times: Sequence[int] = (6, 3, 1)
    recipe: Config = field(
        default_factory=lambda: {"batches": "streams", "batch_size": 16, "learning_rate": 2e-3, "patience": 2}
    )
    controls: int = 2
    budget: int = 5_000
    draws: int = 500


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
    from leakage_tasks.targets import CausalTarget
    from leakage_tasks.training.threads import one_thread

    ground, seed = MailExperiment(**config["ground"]), config["seed"]
    text = _mails(ground, config["sender"])
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
    import random

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


def _mails(ground: MailExperiment, sender: int) -> str:
    from leakage_tasks.research.victims.mails import invented_mails

    if not ground.senders:
        return _read(_own_mails()[sender])
    return invented_mails(ground.senders, ground.mails, times=ground.times)[sender].text


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
