"""The attacks and tasks that a card names as not tried are those that the kind of model can serve."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lm_eval.models.huggingface import HFLM

from adapters.classifier_scorer import ClassifierScorerLM
from adapters.masked_lm import MaskedLM
from adapters.nlu_tagger import NLUTaggerLM
from leakage_tasks.attacks import ATTACKS
from leakage_tasks.attacks.access import LABELS, LABELS_AND_TAGS, LIKELIHOOD, MASKS, NEXT_TOKEN, TEXT
from leakage_tasks.canaries import Canary, write_manifest
from leakage_tasks.harness.run import evaluate as evaluate_tasks
from leakage_tasks.report.card.sentences import limits
from leakage_tasks.report.card.served import SERVED, Kind, fits_model, fits_task, kind_of
from leakage_tasks.report.card.tested import describe_tested
from leakage_tasks.report.load.results import Run, read_runs
from leakage_tasks.targets.harness.target import as_target
from leakage_tasks.targets.protocols import ProposesValues, TakesContext, serves
from tests.encoders import CONFIGS, classifier_of, digits_wordpiece, save_base
from tests.oracles import letters, tiny_gpt2
from tests.report.made import declaration, leaking, results, write
from tests.taggers import pin, tiny_tagger, words_tokenizer
from tests.targets.seq2seq.test_target import SOURCE
from tests.targets.seq2seq.test_target import hf as translating
from tests.targets.text_models import TextOnly

SEARCHES = "beam, contrastive-beam, greedy, sample-tokens, shortest-path"
ELSEWHERE = "contamination_test, membership, memorization, suffix_extraction, untargeted_extraction"


def run_of(folder: Path, task: str, attack: str, access: str, model: str = "hf", **arguments: Any) -> Run:
    """A run of one task, with the attack that ran and its access."""
    declared = {task: declaration(task, attacks=[{"attack": attack, "access": access}])}
    content = results({task: leaking()[task]}, declared=declared)
    config = {"model": model, "model_args": {"pretrained": "m", **arguments}}
    named = {"model_name": config["model_args"]["pretrained"]}
    (run,) = read_runs([write(folder, {**content, "config": config, **named})])
    return run


@pytest.mark.parametrize(
    ("attack", "access", "model", "kind", "tasks", "attacks"),
    [
        ("exposure", NEXT_TOKEN, "hf", "causal", f"canary_extraction, {ELSEWHERE}", "rank-sample, skew-normal"),
        ("exposure", LIKELIHOOD, "hf", "text", f"canary_extraction, {ELSEWHERE}", "rank-sample, skew-normal"),
        ("rank-sample", LIKELIHOOD, "vllm", "unknown", f"canary_extraction, {ELSEWHERE}", "exposure, skew-normal"),
        ("exposure", MASKS, "masked-lm", "masked", "canary_extraction, membership", "rank-sample, skew-normal"),
        ("class-loss", LABELS, "classifier-scorer", "classifier", "canary_extraction", ""),
        ("class-loss", LABELS_AND_TAGS, "nlu-tagger", "tagger", "canary_extraction", ""),
    ],
)
def test_a_card_of_exposures_names_what_the_model_can_serve(
    tmp_path: Path, attack: str, access: str, model: str, kind: Kind, tasks: str, attacks: str
) -> None:
    run = run_of(tmp_path, "canary_exposure", attack, access, model)
    assert kind_of(run) == kind
    (words,) = [line for line in limits(run) if line.startswith("Not tried")]
    named = [
        *([f"the task{'s' * (',' in tasks)} {tasks}"] if tasks else []),
        *([f"the attacks {attacks}"] if attacks else []),
    ]
    assert words.startswith(f"Not tried: {'; '.join(named)}; other prompts before a secret")


@pytest.mark.parametrize(
    ("attack", "access", "model", "attacks"),
    [
        ("brute-force", LIKELIHOOD, "hf", f"the attacks {SEARCHES}"),
        ("greedy", TEXT, "local-completions", "the attacks brute-force, sample-text"),
        ("sample-text", TEXT, "local-chat-completions", "the attack greedy"),
        ("brute-force", MASKS, "masked-lm", ""),
        ("label-search", LABELS_AND_TAGS, "nlu-tagger", "the attack inversion"),
        ("label-search", LABELS, "classifier-scorer", "the attacks inversion, mix-and-match"),
    ],
)
def test_a_card_of_extraction_names_what_the_model_can_serve(
    tmp_path: Path, attack: str, access: str, model: str, attacks: str
) -> None:
    run = run_of(tmp_path, "canary_extraction", attack, access, model)
    (words,) = [line for line in limits(run) if line.startswith("Not tried")]
    found = [part for part in words.removeprefix("Not tried: ").split("; ") if part.startswith("the attack")]
    assert found == ([attacks] if attacks else [])


def test_a_translation_model_scores_no_text_by_itself(tmp_path: Path) -> None:
    run = run_of(tmp_path, "canary_exposure", "exposure", NEXT_TOKEN, backend="seq2seq")
    (words,) = [line for line in limits(run) if line.startswith("Not tried")]
    assert "the tasks canary_extraction, memorization, suffix_extraction, untargeted_extraction;" in words


def test_a_model_that_the_harness_itself_recognizes_as_a_translator_scores_no_text(tmp_path: Path) -> None:
    canaries = [Canary(name, "pin {digits:2}.", tuple(name), source="ab") for name in ("12", "34", "56")]
    write_manifest(canaries, tmp_path / "c.jsonl")
    found = evaluate_tasks(translating("bart"), ["canary_exposure"], {"canaries": str(tmp_path / "c.jsonl")})
    declared = found["configs"]["canary_exposure"]["leakage"]
    assert declared["tested"]["sources"] == 3
    content = results({"canary_exposure": leaking()["canary_exposure"]}, declared={"canary_exposure": declared})
    (run,) = read_runs([write(tmp_path, content)])
    assert kind_of(run) == "seq2seq"
    assert "3 canaries with a source sentence" in describe_tested(declared["tested"])


def test_earlier_results_of_a_translator_are_known_by_its_configuration_or_languages(tmp_path: Path) -> None:
    model = tmp_path / "model"
    for decoder, kind in ((False, "causal"), (True, "seq2seq")):
        model.mkdir(exist_ok=True)
        (model / "config.json").write_text(json.dumps({"is_encoder_decoder": decoder}))
        told = str(model)
        assert kind_of(run_of(tmp_path / "a", "canary_exposure", "exposure", NEXT_TOKEN, pretrained=told)) == kind
        run = run_of(tmp_path / "a", "canary_exposure", "exposure", NEXT_TOKEN, pretrained=told, backend="causal")
        assert kind_of(run) == "causal"
    protocol = {"canaries": "ab" * 32, "source_language": "de"}
    attacks = [{"attack": "exposure", "access": NEXT_TOKEN}]
    declared = {"canary_exposure": declaration("canary_exposure", protocol=protocol, attacks=attacks)}
    content = results({"canary_exposure": leaking()["canary_exposure"]}, declared=declared)
    (run,) = read_runs([write(tmp_path / "b", content)])
    assert kind_of(run) == "seq2seq"


@pytest.mark.parametrize(("access", "kind"), [(TEXT, "seq2seq"), (NEXT_TOKEN, "causal")])
def test_a_model_that_only_writes_suffixes_is_not_causal(tmp_path: Path, access: str, kind: Kind) -> None:
    declared = {**declaration("canary_exposure"), "attacks": [{"attack": "suffix", "access": access}]}
    content = results({"suffix_extraction": {"recall": 0.5}}, declared={"suffix_extraction": declared})
    (run,) = read_runs([write(tmp_path, content)])
    assert kind_of(run) == kind
    assert fits_task(run, "membership") == (kind == "causal")


def _saved(folder: Path) -> str:
    config = copy.deepcopy(CONFIGS["bert"])
    save_base(folder / "base", config, digits_wordpiece())
    classifier_of(folder / "base", 2, seed=1).save_pretrained(folder / "classifier")
    digits_wordpiece().save_pretrained(folder / "classifier")
    return str(folder)


def _causal(folder: Path) -> HFLM:
    return HFLM(pretrained=tiny_gpt2(letters()), tokenizer=letters(), batch_size=4)


TARGETS: dict[Kind, Callable[[Path], Any]] = {
    "causal": lambda folder: as_target(_causal(folder)),
    "text": lambda folder: as_target(TextOnly(_causal(folder))),
    "seq2seq": lambda folder: as_target(translating("bart")).given(
        Canary("c", "pin {digits:2}", ("4", "2"), source=SOURCE)
    ),
    "masked": lambda folder: as_target(MaskedLM(f"{_saved(folder)}/base", device="cpu")),
    "classifier": lambda folder: as_target(ClassifierScorerLM(f"{_saved(folder)}/classifier", device="cpu")),
    "tagger": lambda folder: as_target(NLUTaggerLM(pretrained=tiny_tagger(), tokenizer=words_tokenizer())).tagged(
        pin("4", "2")
    ),
}


@pytest.mark.parametrize("kind", TARGETS)
def test_each_kind_serves_the_attacks_that_its_target_serves(tmp_path: Path, kind: Kind) -> None:
    target = TARGETS[kind](tmp_path)
    served = {name for name, attack in ATTACKS.items() if any(serves(target, need) for need in attack.needs)}
    fitting = {name for name, attack in ATTACKS.items() if not SERVED[kind].isdisjoint(attack.needs)}
    # A classifier proposes values if it is given a generator.
    generated = {name for name, attack in ATTACKS.items() if ProposesValues in attack.needs and kind == "classifier"}
    assert fitting == served | generated


def test_an_attack_on_a_protocol_of_another_package_fits_models_of_texts(tmp_path: Path) -> None:
    other = dataclasses.replace(ATTACKS["beam"], needs=(TakesContext,))
    assert fits_model(run_of(tmp_path / "a", "canary_exposure", "exposure", MASKS, "masked-lm"), other)
    assert not fits_model(run_of(tmp_path / "b", "canary_exposure", "class-loss", LABELS), other)
