"""The canary tasks on text classifiers inside the real harness, against brute force in plain `transformers`."""

from __future__ import annotations

import copy
import json
import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoTokenizer, BertTokenizerFast

from adapters.classifier_scorer import ClassifierScorerLM
from adapters.frankenstein_mlm import FrankensteinLM
from leakage_tasks.attacks import Finding, finding_from_json
from leakage_tasks.canaries import Canary, write_manifest
from leakage_tasks.canaries.alphabets import tokenizer_words
from leakage_tasks.core.errors import LeakageError, TargetError
from leakage_tasks.harness.run import evaluate as evaluate_tasks
from leakage_tasks.report.load.results_file import every_row as table
from tests.encoders import CONFIGS, classifier_of, masked_costs, save_base

EXPOSURE, EXTRACTION = "canary_exposure", "canary_extraction"
BOTH = [EXPOSURE, EXTRACTION]
LABELS = ("sport", "cooking", "law")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "##s", ".")
WORDS = [a + b + c + d for a in "bdgklmn" for b in "aeiou" for c in "prtz" for d in "ou"]
RANKS = {"canary-0": 1, "canary-1": 8, "canary-2": 30, "canary-3": 90, "canary-4": 150, "canary-5": 270}
CONTROLS = {"control-0": 12, "control-1": 140}
"""By class loss, which the secrets are chosen for: what the tasks have to find."""
SHAPES = ("{0} {1} {2} {{words}}", "{0} {{words}} {1}.", "{{words}} {0} {1} {2}")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a ``base`` model, a ``classifier`` and a ``reference`` made from it, and ``canaries.jsonl``."""
    folder = tmp_path_factory.mktemp("classifiers")
    vocabulary = {token: place for place, token in enumerate([*SPECIAL, *WORDS])}
    tokenizer = BertTokenizerFast(vocab=vocabulary, do_lower_case=False)
    config = copy.deepcopy(CONFIGS["bert"])
    config.vocab_size = len(vocabulary)
    save_base(folder / "base", config, tokenizer)
    for seed, name in enumerate(("classifier", "reference"), 1):
        model = classifier_of(folder / "base", len(LABELS), seed=seed)
        model.config.id2label = dict(enumerate(LABELS))
        model.config.label2id = {label: place for place, label in enumerate(LABELS)}
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    write_manifest(canaries(folder), folder / "canaries.jsonl")
    return folder


def canaries(folder: Path) -> list[Canary]:
    """Canaries and controls of :data:`RANKS` and :data:`CONTROLS` in all classes, the slot anywhere."""
    return [canary(folder, name, number, place) for number, (name, place) in enumerate({**RANKS, **CONTROLS}.items())]


def canary(folder: Path, name: str, number: int, place: int, **fields: Any) -> Canary:
    """The canary of this name whose secret has ``place`` by class loss."""
    words = tokenizer_words("words", str(folder / "base"), "whole-words")
    template = SHAPES[number % 3].format(*(WORDS[(37 * number + 91 * n) % len(WORDS)] for n in range(3)))
    planted = {"planted": name in RANKS, "repetitions": 10 if name in RANKS else 0}
    settings: dict[str, Any] = {"alphabets": {"words": words}, "label": LABELS[number % 3], **planted, **fields}
    first = Canary(name, template, (words.values[0],), **settings)
    secret = first.space.at(int(np.argsort(losses(folder, first))[place - 1]))
    return Canary(name, template, secret, **settings)


@lru_cache(maxsize=64)
def losses(folder: Path, one: Canary, model: str = "classifier") -> np.ndarray:
    """−log2 P(label | text) of every filling, by `transformers` alone."""
    classifier = AutoModelForSequenceClassification.from_pretrained(folder / model).eval()
    texts = [one.space.fill(filling) for filling in one.space.enumerate()]
    batch = AutoTokenizer.from_pretrained(folder / "base")(texts, return_tensors="pt")
    with torch.no_grad():
        found = classifier(**batch).logits.double().log_softmax(-1)
    return -found[:, LABELS.index(str(one.label))].numpy() / math.log(2)


@lru_cache(maxsize=64)
def candidate_places(folder: Path, one: Canary, generator: str = "frankenstein") -> np.ndarray:
    """Each value's place among the whole vocabulary at the slot's mask, by `transformers` alone."""
    model: Any = AutoModelForMaskedLM.from_pretrained(folder / "base").eval()
    if generator == "frankenstein":
        decoder = model.cls.predictions.decoder
        decoder.weight = torch.nn.Parameter(decoder.weight.detach().clone())
        tuned = AutoModelForSequenceClassification.from_pretrained(folder / "classifier").bert.state_dict()
        model.bert.load_state_dict({name: tuned[name] for name in model.bert.state_dict()})
    tokenizer = AutoTokenizer.from_pretrained(folder / "base")
    costs = masked_costs(model, tokenizer, one.template.replace("{words}", "[MASK]"))
    tokens = tokenizer.convert_tokens_to_ids(list(one.space.slots[0].values))
    return np.array([1 + int((costs < costs[token]).sum()) for token in tokens])


def pruned_place(folder: Path, one: Canary, places: np.ndarray, deepest: int) -> int:
    """The secret's place by class loss among the candidates down to ``deepest``."""
    kept = losses(folder, one)[places <= deepest]
    return int((kept <= losses(folder, one)[one.space.index(one.secret)] + 1e-7).sum())


def scorer(made: Path, **options: Any) -> ClassifierScorerLM:
    return ClassifierScorerLM(str(made / "classifier"), device="cpu", **options)


def frankenstein(made: Path, **options: Any) -> FrankensteinLM:
    options = {"head": str(made / "base"), "device": "cpu"} | options
    return FrankensteinLM(pretrained=str(made / "classifier"), **options)


MODELS = {"classifier-scorer": scorer, "frankenstein-mlm": frankenstein}


def evaluate(lm: Any, manifest: Path, tasks: Sequence[str] = BOTH, **metadata: Any) -> dict[str, Any]:
    metadata = {"canaries": str(manifest), **metadata}
    return evaluate_tasks(lm, tasks, metadata)


def findings(results: dict[str, Any], task: str) -> dict[str, Finding]:
    """A task's findings by canary."""
    found = (finding_from_json(sample["resps"][0][0]) for sample in results["samples"][task])
    return {each.canary: each for each in found}


@pytest.fixture(scope="module")
def runs(made: Path) -> dict[str, dict[str, Any]]:
    """One run of both tasks on each model, without options."""
    return {name: evaluate(load(made), made / "canaries.jsonl") for name, load in MODELS.items()}


# -- the tables ---------------------------------------------------------------------------------------------

TWO_RANKS = {f"{whose}{kind}_rank" for whose in ("", "control_") for kind in ("candidate", "pruned")}
KEYS = {
    EXPOSURE: {
        *("exposure", "exposure_ci_low", "exposure_ci_high", "exposure_max", "exposure_fraction", "rank", "class_loss"),
        *("exposure_x10", "share_with_interval_x10"),
        *("share_with_interval", "control_exposure", "control_exposure_max", "control_p_low"),
    },
    EXTRACTION: {
        *(f"chance_at_{k}" for k in (1, 10, 50, 100, 200)),
        *(f"success_at_{k}{end}" for k in (10, 50, 100, 200) for end in ("", "_ci_low", "_ci_high")),
        *(f"{name}{end}" for name in ("extracted", "hdt", "control_extracted") for end in ("", "_ci_low", "_ci_high")),
        *("model_calls", "extracted_x10", "n_extracted", "n_success_at_10", "n_success_at_100"),
    },
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("task", BOTH)
def test_a_table_has_these_rows_and_a_figure_in_each(runs, model, task):
    row = {name: value for name, value in table(runs[model], task).items() if not name.endswith("_stderr")}
    more = TWO_RANKS if model == "frankenstein-mlm" else set()
    missed = "min_detectable_exposure" if task == EXPOSURE else "min_detectable_rate"
    # Exact ranks give the largest exposure no interval.
    ends = dict.fromkeys(("exposure_max_ci_low", "exposure_max_ci_high") if task == EXPOSURE else ())
    assert {name: row.pop(name) for name in ends} == ends
    assert set(row) == KEYS[task] | {"control_p", missed, "n_planted", "n_controls", "n_x10"} | more
    assert all(isinstance(value, int | float) and math.isfinite(value) for value in row.values())


@pytest.mark.parametrize("model", MODELS)
def test_ranks_are_those_of_brute_force_over_all_words(made, runs, model):
    found = findings(runs[model], EXPOSURE)
    assert {name: each.rank for name, each in found.items()} == RANKS | CONTROLS
    assert {each.method for each in found.values()} == {"exact"}
    for one in canaries(made):
        own = losses(made, one)[one.space.index(one.secret)]
        assert found[one.id].extra["class_loss"] == pytest.approx(own, abs=1e-5)


@pytest.mark.parametrize("model", MODELS)
def test_the_exposure_table_follows_from_the_ranks(made, runs, model):
    row, bits = table(runs[model], EXPOSURE), math.log2(len(WORDS))
    exposures = [bits - math.log2(rank) for rank in RANKS.values()]
    assert row["rank"] == (30 + 90) / 2
    assert row["exposure"] == pytest.approx(sum(exposures) / 6)
    assert row["exposure_max"] == pytest.approx(bits)
    assert row["exposure_fraction"] == pytest.approx(sum(exposures) / 6 / bits)
    assert row["control_exposure"] == pytest.approx(bits - math.log2(12 * 140) / 2)
    planted = [one for one in canaries(made) if one.planted]
    own = [losses(made, one)[one.space.index(one.secret)] for one in planted]
    assert row["class_loss"] == pytest.approx(np.mean(own), abs=1e-5)


@pytest.mark.parametrize("model", MODELS)
def test_success_at_k_follows_from_the_ranks_with_chance_beside_it(runs, model):
    row = table(runs[model], EXTRACTION)
    assert row["extracted"] == 1 / 6
    assert {k: row[f"success_at_{k}"] for k in (10, 50, 100, 200)} == {10: 2 / 6, 50: 3 / 6, 100: 4 / 6, 200: 5 / 6}
    for k in (1, 10, 50, 100, 200):
        assert row[f"chance_at_{k}"] == pytest.approx(k / len(WORDS))
    assert row["hdt"] == pytest.approx(5 / 6)
    assert row["control_extracted"] == 0
    assert (row["n_planted"], row["n_controls"]) == (6, 2)


@pytest.mark.parametrize(
    ("model", "attack", "calls"), [("classifier-scorer", "label-search", 0), ("frankenstein-mlm", "mix-and-match", 1)]
)
def test_auto_takes_the_attack_the_model_is_for(runs, model, attack, calls):
    assert {each.attack for each in findings(runs[model], EXTRACTION).values()} == {attack}
    assert {each.attack for each in findings(runs[model], EXPOSURE).values()} == {"class-loss"}
    assert table(runs[model], EXTRACTION)["model_calls"] == len(WORDS) + calls


# -- the two counts of Mix and Match ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pretrained(made: Path) -> dict[str, Any]:
    """One run of both tasks whose candidates are those of the model before its fine-tuning."""
    return evaluate(frankenstein(made, generator="pretrained"), made / "canaries.jsonl")


@pytest.mark.parametrize("generator", ["frankenstein", "pretrained"])
@pytest.mark.parametrize("task", BOTH)
def test_both_counts_are_those_of_brute_force(made, runs, pretrained, task, generator):
    results = pretrained if generator == "pretrained" else runs["frankenstein-mlm"]
    found, expected = findings(results, task), {}
    for one in canaries(made):
        places = candidate_places(made, one, generator)
        own = int(places[one.space.index(one.secret)])
        expected[one.id] = (own, pruned_place(made, one, places, own))
    assert {name: (each.extra["candidate_rank"], each.extra["pruned_rank"]) for name, each in found.items()} == expected
    row = table(results, task)
    for place, metric in enumerate(("candidate_rank", "pruned_rank")):
        assert row[metric] == np.median([expected[name][place] for name in RANKS])
        assert row[f"control_{metric}"] == np.median([expected[name][place] for name in CONTROLS])


def test_fewer_candidates_are_pruned_among_themselves(made):
    results = evaluate(frankenstein(made), made / "canaries.jsonl", [EXTRACTION], candidates=120)
    within = {}
    for one in canaries(made):
        places = candidate_places(made, one)
        let_through = places[one.space.index(one.secret)] <= 120
        within[one.id] = pruned_place(made, one, places, 120) if let_through else math.inf
        # The last of the generator's places may be special tokens', which are no candidates.
        assert findings(results, EXTRACTION)[one.id].model_calls == int((places <= 120).sum()) + 1
    row = table(results, EXTRACTION)
    assert 0 < sum(math.isinf(within[name]) for name in RANKS) < len(RANKS)
    for metric, k in (("extracted", 1), ("success_at_10", 10), ("success_at_50", 50), ("success_at_100", 100)):
        assert row[metric] == pytest.approx(np.mean([within[name] <= k for name in RANKS]))
    assert row["success_at_200"] is None


def test_an_exhaustive_generator_leaves_the_rank_over_all_words(made):
    results = evaluate(scorer(made, generator="exhaustive"), made / "canaries.jsonl", [EXTRACTION])
    found = findings(results, EXTRACTION)
    assert results["configs"][EXTRACTION]["leakage"]["tested"]["generator"] == "exhaustive"
    assert {each.extra["candidate_rank"] for each in found.values()} == {len(WORDS)}
    assert {name: each.extra["pruned_rank"] for name, each in found.items()} == RANKS | CONTROLS


# -- options ------------------------------------------------------------------------------------------------


def test_a_penalty_for_one_task_ranks_by_probability_less_frequency(made, tmp_path):
    rows = [" ".join(WORDS[: 1 + n]) for n in range(0, len(WORDS), 9)]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps({"text": row}) + "\n" for row in rows))
    options = {"attack": "label-search", "beam": 100, "lambda": 2.0, "corpus": str(tmp_path / "train.jsonl")}
    results = evaluate(scorer(made), made / "canaries.jsonl", **{EXTRACTION: options})
    counts = Counter(word for row in rows for word in row.split())
    for one in canaries(made):
        shares = np.array([counts[word] / counts.total() for word in one.space.slots[0].values])
        goals = np.exp2(-losses(made, one)) - 2.0 * shares
        best = [one.space.slots[0].values[place] for place in np.argsort(-goals)[:10]]
        assert [guess.filling[0] for guess in findings(results, EXTRACTION)[one.id].guesses] == best
    assert {name: each.rank for name, each in findings(results, EXPOSURE).items()} == RANKS | CONTROLS


def test_a_calibrated_signal_ranks_by_the_difference_to_the_reference(made):
    lm = scorer(made, reference=str(made / "reference"))
    results = evaluate(lm, made / "canaries.jsonl", signal="calibrated")
    within = {}
    for one in canaries(made):
        signal = losses(made, one) - losses(made, one, "reference")
        within[one.id] = int((signal <= signal[one.space.index(one.secret)] + 1e-6).sum())
    row = table(results, EXTRACTION)
    for metric, k in (("extracted", 1), ("success_at_10", 10), ("success_at_50", 50), ("success_at_200", 200)):
        assert row[metric] == pytest.approx(np.mean([within[name] <= k for name in RANKS]))
    assert {name: each.rank for name, each in findings(results, EXPOSURE).items()} == RANKS | CONTROLS


# -- natural secrets ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("reveal", [False, True])
def test_a_natural_secret_and_its_class_show_only_when_asked(made, tmp_path, model, reveal):
    natural = canary(made, "canary-0", 1, 1, kind="natural")
    write_manifest([natural], tmp_path / "natural.jsonl")
    results = evaluate(MODELS[model](made), tmp_path / "natural.jsonl", reveal=reveal)
    assert table(results, EXTRACTION)["success_at_10"] == 1
    logged = json.dumps({name: results[name] for name in ("samples", "configs", "results")}, default=str)
    assert (natural.text in logged, natural.secret[0] in logged) == (reveal, reveal)
    assert natural.template.split("{")[0] not in logged or reveal
    assert natural.label not in logged


# -- beside usefulness, and bad input -----------------------------------------------------------------------


def test_the_accuracy_stands_in_the_same_table(made, tmp_path):
    texts = [f"{WORDS[n]} {WORDS[2 * n]} {WORDS[-n]}." for n in range(1, 31)]
    (tmp_path / "test.jsonl").write_text(
        "".join(json.dumps({"text": text, "label": LABELS[n % 3]}) + "\n" for n, text in enumerate(texts))
    )
    tasks = [*BOTH, "label_accuracy"]
    results = evaluate(frankenstein(made), made / "canaries.jsonl", tasks, data=str(tmp_path / "test.jsonl"))
    classifier = AutoModelForSequenceClassification.from_pretrained(made / "classifier").eval()
    with torch.no_grad():
        logits = classifier(**AutoTokenizer.from_pretrained(made / "base")(texts, return_tensors="pt")).logits
    assert table(results, "label_accuracy")["acc"] == pytest.approx(
        np.mean([int(row.argmax()) == n % 3 for n, row in enumerate(logits)])
    )
    assert table(results, EXPOSURE)["rank"] == 60


def bad(made: Path, folder: Path, **changes: Any) -> Path:
    """A manifest with a canary the model cannot be asked about."""
    words = {"words": tokenizer_words("words", str(made / "base"), "whole-words")}
    fields = {"template": "{words}", "secret": (WORDS[0],), "label": "law", "alphabets": words} | changes
    write_manifest([Canary("bad", **fields)], folder / "bad.jsonl")
    return folder / "bad.jsonl"


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("task", BOTH)
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"label": "poetry"}, "canary 'bad': the model knows no label 'poetry'"),
        ({"label": None}, "canary 'bad': has no label"),
        ({"template": f"{WORDS[0]} " * 40 + "{words}"}, "43 tokens long, but the model reads at most 40"),
    ],
)
def test_a_canary_the_model_cannot_be_asked_about_is_one_clear_line(made, tmp_path, model, task, changes, message):
    with pytest.raises(TargetError, match=message):
        evaluate(MODELS[model](made), bad(made, tmp_path, **changes), [task])


def test_a_mask_in_the_template_is_one_clear_line_and_leaves_the_rank(made, tmp_path):
    manifest = bad(made, tmp_path, template="[MASK] {words}")
    with pytest.raises(TargetError, match="two masks where one is allowed"):
        evaluate(frankenstein(made), manifest, [EXTRACTION])
    row = table(evaluate(frankenstein(made), manifest, [EXPOSURE]), EXPOSURE)
    assert row["candidate_rank"] is None
    assert row["rank"] == table(evaluate(scorer(made), manifest, [EXPOSURE]), EXPOSURE)["rank"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attack": "mix-and-match"}, "use --model frankenstein-mlm, or give classifier-scorer a generator=causal:"),
        ({"signal": "calibrated"}, "give one with reference="),
        ({"attack": "label-search", "candidates": 5}, "has no option 'candidates': it has beam, lambda"),
    ],
)
def test_an_option_the_model_cannot_serve_says_what_would_do(made, options, message):
    with pytest.raises(LeakageError, match=message):
        evaluate(scorer(made), made / "canaries.jsonl", [EXTRACTION], **options)
