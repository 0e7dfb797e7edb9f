"""Table 6 of Carlini et al., "The Secret Sharer" (2019): a secret in the training data of a translation model."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakage_tasks.core.errors import LeakageError
from leakage_tasks.core.jsonl import LineError, read_json_lines, write_json_lines
from leakage_tasks.core.signal_cleanup import temporary_folder
from leakage_tasks.research.framework.papers import PaperClaim
from leakage_tasks.research.framework.registry import Config, Result, Scale, StudyPlan, StudyTrial, registrar
from leakage_tasks.research.framework.report import Measured, Published, Report, TableRow
from leakage_tasks.research.framework.shared import data_folder, file_hash
from leakage_tasks.research.secret_sharer.claims import as_a_rule, grows, higher
from leakage_tasks.research.secret_sharer.experiment import SOURCE, WHOLE

if TYPE_CHECKING:
    from leakage_tasks.attacks import Finding
    from leakage_tasks.canaries import Canary
    from leakage_tasks.research.victims.parallel_corpus import Pair, ParallelCorpus

TABLE_6 = {1: (10.0, "no"), 2: (21.0, "no"), 4: (33.0, "yes")}
"""Estimated exposure in bits, and whether the secret is extracted, by number of copies."""
GROWS = PaperClaim("exposure grows with copies", "10, 21, 33")
ONE_COPY = PaperClaim("one copy is more exposed than chance", "10")
FOUR_COPIES = PaperClaim("four copies suffice for extraction")
COPIES = tuple(TABLE_6)
SLOTS = "{digits:3}-{digits:2}-{digits:4}"
TARGET = "The social security number of {unique} is " + SLOTS + "."
LAB, PARALLEL = "lab", "parallel"
PHRASES = {LAB: "Sela nomira {unique} tavo", PARALLEL: "Số an sinh xã hội của {unique} là"}
"""The start of the source sentence, in our invented language and in Vietnamese."""
FIXED, FILLED = "fixed", "filled"
SCALES: Mapping[Scale, str] = {
    "smoke": "seconds",
    "small": "2 to 4 minutes on one core",
    "paper": "a GPU for an hour, a parallel corpus (English-Vietnamese in the paper) as $LEAKAGE_DATA/parallel.jsonl",
}


@dataclass(frozen=True)
class TranslationExperiment:
    """A parallel corpus, a model and the attack's budget. All fields are JSON values for a trial's config."""

    data: str = LAB
    """Our invented corpus, or the user's corpus."""
    pairs: int = 1_500
    """Training pairs; 0 for all."""
    held_out: int = 200
    """Held-out pairs."""
    vocabulary: int | None = None
    """Maximum number of entries learnt from the corpus; None for all."""
    recipe: Config = field(default_factory=lambda: {"epochs": 8, "batch_size": 16, "dropout": 0.0})
    """Fields of :class:`~leakage_tasks.research.victims.translation.TranslationRecipe`."""
    budget: int = 3_000
    """Sequences that an attack may score for a canary."""
    draws: int = 500
    """Random fillings for the fit of a skew-normal."""
    seeds: int = 4
    """Number of models."""


PAPER = TranslationExperiment(
    data=PARALLEL,
    pairs=0,
    held_out=1_500,
    vocabulary=20_000,
    recipe={"layers": 3, "hidden": 512, "heads": 8, "positions": 256, "epochs": 12, "learning_rate": 5e-4},
    budget=100_000,
    draws=2_000,
    seeds=10,
)
SMOKE_RECIPE = {"layers": 1, "hidden": 16, "heads": 2, "epochs": 1}
EXPERIMENTS: Mapping[Scale, TranslationExperiment] = {
    "smoke": TranslationExperiment(pairs=60, held_out=10, recipe=SMOKE_RECIPE, budget=100, draws=60, seeds=1),
    "small": TranslationExperiment(),
    "paper": PAPER,
}


def canaries_of(ground: TranslationExperiment, seed: int) -> list[Canary]:
    """Make a secret for each number of copies and controls, with the source sentence fixed or containing the secret."""
    from leakage_tasks.canaries import make_canaries

    begins = PHRASES[ground.data]
    canaries: list[Canary] = []
    for kind, source in ((FIXED, f"{begins}."), (FILLED, f"{begins} {SLOTS}.")):
        options: dict[str, Any] = {"repetitions": COPIES, "controls": 2, "seed": seed}
        canaries += make_canaries(TARGET, len(COPIES), source=source, id_prefix=f"{kind}-", **options)
    return canaries


def planted_pairs(pairs: Sequence[Pair], canaries: Sequence[Canary], seed: int) -> list[Pair]:
    """Return the pairs with the canaries, planted as a user would."""
    from leakage_tasks.canaries import write_manifest
    from leakage_tasks.canaries.planting import plant

    with temporary_folder() as folder:
        manifest, clean, planted = (folder / f"{name}.jsonl" for name in ("canaries", "clean", "planted"))
        write_manifest(canaries, manifest)
        with clean.open("w", encoding="utf-8") as out:
            rows = ({"source": source, "target": target} for source, target in pairs)
            write_json_lines(rows, out, ascii_only=True)
        plant(manifest, clean, planted, seed=seed, text_column="target", source_column="source")
        return list(_read(planted))


def corpus_of(ground: TranslationExperiment, seed: int) -> ParallelCorpus:
    """Return the experiment's pairs. Raises LeakageError if the file of a real corpus is missing or too small."""
    from leakage_tasks.research.victims.parallel_corpus import ParallelCorpus, invented_corpus

    if ground.data == LAB:
        return invented_corpus(ground.pairs, ground.held_out, seed)
    path = _file()
    if not path.is_file():
        raise LeakageError(f"{path}: no such file: save one JSON object with 'source' and 'target' per line there")
    most = ground.recipe["positions"] - 1
    # A token has at least one character, so all of these sentences fit into the model.
    pairs = [pair for pair in dict.fromkeys(_read(path)) if max(map(len, pair)) <= most]
    if len(pairs) <= ground.held_out:
        raise LeakageError(f"{path}: {len(pairs)} pairs of up to {most} characters: more than {ground.held_out} needed")
    random.Random("parallel").shuffle(pairs)
    return ParallelCorpus(pairs[ground.held_out :], pairs[: ground.held_out])


def _read(path: Path) -> Iterator[Pair]:
    last = 0
    try:
        for number, row in read_json_lines(path.read_text(encoding="utf-8").split("\n")):
            last = number
            yield row["source"], row["target"]
    except (LineError, KeyError, TypeError) as error:
        line = error.number if isinstance(error, LineError) else last
        raise LeakageError(f"{path}:{line}: expected a JSON object with 'source' and 'target'") from None


def _file() -> Path:
    return data_folder() / f"{PARALLEL}.jsonl"


def fingerprint(ground: TranslationExperiment) -> str:
    """Return the SHA-256 of a real corpus's file; empty for the invented corpus and for a missing file."""
    return "" if ground.data == LAB else file_hash(_file())


def trials(plan: StudyPlan) -> list[Config]:
    """List one trial per seed, with secrets of every kind and number of copies."""
    ground = EXPERIMENTS[plan.scale]
    return [{"ground": asdict(ground), "data": fingerprint(ground), "seed": seed} for seed in plan.seeds(ground.seeds)]


def run(config: Config, shared: Path) -> Result:
    """Train a translation model on a corpus with planted secrets, and attack it.

    ``secrets`` has an entry per canary: kind of source sentence, copies, exposure in bits, its method, and whether the
    search returns the secret first. ``exact`` is the share of held-out sentences translated word for word, ``loss`` the
    held-out loss in bits per token.
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
        trained = train_translator(planted, recipe, validation=corpus.validation, tokenizer=tokenizer, seed=seed)
        attacked = _attacked(Seq2SeqTarget(trained.model, tokenizer), canaries, ground, seed)
        exact = exact_share(trained.model, tokenizer, corpus.validation)
    parameters = sum(parameter.numel() for parameter in trained.model.parameters())
    return {"secrets": attacked, "exact": exact, "loss": trained.losses[-1].validation, "parameters": parameters}


def _attacked(target: Any, canaries: Sequence[Canary], ground: TranslationExperiment, seed: int) -> list[Config]:
    from leakage_tasks.attacks import run_attack

    fixed, filled = ([canary for canary in canaries if canary.id.startswith(f"{kind}-")] for kind in (FIXED, FILLED))
    options: dict[str, Any] = {"budget": ground.budget, "seed": seed}
    exposed = run_attack("exposure", target, fixed, **options)
    proof = {"stopping": "proven"}
    searched = run_attack("shortest-path", target, fixed, goal="extraction", values=proof, **options)
    fitted = run_attack("skew-normal", target, filled, values={"draws": ground.draws}, **options)
    first = [search.place == 1 for search in searched]
    findings = [_entry(FIXED, finding, extracted) for finding, extracted in zip(exposed, first, strict=True)]
    return [*findings, *(_entry(FILLED, finding, None) for finding in fitted)]


def _entry(source: str, finding: Finding, extracted: bool | None) -> Config:
    return {
        "source": source,
        "inserted": finding.repetitions,
        "bits": finding.exposure,
        "method": finding.method,
        "rejected": finding.extra.get("rejected"),
        "extracted": extracted,
    }


def report(study_trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report exposure and extraction by number of copies."""
    fixed, filled = ({times: _of(study_trials, kind, times) for times in (*TABLE_6, 0)} for kind in (FIXED, FILLED))
    first = {times: _of(study_trials, FIXED, times, "extracted") for times in TABLE_6}
    rows: list[TableRow] = [
        {
            "times inserted": str(times),
            "exposure, published": Published(exposure),
            "extracted, published": Published(extracted),
            "exposure, fixed source": Measured.mean(fixed[times], WHOLE),
            "extracted, fixed source": Measured.rate(sum(first[times]), len(first[times])),
            "exposure, filled source": Measured.mean(filled[times]),
        }
        for times, (exposure, extracted) in TABLE_6.items()
    ]
    columns = list(rows[0])
    unseen = fixed.pop(0)
    rows.append(
        {
            "times inserted": "0 (controls)",
            "exposure, fixed source": Measured.mean(unseen, WHOLE),
            "exposure, filled source": Measured.mean(filled.pop(0)),
        }
    )
    most = max(TABLE_6)
    claims = [
        grows(GROWS.test("fixed source"), fixed),
        grows(GROWS.test("filled source"), filled),
        higher(ONE_COPY.words, fixed[1], unseen),
        as_a_rule(FOUR_COPIES.test("as a rule"), first[most], "first guess of the search"),
    ]
    return Report(columns, rows, claims, _differences(study_trials, plan))


def _of(study_trials: Sequence[StudyTrial], source: str, inserted: int, key: str = "bits") -> list[Any]:
    """Return one value of the canaries with this source and number of copies."""
    secrets = (entry for trial in study_trials for entry in trial.result["secrets"])
    return [entry[key] for entry in secrets if (entry["source"], entry["inserted"]) == (source, inserted)]


def _differences(study_trials: Sequence[StudyTrial], plan: StudyPlan) -> list[str]:
    """List the differences from the paper's set-up, one sentence per difference."""
    ground = EXPERIMENTS[plan.scale]
    secrets = [entry for trial in study_trials for entry in trial.result["secrets"]]
    fits = [entry["rejected"] for entry in secrets if entry["source"] == FILLED]
    bounds = sum(entry["method"] == "lower_bound" for entry in secrets)
    exact, loss = (Measured.mean([trial.result[name] for trial in study_trials]).value for name in ("exact", "loss"))
    size = f"{study_trials[0].result['parameters'] / 1e6:.2f} million parameters"
    corpus = {
        LAB: f"{ground.pairs:,} generated pairs of an invented language and English replace some 100,000 of "
        "Vietnamese and English.",
        PARALLEL: "The corpus is supplied by the user.",
    }
    return [
        corpus[ground.data],
        f"The model is a Transformer of {size} on words and single digits, not the paper's LSTM with attention; it "
        f"translates {100 * exact:.0f} % of held-out sentences word for word, at {loss:.2f} bits per token.",
        "All secrets of a seed, each with a unique name in its sentence, are in one model; the paper trains a model "
        "for each number of copies.",
        "Fixed source: the source sentence lacks the number, so the target can be searched; its exposure is counted or "
        f"estimated, up to {WHOLE:.1f} bits. Filled source: both sentences contain it, as in the paper; its "
        f"exposure is extrapolated from a skew-normal, the fit of which is rejected for {sum(fits)} of {len(fits)} "
        "secrets and controls.",
        *(
            [f"{bounds} exposures are lower bounds, because no sampled filling costs less than the secret."]
            if bounds
            else []
        ),
    ]


registrar("secret-sharer", SOURCE, SCALES, run)(
    "table-6",
    "exposure and extraction of a secret in a translation model by times inserted",
    "Table 6",
    trials,
    report,
)
