"""Table 6 of Carlini et al., "The Secret Sharer" (2019): a secret in the training data of a translation model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakage_tasks.research.framework.registry import Config, Result, Study, StudyPlan, StudyTrial, register
from leakage_tasks.research.framework.report import Cell, Measured, Published, Report, TableRow
from leakage_tasks.research.secret_sharer.claims import all_of, grows, higher
from leakage_tasks.research.secret_sharer.parallel import (
    FILLED,
    FIXED,
    GROUNDS,
    LAB,
    PARALLEL,
    SCALES,
    TranslationExperiment,
    canaries_of,
    corpus_of,
    fingerprint,
    planted_pairs,
)
from leakage_tasks.research.secret_sharer.trials import WHOLE

if TYPE_CHECKING:
    from leakage_tasks.canaries import Canary

TABLE_6 = {1: (10.0, "no"), 2: (21.0, "no"), 4: (33.0, "yes")}
"""Estimated exposure in bits and whether the secret is extracted, by times inserted."""


def trials(plan: StudyPlan) -> list[Config]:
    """One model a seed, with secrets of every kind and number of copies in it."""
    ground = GROUNDS[plan.scale]
    return [{"ground": asdict(ground), "data": fingerprint(ground), "seed": seed} for seed in plan.seeds(ground.seeds)]


def run(config: Config, shared: Path) -> Result:
    """Train a translation model on a corpus with secrets planted in it, and attack it.

    ``secrets`` has an entry a canary: how its source sentence is known, times inserted, bits of exposure, how these
    were got and whether the search gives the secret first. ``exact`` is the share of held-out sentences translated
    word for word, ``loss`` the held-out loss in bits a token.
    """
    from leakage_tasks.research.victims.translation import TranslationRecipe, exact_share, train_translator
    from leakage_tasks.research.victims.translation_tokenizer import translation_tokenizer
    from leakage_tasks.targets import Seq2SeqTarget
    from leakage_tasks.training.threads import one_thread

    ground, seed = TranslationExperiment(**config["ground"]), config["seed"]
    corpus, canaries = corpus_of(ground, seed), canaries_of(ground, seed)
    recipe = TranslationRecipe(**ground.recipe)
    with one_thread():
        planted = planted_pairs(corpus.training, canaries, seed)
        tokenizer = translation_tokenizer(
            (sentence for pair in planted for sentence in pair),
            always=[word for canary in canaries for word in f"{canary.source_text} {canary.text}".split()],
            most=ground.vocabulary,
            max_length=recipe.positions,
        )
        done = train_translator(planted, recipe, validation=corpus.validation, tokenizer=tokenizer, seed=seed)
        found = _attacked(Seq2SeqTarget(done.model, tokenizer), canaries, ground, seed)
        exact = exact_share(done.model, tokenizer, corpus.validation)
    parameters = sum(parameter.numel() for parameter in done.model.parameters())
    return {"secrets": found, "exact": exact, "loss": done.losses[-1].validation, "parameters": parameters}


def _attacked(target: Any, canaries: Sequence[Canary], ground: TranslationExperiment, seed: int) -> list[Config]:
    from leakage_tasks.attacks import run_attack

    fixed, filled = ([canary for canary in canaries if canary.id.startswith(f"{kind}-")] for kind in (FIXED, FILLED))
    given: dict[str, Any] = {"budget": ground.budget, "seed": seed}
    exposed = run_attack("exposure", target, fixed, **given)
    searched = run_attack("shortest-path", target, fixed, goal="extraction", **given)
    fitted = run_attack("skew-normal", target, filled, settings={"draws": ground.draws}, **given)
    extracted = [finding.place == 1 for finding in searched] + [None] * len(fitted)
    return [
        {
            "source": FIXED if yes is not None else FILLED,
            "inserted": finding.repetitions,
            "bits": finding.exposure,
            "method": finding.method,
            "rejected": finding.extra.get("rejected"),
            "extracted": yes,
        }
        for finding, yes in zip([*exposed, *fitted], extracted, strict=True)
    ]


def report(done: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Exposure and extraction by times inserted."""
    fixed, filled = ({times: _bits(done, kind, times) for times in (*TABLE_6, 0)} for kind in (FIXED, FILLED))
    rows: list[TableRow] = []
    for times, (exposure, extracted) in TABLE_6.items():
        hits = [entry["extracted"] for entry in _entries(done, FIXED, times)]
        rows.append(
            {
                "times inserted": str(times),
                "exposure, published": Published(exposure),
                "extracted, published": Published(extracted),
                "exposure, fixed source": Measured.mean(fixed[times], WHOLE),
                "extracted, fixed source": Measured.rate(sum(hits), len(hits)),
                "exposure, filled source": Measured.mean(filled[times]),
            }
        )
    controls: dict[str, Cell] = {
        "times inserted": "0 (controls)",
        "exposure, fixed source": Measured.mean(fixed.pop(0), WHOLE),
        "exposure, filled source": Measured.mean(filled.pop(0)),
    }
    most = max(TABLE_6)
    hits = [entry["extracted"] for entry in _entries(done, FIXED, most)]
    claims = [
        grows("exposure grows with the times inserted (fixed source)", fixed),
        grows("exposure grows with the times inserted (filled source)", filled),
        higher("a secret inserted once is more exposed than one never seen", fixed[1], _bits(done, FIXED, 0)),
        all_of(f"the secret inserted {most} times can be extracted, in every model", hits, "first guess of the search"),
    ]
    return Report(list(rows[0]), [*rows, controls], claims, _differences(done, plan))


def _entries(done: Iterable[StudyTrial], source: str, inserted: int) -> list[Config]:
    return [
        entry
        for trial in done
        for entry in trial.result["secrets"]
        if (entry["source"], entry["inserted"]) == (source, inserted)
    ]


def _bits(done: Iterable[StudyTrial], source: str, inserted: int) -> list[float]:
    return [entry["bits"] for entry in _entries(done, source, inserted)]


def _differences(done: Sequence[StudyTrial], plan: StudyPlan) -> list[str]:
    """How the set-up differs from the paper's, a sentence each."""
    ground = GROUNDS[plan.scale]
    fits = [entry["rejected"] for trial in done for entry in trial.result["secrets"] if entry["source"] == FILLED]
    bounds = [entry["method"] for trial in done for entry in trial.result["secrets"]].count("lower_bound")
    exact = Measured.mean([trial.result["exact"] for trial in done]).value
    loss = Measured.mean([trial.result["loss"] for trial in done]).value
    size = f"{done[0].result['parameters'] / 1e6:.2f} million parameters"
    corpus = {
        LAB: f"{ground.pairs:,} generated pairs of an invented language and English stand for some 100,000 of "
        "Vietnamese and English.",
        PARALLEL: "The corpus is the user's own.",
    }
    return [
        corpus[ground.data],
        f"The model is a Transformer of {size} on words and single digits, not the paper's LSTM with attention; it "
        f"translates {100 * exact:.0f} % of held-out sentences word for word, at {loss:.2f} bits a token.",
        "All secrets of a seed, each with a name of its own in its sentence, are in one model; the paper trains one "
        "for each number of copies.",
        "Fixed source: the source sentence lacks the number, so the target can be searched; its exposure is counted or "
        f"estimated, up to {WHOLE:.1f} bits. Filled source: both sentences hold it, as in the paper; its "
        f"exposure is extrapolated from a skew-normal, the fit of which is rejected for {sum(fits)} of {len(fits)} "
        "secrets and controls.",
        *([f"{bounds} exposures are lower bounds, as none of the draws cost less than the secret."] if bounds else []),
    ]


register(
    Study(
        "secret-sharer/table-6",
        "exposure and extraction of a secret in a translation model by times inserted",
        "Carlini et al. 2019, Table 6",
        SCALES,
        trials,
        run,
        report,
    )
)
